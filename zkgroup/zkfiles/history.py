"""The history in an ensemble's files: the tree at any zxid, the changes between two, and verification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Final, Literal, NamedTuple

from zkgroup.errors import DamagedFileError, NotFoundError, NotZooKeeperFileError
from zkgroup.model.requests import Znode, ZnodeStat
from zkgroup.model.text import time_text
from zkgroup.zkfiles import records, replay
from zkgroup.zkfiles.replay import Base, SnapshotCandidate, begins_with_nothing, candidates, empty_base
from zkgroup.zkfiles.servers import EnsembleFiles
from zkgroup.zkfiles.tree import Compared, Tree
from zkgroup.zkfiles.verification import HistoryVerification, verify

Kind = Literal["added", "removed", "changed"]

CHILDREN_FIELDS: Final = frozenset(("cversion", "children_count", "pzxid"))
"""The fields of a znode that change when a child of it comes or goes."""


class State(NamedTuple):
    """A znode at one end of a difference, as a client sees it, and its ACL."""

    znode: Znode
    acl: records.Acl | None
    """The ACL; None where the snapshot lacks it."""


class ZnodeChange(NamedTuple):
    """One path whose znode is not the same at both ends."""

    path: str
    change: Kind
    before: State | None
    """The znode at the first end; None where it was added."""
    after: State | None
    """The znode at the second end; None where it was removed."""
    fields: tuple[str, ...] = ()
    """The fields that differ in a changed znode: `data`, `acl`, and names of ZnodeStat in its order."""

    @property
    def is_of_children_only(self) -> bool:
        """True if the znode itself did not change, and only children of it came or went."""
        return self.change == "changed" and CHILDREN_FIELDS.issuperset(self.fields)

    def reversed(self) -> ZnodeChange:
        """The change with its two ends swapped."""
        kinds: dict[Kind, Kind] = {"added": "removed", "removed": "added", "changed": "changed"}
        return ZnodeChange(self.path, kinds[self.change], self.after, self.before, self.fields)


def diff_trees(before: Tree, after: Tree, below: str = "/") -> Iterator[ZnodeChange]:
    """Yields the differences between two trees at and below a path, by path."""
    return _changes(_states(before, below), _states(after, below))


def parent_of(path: str) -> str:
    """The path of the parent; `/` is its own parent."""
    return path.rpartition("/")[0] or "/"


def _states(tree: Tree, below: str) -> dict[str, State]:
    found = ((path, tree.znode(path), tree.stored(path)) for path in tree.paths(below))
    return {path: State(znode, stored.acl) for path, znode, stored in found if znode and stored}


def _changes(before: Mapping[str, State], after: Mapping[str, State]) -> Iterator[ZnodeChange]:
    names = ("data", "acl", *ZnodeStat._fields)
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old is None or new is None:
            yield ZnodeChange(path, "added" if old is None else "removed", old, new)
        elif old != new:
            values = zip(names, _values(old), _values(new), strict=True)
            fields = tuple(name for name, one, other in values if one != other)
            yield ZnodeChange(path, "changed", old, new, fields)


def _values(state: State) -> tuple[object, ...]:
    return state.znode.data, state.acl, *state.znode.stat


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The origin of a tree, and the proof that it is right."""

    zxid: int
    """The zxid of the last transaction in the tree."""
    time_ms: int | None
    """The time of that transaction by the leader's clock; None where no log has it."""
    snapshot: Path | None
    """The snapshot that the replay started from; None for the tree before the first transaction."""
    snapshot_zxid: int
    applied: int
    """The number of transactions that were replayed."""
    digests_checked: int
    """The number of these with a digest that was compared."""
    first_bad_zxid: int | None
    """The first zxid at which the digest was another."""
    is_sure: bool
    """True if the zxid at which the snapshot was complete is known."""
    is_whole: bool
    """True if the snapshot ended before `zxid`; else it has some later changes."""
    is_in_doubt: bool
    """True if the snapshot may have one transaction more than it says, or may be wrong."""
    is_certain: bool
    """True if all of it is certain to be committed: `EnsembleFiles.certain_until`."""
    holes: tuple[records.Hole, ...]
    """The zxids that the files lack on the way, up to the one that was asked for."""
    undecided: tuple[int, ...]
    """The zxids on the way at which servers have different records, none of which most of them have."""
    skipped: tuple[str, ...]
    """The nearer snapshots that could not be used, each with the reason."""

    @property
    def is_exact(self) -> bool:
        """True if the tree is proved to be the tree that servers had."""
        return self.is_sure and self.is_whole and not self.undecided and not self.is_damaged

    @property
    def is_damaged(self) -> bool:
        """True if a part is missing or wrong, not only unproved."""
        return bool(self.holes) or self.first_bad_zxid is not None

    @property
    def detail(self) -> str:
        """The text about the reasons why the tree is not exact; empty where it is."""
        why = [hole.text for hole in self.holes]
        if self.is_in_doubt:
            why.append(
                f"the tree's digest is not the one that {self.snapshot} ends with: "
                "it has one transaction more, or is wrong"
            )
        elif not self.is_whole:
            why.append(f"{self.snapshot} was still being written, so it has some of what came later")
        elif not self.is_sure:
            why.append(f"{self.snapshot} does not say at which zxid it was complete")
        if self.undecided:
            why.append(f"servers have different records at {self.undecided[0]:#x}, and none is that of most")
        if self.first_bad_zxid is not None:
            why.append(f"the tree's digest is another than the servers' from {self.first_bad_zxid:#x} on")
        if not self.is_certain:
            why.append("the last of it may never have been committed")
        return "; ".join(why)


class PastTree(NamedTuple):
    """A tree, and its account."""

    tree: Tree
    account: Account


class TreeDifference(NamedTuple):
    """The changes between two trees of a history, and the accounts of the trees."""

    changes: list[ZnodeChange]
    accounts: tuple[Account, ...]
    """The account of the first tree, and of the second where the log did not lead there from the first."""
    first_bad_zxid: int | None
    """The first transaction on the way at which the digest was another."""
    time_ms: int | None
    """The time of the last transaction in the later tree; None where no log has it."""


class History:
    """The history in the folders of servers. Nothing is read before it is needed.

    Each of `folders` is the `version-2` of one server, or the folder above. Memory: one tree and one record
    of each server, beside the readers' buffers. Raises NotZooKeeperFileError for another folder, and,
    while reading, MixedEnsembleError for folders that are not of one ensemble.
    """

    def __init__(self, *folders: Path | str, voters: int | None = None) -> None:
        """`voters` is the number of voting servers, where some folders are missing, or of observers."""
        self.ensemble = EnsembleFiles([Path(folder) for folder in folders], voters)

    def transactions(
        self, from_zxid: int = 0, to_zxid: int | None = None, *, certain_only: bool = False
    ) -> Iterator[records.Transaction]:
        """All transactions by zxid, both ends included; see `EnsembleFiles.transactions`."""
        return self.ensemble.transactions(from_zxid, to_zxid, certain_only=certain_only)

    @property
    def last_zxid(self) -> int:
        """The highest zxid in the files."""
        return self.ensemble.last_zxid

    def tree_at(self, *, zxid: int | None = None, time_ms: int | None = None) -> PastTree:
        """The tree after a transaction, or at a time of the leader's clock; by default the last one known.

        A time means the last transaction stamped at or before it. The replay starts from the nearest snapshot
        whose seals hold and that had ended by then, and opens only the logs behind it. `Account.holes` has
        zxids that a later snapshot shows to be missing. Each record's digest is compared on the way. Raises
        NotFoundError where the files begin later, or none can be read.
        """
        if time_ms is not None:
            tree, account = self.tree_at(zxid=self.zxid_at(time_ms))
            # Missing records behind the last one may be before that time.
            behind = self.unlogged_behind(account.zxid)
            if behind is not None:
                account = replace(account, holes=(*account.holes, behind))
            return PastTree(tree, account)
        asked = self.last_zxid if zxid is None else zxid
        base, skipped = self._base_for(asked)
        return _replayed(self.ensemble, _Replay(base), asked, skipped)

    @cached_property
    def first_followed(self) -> int:
        """The zxid of the first tree that the logs lead on from; 0 for the empty one, and for none."""
        first = self.ensemble.first_logged
        if first is None or begins_with_nothing(self.ensemble):
            return 0
        end = self.ensemble.unlogged  # behind the last record a snapshot follows no log
        zxids = (
            each.zxid for each in candidates(self.ensemble) if end is None or each.zxid < end.first_missing
        )
        return next((zxid for zxid in zxids if records.hole_between(zxid, first) is None), 0)

    def beginning(self) -> PastTree:
        """The earliest tree from which everything later follows by `transactions`."""
        if begins_with_nothing(self.ensemble):
            return _replayed(self.ensemble, _Replay(empty_base()), 0, ())
        found = sorted(candidates(self.ensemble), key=lambda each: each.zxid < self.first_followed)
        base, skipped = _first_that("any", found, 0)
        if base is not None:
            run = _Replay(base)
            return _replayed(self.ensemble, run, base.exact_from, skipped, until_proved=True)
        why = f": {'; '.join(skipped)}" if skipped else ""
        raise NotFoundError(f"{self._folders}: no snapshot that could be used{why}")

    def zxid_at(self, time_ms: int) -> int:
        """The last transaction stamped at or before a time, in ms since 1970 by the leader's clock.

        That clock can step back. The last log that starts at or before the time is read, and
        the first records of those behind it. Raises NotFoundError where the first record of all is later, or
        there is no log.
        """
        ranges = [server.log_range_at(time_ms) for server in self.ensemble.servers]
        found = None
        if any(ranges):
            start, stop = max(filter(None, ranges), key=itemgetter(0))
            if len(ranges) == 1:  # nothing has to be decoded then
                times = self.ensemble.servers[0].times(start, stop)
            else:
                times = ((each.zxid, each.time_ms) for each in self.transactions(start, stop))
            for zxid, stamp_ms in times:
                if stamp_ms <= time_ms:
                    found = zxid
        if found is None:
            raise NotFoundError(f"{self._folders}: no log goes back to {time_text(time_ms)}")
        return found

    def compared(self, start: int, end: int, below: str = "/") -> TreeDifference:
        """The changes at and below a path between the trees after two transactions, the earlier one first.

        Where the log leads from one to the other it is replayed in one tree; where records are missing on the
        way, each tree is made from the snapshot nearest to it.
        """
        base, skipped = self._base_for(start)
        run = _Replay(base)
        tree, account = _replayed(self.ensemble, run, start, skipped)
        states, holes, run.first_bad = _states(tree, below), len(run.holes), None
        tree, now = _replayed(self.ensemble, run, end, skipped)
        if len(run.holes) == holes:
            changes = list(_changes(states, _states(tree, below)))
            return TreeDifference(changes, (account,), now.first_bad_zxid, now.time_ms)
        before, after = self.tree_at(zxid=start), self.tree_at(zxid=end)
        changes, accounts = list(diff_trees(before.tree, after.tree, below)), (before.account, after.account)
        return TreeDifference(changes, accounts, None, after.account.time_ms)

    def unlogged_behind(self, zxid: int) -> records.Hole | None:
        """The hole behind this zxid, if it is the last record and a snapshot is later."""
        hole = self.ensemble.unlogged
        return hole if hole is not None and zxid == self.ensemble.last_record else None

    def verify(self) -> HistoryVerification:
        """Replays everything and compares each digest and each snapshot; see `verification.verify`."""
        return verify(self.ensemble)

    @property
    def _folders(self) -> str:
        return ", ".join(str(server.folder) for server in self.ensemble.servers)

    def _is_behind_logs(self, zxid: int) -> bool:
        """Returns whether a snapshot is later than all records. Nothing is read if names are enough."""
        logs = [server.files.logs[-1].zxid for server in self.ensemble.servers if server.files.logs]
        if not logs or zxid <= max(logs):
            return not logs
        return self.ensemble.unlogged is not None and zxid > (self.ensemble.last_record or 0)

    def _base_for(self, zxid: int) -> tuple[Base, list[str]]:
        """The newest snapshot that is exact, else the beginning of all if it is.

        Else the newest whose window seems to be over, else the newest. Where no log leads on from an
        older snapshot, the newest one is the nearest. Also returns why nearer ones could not be used.
        """
        near = [each for each in reversed(candidates(self.ensemble)) if each.zxid <= zxid]
        alone = [each for each in near if self._is_behind_logs(each.zxid)]
        base, of_alone = _first_that("any", alone, zxid)
        if base is not None:
            return base, of_alone
        skipped: list[str] = []
        for wanted in _WANTED:
            base, skipped = _first_that(wanted, near[len(alone) :], zxid)
            if base is None and begins_with_nothing(self.ensemble):
                base = empty_base()
            if base is not None:
                return base, [*of_alone, *skipped]
        why = "; ".join([*of_alone, *skipped]) or "the files begin later, or cannot be read"
        raise NotFoundError(f"{self._folders}: nothing is known of zxid {zxid:#x}: {why}")


_Wanted = Literal["exact", "over", "any"]
_WANTED: Final[tuple[_Wanted, ...]] = ("exact", "over", "any")
"""The conditions for a snapshot: a replay gives the tree at a zxid, its window seems over, or none."""


def _first_that(
    wanted: _Wanted, found: Iterable[SnapshotCandidate], zxid: int
) -> tuple[Base | None, list[str]]:
    """The first snapshot that can be read and is as wanted, and the reasons why those before are not."""
    skipped: list[str] = []
    for candidate in found:
        try:
            why = replay.likely_doubt(candidate, zxid) if wanted == "exact" else None
            if why is None:
                base = replay.load(candidate)
                is_fine = wanted == "any" or (wanted == "over" and base.exact_from <= zxid)
                why = None if is_fine else base.doubt(zxid)
                if why is None:
                    return base, skipped
        except (DamagedFileError, NotZooKeeperFileError) as error:
            why = str(error)
        skipped.append(why)
    return None, skipped


def _missing(at: int, following: int, asked: int) -> records.Hole | None:
    """The hole between two zxids that follow each other in the files, up to the one that is asked for."""
    hole = records.hole_between(at, following)
    return None if hole is None else hole.within(0, asked)


def _missing_behind(ensemble: EnsembleFiles, at: int, asked: int) -> list[records.Hole]:
    """The hole behind the last record, if a snapshot is later."""
    hole = None if at >= asked else _missing(at, ensemble.last_zxid + 1, asked)
    return [] if hole is None else [hole]


class _Replay:
    """A replay up to a zxid. It takes many records at a time where they only have to be compared."""

    needs_tree = True

    def __init__(self, base: Base) -> None:
        self.base = base.begin()
        self.at = self.asked = base.zxid
        self.applied = self.checked = 0
        self.first_bad: int | None = None
        self.holes: list[records.Hole] = []

    def comes_to(self, zxid: int) -> None:
        """Notes the hole before a record."""
        hole = _missing(self.at, zxid, self.asked)
        if hole is not None:
            self.holes.append(hole)

    def see(self, transaction: records.Transaction) -> None:
        zxid = transaction.zxid
        self.comes_to(zxid)
        self.base.tree.apply(transaction)
        agrees = self.base.agrees(transaction)
        self.saw(zxid, Compared(1, int(agrees is not None), 0, zxid if agrees is False else None))

    def tree_within(self, first: int, last: int) -> Tree | None:
        return self.base.tree if records.follows(first, self.at) and self.base.is_over(first) else None

    def saw(self, last: int, compared: Compared) -> None:
        self.at = last
        self.applied += compared.records
        self.checked += compared.digests
        if self.first_bad is None:
            self.first_bad = compared.first_wrong_zxid


def _replayed(
    ensemble: EnsembleFiles, run: _Replay, asked: int, skipped: Sequence[str], *, until_proved: bool = False
) -> PastTree:
    """Replays to `asked`; with `until_proved` further, until the tree is known to be right or wrong."""
    base, tree, run.asked = run.base, run.base.tree, asked
    replay.replay(ensemble, run, run.at, asked)
    if run.at != asked or (until_proved and base.is_in_doubt):
        behind = ensemble.transactions(max(asked, run.at) + 1)
        following = next(behind, None)
        while following is not None and until_proved and base.is_in_doubt:
            run.asked = following.zxid
            run.see(following)
            following = next(behind, None)
        if following is None:
            run.holes += _missing_behind(ensemble, run.at, run.asked)
        else:
            run.comes_to(following.zxid)
    at, asked = run.at, run.asked
    if not run.applied and at:
        stamp = next(ensemble.transactions(at, at), None)
        tree.time_ms = None if stamp is None else stamp.time_ms
    # An epoch starts with no record.
    is_over = base.exact_from <= at or (base.exact_from <= asked and not base.exact_from & 0xFFFFFFFF)
    account = Account(
        zxid=at,
        time_ms=tree.time_ms,
        snapshot=base.snapshot,
        snapshot_zxid=base.zxid,
        applied=run.applied,
        digests_checked=run.checked,
        first_bad_zxid=run.first_bad,
        is_sure=base.is_sure,
        is_whole=is_over and not base.is_in_doubt,
        is_in_doubt=base.is_in_doubt,
        is_certain=ensemble.is_certain(at),
        holes=tuple(run.holes),
        undecided=tuple(zxid for zxid in sorted(ensemble.undecided) if base.zxid < zxid <= at),
        skipped=tuple(skipped),
    )
    return PastTree(tree, account)
