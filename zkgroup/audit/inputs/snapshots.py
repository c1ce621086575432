"""Reads the tree snapshots of one ensemble, in the order of their zxids, into runs of states. Needs numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from zkgroup import errors
from zkgroup.audit.inputs.events import SINGLE, Event, Key, Keys, Seen, States
from zkgroup.audit.inputs.facts import acted_on
from zkgroup.audit.inputs.found_files import SkippedFile, SnapshotFile, reason_of
from zkgroup.zkfiles.arrow import Numbers
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.snapshots import TreeSnapshot
from zkgroup.zkfiles.states import ABSENT, OWNER, STAT, Runs, StatesReader, runs_of, why_apart
from zkgroup.zkfiles.states import States as Table
from zkgroup.znodes.cluster import ClusterId
from zkgroup.znodes.paths import path_kind


class Series:
    """Snapshots of one ensemble that follow each other, and what each path was in which of them."""

    def __init__(
        self, snapshots: Sequence[TreeSnapshot], table: Table, trees: Sequence[Numbers], *, ends: bool = True
    ) -> None:
        """`trees` are the states in each snapshot. `ends`: no log goes on behind it."""
        self.snapshots = [each._replace(number=number) for number, each in enumerate(snapshots)]
        self.table, self.trees, self.ends = table, trees, ends

    @cached_property
    def runs(self) -> Runs:
        """What each path was, without the snapshots that do not tell about it."""
        return runs_of(self.table, self.snapshots, self.trees)

    def within(self, first: int, last: int, *, ends: bool = True) -> Series:
        """Some of its snapshots, both included."""
        return self._of(range(first, last + 1), ends)

    @cached_property
    def in_order(self) -> Series:
        """Of snapshots whose windows overlap the last alone: which of them saw a znode first is not known."""
        is_over = [one.end_zxid <= other.zxid for one, other in pairwise(self.snapshots)]
        numbers = [number for number, each in enumerate((*is_over, True)) if each]
        return self if len(numbers) == len(self.snapshots) else self._of(numbers, self.ends)

    def _of(self, numbers: Sequence[int], ends: bool) -> Series:
        trees = [self.trees[number] for number in numbers]
        return Series([self.snapshots[number] for number in numbers], self.table, trees, ends=ends)

    @cached_property
    def facts(self) -> States:
        """The members, brokers, topics and controllers."""
        return self.seen([code for code in self._codes if is_fact(self.table.paths[code])])

    @cached_property
    def operator_acts(self) -> Mapping[str, set[int]]:
        """The zxids of transactions with a reset marker or an audit record of an operator, by group."""
        acts: dict[str, set[int]] = {}
        for code in self._codes:
            if (group := acted_on(self.table.paths[code])) is not None:
                states = self.runs.state[(self.runs.path == code) & (self.runs.state >= 0)]
                acts.setdefault(group, set()).update(self.table.stats[states, STAT.index("mzxid")].tolist())
        return acts

    @cached_property
    def _codes(self) -> Sequence[int]:
        return [*np.flatnonzero(np.bincount(self.runs.path)).tolist()]

    @cached_property
    def paths(self) -> Sequence[str]:
        """Every path that a snapshot has."""
        return [self.table.paths[code] for code in self._codes]

    @cached_property
    def timeouts(self) -> Mapping[int, int]:
        """In milliseconds, of all sessions that are listed."""
        found: dict[int, int] = {}
        for snapshot in self.snapshots:
            found |= snapshot.sessions or {}
        return found

    def ephemerals(self, number: int) -> Mapping[int, int]:
        """How many ephemerals each session has in a snapshot."""
        owners, counts = np.unique(self.table.stats[self.trees[number], OWNER], return_counts=True)
        return dict(zip(owners.tolist(), counts.tolist(), strict=True))

    def keyed(
        self, keys: Keys, is_wanted: Callable[[Key], bool] | None = None
    ) -> Iterator[tuple[Key, States]]:
        """The states of each key, or of those that are wanted, by key."""
        codes: dict[Key, list[int]] = {}
        for code, path in zip(self._codes, self.paths, strict=True):
            if keys.kinds is None or path_kind(path).kind in keys.kinds:
                key = keys.key(Event(0, SINGLE, 0, 0, 0, "create", path, seed=True))
                if key is not None and (is_wanted is None or is_wanted(key)):
                    codes.setdefault(key, []).append(code)
        for key in sorted(codes):
            yield key, self.seen(codes[key])

    def seen(self, codes: Sequence[int], among: Runs | None = None) -> States:
        """The runs of paths, by their codes; `among` are those that are wanted."""
        runs, paths = among or self.runs, self.table.paths
        bounds = (np.searchsorted(runs.path, codes, side).tolist() for side in ("left", "right"))
        rows = np.concatenate([np.arange(0), *(np.arange(*each) for each in zip(*bounds, strict=True))])
        states = np.unique(runs.state[rows][runs.state[rows] != ABSENT])
        znodes = dict(zip(states.tolist(), self.table.znodes(states), strict=True))
        found: dict[str, list[Seen]] = {paths[code]: [] for code in codes}
        for code, state, first, last in zip(*(each[rows].tolist() for each in runs), strict=True):
            found[paths[code]].append(Seen(znodes.get(state), first, last))
        return found

    def tree(self, number: int) -> list[StoredZnode]:
        """All that a snapshot has, also what is of another moment; parents first."""
        return sorted(self.table.znodes(self.trees[number]), key=lambda znode: znode.path.split("/"))


def is_fact(path: str) -> bool:
    """True if the facts of a series have it."""
    kind = path_kind(path).kind
    return kind in ("member", "controller") or (kind in ("broker", "topic") and path.count("/") == 3)


class SeriesReader:
    """Reads snapshots in their order. What cannot be read is left out; of those of one zxid one is kept."""

    def __init__(
        self,
        files: Sequence[SnapshotFile],
        chroot: str,
        progress: Callable[[str, int, int], None],
        *,
        is_whole: bool = False,
    ) -> None:
        """`is_whole`: paths are those of the whole tree, unless there is a chroot. Raises ConfigError for an
        export of another chroot."""
        self.skipped: list[SkippedFile] = []
        self.twins = 0
        """Snapshots that count with another one of their zxid."""
        self._files, self._progress = files, progress
        self._reader = StatesReader(chroot_of(files, chroot, is_whole))
        self._kept: list[tuple[TreeSnapshot, Numbers]] = []
        self._cluster: tuple[str, Path] | None = None

    def series(self) -> Series:
        """All of them. Raises MixedEnsembleError, and DamagedFileError where none can be read."""
        for _, files in groupby(enumerate(self._files), lambda each: each[1].zxid):
            read = []
            for count, file in files:
                self._progress("reading snapshots", count, len(self._files))
                try:
                    read.append(self._read(file))
                except (errors.DamagedFileError, errors.NotZooKeeperFileError) as error:
                    self.skipped.append(SkippedFile(str(file.path), reason_of(error)))
            if read:
                self._take(sorted(read, key=lambda each: (not each[0].is_exact, bool(each[0].unknown))))
        if not self._kept:
            first = self.skipped[0]
            raise errors.DamagedFileError(first.path, 0, "a snapshot that can be read", first.reason)
        snapshots, trees = zip(*self._kept, strict=True)
        return Series(snapshots, self._reader.states, trees)

    def _read(self, file: SnapshotFile) -> tuple[TreeSnapshot, Numbers]:
        reader, path = self._reader, file.path
        read = reader.read_snapshot if file.header is None else reader.read_export
        found = read(path) if file.read is None else file.read(reader)
        if (zxid := found[0].zxid) != file.zxid:  # it was replaced meanwhile
            raise errors.DamagedFileError(str(path), 0, f"still that of {file.zxid:#x}", f"one of {zxid:#x}")
        self._require_cluster(*found)
        return found

    def _take(self, read: Sequence[tuple[TreeSnapshot, Numbers]]) -> None:
        """The snapshots of one zxid, the best one first."""
        best, *others = read
        for one, other in (*((best, each) for each in others), *((each, best) for each in self._kept[-1:])):
            _require(one[0].path, other[0], why_apart(self._reader.states, one, other))
        snapshot, states = best
        if snapshot.is_exact and snapshot.sessions is None:
            sessions = (each.sessions for each, _ in others if each.sessions is not None)
            snapshot = snapshot._replace(sessions=next(sessions, None))
        self.twins += len(others)
        self._kept.append((snapshot, states))

    def _require_cluster(self, snapshot: TreeSnapshot, states: Numbers) -> None:
        """Raises MixedEnsembleError for the id of another cluster than those before."""
        table, path = self._reader.states, ClusterId.path()
        with suppress(errors.CorruptZnodeError):
            for data in table.data(states[table.path[states] == table.code(path)]):
                found = ClusterId.decode(path, data or b"").id
                known, other = self._cluster = self._cluster or (found, snapshot.path)
                why = f"their clusters have the ids {known} and {found}"
                _require(other, snapshot, why if known != found else None)


def _require(one: Path, other: TreeSnapshot, why: str | None) -> None:
    if why is not None:
        advice = "read each with the snapshots of its own"
        raise errors.MixedEnsembleError(str(one), str(other.path), other.zxid, advice, why)


def chroot_of(files: Sequence[SnapshotFile], chroot: str, is_whole: bool) -> str:
    """The chroot of clients' paths. Raises ConfigError for an export that neither has it nor is of all."""
    headers = [each.header for each in files if each.header is not None]
    base = chroot or (headers[0].chroot if headers and not is_whole else "")
    for file in files:
        of_file = "" if file.header is None else file.header.chroot
        if of_file != base and not (chroot and not of_file):
            found = f"one of {of_file}" if of_file else "one of the whole tree"
            expected = f"a snapshot below the chroot {base}" if base else "a snapshot of the whole tree"
            hint = "" if chroot else f": name the chroot with --chroot {base or of_file}"
            raise errors.ConfigError(f"{file.path}: expected {expected}, found {found}{hint}")
    return base
