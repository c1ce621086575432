"""Says whether a history is whole and right.

Told by the servers' own digests, by what records say of each other, and by every snapshot on the way.

Before 3.6, or with digests off, records hold what the leader computed from its own tree when it prepared
them: the version after a set, the parent's count of creates after a create. A replay that went wrong, or a
log that lacks something, does not have the numbers before these.
Source: PrepRequestProcessor.pRequest2Txn@3.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.ensemble import EnsembleFiles
from zkgroup.zkfiles.records import CREATES, DELETES, SETS, Operation, Transaction, TransactionType
from zkgroup.zkfiles.replay import (
    SnapshotCandidate,
    SnapshotWindow,
    begins_with_nothing,
    candidates,
    empty_base,
    load,
    replay,
    told_digest,
)
from zkgroup.zkfiles.servers import LogDamage
from zkgroup.zkfiles.tree import Compared, Tree, next_version
from zkgroup.zkfiles.zxids import Hole, follows, hole_between

_KEPT: Final = 100
"""So many doubts are kept, the first ones."""
_NEVER: Final = 2**63
"""Beyond every zxid."""
_LOCAL: Final = "/zookeeper/"
"""Holds what each server writes by itself, outside the log."""

_WRONG_DIGEST: Final = "the digest of the whole tree is another than the server's"
_OTHER_DIGEST: Final = "its digest is not that of the tree replayed"
_UNDECIDED: Final = f"{_OTHER_DIGEST}, and no record behind it tells whether it holds one transaction more"


class Doubt(NamedTuple):
    """A record that a tree which is right could not have been given."""

    zxid: int
    detail: str


class SnapshotCheck(NamedTuple):
    """Holds what became of one snapshot."""

    path: Path
    zxid: int
    agrees: bool | None
    """True if the tree it stands for is the one replayed; None where nothing leads to it, or from it."""
    detail: str = ""
    is_damaged: bool = False
    """True if it could not be read, which says nothing of the history: it may be a copy of one under way."""


@dataclass(slots=True)
class HistoryVerification:
    """Holds what a replay of everything showed."""

    records: int = 0
    digests_checked: int = 0
    mismatches: int = 0
    """Records whose digest is another than the tree's; once wrong, a tree stays wrong."""
    first_bad_zxid: int | None = None
    """The first record at which the digest, or what the record says of the tree before it, is wrong."""
    doubts: list[Doubt] = field(default_factory=list)
    """Holds what records say against each other; at most some."""
    unchecked: int = 0
    """Records that could not be compared with any tree: behind a hole, or in a snapshot's window."""
    holes: list[Hole] = field(default_factory=list)
    snapshots: list[SnapshotCheck] = field(default_factory=list)
    damages: list[LogDamage] = field(default_factory=list)
    splits: dict[int, tuple[tuple[Path, ...], ...]] = field(default_factory=dict)
    rolled_back: dict[int, tuple[Path, ...]] = field(default_factory=dict)


def verify(ensemble: EnsembleFiles) -> HistoryVerification:
    """Replays all that the servers have, from the first tree that is known.

    Each digest is compared with the tree's. Where servers wrote none, records are compared with the tree
    before them, and each snapshot with the tree at the end of its window: that takes a second tree for the
    time of the window. Behind a hole it goes on from the next snapshot.
    """
    run = _Run(ensemble)
    replay(ensemble, run)
    return run.end()


class _Pending(NamedTuple):
    """A snapshot that is compared once its window is over: by its digest, or by a tree that goes along.

    Where it has neither, the replay began with it, and it is compared as `SnapshotWindow` does.
    """

    candidate: SnapshotCandidate
    until: int
    digest: int | None
    tree: Tree | None


class _Run:
    """One pass over all records."""

    def __init__(self, ensemble: EnsembleFiles) -> None:
        self._found = HistoryVerification()
        self._ensemble = ensemble
        self._snapshots: Iterator[SnapshotCandidate] = candidates(ensemble)
        self._next = next(self._snapshots, None)
        self._tree: Tree | None = None
        """None where nothing is known: before the first base, and behind holes."""
        base = empty_base()
        self._window = SnapshotWindow(base)
        """Of the tree; of no meaning where there is none."""
        self._at = 0
        """The last zxid of which nothing is missing behind it."""
        self._pending: list[_Pending] = []
        if begins_with_nothing(ensemble):
            self._tree = base.tree

    def see(self, transaction: Transaction) -> None:
        """The next one of all."""
        zxid, found = transaction.zxid, self._found
        found.records += 1
        self._look_for_hole(zxid)
        self._take_those_before(zxid)
        self._look_for_hole(zxid)
        self._apply(transaction)
        self._at = zxid
        self._settle(zxid)

    def tree_within(self, first: int, last: int) -> Tree | None:
        """The tree, where records from one zxid to another have only to be compared with it."""
        if (
            self._pending
            or not follows(first, self._at)
            or (self._next is not None and self._next.zxid < last)
            or not self._window.is_over(first)
        ):
            return None
        return self._tree

    def saw(self, last: int, compared: Compared) -> None:
        """Counts records that follow each other."""
        found = self._found
        found.records += compared.records
        found.digests_checked += compared.digests
        if compared.first_wrong_zxid is not None and not found.mismatches:
            self._doubt(compared.first_wrong_zxid, _WRONG_DIGEST)
        found.mismatches += compared.wrong
        self._at = last

    def end(self) -> HistoryVerification:
        """All were seen."""
        found = self._found
        while self._next is not None:
            if self._next.zxid > self._at and self._next.zxid & 0xFFFFFFFF and self._at:
                self._fall_into(Hole(self._at + 1, self._next.zxid))
            self._take_those_before(self._next.zxid + 1)
        self._settle(None)
        found.damages = sorted(each for server in self._ensemble.servers for each in server.damages.values())
        found.splits = dict(self._ensemble.splits)
        found.rolled_back = dict(self._ensemble.rolled_back)
        found.snapshots.sort(key=lambda check: (check.zxid, check.path))
        return found

    def _look_for_hole(self, zxid: int) -> None:
        hole = hole_between(self._at, zxid) if self._at or self._tree is not None else None
        if hole is not None:
            self._take_those_before(hole.first_missing)
            self._fall_into(hole)

    def _take_those_before(self, zxid: int) -> None:
        while self._next is not None and self._next.zxid < zxid:
            self._take(self._next)
            self._next = next(self._snapshots, None)

    def _apply(self, transaction: Transaction) -> None:
        zxid, tree, found = transaction.zxid, self._tree, self._found
        for pending in self._pending:
            if pending.tree is not None:
                pending.tree.apply(transaction)
        if tree is None:
            found.unchecked += 1
            return
        if transaction.digest is not None or zxid <= self._window.exact_from or found.mismatches:
            tree.apply(transaction)
        else:
            doubt = apply_and_doubt(tree, transaction)
            if doubt is not None:
                self._doubt(zxid, doubt)
        agrees = self._window.agrees(transaction)
        if agrees is None:
            found.unchecked += zxid < self._window.exact_from
            return
        found.digests_checked += 1
        if not agrees:
            found.mismatches += 1
            if found.mismatches == 1:
                self._doubt(zxid, _WRONG_DIGEST)

    def _doubt(self, zxid: int, detail: str) -> None:
        found = self._found
        if found.first_bad_zxid is None:
            found.first_bad_zxid = zxid
        if len(found.doubts) < _KEPT:
            found.doubts.append(Doubt(zxid, detail))

    def _fall_into(self, hole: Hole) -> None:
        """Nothing is known from here on, until a snapshot is behind the hole."""
        if not self._found.holes or self._found.holes[-1] != hole:
            self._found.holes.append(hole)
        self._tree = None
        self._at = hole.last_missing
        for pending in self._pending:
            if self._is_in_doubt(pending):
                self._check(pending.candidate, False, _UNDECIDED)
            else:
                self._check(pending.candidate, None, "records of its window are missing")
        self._pending.clear()

    def _take(self, candidate: SnapshotCandidate) -> None:
        """A snapshot that began before the next record: to go on from, or to compare with."""
        try:
            if self._tree is None and candidate.zxid >= self._at:
                self._start_from(candidate)
            elif self._tree is None:
                self._check(candidate, None, "records before it are missing")
            else:
                self._compare_later(candidate)
        except (DamagedFileError, NotZooKeeperFileError) as error:
            check = SnapshotCheck(candidate.file.path, candidate.zxid, False, str(error), is_damaged=True)
            self._found.snapshots.append(check)

    def _start_from(self, candidate: SnapshotCandidate) -> None:
        base = load(candidate)
        self._tree, self._at = base.tree, base.zxid
        self._window = SnapshotWindow(base if base.is_sure else replace(base, exact_from=_NEVER))
        if base.digest is not None:
            self._pend(_Pending(candidate, base.digest_zxid, None, None))
        else:
            detail = (
                ""
                if base.is_sure
                else "; it does not say at which zxid it was complete, so nothing proves what follows"
            )
            self._check(candidate, None, f"the replay starts here{detail}")

    def _compare_later(self, candidate: SnapshotCandidate) -> None:
        digest = told_digest(candidate)
        if digest is not None:
            self._pend(_Pending(candidate, digest[0], digest[1].value, None))
            return
        base = load(candidate, digests=False)
        until = max(base.exact_from, self._window.exact_from) if base.is_sure else _NEVER
        self._pend(_Pending(candidate, until, None, base.tree))

    def _pend(self, pending: _Pending) -> None:
        self._pending.append(pending)
        self._settle(self._at)

    def _settle(self, zxid: int | None) -> None:
        """Compares the snapshots whose windows are over; None at the end of the history."""
        if not self._pending:
            return
        due = [
            each
            for each in self._pending
            if zxid is None or (each.until <= zxid and not self._is_in_doubt(each))
        ]
        for pending in due:
            self._pending.remove(pending)
            self._compare(pending)

    def _is_in_doubt(self, pending: _Pending) -> bool:
        return self._window.is_in_doubt and pending.digest is None and pending.tree is None

    def _compare(self, pending: _Pending) -> None:
        tree, candidate = self._tree, pending.candidate
        if self._is_in_doubt(pending):
            self._check(candidate, False, _UNDECIDED)
        elif tree is None or (pending.until > self._at and pending.until != _NEVER):
            self._check(candidate, None, "the logs end before it did")
        elif self._window.exact_from > self._at:
            self._check(candidate, None, "no tree to compare with is known")
        elif pending.tree is not None:
            path = tree.first_difference(pending.tree, except_below=_LOCAL, with_pzxid=False)
            self._check(candidate, path is None, "" if path is None else f"{path} is not as replayed")
        else:
            is_base = pending.digest is None
            agrees = not self._window.is_wrong if is_base else tree.digest == pending.digest
            self._check(candidate, agrees, "" if agrees else _OTHER_DIGEST)

    def _check(self, candidate: SnapshotCandidate, agrees: bool | None, detail: str = "") -> None:
        self._found.snapshots.append(SnapshotCheck(candidate.file.path, candidate.zxid, agrees, detail))


def apply_and_doubt(tree: Tree, transaction: Transaction) -> str | None:
    """Applies the transaction; says what in it cannot be where the tree is right, None for nothing.

    Of several doubts the first. Must not be asked inside the window of a fuzzy snapshot.
    """
    if transaction.type != TransactionType.MULTI:
        operations = transaction.operations
        doubt = _operation_doubt(tree, operations[0]) if len(operations) == 1 else None
        tree.apply(transaction)
        return doubt
    first = None
    if transaction.is_applied:
        for operation in transaction.operations:
            first = first or _operation_doubt(tree, operation)
            tree.apply_operation(operation, transaction)
    tree.arrive(transaction)
    return first


def _operation_doubt(tree: Tree, operation: Operation) -> str | None:
    kind, path = operation.type, operation.path or "/"
    if path.startswith("/zookeeper/"):
        return None  # each server writes quotas and its configuration there by itself
    if kind in CREATES:
        return _create_doubt(tree, operation, path)
    if kind in DELETES:
        here = tree.stored(path)
        return None if here is not None else f"{path} is deleted and is not there"
    if kind in SETS or kind == TransactionType.SET_ACL:
        here = tree.stored(path)
        what = "ACL" if kind == TransactionType.SET_ACL else "data"
        if here is None:
            return f"the {what} of {path} is set and it is not there"
        before = here.stat.aversion if kind == TransactionType.SET_ACL else here.stat.version
        if operation.version is not None and operation.version != next_version(before):
            return f"the {what} of {path} gets version {operation.version} after {before}"
    return None


def _create_doubt(tree: Tree, operation: Operation, path: str) -> str | None:
    if path in tree:
        return f"{path} is created and is there already"
    parent_path = path.rpartition("/")[0] or "/"
    parent = tree.stored(parent_path)
    if parent is None:
        return f"{path} is created and its parent is not there"
    count, before = operation.parent_cversion, parent.stat.cversion
    if count not in (None, -1, next_version(before)):
        return f"{path} is created as number {count} below {parent_path}, which counted {before}"
    return None
