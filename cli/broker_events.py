"""Events of a broker or controller on stdout."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from zkgroup.broker.replica_view import Role
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted

from .schema import JsonEvent, NamedKeys
from .serving import EventLines

_STYLES = {
    "registered": "good",
    "controller": "good",
    "resigned": "warn",
    "disconnected": "warn",
    "failed": "bad",
}


_PLACE = {"broker": int, "host": str, "port": int}
_ROLE = {"topic": str, "partition": int, "leader_epoch": int | None}
WAITING = JsonEvent("waiting", NamedKeys(**_PLACE))
REGISTERED = JsonEvent(
    "registered",
    NamedKeys(broker=int, host=str | None, port=int, epoch=int, listeners=Mapping[str, str]),
)
DISCONNECTED = JsonEvent("disconnected", NamedKeys(metadata_age_ms=int | None, controller_epoch=int | None))
CONTROLLER = JsonEvent("controller", NamedKeys(epoch=int, partitions=int, load_ms=int))
RESIGNED = JsonEvent("resigned", NamedKeys(reason=str))
FAILED = JsonEvent("failed", NamedKeys(reason=str))
ROLES = {
    Role.LEADER: JsonEvent("leader", NamedKeys(**_ROLE)),
    Role.FOLLOWER: JsonEvent("follower", NamedKeys(**_ROLE)),
    Role.NONE: JsonEvent("stopped", NamedKeys(**_ROLE)),
}
ISR = JsonEvent("isr", NamedKeys(**_ROLE, isr=Collection[int]))
CONFIG = JsonEvent("config", NamedKeys(entity=str, overrides=Mapping[str, str]))
EVENTS: tuple[JsonEvent[Any], ...] = (
    WAITING,
    REGISTERED,
    DISCONNECTED,
    CONTROLLER,
    RESIGNED,
    FAILED,
    *ROLES.values(),
    ISR,
    CONFIG,
)
"""All of them, in the order of the documentation."""


class BrokerPrinter(EventLines, BrokerListener):
    """Prints what a broker reports to its listener."""

    STYLES = _STYLES
    WIDTH = 12

    def on_registered(
        self, broker: int, host: str | None, port: int, epoch: int, listeners: Mapping[str, str]
    ) -> None:
        value = {"broker": broker, "host": host, "port": port, "epoch": epoch, "listeners": listeners}
        plain = f"{host}:{port}"
        where = (
            plain
            if [*listeners.values()] == [plain]
            else ", ".join(f"{name}://{address}" for name, address in listeners.items())
        )
        self.print(REGISTERED, value, f"broker {broker} at {where}, epoch {epoch}")

    def on_disconnected(self, metadata_age_ms: int | None, controller_epoch: int | None) -> None:
        value = {"metadata_age_ms": metadata_age_ms, "controller_epoch": controller_epoch}
        what = "out metadata" if metadata_age_ms is None else f" metadata of {metadata_age_ms} ms ago"
        self.print(DISCONNECTED, value, f"no connection to ZooKeeper; serving continues with{what}")

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        message = f"{topic_partition}" + ("" if leader_epoch is None else f", leader epoch {leader_epoch}")
        self.print(ROLES[role], {**topic_partition._asdict(), "leader_epoch": leader_epoch}, message)

    def on_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        value = {**topic_partition._asdict(), "leader_epoch": leader_epoch, "isr": isr}
        self.print(ISR, value, f"{topic_partition} is {','.join(map(str, isr))}")

    def on_config(self, entity: Any, overrides: Mapping[str, str]) -> None:
        message = ", ".join(f"{name}={value}" for name, value in overrides.items()) or "nothing set"
        value = {"entity": entity.entity_path, "overrides": overrides}
        self.print(CONFIG, value, f"{entity.entity_path}: {message}")

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        message = f"epoch {epoch}, {counted(partitions, 'partition')} loaded in {load_ms} ms"
        self.print(CONTROLLER, {"epoch": epoch, "partitions": partitions, "load_ms": load_ms}, message)

    def on_resigned(self, reason: str) -> None:
        self.print(RESIGNED, {"reason": reason}, reason)

    def on_failed(self, error: BaseException) -> None:
        self.print(FAILED, {"reason": str(error)}, str(error))

    def waiting(self, broker: int, host: str, port: int) -> None:
        """A controller without replicas listens and takes part in elections."""
        value = {"broker": broker, "host": host, "port": port}
        self.print(WAITING, value, f"controller {broker} at {host}:{port} takes part in controller elections")
