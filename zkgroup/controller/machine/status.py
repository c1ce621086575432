"""The status of the active controller, `/zkgroup/controller/status`, and its metrics. Source: fenced
elections, leading Kafka brokers and published status (recipes 13, 15, 18)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.event_manager import EventManager
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.leadership.leader_election import LEADERLESS
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.runtime.procedures import Procedure
from zkgroup.znodes.controller import ControllerStatus


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """Counted at one moment."""

    topics: int
    partitions: int
    offline_partitions: int
    """Without a leader, topics that are being deleted, or that no broker hosts, left out."""
    preferred_imbalance: int
    """Led by another than the first replica, topics that are being deleted left out."""
    queue_size: int
    """Pieces of work that wait."""
    queue_oldest_ms: int
    """Time that the oldest of them has waited; 0 where none does."""


class StatusPublisher(Feature):
    """Publishes the status of the controller."""

    def __init__(self, parts: SharedParts) -> None:
        super().__init__(parts)
        self._published: ControllerStatus | None = None
        self._version: int | None = None
        """Data version of the znode; None where it is not known to be of this controller."""
        self._not_before_ms = 0

    def loaded(self) -> None:
        self._events.enqueue(event_manager.STATUS)

    def publish(self) -> Procedure[None]:
        """Writes the status where it has changed, at most every `status_interval_ms`."""
        now, before, known = self._status(), self._published, self._version
        if before is not None and replace(before, time_ms=now.time_ms) == now:
            return
        due_ms = self._not_before_ms - self._core.now.ms
        if due_ms > 0:
            self._events.enqueue_later(event_manager.STATUS, due_ms)
            return
        self._not_before_ms = self._core.now.ms + self._settings.status_interval_ms
        path, data = ControllerStatus.path(), now.encode()
        operations: list[Operation]
        if known is None:
            # A status that is there is a former controller's, or this one's, whose reply was lost.
            found = yield from self._reader.read_many([path])
            operations = [Delete(path, found[path].stat.version)] if path in found else []
            operations.append(Create(path, data, ephemeral=True))
            version = 0
        else:
            operations = [SetData(path, data, known)]
            version = known + 1
        self._version = None
        refused = yield from self._states.commit(Write("status", tuple(operations)))
        if refused is None:
            self._published, self._version = now, version
        else:
            self._events.enqueue_later(event_manager.STATUS, self._settings.status_interval_ms)

    def _status(self) -> ControllerStatus:
        return ControllerStatus(
            broker=self._identity.broker,
            epoch=self._identity.epoch,
            zxid=self._reader.zxid,
            time_ms=self._core.now.wall_ms,
            unreadable=dict(sorted(self._context.unreadable.items())),
            omitted_partitions={
                broker: tuple(map(str, partitions))
                for broker, partitions in sorted(self._requests.omitted_partitions.items())
            },
            waiting=dict(sorted(self._events.blocked.items())),
        )


def controller_metrics(context: ControllerContext, events: EventManager, now_ms: int) -> ControllerMetrics:
    """Returns the figures of the cluster; goes through all partitions."""
    offline = [
        each
        for each in context.partition_phases.unusual(LEADERLESS)
        if not context.is_going(each) and not context.is_unhosted(each)
    ]
    elsewhere = 0
    for each in context.partitions():
        leadership, replicas = context.leadership(each), context.replicas(each)
        if leadership and replicas and leadership.leader != replicas[0] and not context.is_going(each):
            elsewhere += 1
    oldest_ms = events.queue.oldest_ms
    return ControllerMetrics(
        topics=len(context.topics),
        partitions=context.size,
        offline_partitions=len(offline),
        preferred_imbalance=elsewhere,
        queue_size=len(events.queue),
        queue_oldest_ms=0 if oldest_ms is None else now_ms - oldest_ms,
    )
