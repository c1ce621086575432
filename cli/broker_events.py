"""What a broker or controller does, as events on stdout."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from zkgroup.broker.replicas.replica_view import Role
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.model import TopicPartition

from .serving import EventLines
from .units import counted

_STYLES = {
    "registered": "good",
    "controller": "good",
    "resigned": "warn",
    "disconnected": "warn",
    "failed": "bad",
}
_ROLES = {Role.LEADER: "leader", Role.FOLLOWER: "follower", Role.NONE: "stopped"}


class BrokerPrinter(EventLines, BrokerListener):
    """Prints what a broker tells its listener."""

    STYLES = _STYLES
    WIDTH = 12

    def on_registered(self, broker: int, host: str, port: int, epoch: int) -> None:
        fields = {"broker": broker, "host": host, "port": port, "epoch": epoch}
        self.print("registered", fields, f"broker {broker} at {host}:{port}, epoch {epoch}")

    def on_disconnected(self, metadata_age_ms: int | None, controller_epoch: int | None) -> None:
        fields = {"metadata_age_ms": metadata_age_ms, "controller_epoch": controller_epoch}
        what = "out metadata" if metadata_age_ms is None else f" metadata of {metadata_age_ms} ms ago"
        self.print("disconnected", fields, f"ZooKeeper is away; serving on with{what}")

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        message = f"{topic_partition}" + ("" if leader_epoch is None else f", leader epoch {leader_epoch}")
        self.print(_ROLES[role], {**_of(topic_partition), "leader_epoch": leader_epoch}, message)

    def on_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        fields = {**_of(topic_partition), "leader_epoch": leader_epoch, "isr": list(isr)}
        self.print("isr", fields, f"{topic_partition} is {','.join(map(str, isr))}")

    def on_config(self, entity: Any, overrides: Mapping[str, str]) -> None:
        fields = {"entity": entity.entity_path, "overrides": dict(overrides)}
        message = ", ".join(f"{name}={value}" for name, value in overrides.items()) or "nothing set"
        self.print("config", fields, f"{entity.entity_path}: {message}")

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        fields = {"epoch": epoch, "partitions": partitions, "load_ms": load_ms}
        message = f"epoch {epoch}, {counted(partitions, 'partition')} loaded in {load_ms} ms"
        self.print("controller", fields, message)

    def on_resigned(self, reason: str) -> None:
        self.print("resigned", {"reason": reason}, reason)

    def on_failed(self, error: BaseException) -> None:
        self.print("failed", {"reason": str(error)}, str(error))

    def waiting(self, broker: int, host: str, port: int) -> None:
        """A controller that hosts nothing listens, and stands for election from now on."""
        fields = {"broker": broker, "host": host, "port": port}
        self.print("waiting", fields, f"controller {broker} at {host}:{port} stands for election")


def _of(topic_partition: TopicPartition) -> dict[str, object]:
    return {"topic": topic_partition.topic, "partition": topic_partition.partition}
