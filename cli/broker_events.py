"""Events of a broker or controller on stdout."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from zkgroup.broker.replica_view import Role
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.model import TopicPartition

from .schema import JsonEvent, Shape
from .serving import EventLines
from .units import counted

_STYLES = {
    "registered": "good",
    "controller": "good",
    "resigned": "warn",
    "disconnected": "warn",
    "failed": "bad",
}


@dataclass(frozen=True, slots=True)
class ListeningEvent:
    """A broker or a controller listens at an address."""

    broker: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class RegisteredEvent(ListeningEvent):
    """The broker is registered."""

    epoch: int


@dataclass(frozen=True, slots=True)
class DisconnectedEvent:
    """ZooKeeper does not answer; the broker serves on with this metadata."""

    metadata_age_ms: int | None
    controller_epoch: int | None


@dataclass(frozen=True, slots=True)
class ElectedEvent:
    """This process is the active controller, and has loaded everything."""

    epoch: int
    partitions: int
    load_ms: int


@dataclass(frozen=True, slots=True)
class ReasonEvent:
    """The controller has resigned, or the broker has failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class RoleEvent:
    """The role of a replica on the broker has changed."""

    topic_partition: TopicPartition
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class IsrEvent(RoleEvent):
    """The broker has changed the ISR of a partition that it leads."""

    isr: Collection[int]


@dataclass(frozen=True, slots=True)
class ConfigEvent:
    """Overrides of an entity are in force."""

    entity: str
    overrides: Mapping[str, str]


WAITING = JsonEvent("waiting", Shape(ListeningEvent))
REGISTERED = JsonEvent("registered", Shape(RegisteredEvent))
DISCONNECTED = JsonEvent("disconnected", Shape(DisconnectedEvent))
CONTROLLER = JsonEvent("controller", Shape(ElectedEvent))
RESIGNED = JsonEvent("resigned", Shape(ReasonEvent))
FAILED = JsonEvent("failed", Shape(ReasonEvent))
ROLES = {
    Role.LEADER: JsonEvent("leader", Shape(RoleEvent)),
    Role.FOLLOWER: JsonEvent("follower", Shape(RoleEvent)),
    Role.NONE: JsonEvent("stopped", Shape(RoleEvent)),
}
ISR = JsonEvent("isr", Shape(IsrEvent))
CONFIG = JsonEvent("config", Shape(ConfigEvent))
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

    def on_registered(self, broker: int, host: str, port: int, epoch: int) -> None:
        value = RegisteredEvent(broker, host, port, epoch)
        self.print(REGISTERED, value, f"broker {broker} at {host}:{port}, epoch {epoch}")

    def on_disconnected(self, metadata_age_ms: int | None, controller_epoch: int | None) -> None:
        value = DisconnectedEvent(metadata_age_ms, controller_epoch)
        what = "out metadata" if metadata_age_ms is None else f" metadata of {metadata_age_ms} ms ago"
        self.print(DISCONNECTED, value, f"no connection to ZooKeeper; serving continues with{what}")

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        message = f"{topic_partition}" + ("" if leader_epoch is None else f", leader epoch {leader_epoch}")
        self.print(ROLES[role], RoleEvent(topic_partition, leader_epoch), message)

    def on_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        value = IsrEvent(topic_partition, leader_epoch, isr)
        self.print(ISR, value, f"{topic_partition} is {','.join(map(str, isr))}")

    def on_config(self, entity: Any, overrides: Mapping[str, str]) -> None:
        message = ", ".join(f"{name}={value}" for name, value in overrides.items()) or "nothing set"
        self.print(CONFIG, ConfigEvent(entity.entity_path, overrides), f"{entity.entity_path}: {message}")

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        message = f"epoch {epoch}, {counted(partitions, 'partition')} loaded in {load_ms} ms"
        self.print(CONTROLLER, ElectedEvent(epoch, partitions, load_ms), message)

    def on_resigned(self, reason: str) -> None:
        self.print(RESIGNED, ReasonEvent(reason), reason)

    def on_failed(self, error: BaseException) -> None:
        self.print(FAILED, ReasonEvent(str(error)), str(error))

    def waiting(self, broker: int, host: str, port: int) -> None:
        """A controller without replicas listens and takes part in elections."""
        value = ListeningEvent(broker, host, port)
        self.print(WAITING, value, f"controller {broker} at {host}:{port} takes part in controller elections")
