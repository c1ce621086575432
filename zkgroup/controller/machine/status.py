"""What the ruling controller shows of itself: `/zkgroup/controller/status`. Source: recipes.md 13, 15, 18."""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.leadership.leader_election import LEADERLESS
from zkgroup.controller.machine.state_writes import commit
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.runtime.procedures import Procedure
from zkgroup.znodes.controller import ControllerStatus


def publish(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Writes the status where it has changed, at most every `status_interval_ms`."""
    shown = active.published
    now = _status(active)
    if shown.status is not None and _same(now, shown.status):
        return
    due_ms = shown.not_before_ms - active.core.now.ms
    if due_ms > 0:
        active.enqueue_later(EventKind.STATUS, due_ms)
        return
    shown.not_before_ms = active.core.now.ms + active.settings.status_interval_ms
    path, data = ControllerStatus.path(), now.encode()
    operations: list[Operation]
    if shown.version is None:
        # One that stands there is of a former rule, or of this one and its answer was lost.
        found = yield from active.read_many([path])
        operations = [Delete(path, found[path].stat.version)] if path in found else []
        operations.append(Create(path, data, ephemeral=True))
        version = 0
    else:
        operations = [SetData(path, data, shown.version)]
        version = shown.version + 1
    shown.version = None
    refused = yield from commit(active, Write("status", tuple(operations)))
    if refused is None:
        shown.status, shown.version = now, version
    else:
        active.enqueue_later(EventKind.STATUS, active.settings.status_interval_ms)


def _status(active: ActiveController) -> ControllerStatus:
    return ControllerStatus(
        broker=active.broker,
        epoch=active.epoch,
        zxid=active.zxid,
        time_ms=active.core.now.wall_ms,
        unreadable=dict(sorted(active.context.unreadable.items())),
        unnamed={
            broker: tuple(map(str, partitions))
            for broker, partitions in sorted(active.requests.omitted.items())
        },
        waiting=dict(sorted(active.waiting.items())),
    )


def _same(one: ControllerStatus, other: ControllerStatus) -> bool:
    return (one.epoch, one.zxid, one.unreadable, one.unnamed, one.waiting) == (
        other.epoch,
        other.zxid,
        other.unreadable,
        other.unnamed,
        other.waiting,
    )


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
    """How long the oldest of them has waited; 0 where none does."""


def controller_metrics(active: ActiveController) -> ControllerMetrics:
    """Counts; goes through all partitions."""
    context = active.context
    offline = [
        each
        for each in active.context.partition_phases.unusual(LEADERLESS)
        if not context.is_going(each) and not context.is_unhosted(each)
    ]
    elsewhere = 0
    for each in context.partitions():
        standing, replicas = context.standing(each), context.replicas(each)
        if standing and replicas and standing.leader != replicas[0] and not context.is_going(each):
            elsewhere += 1
    oldest_ms = active.queue.oldest_ms
    return ControllerMetrics(
        topics=len(context.topics),
        partitions=context.size,
        offline_partitions=len(offline),
        preferred_imbalance=elsewhere,
        queue_size=len(active.queue),
        queue_oldest_ms=0 if oldest_ms is None else active.core.now.ms - oldest_ms,
    )
