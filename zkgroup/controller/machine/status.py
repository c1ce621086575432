"""What the ruling controller shows of itself: `/zkgroup/controller/status`. Source: recipes.md 13, 15, 18."""

from __future__ import annotations

from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import commit
from zkgroup.machinery.procedures import Procedure
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.znodes.controller_records import ControllerStatus


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Writes the status where it has changed, at most every `status_interval_ms`."""
    shown = reign.shown
    now = _status(reign)
    if shown.status is not None and _same(now, shown.status):
        return
    due_ms = shown.not_before_ms - reign.core.now.ms
    if due_ms > 0:
        reign.later(Look.STATUS, due_ms)
        return
    shown.not_before_ms = reign.core.now.ms + reign.settings.status_interval_ms
    path, data = ControllerStatus.path(), now.encode()
    operations: list[Operation]
    if shown.version is None:
        # One that stands there is of a former rule, or of this one and its answer was lost.
        found = yield from reign.read_many([path])
        operations = [Delete(path, found[path].stat.version)] if path in found else []
        operations.append(Create(path, data, ephemeral=True))
        version = 0
    else:
        operations = [SetData(path, data, shown.version)]
        version = shown.version + 1
    shown.version = None
    refused = yield from commit(reign, Write("status", tuple(operations)))
    if refused is None:
        shown.status, shown.version = now, version
    else:
        reign.later(Look.STATUS, reign.settings.status_interval_ms)


def _status(reign: Reign) -> ControllerStatus:
    return ControllerStatus(
        broker=reign.broker,
        epoch=reign.epoch,
        zxid=reign.zxid,
        time_ms=reign.core.now.wall_ms,
        unreadable=dict(sorted(reign.picture.unreadable.items())),
        unnamed={broker: tuple(map(str, partitions)) for broker, partitions in sorted(reign.unnamed.items())},
        waiting=dict(sorted(reign.waiting.items())),
    )


def _same(one: ControllerStatus, other: ControllerStatus) -> bool:
    return (one.epoch, one.zxid, one.unreadable, one.unnamed, one.waiting) == (
        other.epoch,
        other.zxid,
        other.unreadable,
        other.unnamed,
        other.waiting,
    )
