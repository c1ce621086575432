"""Where an audit looks: the folders of an ensemble's servers, or one tree (an export, a walk).

Both give trees and rows; a single tree has seeds only, so what needs the log finds nothing in it. Parquet of
`audit run` (`converted`) gives rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from zkgroup.audit.events import Event
from zkgroup.audit.manifest import is_converted
from zkgroup.audit.moments import Moment as Moment
from zkgroup.audit.moments import stretch_between, zxid_of
from zkgroup.audit.reading import events_of
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.diffs import Journal, ZnodeChange
from zkgroup.zkfiles.exports import ExportReader, is_export
from zkgroup.zkfiles.history import History, PastTree
from zkgroup.zkfiles.records import StoredZnode, Transaction
from zkgroup.zkfiles.tree import Tree
from zkgroup.zkfiles.zxids import Hole, hole_between

Progress = Callable[[str, int], None]
"""What is being read, and how much of it was."""

_EVERY = 1000


class SeenTree(NamedTuple):
    """A tree, and how good it is."""

    tree: Tree
    zxid: int
    time_ms: int | None
    """Of the transaction with that zxid; None where it is not known."""
    is_exact: bool
    """Whether it is proved to be the one that servers had."""
    is_damaged: bool
    """Whether something is missing or wrong, and not only unproved."""
    detail: str
    """What keeps it from being exact; empty where nothing does."""


class Difference(NamedTuple):
    """What differs between two moments."""

    changes: Sequence[ZnodeChange]
    from_zxid: int
    to_zxid: int
    time_ms: int | None
    """Of the last transaction that was replayed."""
    is_exact: bool
    """Whether both trees are proved to be those that servers had."""


class Rows(NamedTuple):
    """A stretch of a history as rows."""

    events: Callable[[], Iterator[Event]]
    """From the beginning, each time it is called."""
    seen: SeenTree
    """The tree before the first transaction."""
    to_zxid: int | None
    """The last transaction that is asked for; None for all there are."""


class Source(Protocol):
    """What the questions are asked of."""

    @property
    def chroot(self) -> str:
        """Clients' root, without a slash at its end; empty for the whole tree."""
        ...

    @property
    def history(self) -> History | None:
        """None where there is one tree only."""
        ...

    def tree(self, at: Moment | None = None) -> SeenTree:
        """The tree at a moment, by default the last one. Raises NotFoundError where it is not known."""
        ...

    def rows(self, start: Moment | None = None, end: Moment | None = None) -> Rows:
        """What happened from one moment to another, both included, on top of what stood before."""
        ...

    def damages(self) -> list[str]:
        """What is wrong with what was read so far."""
        ...

    def notes(self) -> list[str]:
        """What else is to be known of what was read so far."""
        ...


@dataclass(slots=True)
class Folders:
    """Servers of one ensemble."""

    history: History
    chroot: str = ""
    progress: Progress = lambda what, count: None
    _holes: dict[Hole, None] = field(default_factory=dict)
    _details: dict[str, None] = field(default_factory=dict)
    _lost: dict[str, None] = field(default_factory=dict)

    def tree(self, at: Moment | None = None) -> SeenTree:
        at = at or Moment()
        seen = self._seen(self.history.tree_at(zxid=at.zxid, time_ms=at.time_ms))
        last = self.history.ensemble.last_zxid
        if at.zxid is not None and at.zxid > last:
            self._details[f"the files end at {last:#x}, before {at.zxid:#x}"] = None
        return seen

    def rows(self, start: Moment | None = None, end: Moment | None = None) -> Rows:
        from_zxid, to_zxid = stretch_between(start, end, self.history.zxid_at)
        try:
            past = self._before(from_zxid, to_zxid)
        except NotFoundError as error:
            if not self._has_logs or from_zxid > 1:
                raise
            return self._log_alone(to_zxid, str(error))
        seeds, seen = past.tree, self._seen(past)
        self._note(seen)

        def events() -> Iterator[Event]:
            stored = (one for path in seeds.paths() if (one := seeds.stored(path)) is not None)
            transactions = self._counted(past.account.zxid, to_zxid)
            return events_of(transactions, stored, self.chroot, seeds.sessions)

        return Rows(events, seen, to_zxid)

    def diff(self, start: Moment, end: Moment, below: str = "/") -> Difference:
        """What differs at and below a path (of the servers) between two moments, in either order.

        The stretch is replayed once, in one tree. Raises NotFoundError where the files begin later.
        """
        zxids = self.zxid_of(start), self.zxid_of(end)
        past = self.history.tree_at(zxid=min(zxids))
        tree, is_agreed = past.tree, True
        journal = Journal(tree, below)
        for transaction in self._counted(past.account.zxid, max(zxids)):
            journal.note(transaction)
            tree.apply(transaction)
            if past.account.is_whole and tree.agrees(transaction) is False:
                is_agreed = False
        self._note(self._seen(past))
        if not is_agreed:
            self._details["the tree's digest is another than the servers' on the way"] = None
        changes = list(journal.changes())
        if zxids[0] > zxids[1]:
            changes = [change.reversed() for change in changes]
        is_exact = past.account.is_exact and is_agreed and not self._holes
        return Difference(changes, *zxids, tree.time_ms, is_exact)

    def zxid_of(self, moment: Moment) -> int:
        """The last transaction at or before it. Raises NotFoundError where the files begin later."""
        return zxid_of(moment, self.history.zxid_at)

    def damages(self) -> list[str]:
        found = [
            f"{damage.path}, byte {damage.offset}: expected {damage.expected}, found {damage.found}"
            for server in self.history.ensemble.servers
            for damage in server.damages.values()
        ]
        found += [missing_text(hole) for hole in self._holes]
        return [*found, *self._lost]

    def notes(self) -> list[str]:
        ensemble = self.history.ensemble
        found = [
            f"{path}: records from {zxid:#x} on stand in an earlier log too, and count once"
            for server in ensemble.servers
            for path, zxid in server.overlaps.items()
        ]
        if ensemble.splits:
            found.append(
                f"servers have different records at {_some(ensemble.splits)}; what most of them have is taken"
            )
        if ensemble.rolled_back:
            found.append(f"the ensemble went on without {_some(ensemble.rolled_back)}, so they are left out")
        return [*found, *self._details]

    def _seen(self, past: PastTree) -> SeenTree:
        """Of a tree that is not exact it is told which snapshots could not be used, and why."""
        seen = _seen(past)
        if not seen.is_exact:
            self._details |= {f"not used: {why}": None for why in past.account.skipped}
        return seen

    def _note(self, seen: SeenTree) -> None:
        """What is told of the tree that other answers stand on."""
        if not seen.is_exact:
            self._details[standing_text(seen.zxid, seen.detail)] = None

    def _log_alone(self, to_zxid: int | None, why: str) -> Rows:
        """A log from somewhere in the middle: its rows have no seeds, so what stood before is not known."""

        def events() -> Iterator[Event]:
            return events_of(self._counted(before, to_zxid), (), self.chroot)

        firsts = [server.first_logged for server in self.history.ensemble.servers]
        before = min(zxid for zxid in firsts if zxid is not None) - 1
        detail = f"what stood before the first record is not known: {why}"
        seen = SeenTree(Tree(digests=False), before, None, False, False, detail)
        self._note(seen)
        if any(server.files.snapshots for server in self.history.ensemble.servers):
            self._lost[why] = None
        return Rows(events, seen, to_zxid)

    @property
    def _has_logs(self) -> bool:
        return any(server.files.logs for server in self.history.ensemble.servers)

    def _before(self, from_zxid: int, to_zxid: int | None) -> PastTree:
        """The tree before a transaction, or the first one that is known to be of one moment.

        Without logs nothing comes after any tree, so it is the last one that is asked for.
        """
        if not self._has_logs:
            return self.history.tree_at(zxid=to_zxid)
        if from_zxid > 1:
            try:
                past = self.history.tree_at(zxid=from_zxid - 1)
            except NotFoundError:
                return self.history.beginning()
            if past.account.is_whole:
                return past
        return self.history.beginning()

    def _counted(self, before: int, to_zxid: int | None) -> Iterator[Transaction]:
        """What comes after a zxid, up to another; what is missing is noted."""
        last = before
        for count, transaction in enumerate(self.history.transactions(before + 1, to_zxid)):
            if count % _EVERY == 0:
                self.progress("reading transactions", count)
            hole = hole_between(last, transaction.zxid)
            if hole is not None:
                self._holes[hole] = None
            last = transaction.zxid
            yield transaction


@dataclass(slots=True)
class OneTree:
    """One tree: an export, or what a walk found."""

    znodes: Callable[[], Iterable[StoredZnode]]
    zxid: int
    time_ms: int | None
    is_exact: bool
    detail: str = ""
    chroot: str = ""
    history: History | None = None

    def tree(self, at: Moment | None = None) -> SeenTree:
        self._require(at)
        tree = Tree.from_znodes(self.znodes(), zxid=self.zxid, digests=False)
        return SeenTree(tree, self.zxid, self.time_ms, self.is_exact, False, self.detail)

    def rows(self, start: Moment | None = None, end: Moment | None = None) -> Rows:
        if start is not None or end is not None:
            raise ConfigError("one tree has no history: --since and --until are for the folders of servers")
        seen = self.tree()
        seeds = seen.tree

        def events() -> Iterator[Event]:
            stored = (one for path in seeds.paths() if (one := seeds.stored(path)) is not None)
            return events_of((), stored, self.chroot)

        return Rows(events, seen, None)

    def damages(self) -> list[str]:
        return []

    def notes(self) -> list[str]:
        return [self.detail] if self.detail else []

    def _require(self, at: Moment | None) -> None:
        if at is None or at.zxid == self.zxid:
            return
        raise NotFoundError(
            f"nothing but the tree at zxid {self.zxid:#x} is known; other moments need the folders of servers"
        )


def open_source(
    paths: Sequence[Path],
    chroot: str = "",
    progress: Progress | None = None,
    *,
    ensemble: str | None = None,
) -> Source:
    """The folders of one ensemble's servers, one export, or Parquet that `audit run` wrote.

    Args:
        ensemble: which one, of Parquet that has several.

    Raises NotZooKeeperFileError for what is none of these, ConfigError for a mixture.
    """
    quiet: Progress = lambda what, count: None  # noqa: E731
    tables = [path for path in paths if is_converted(path)]
    if tables:
        if len(paths) > 1:
            raise ConfigError(f"{tables[0]} is Parquet of `audit run`: expected nothing beside it")
        from zkgroup.audit.converted import open_converted

        return open_converted(tables[0], ensemble, chroot, progress or quiet)
    if ensemble is not None:
        raise ConfigError(f"ensemble {ensemble!r}: only Parquet of `audit run` has ensembles by name")
    exports = [path for path in paths if is_export(path)]
    if not exports:
        return Folders(History(*paths), chroot, progress or quiet)
    if len(paths) > 1:
        raise ConfigError(f"{exports[0]} is an export, which is asked alone: expected nothing beside it")
    reader = ExportReader(exports[0])
    header = reader.header
    return OneTree(
        znodes=reader.znodes,
        zxid=header.zxid_before,
        time_ms=header.time_ms,
        is_exact=header.is_exact,
        detail=header.detail or told_of(header.changed, header.unreadable, header.zxid_after),
        chroot=chroot,
    )


def told_of(changed: Sequence[str], unreadable: Sequence[str], zxid_after: int) -> str:
    """What keeps a walked tree from being one moment's; empty where nothing does."""
    told = []
    if changed:
        told.append(f"{len(changed)} paths changed while it was read, up to {zxid_after:#x}: {_few(changed)}")
    if unreadable:
        told.append(f"{len(unreadable)} paths could not be read: {_few(unreadable)}")
    return "; ".join(told)


def _seen(past: PastTree) -> SeenTree:
    account = past.account
    return SeenTree(
        past.tree,
        account.zxid,
        account.time_ms,
        account.is_exact,
        bool(account.holes) or account.first_bad_zxid is not None,
        account.detail,
    )


def missing_text(hole: Hole) -> str:
    """What is missing, in words."""
    return f"zxids {hole.first_missing:#x} to {hole.last_missing:#x} are missing"


def standing_text(zxid: int, detail: str) -> str:
    """That answers stand on a tree that is not exact, in words."""
    return f"the tree at {zxid:#x}, on which this stands: {detail}"


def _few(paths: Sequence[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


def _some(zxids: Iterable[int]) -> str:
    return _few([f"{zxid:#x}" for zxid in sorted(zxids)])
