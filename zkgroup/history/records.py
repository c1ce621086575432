"""One record of a history: what a member did, as one JSON object on a line.

Common fields: `ts` (nanoseconds on CLOCK_BOOTTIME, one clock for all processes of a machine), `seq`, `pid`,
`member`, `session` and `kind`; the other fields depend on the kind. Operations follow Jepsen's scheme:
`invoke`, then one of `ok`, `fail` (certainly not applied) and `info` (unknown).

A process killed with SIGKILL can leave its last line incomplete; that line is dropped and counted. An
unreadable line anywhere else means that the file was damaged and proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zkgroup.model import TopicPartition

COMMON = ("ts", "seq", "pid", "member", "session", "kind")
_NEEDED = {"ts": int, "seq": int, "pid": int, "member": str, "kind": str}


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One event of one member."""

    ts: int
    """Nanoseconds on the clock that all members share."""
    seq: int
    """Counts the records of one file from 1."""
    pid: int
    """The process id of the member."""
    member: str
    """The full id of the member, `<group>_<consumer id>`."""
    session: int | None
    """The session of the last registration before this record."""
    kind: str
    """The kind of event, as `commit.ok`."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The other fields, which depend on the kind."""

    @property
    def ms(self) -> float:
        """The time in milliseconds, as leases are written."""
        return self.ts / 1_000_000

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition in the fields. Raises KeyError for a kind that names none."""
        return partition_of(self.fields)

    def line(self) -> str:
        """The record as it stands in a file, without the newline."""
        common = {name: getattr(self, name) for name in COMMON}
        return json.dumps({**common, **self.fields}, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True)
class Recording:
    """The records of one or more files, and what could not be read."""

    records: tuple[HistoryRecord, ...]
    """In the order of time."""
    torn: int
    """Last lines that a killed process left unfinished."""
    broken: tuple[str, ...]
    """Other lines that are no records, shortened: the files are damaged."""


def partition_of(fields: Mapping[str, Any]) -> TopicPartition:
    """The partition that a record, or a row of one, is about."""
    return TopicPartition(fields["topic"], fields["partition"])


def parse_line(line: str) -> HistoryRecord:
    """Raises ValueError where the line is no record."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(f"no record: {line[:80]!r}")  # noqa: TRY004
    return record_of(found)


def record_of(found: Mapping[str, Any]) -> HistoryRecord:
    """The record in a decoded line. Raises ValueError where a common field is missing."""
    if not all(isinstance(found.get(name), kind) for name, kind in _NEEDED.items()):
        raise ValueError(f"no record: {str(found)[:80]!r}")
    fields = {key: value for key, value in found.items() if key not in COMMON}
    return HistoryRecord(**{name: found.get(name) for name in COMMON}, fields=fields)  # type: ignore[arg-type]


def parse(contents: Iterable[bytes]) -> Recording:
    """Reads whole files and merges them in the order of time, of one file in the order written."""
    records: list[HistoryRecord] = []
    torn, broken = 0, list[str]()
    for content in contents:
        *complete, last = content.decode("utf-8", "replace").split("\n")
        torn += bool(last)
        for line in complete:
            try:
                records.append(parse_line(line))
            except ValueError:
                broken.append(line[:80])
    records.sort(key=in_order)
    return Recording(tuple(records), torn, tuple(broken))


def in_order(record: HistoryRecord) -> tuple[int, int, str, int]:
    """Sort key: by time, and records of one process and member as they were written."""
    return record.ts, record.pid, record.member, record.seq


def in_time(
    records: Iterable[HistoryRecord] | Recording,
) -> tuple[tuple[HistoryRecord, ...], tuple[str, ...]]:
    """The records in the order of time, and the gaps of a recording."""
    damage: tuple[str, ...] = ()
    if isinstance(records, Recording):
        damage = tuple(f"not a record: {line!r}" for line in records.broken)
        records = records.records
    return tuple(sorted(records, key=in_order)), damage
