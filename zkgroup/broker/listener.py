"""`BrokerListener`: the events of a broker, for the application."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from zkgroup.broker.replicas.replica_view import Role
from zkgroup.model import TopicPartition
from zkgroup.znodes.config import ConfigEntity


class BrokerListener:
    """Base class whose methods do nothing; override what you need.

    Called on threads of the broker, several at a time, which wait for it: take note and return, and raise
    nothing.
    """

    def on_registered(self, broker: int, host: str, port: int, epoch: int) -> None:
        """The broker stands in `/brokers/ids`; again after each session that was lost."""

    def on_disconnected(self, metadata_age_ms: int | None, controller_epoch: int | None) -> None:
        """ZooKeeper is away. The broker serves on, with metadata of this age and from this controller."""

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        """A replica leads, follows, or does neither; `leader_epoch` is that of its last role, if any."""

    def on_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """The ISR of a partition that this broker leads was changed by it."""

    def on_config(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """The configuration of a topic or broker, as it is now."""

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        """This broker is the controller and has loaded the cluster."""

    def on_resigned(self, reason: str) -> None:
        """This broker is the controller no more."""

    def on_failed(self, error: BaseException) -> None:
        """It cannot go on: `check` raises this error from now on, and only `close` is left to do."""
