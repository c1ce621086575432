"""The interface to the inputs of an audit, which folders, trees and Parquet implement."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.found_files import SkippedFile
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.model.text import time_text
from zkgroup.zkfiles.history import History, ZnodeChange
from zkgroup.zkfiles.records import Hole, hole_between, is_below
from zkgroup.zkfiles.tree import Tree

if TYPE_CHECKING:
    from zkgroup.audit.inputs.manifest import Converted
    from zkgroup.audit.inputs.rows import Columns
    from zkgroup.audit.inputs.snapshots import Series
    from zkgroup.zkfiles.servers import EnsembleFiles
    from zkgroup.zkfiles.snapshots import TreeSnapshot


class Progress(Protocol):
    """A function that gets the present action at every step; it decides how often it shows it."""

    def __call__(self, what: str, count: int | None = None, total: int | None = None) -> None:
        """`count` is the part that is done, `total` the whole, as far as it can be estimated."""
        ...


def quiet(what: str, count: int | None = None, total: int | None = None) -> None:
    """Shows nothing."""


def require_columns() -> None:
    """Raises ConfigError where numpy or pyarrow is not installed."""
    try:
        import numpy as np  # noqa: F401
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"the audit needs numpy and pyarrow ({error}): pip install 'zkgroup[audit]'"
        ) from error


def require_spark() -> None:
    """Raises ConfigError where a package that jobs on Spark need is not installed."""
    missing = [name for name in ("pyspark", "numpy", "pyarrow") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Spark needs {', '.join(missing)}, not installed here: pip install 'zkgroup[spark]'"
        )


class PointInTime(NamedTuple):
    """A moment in a history; exactly one of the two is set."""

    zxid: int | None = None
    time_ms: int | None = None
    """Milliseconds since 1970, by the leader's clock."""


class Covered(NamedTuple):
    """The ends of a history, as far as they are known: its first logged transaction and its last."""

    first_zxid: int | None
    """The first logged transaction; None without a log."""
    first_ms: int | None
    last_zxid: int
    last_ms: int | None
    """The time of the last transaction; None where the log does not have it."""
    what: str = "logs"
    """The files that begin there."""


def outside_notes(start: PointInTime | None, end: PointInTime | None, covered: Covered) -> Iterator[str]:
    """The notes that a range begins before a history or ends behind it."""
    first, first_ms, last, last_ms, what = covered
    for moment, before in ((start, 1), (end, 0)):
        if moment is None:
            continue
        if moment.zxid is not None:
            is_early = first is not None and moment.zxid < first
            is_early = is_early and hole_between(max(moment.zxid - before, 0), first or 0) is not None
            is_late, text = moment.zxid > last, f"{moment.zxid:#x}"
        else:
            time_ms = moment.time_ms or 0
            is_early = first_ms is not None and time_ms < first_ms
            is_late, text = last_ms is not None and time_ms > last_ms, time_text(time_ms)
        if is_early:
            yield f"the {what} begin at {_place(first or 0, first_ms)}, after {text}"
        if is_late:
            yield f"the files end at {_place(last, last_ms)}, before {text}"


def _place(zxid: int, time_ms: int | None) -> str:
    return f"{zxid:#x}" if time_ms is None else f"{zxid:#x} ({time_text(time_ms)})"


def is_within(from_zxid: int | None, to_zxid: int | None, zxids: tuple[int, int | None]) -> bool:
    """True if two ranges have a moment in common; None stands for the beginning or the end."""
    first, last = zxids
    return (to_zxid is None or to_zxid >= first) and (last is None or (from_zxid or 0) <= last)


class SeenTree(NamedTuple):
    """A tree, and how far it is proved."""

    tree: Tree
    zxid: int
    time_ms: int | None
    """The time of the transaction with that zxid; None where it is not known."""
    is_exact: bool
    """True if it is proved to be the tree that servers had."""
    is_damaged: bool
    """True if a part of it is missing or wrong, not only unproved."""
    detail: str
    """The reason why it is not exact; empty where it is."""
    snapshot: TreeSnapshot | None = None
    """The one that it is; None where it stands on logs, or is no part of a series."""

    @property
    def unknown(self) -> Mapping[str, str]:
        """Paths of clients of which it tells nothing, or nothing of its zxid, and why."""
        if self.snapshot is None:
            return {}
        found = dict.fromkeys(self.snapshot.unknown, "changed while this tree was exported")
        return found | dict.fromkeys(
            self.snapshot.unreadable, "could not be read when this tree was exported"
        )

    def tells(self, path: str, chroot: str) -> bool:
        """True if it tells what a path of the servers is, or that it is not there."""
        inside, unknown = path.removeprefix(chroot) or "/", self.snapshot.unknown if self.snapshot else ()
        return inside not in unknown and (path in self.tree or not is_below(inside, unknown))

    def require_known(self, path: str, chroot: str) -> None:
        """Raises NotFoundError for a path of the servers where it tells nothing at and below it."""
        if self.snapshot and not any(self.tells(each, chroot) for each in (path, *self.tree.paths(path))):
            inside, unknown = path.removeprefix(chroot) or "/", self.unknown
            above = max((each for each in unknown if is_below(inside, (each,))), key=len)
            raise NotFoundError(f"{inside}: not known in {self.snapshot.path}: {above} {unknown[above]}")


class Difference(NamedTuple):
    """The changes between two moments."""

    changes: Sequence[ZnodeChange]
    from_zxid: int
    to_zxid: int
    time_ms: int | None
    """The time of the last transaction that was replayed."""
    is_exact: bool
    """True if both trees are proved to be those that servers had."""
    last_zxid: int
    """The last one of the source."""
    unknown: Sequence[str] = ()
    """Paths of clients, at and below the one that was asked for, that are not known at both moments."""


class ReadRows(Protocol):
    """Reads a range of a history, from the beginning each time."""

    def __call__(self, rows_per_part: int, groups: Collection[str] | None = None) -> Iterator[Columns]:
        """Yields the tree before the range as seeds, then its rows, in parts of so many rows or a few more.

        Each part has whole transactions, with the deletes of ephemerals that go with a session.

        Args:
            groups: creates and sets of offsets of other groups than these may be left out. Facts, the names
                of groups and `transactions_of` are still those of all rows.
        """
        ...


class Rows(NamedTuple):
    """A range of a history as rows."""

    parts: ReadRows
    seen: SeenTree
    """The tree before the first transaction."""
    to_zxid: int | None
    """The last transaction that is asked for; None for all."""
    progress: Progress = quiet
    is_one_tree: bool = False
    """True if there is only `seen`: an export, or the result of a walk."""

    def ended(self, facts: Facts) -> Facts:
        """The facts of these rows. One tree stood unchanged until it was read, which may be long
        after the last change in it."""
        if not self.is_one_tree:
            return facts
        return replace(
            facts,
            end_zxid=max(facts.end_zxid, self.seen.zxid),
            end_ms=max(facts.end_ms, self.seen.time_ms or 0),
            unknown=frozenset(self.seen.unknown),
        )


class Source(ABC):
    """An input of an audit, which all answers are made from."""

    history: History | None = None
    """The history in folders; None for trees and for Parquet."""
    skipped: Sequence[SkippedFile] = ()
    """Files that are left out; they are among the damages."""
    series: Sequence[Series] = ()
    """Snapshots that follow each other, of each stretch of which no log tells."""

    def __init__(self, chroot: str = "", progress: Progress = quiet) -> None:
        """`chroot` is the root of clients, without a slash at its end; empty for the whole tree."""
        self.chroot, self.progress = chroot, progress
        self._holes: dict[Hole, None] = {}
        self._details: dict[str, None] = {}
        self._lost: dict[str, None] = {}

    @property
    def logged(self) -> tuple[int, int, int]:
        """The first record, the first one from which on logs tell of everything, and the last; 0 for none."""
        return 0, 0, 0

    @abstractmethod
    def tree(self, at: PointInTime | None = None) -> SeenTree:
        """The tree at a moment, by default the last one. Raises NotFoundError where it is not known."""

    @abstractmethod
    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        """The rows from one moment to another, both included, and the tree before them."""

    def diff(self, start: PointInTime, end: PointInTime, below: str = "/") -> Difference:
        """The changes at and below a path of the servers between two moments, in either order.

        Raises NotFoundError where the files begin later, and NotImplementedError for Parquet of logs.
        """
        raise NotImplementedError

    def covers(self, zxid: int) -> bool:
        """True if logs tell of a moment of which snapshots do, too."""
        return False

    @abstractmethod
    def zxid_at(self, time_ms: int) -> int:
        """The last transaction stamped at or before a time. Raises NotFoundError where all are later."""

    @abstractmethod
    def _covered(self) -> Covered: ...

    def zxids(
        self, start: PointInTime | None = None, end: PointInTime | None = None
    ) -> tuple[int, int | None]:
        """Returns `zxid_range`, and notes if less is known than is asked for."""
        self._note_outside(start, end)
        return self.zxid_range(start, end)

    def zxid_range(self, start: PointInTime | None, end: PointInTime | None) -> tuple[int, int | None]:
        """The first zxid that is asked for, 0 for the first of all, and the last, None for the last of all.

        Raises ConfigError where the end is before the start, and NotFoundError of the end.
        """
        to_zxid = None if end is None else self.zxid_of(end)
        from_zxid = 0
        if start is not None and start.time_ms is None:
            from_zxid = self.zxid_of(start)
        elif start is not None and start.time_ms is not None:
            with suppress(NotFoundError):  # where the files begin later, everything in them is behind it
                from_zxid = self.zxid_at(start.time_ms - 1) + 1
        if to_zxid is not None and to_zxid < from_zxid:
            raise ConfigError(f"expected a range of the history, found its end {to_zxid:#x} before its start")
        return from_zxid, to_zxid

    def zxid_of(self, moment: PointInTime) -> int:
        """The last transaction at or before a moment. Raises NotFoundError where the files begin later."""
        if moment.zxid is not None:
            return moment.zxid
        assert moment.time_ms is not None
        return self.zxid_at(moment.time_ms)

    def damages(self) -> list[str]:
        """The faults of everything that was read so far."""
        return [*map(": ".join, self.skipped), *(hole.text for hole in self._holes), *self._lost]

    def notes(self) -> list[str]:
        """The notes about everything that was read so far, beside damages."""
        return list(self._details)

    def _note_outside(self, start: PointInTime | None, end: PointInTime | None) -> None:
        if start is not None or end is not None:
            self._details |= dict.fromkeys(outside_notes(start, end, self._covered()))

    def note_unlogged(
        self, known: Converted | EnsembleFiles, zxids: tuple[int, int | None], end: PointInTime | None
    ) -> None:
        """Notes zxids that are asked for and in no log, although a snapshot is later."""
        unlogged, (from_zxid, to_zxid) = known.unlogged, zxids
        if unlogged is None:
            return
        # A time behind the last record may stand for all records.
        is_late = end is not None and end.zxid is None and to_zxid == known.last_record
        last = unlogged.last_missing if to_zxid is None or is_late else to_zxid
        hole = unlogged.within(from_zxid, last)
        if hole is not None:
            self._holes[hole] = None

    def _note_chroot(self, *, is_empty: bool) -> None:
        """Notes that the chroot, which may be misspelt, never had a znode."""
        if self.chroot and is_empty:
            self._details[f"the files have no znode at or below the chroot {self.chroot}"] = None


def standing_text(zxid: int, detail: str) -> str:
    """The note that answers begin with a tree that is not exact."""
    return f"the tree at {zxid:#x}, on which this stands: {detail}"


@contextmanager
def without_collector() -> Iterator[None]:
    """Switches Python's garbage collector off, which would walk millions of rows that live to the end."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
