"""Random histories as the files of a server, and Spark's scheduler played in this process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.worlds import zkfiles_writer as writer
from zkgroup.audit.inputs.events import Event
from zkgroup.zkfiles.records import Operation, StoredStat, StoredZnode, Transaction, TransactionType

_TYPES = {
    "create": TransactionType.CREATE,
    "delete": TransactionType.DELETE,
    "set": TransactionType.SET_DATA,
    "setACL": TransactionType.SET_ACL,
    "check": TransactionType.CHECK,
}


def write_history(folder: Path, events: Sequence[Event], draw: random.Random) -> list[int]:
    """Writes a snapshot of what the history begins with, where it does, and a few logs; gives the zxids."""
    folder.mkdir(parents=True)
    records = list(records_of(event for event in events if not event.seed))
    if any(event.seed for event in events):
        _write_seeds(folder, [event for event in events if event.seed], max(records[0].zxid - 1, 0))
    cuts = sorted(draw.sample(range(1, len(records)), min(len(records) - 1, draw.randrange(4))))
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        writer.write_log(folder, records[start:end])
    return [record.zxid for record in records]


def _write_seeds(folder: Path, seeds: Iterable[Event], zxid: int) -> None:
    znodes, sessions, acls = [StoredZnode("", b"", None, _stat(None))], {}, {}
    for seed in seeds:
        if seed.op == "createSession":
            sessions[seed.session] = seed.timeout_ms or 0
        else:
            znodes.append(StoredZnode(seed.path, seed.data, seed.acl, _stat(seed)))
            if seed.acl is not None:
                acls[seed.path] = seed.acl
    (folder / f"snapshot.{zxid:x}").write_bytes(
        writer.snapshot(
            znodes,
            sessions=sessions,
            acls=dict(enumerate(acls.values())),
            acl_ids={path: number for number, path in enumerate(acls)},
        )
    )


def _stat(seed: Event | None) -> StoredStat:
    if seed is None:
        return StoredStat(0, 0, 0, 0, 0, 0, 0, 0, 0)
    owner = seed.session if seed.ephemeral == "session" else 0
    written_ms = seed.mtime_ms or seed.time_ms
    return StoredStat(
        seed.zxid, seed.zxid, seed.time_ms, written_ms, seed.version or 0, 0, 0, owner, seed.zxid
    )


def records_of(events: Iterable[Event]) -> Iterator[Transaction]:
    for zxid, group in groupby(events, key=lambda event: event.zxid):
        rows = list(group)
        first = rows[0]
        head = (zxid, first.session, first.cxid, first.time_ms)
        if first.op == "createSession":
            yield Transaction(*head, TransactionType.CREATE_SESSION, (), timeout_ms=first.timeout_ms)
        elif first.op == "closeSession":
            named = tuple(row.path for row in rows[1:] if not row.synthetic)
            yield Transaction(*head, TransactionType.CLOSE_SESSION, (), closed_paths=named or None)
        elif first.sub >= 0:
            yield Transaction(*head, TransactionType.MULTI, tuple(map(_operation, rows)))
        else:
            operation = _operation(first)
            yield Transaction(*head, operation.type, (operation,))


def _operation(row: Event) -> Operation:
    if not row.applied:
        return Operation(TransactionType.ERROR, error=-2 if row.error is None else row.error)
    return Operation(
        _TYPES[row.op],
        row.path,
        row.data,
        row.acl,
        row.version,
        is_ephemeral=row.ephemeral == "session",
        parent_cversion=1 if row.op == "create" else None,
    )


def consistent(events: Iterable[Event]) -> Iterator[Event]:
    """The rows, with a write instead of each create of what is there already."""
    owners: dict[str, int] = {}
    for event in events:
        is_there = event.path in owners
        if event.op == "closeSession":
            owners = {path: owner for path, owner in owners.items() if owner != event.session}
        elif event.applied and event.op == "delete":
            owners.pop(event.path, None)
        elif event.applied and event.op == "create" and not is_there:
            owners[event.path] = event.session if event.ephemeral == "session" else 0
        elif event.applied and event.op == "create":
            event = event._replace(op="set", version=1, ephemeral=None, acl=None)
        yield event


class PlayedSpark:
    """As much of a Spark session as jobs on paths need: each task runs at once, in this process."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.master = "local[1]"
        self.tasks = 0

    def parallelize(self, items: Iterable[Any], _partitions: int) -> _PlayedTasks:
        return _PlayedTasks(self, list(items))

    def broadcast(self, value: Any) -> SimpleNamespace:
        return SimpleNamespace(value=value)

    def union(self, parts: Sequence[_PlayedTasks]) -> _PlayedTasks:
        return _PlayedTasks(self, [item for part in parts for item in part.collect()])


class _PlayedTasks:
    def __init__(self, spark: PlayedSpark, items: list[Any]) -> None:
        self._spark, self._items = spark, items

    def map(self, do: Callable[[Any], Any]) -> _PlayedTasks:
        self._spark.tasks += len(self._items)
        return _PlayedTasks(self._spark, list(map(do, self._items)))

    def collect(self) -> list[Any]:
        return self._items
