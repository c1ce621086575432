"""The port that folders, trees and Parquet implement, of which the questions of an audit are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.points_in_time import PointInTime
from zkgroup.audit.inputs.progress import Progress, quiet
from zkgroup.zkfiles.diffs import ZnodeChange
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.tree import Tree

if TYPE_CHECKING:
    from zkgroup.audit.inputs.parts import Parts, SessionParts


class SeenTree(NamedTuple):
    """A tree, and how good it is."""

    tree: Tree
    zxid: int
    time_ms: int | None
    """Of the transaction with that zxid; None where it is not known."""
    is_exact: bool
    """True if it is proved to be the one that servers had."""
    is_damaged: bool
    """True if something is missing or wrong, and not only unproved."""
    detail: str
    """Holds what keeps it from being exact; empty where nothing does."""


class Difference(NamedTuple):
    """Holds what differs between two moments."""

    changes: Sequence[ZnodeChange]
    from_zxid: int
    to_zxid: int
    time_ms: int | None
    """Of the last transaction that was replayed."""
    is_exact: bool
    """True if both trees are proved to be those that servers had."""


class Rows(NamedTuple):
    """A range of a history as rows."""

    parts: Callable[[int], Parts]
    """They as columns, in parts of so many rows or of some more, from the beginning each time."""
    seen: SeenTree
    """The tree before the first transaction."""
    to_zxid: int | None
    """The last transaction that is asked for; None for all there are."""
    progress: Progress = quiet
    parts_of_group: Callable[[str, int], Parts] | None = None
    """The same, perhaps without creates and sets of other groups' offsets; facts and the names of groups are
    those of all rows. None where rows cannot be left out before they are columns."""
    session_parts: Callable[[int], SessionParts] | None = None
    """The same, perhaps without creates and sets of offsets, and all transactions."""
    is_one_tree: bool = False
    """True if `seen` is all there is: an export, or what a walk found."""

    def ended(self, facts: Facts) -> Facts:
        """The facts of these rows. What stands in one tree has stood until it was read, which may be long
        after the last change in it."""
        if not self.is_one_tree:
            return facts
        return replace(
            facts,
            end_zxid=max(facts.end_zxid, self.seen.zxid),
            end_ms=max(facts.end_ms, self.seen.time_ms or 0),
        )


class Source(Protocol):
    """A source of which the questions are asked."""

    @property
    def chroot(self) -> str:
        """Clients' root, without a slash at its end; empty for the whole tree."""
        ...

    @property
    def history(self) -> History | None:
        """None where there is one tree only."""
        ...

    def tree(self, at: PointInTime | None = None) -> SeenTree:
        """The tree at a moment, by default the last one. Raises NotFoundError where it is not known."""
        ...

    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        """Returns what happened from one moment to another, both included, on top of the state before."""
        ...

    def zxids(
        self, start: PointInTime | None = None, end: PointInTime | None = None
    ) -> tuple[int, int | None]:
        """The first zxid and the last of that range, as of `zxid_range`."""
        ...

    def damages(self) -> list[str]:
        """Returns what is wrong with what was read so far."""
        ...

    def notes(self) -> list[str]:
        """Returns what else is to be known of what was read so far."""
        ...


def standing_text(zxid: int, detail: str) -> str:
    """That answers stand on a tree that is not exact, in words."""
    return f"the tree at {zxid:#x}, on which this stands: {detail}"


def empty_chroot_text(chroot: str) -> str:
    """That nothing ever was in a chroot, which may be misspelt."""
    return f"the files have no znode at or below the chroot {chroot}"


def few(paths: Sequence[str]) -> str:
    """The first five, and how many more there are."""
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
