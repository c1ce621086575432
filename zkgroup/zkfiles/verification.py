"""Checks whether a history is whole and right.

It compares the servers' own digests, records with the tree before them, and every snapshot on the way.

Before 3.6, or with digests off, records hold what the leader computed from its own tree when it prepared
them: the version after a set, the parent's count of creates after a create. After a wrong replay, or in a
log that lacks records, the tree does not have the numbers before these.
Source: PrepRequestProcessor.pRequest2Txn@3.9.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles import records, replay
from zkgroup.zkfiles.records import Hole
from zkgroup.zkfiles.servers import EnsembleFiles, LogDamage
from zkgroup.zkfiles.tree import Compared, Tree, next_version

_KEPT: Final = 100
"""The number of doubts that are kept, the first ones."""
_NEVER: Final = 2**63
_LOCAL: Final = "/zookeeper/"
"""The path below which each server writes without the log."""

_WRONG_DIGEST: Final = "the digest of the whole tree is another than the server's"
_OTHER_DIGEST: Final = "its digest is not that of the tree replayed"
_UNDECIDED: Final = f"{_OTHER_DIGEST}, and no record behind it tells whether it holds one transaction more"


class Doubt(NamedTuple):
    """A record that contradicts the tree before it."""

    zxid: int
    detail: str


class SnapshotCheck(NamedTuple):
    """The result for one snapshot."""

    path: Path
    zxid: int
    agrees: bool | None
    """True if it agrees with the replay; None where no record leads to it, or from it."""
    detail: str = ""
    is_damaged: bool = False
    """True if it could not be read, which is no fault of the history: copies may be unfinished."""


@dataclass(slots=True)
class HistoryVerification:
    """The results of a replay of everything."""

    records: int = 0
    digests_checked: int = 0
    mismatches: int = 0
    """The number of records whose digest is not the tree's; once wrong, a tree stays wrong."""
    first_bad_zxid: int | None = None
    """The first record whose digest is wrong, or that contradicts the tree before it."""
    doubts: list[Doubt] = field(default_factory=list)
    """The first contradictions between records and trees."""
    unchecked: int = 0
    """The number of records that could not be compared: behind a hole, or in a snapshot's window."""
    holes: list[Hole] = field(default_factory=list)
    snapshots: list[SnapshotCheck] = field(default_factory=list)
    damages: list[LogDamage] = field(default_factory=list)
    splits: dict[int, tuple[tuple[Path, ...], ...]] = field(default_factory=dict)
    rolled_back: dict[int, tuple[Path, ...]] = field(default_factory=dict)


def verify(ensemble: EnsembleFiles) -> HistoryVerification:
    """Replays all records of the servers, from the first tree that is known.

    Each digest is compared with the tree's. Where servers wrote none, records are compared with the tree
    before them, and each snapshot with the tree at the end of its window, which takes a second tree for the
    time of the window. Behind a hole it goes on from the next snapshot.
    """
    run = _Run(ensemble)
    replay.replay(ensemble, run)
    return run.end()


class _Pending(NamedTuple):
    """A snapshot that is compared once its window is over: by its digest, or by a tree that is replayed, too.

    Where it has neither, the replay began with it, and it is compared as `Base` does.
    """

    candidate: replay.SnapshotCandidate
    until: int
    digest: int | None = None
    tree: Tree | None = None


class _Run:
    def __init__(self, ensemble: EnsembleFiles) -> None:
        self._found = HistoryVerification()
        self._ensemble = ensemble
        self._snapshots = deque(replay.candidates(ensemble))
        self._base = replay.empty_base() if replay.begins_with_nothing(ensemble) else None
        """The tree; None where it is not known: before the first snapshot, and behind holes."""
        self._at = 0
        self._pending: list[_Pending] = []

    def see(self, transaction: records.Transaction) -> None:
        zxid = transaction.zxid
        self._look_for_hole(zxid)
        self._take_those_before(zxid)
        self._look_for_hole(zxid)
        self._apply(transaction)
        self._at = zxid
        self._settle(zxid)

    def tree_within(self, first: int, last: int) -> Tree | None:
        is_reached = bool(self._snapshots) and self._snapshots[0].zxid < last
        if self._base is None or self._pending or is_reached:
            return None
        return self._base.tree if records.follows(first, self._at) and self._base.is_over(first) else None

    def saw(self, last: int, compared: Compared) -> None:
        found = self._found
        found.records += compared.records
        found.digests_checked += compared.digests
        if compared.first_wrong_zxid is not None and not found.mismatches:
            self._doubt(compared.first_wrong_zxid, _WRONG_DIGEST)
        found.mismatches += compared.wrong
        self._at = last

    @property
    def needs_tree(self) -> bool:
        return bool(self._snapshots)

    def end(self) -> HistoryVerification:
        found = self._found
        while self._snapshots:
            zxid = self._snapshots[0].zxid
            if zxid > self._at and zxid & 0xFFFFFFFF and self._at:
                self._fall_into(Hole(self._at + 1, zxid))
            self._take_those_before(zxid + 1)
        self._settle(None)
        found.damages = sorted(each for server in self._ensemble.servers for each in server.damages.values())
        found.splits = dict(self._ensemble.splits)
        found.rolled_back = dict(self._ensemble.rolled_back)
        found.snapshots.sort(key=lambda check: (check.zxid, check.path))
        return found

    def _look_for_hole(self, zxid: int) -> None:
        hole = records.hole_between(self._at, zxid) if self._at or self._base is not None else None
        if hole is not None:
            self._take_those_before(hole.first_missing)
            self._fall_into(hole)

    def _take_those_before(self, zxid: int) -> None:
        while self._snapshots and self._snapshots[0].zxid < zxid:
            candidate = self._snapshots.popleft()
            try:
                self._take(candidate)
            except (DamagedFileError, NotZooKeeperFileError) as error:
                check = SnapshotCheck(candidate.file.path, candidate.zxid, False, str(error), is_damaged=True)
                self._found.snapshots.append(check)

    def _apply(self, transaction: records.Transaction) -> None:
        zxid, base, found = transaction.zxid, self._base, self._found
        for pending in self._pending:
            if pending.tree is not None:
                pending.tree.apply(transaction)
        if base is None:
            found.records += 1
            found.unchecked += 1
            return
        if transaction.digest is not None or zxid <= base.exact_from or found.mismatches:
            base.tree.apply(transaction)
        else:
            doubt = apply_and_doubt(base.tree, transaction)
            if doubt is not None:
                self._doubt(zxid, doubt)
        agrees = base.agrees(transaction)
        found.unchecked += agrees is None and zxid < base.exact_from
        is_wrong = agrees is False
        self.saw(zxid, Compared(1, int(agrees is not None), int(is_wrong), zxid if is_wrong else None))

    def _doubt(self, zxid: int, detail: str) -> None:
        found = self._found
        if found.first_bad_zxid is None:
            found.first_bad_zxid = zxid
        if len(found.doubts) < _KEPT:
            found.doubts.append(Doubt(zxid, detail))

    def _fall_into(self, hole: Hole) -> None:
        """Forgets the tree, until there is a snapshot behind the hole."""
        if not self._found.holes or self._found.holes[-1] != hole:
            self._found.holes.append(hole)
        for pending in self._pending:
            if self._is_in_doubt(pending):
                self._check(pending.candidate, False, _UNDECIDED)
            else:
                self._check(pending.candidate, None, "records of its window are missing")
        self._pending.clear()
        self._base = None
        self._at = hole.last_missing

    def _take(self, candidate: replay.SnapshotCandidate) -> None:
        """Takes a snapshot that began before the next record, to go on from or to compare with."""
        if self._base is None and candidate.zxid >= self._at:
            self._start_from(replay.load(candidate), candidate)
            return
        if self._base is None:
            self._check(candidate, None, "records before it are missing")
            return
        digest = replay.end_digest(candidate)
        if digest is not None:
            self._pend(_Pending(candidate, digest[0], digest=digest[1].value))
            return
        base = replay.load(candidate, digests=False)
        until = max(base.exact_from, self._base.exact_from) if base.is_sure else _NEVER
        self._pend(_Pending(candidate, until, tree=base.tree))

    def _start_from(self, base: replay.Base, candidate: replay.SnapshotCandidate) -> None:
        self._base, self._at = base.begin(), base.zxid
        if base.digest is not None:
            self._pend(_Pending(candidate, base.digest_zxid))
        elif base.is_sure:
            self._check(candidate, None, "the replay starts here")
        else:
            base.exact_from = _NEVER
            why = "it does not say at which zxid it was complete, so nothing proves what follows"
            self._check(candidate, None, f"the replay starts here; {why}")

    def _pend(self, pending: _Pending) -> None:
        self._pending.append(pending)
        self._settle(self._at)

    def _settle(self, zxid: int | None) -> None:
        """Compares the snapshots whose windows are over; None at the end of the history."""
        for pending in [*self._pending]:
            if zxid is None or (pending.until <= zxid and not self._is_in_doubt(pending)):
                self._pending.remove(pending)
                self._compare(pending)

    def _is_in_doubt(self, pending: _Pending) -> bool:
        is_base = pending.digest is None and pending.tree is None
        return is_base and self._base is not None and self._base.is_in_doubt

    def _compare(self, pending: _Pending) -> None:
        base, candidate = self._base, pending.candidate
        if self._is_in_doubt(pending):
            self._check(candidate, False, _UNDECIDED)
        elif base is None or (pending.until > self._at and pending.until != _NEVER):
            self._check(candidate, None, "the logs end before it did")
        elif base.exact_from > self._at:
            self._check(candidate, None, "no tree to compare with is known")
        elif pending.tree is not None:
            path = base.tree.first_difference(pending.tree, except_below=_LOCAL, with_pzxid=False)
            self._check(candidate, path is None, "" if path is None else f"{path} is not as replayed")
        else:
            is_base = pending.digest is None
            agrees = not base.is_wrong if is_base else base.tree.digest == pending.digest
            self._check(candidate, agrees, "" if agrees else _OTHER_DIGEST)

    def _check(self, candidate: replay.SnapshotCandidate, agrees: bool | None, detail: str) -> None:
        self._found.snapshots.append(SnapshotCheck(candidate.file.path, candidate.zxid, agrees, detail))


def apply_and_doubt(tree: Tree, transaction: records.Transaction) -> str | None:
    """Applies the transaction; returns the first contradiction to the tree before it, or None.

    It must not be called inside the window of a fuzzy snapshot.
    """
    if not (transaction.operations and transaction.is_applied):
        tree.apply(transaction)
        return None
    first = None
    for operation in transaction.operations:
        first = first or _operation_doubt(tree, operation)
        tree.apply_operation(operation, transaction)
    tree.arrive(transaction)
    return first


def _operation_doubt(tree: Tree, operation: records.Operation) -> str | None:
    kind, path = operation.type, operation.path or "/"
    if path.startswith(_LOCAL):
        return None
    here = tree.stored(path)
    if kind in records.CREATES:
        if here is not None:
            return f"{path} is created and is there already"
        parent_path = path.rpartition("/")[0] or "/"
        parent = tree.stored(parent_path)
        if parent is None:
            return f"{path} is created and its parent is not there"
        count, before = operation.parent_cversion, parent.stat.cversion
        if count not in (None, -1, next_version(before)):
            return f"{path} is created as number {count} below {parent_path}, which counted {before}"
    if kind in records.DELETES:
        return None if here is not None else f"{path} is deleted and is not there"
    if kind in records.SETS or kind == records.TransactionType.SET_ACL:
        what = "ACL" if kind == records.TransactionType.SET_ACL else "data"
        if here is None:
            return f"the {what} of {path} is set and it is not there"
        before = here.stat.aversion if kind == records.TransactionType.SET_ACL else here.stat.version
        if operation.version is not None and operation.version != next_version(before):
            return f"the {what} of {path} gets version {operation.version} after {before}"
    return None
