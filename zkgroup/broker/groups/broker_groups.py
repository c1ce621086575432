"""The groups of one broker: the coordinator, its requests, and the slots that the broker leads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from zkgroup.broker.groups.handlers import GroupHandlers
from zkgroup.broker.groups.service import GroupCoordinatorService, StoreMachine
from zkgroup.broker.replica_view import Role
from zkgroup.broker.server.handlers import ServedApi
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.settings import BrokerSettings
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, Store
from zkgroup.runtime.events import LogEvent
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC


class BrokerGroups:
    """Made and used on the broker's event loop."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        metadata: MetadataCache,
        *,
        broker: int,
        settings: BrokerSettings,
        on_crash: Callable[[Exception], None],
        on_log: Callable[[LogEvent], None],
        machine: StoreMachine | None = None,
    ) -> None:
        """
        Args:
            store: the broker's ZooKeeper session.
            metadata: says which partitions exist, for commits.
            on_crash: called with the error that has stopped the coordinator.
            on_log: receives log events.
            machine: see `GroupCoordinatorService`.
        """
        self.service = GroupCoordinatorService(
            broker, store, clock, settings, on_crash=on_crash, on_log=on_log, machine=machine
        )
        self._handlers = GroupHandlers(
            self.service,
            metadata.knows,
            clock,
            settings.offset_metadata_max_bytes,
        )

    def rows(self) -> Iterator[ServedApi[Any]]:
        """The rows of the table of served APIs."""
        return self._handlers.rows()

    def start(self) -> None:
        """Begins to serve."""
        self.service.start()

    def on_role(self, tp: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        """A replica of this broker has another role, or a new leader epoch; other topics are ignored."""
        if tp.topic != OFFSETS_TOPIC or leader_epoch is None:
            return
        if role is Role.LEADER:
            self.service.slot_led(tp.partition, leader_epoch)
        else:
            self.service.slot_resigned(tp.partition, leader_epoch)

    def topics_deleted(self, topics: frozenset[str]) -> None:
        """The controller deletes topics: the offsets that this broker coordinates are deleted."""
        self.service.topics_deleted(topics)

    async def stop(self) -> None:
        """Gives up all slots, and answers the requests that wait."""
        await self.service.stop()

    def close(self) -> None:
        """Ends the coordinator. Idempotent."""
        self.service.close()
