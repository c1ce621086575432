"""Offset curves with few points, and the marks on them that count."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from zkgroup.audit.facts import Facts
from zkgroup.audit.report.keeping import Kept, Names, ReportLimits, hex_zxid, number
from zkgroup.audit.texts import count_text, duration_text, session_text
from zkgroup.audit.views.offsets import OffsetRow

Row = tuple[str, str, int]
"""Group, topic, partition."""

_FINEST: Final = 2048
_COARSEST: Final = 2**63
PINNED_MAX: Final = 200
"""Falls of one curve of which both sides are kept."""
_WEIGHTS: Final = {"rewind": 5, "foreign": 4, "unowned": 3, "reset": 2, "deletion": 1}


class Mark(NamedTuple):
    """A write that is marked on a curve."""

    row: Row
    kind: str
    """`rewind`; `foreign`: a commit by a session while another one owned the partition; `unowned`: while
    no session did; `reset` or `deletion`."""
    write: OffsetRow


class Point(NamedTuple):
    """An offset and when it was written."""

    ms: int
    offset: int


class DrawnOffsets(NamedTuple):
    """What the page shows of all offsets."""

    curves: list[tuple[Row, int, list[Point]]]
    """Of each partition by row: how many commits there were, and the points that are drawn."""
    marks: Kept[Mark]
    grain_ms: int
    """How far curves are thinned; 0 for not at all."""
    refused: int
    """Partitions that there was no room for."""

    def data(self, names: Names) -> dict[str, Any]:
        """As the page reads it."""
        notes = []
        if self.refused:
            notes.append(f"{count_text(self.refused, 'partition')} more did not fit and have no curve.")
        if self.grain_ms:
            notes.append(
                f"Curves have the last offset of each {duration_text(self.grain_ms)}, and both sides of"
                " falls: there were too many commits to draw."
            )
        if self.marks.left_out:
            notes.append(f"{count_text(self.marks.left_out, 'mark')} of least weight were left out.")
        return {
            "notes": notes,
            "rows": [
                [
                    names.of(group),
                    names.of(topic),
                    partition,
                    writes,
                    [[point.ms, number(point.offset)] for point in points],
                ]
                for (group, topic, partition), writes, points in self.curves
            ],
            "marks": [_mark(mark, names) for mark in self.marks.items()],
        }


class Grains:
    """The grains of time that curves of one history are thinned to.

    Of points of a curve that follow each other within one grain the last is kept. The grain is the shortest,
    doubled again and again, with which all points fit.
    """

    def __init__(self, facts: Facts) -> None:
        self.start_ms = facts.start_ms
        self._length_ms = max(facts.end_ms - facts.start_ms, 1)

    def next(self, grain_ms: int) -> int:
        """The grain that comes after one, or after none at all (0)."""
        return 2 * grain_ms or max(self._length_ms // _FINEST, 1)

    def is_last(self, grain_ms: int) -> bool:
        """Whether nothing is gained by a longer one."""
        return grain_ms > _COARSEST

    def pins(self, grain_ms: int) -> bool:
        """Whether both sides of falls are kept; not where next to nothing else would be."""
        return grain_ms < max(self._length_ms // 16, 1)


def marks_kept(limits: ReportLimits) -> Kept[Mark]:
    """Room for the weightiest marks."""
    return Kept(limits.marks, mark_weight)


def mark_weight(mark: Mark) -> int:
    """How much is lost without it."""
    return _WEIGHTS[mark.kind]


def kinds_of_marks(write: OffsetRow) -> list[str]:
    """The marks of a write on its curve; most writes have none."""
    if write.kind in ("reset", "deletion"):
        return [write.kind]
    found = ["rewind"] if write.is_rewind else []
    if write.kind == "commit" and write.owned is False:
        found.append("unowned" if write.owner is None else "foreign")
    return found


def _mark(mark: Mark, names: Names) -> list[Any]:
    write = mark.write
    return [
        *(names.of(mark.row[0]), names.of(mark.row[1]), mark.row[2], mark.kind),
        *(write.time_ms, hex_zxid(write.zxid), number(write.previous), number(write.offset)),
        names.of(session_text(write.session)) if write.session else -1,
        names.of(", ".join(write.members)) if write.members else -1,
        names.of(write.owner),
    ]
