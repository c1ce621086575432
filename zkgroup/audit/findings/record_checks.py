"""What all records of a history show, and where servers of one ensemble do not have the same.

The findings about the ensemble itself read every record before any filter, and share what one pass showed.
Memory: the notes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Hole, hole_between
from zkgroup.zkfiles.servers import same_record

KEPT: Final = 10_000
"""So many notes of a kind are kept, the first ones."""


class Step(NamedTuple):
    """Two records, one behind the other."""

    from_zxid: int
    from_ms: int
    to_zxid: int
    to_ms: int


@dataclass(slots=True)
class RecordChecks:
    """The records of a history, seen from outside."""

    elections: list[Step] = field(default_factory=list)
    """The last record of an epoch and the first of the next one."""
    steps_back: list[Step] = field(default_factory=list)
    """Records at which the leader's clock read less than at the one before."""
    holes: list[tuple[Hole, Step]] = field(default_factory=list)
    """Zxids that are missing, and the records on both sides."""
    first: tuple[int, int] | None = None
    """Zxid and time of the first record."""
    last: tuple[int, int] | None = None
    without_digest: int = 0
    """Records that servers write a digest behind, where they write any, and that have none."""
    first_digest: int | None = None
    """The zxid of the first record with one."""


_known: WeakKeyDictionary[History, RecordChecks] = WeakKeyDictionary()


def record_checks_of(history: History) -> RecordChecks:
    """The checks of a history, made at the first call."""
    if history not in _known:
        _known[history] = _checks_of(history)
    return _known[history]


def _checks_of(history: History) -> RecordChecks:
    from zkgroup.audit.inputs.logs import record_facts

    records = record_facts(history)
    if records is None:
        return RecordChecks()
    zxid, time_ms, has_digest, is_error = records

    def steps(mask: Any) -> list[Step]:
        places = mask.nonzero()[0][:KEPT].tolist()
        ends = ((zxid[each], time_ms[each], zxid[each + 1], time_ms[each + 1]) for each in places)
        return [Step(*map(int, each)) for each in ends]

    begins_epoch = ((zxid[1:] >> 32) > (zxid[:-1] >> 32)) & ((zxid[1:] & 0xFFFFFFFF) == 1)
    jumps = steps((zxid[1:] != zxid[:-1] + 1) & ~begins_epoch)
    holes = ((hole_between(step.from_zxid, step.to_zxid), step) for step in jumps)
    return RecordChecks(
        elections=steps((zxid[1:] >> 32) != (zxid[:-1] >> 32)),
        steps_back=steps(time_ms[1:] < time_ms[:-1]),
        holes=[(hole, step) for hole, step in holes if hole is not None],
        first=(int(zxid[0]), int(time_ms[0])),
        last=(int(zxid[-1]), int(time_ms[-1])),
        without_digest=int((~has_digest & ~is_error).sum()),
        first_digest=next(map(int, zxid[has_digest][:1]), None),
    )


class Disagreement(NamedTuple):
    """Zxids in a row in which the same servers differ in the same way."""

    from_zxid: int
    to_zxid: int
    from_ms: int
    to_ms: int
    size: int
    folders: tuple[tuple[Path, ...], ...]
    """Servers that have the same, together; those of the record that counts first."""
    is_of_digests_only: bool
    """True if the records are the same, and what a server made of them is not."""

    @property
    def sides(self) -> str:
        return " against ".join(", ".join(map(str, folders)) for folders in self.folders)


def disagreements(history: History) -> list[Disagreement]:
    """By zxid; of those that the ensemble notes, which are the first ones."""
    record_checks_of(history)  # reading them all is what makes the notes
    splits = history.ensemble.splits
    records = {
        (server.folder, each.zxid): each
        for server in (history.ensemble.servers if splits else ())
        for each in server.transactions(min(splits), max(splits))
        if each.zxid in splits
    }
    found: list[Disagreement] = []
    for zxid, folders in sorted(splits.items()):
        first, *others = (records[each[0], zxid]._replace(digest=None) for each in folders)
        digests_only = all(same_record(first, other) for other in others)
        last = found[-1] if found else None
        alike = zxid - 1, folders, digests_only
        if last is not None and (last.to_zxid, last.folders, last.is_of_digests_only) == alike:
            found[-1] = last._replace(to_zxid=zxid, to_ms=first.time_ms, size=last.size + 1)
        else:
            found.append(Disagreement(zxid, zxid, first.time_ms, first.time_ms, 1, folders, digests_only))
    return found
