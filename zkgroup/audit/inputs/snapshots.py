"""Reads the tree snapshots of one ensemble, in the order of their zxids, into runs of states. Needs numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from zkgroup.audit.inputs.events import SINGLE, Event, Key, Keys
from zkgroup.audit.inputs.found_files import SkippedFile, SnapshotFile, reason_of
from zkgroup.audit.inputs.series import Seen, SeriesFacts, SeriesSnapshot, States, ZnodeState
from zkgroup.errors import (
    ConfigError,
    CorruptZnodeError,
    DamagedFileError,
    MixedEnsembleError,
    NotZooKeeperFileError,
)
from zkgroup.zkfiles.arrow import Numbers
from zkgroup.zkfiles.records import StoredStat
from zkgroup.zkfiles.states import ABSENT, OWNER, Runs, RunsBuilder, StatesReader, TreeSnapshot, contradiction
from zkgroup.zkfiles.states import States as Table
from zkgroup.znodes.cluster import ClusterId
from zkgroup.znodes.paths import path_kind

_CLOCK_MS: Final = 60_000
"""So far clocks may be apart of those who export from one source; sixty times that of others."""
_RUNS_AT_ONCE: Final = 20_000
_ONE_BY_ONE: Final = "read each with the snapshots of its own"


class Series:
    """Snapshots of one ensemble that follow each other, and what each path was in which of them."""

    def __init__(
        self,
        snapshots: Sequence[TreeSnapshot],
        table: Table,
        runs: Runs,
        later: Mapping[int, Numbers],
        *,
        ends: bool = True,
    ) -> None:
        """`later`: by number of a snapshot its states that are of another moment. `ends`: no log goes on
        behind it."""
        self.snapshots, self.table, self.runs, self.later, self._ends = snapshots, table, runs, later, ends

    def within(self, first: int, last: int, *, ends: bool = True) -> Series:
        """Some of its snapshots, both included."""
        return self._of(range(first, last + 1), ends)

    @cached_property
    def in_order(self) -> Series:
        """Of snapshots whose windows overlap the last alone: which of them saw a znode first is not known."""
        is_over = [one.end_zxid <= other.zxid for one, other in pairwise(self.snapshots)]
        numbers = [number for number, each in enumerate((*is_over, True)) if each]
        return self if len(numbers) == len(self.snapshots) else self._of(numbers, self._ends)

    def _of(self, numbers: Sequence[int], ends: bool) -> Series:
        later = {place: self.later[number] for place, number in enumerate(numbers) if number in self.later}
        snapshots = [self.snapshots[number] for number in numbers]
        return Series(snapshots, self.table, self.runs.of(numbers), later, ends=ends)

    @cached_property
    def facts(self) -> SeriesFacts:
        """What rules may know beside the states of their key."""
        by_kind: dict[str, dict[str, list[int]]] = {}
        for code in np.unique(self.runs.path).tolist():
            path = self.table.paths[code]
            place = path_kind(path)
            is_one = place.kind in ("member", "controller", "controller_epoch")
            if is_one or (place.kind in ("broker", "topic") and path.count("/") == 3):
                by_kind.setdefault(place.kind, {}).setdefault(place.name, []).append(code)

        def runs_of(kind: str) -> dict[str, Sequence[Seen]]:
            codes = {name: codes[0] for name, codes in by_kind.get(kind, {}).items()}
            seen = self.seen([*codes.values()])
            return {name: seen[self.table.paths[code]] for name, code in codes.items()}

        return SeriesFacts(
            snapshots=[_as_fact(number, each) for number, each in enumerate(self.snapshots)],
            members={group: self.seen(codes) for group, codes in by_kind.get("member", {}).items()},
            brokers=runs_of("broker"),
            topics=runs_of("topic"),
            controller=runs_of("controller").get("", ()),
            controller_epoch=runs_of("controller_epoch").get("", ()),
            ends=self._ends,
        )

    @cached_property
    def paths(self) -> Sequence[str]:
        """Every path that a snapshot has."""
        return [self.table.paths[code] for code in np.unique(self.runs.path).tolist()]

    @cached_property
    def timeouts(self) -> Mapping[int, int]:
        """In milliseconds, of all sessions that are listed."""
        found: dict[int, int] = {}
        for snapshot in self.snapshots:
            found |= snapshot.sessions or {}
        return found

    def ephemerals(self, number: int) -> Mapping[int, int]:
        """How many ephemerals each session has in a snapshot."""
        states = self.runs.at(number).state
        owners, counts = np.unique(self.table.stats[states[states != ABSENT], OWNER], return_counts=True)
        return dict(zip(owners.tolist(), counts.tolist(), strict=True))

    def keyed(
        self, keys: Keys, is_wanted: Callable[[Key], bool] | None = None
    ) -> Iterator[tuple[Key, States]]:
        """The states of each key, or of those that are wanted, by key."""
        codes: dict[Key, list[int]] = {}
        for code in np.unique(self.runs.path).tolist():
            path = self.table.paths[code]
            if keys.kinds is None or path_kind(path).kind in keys.kinds:
                key = keys.key(Event(0, SINGLE, 0, 0, 0, "create", path, seed=True))
                if key is not None and (is_wanted is None or is_wanted(key)):
                    codes.setdefault(key, []).append(code)
        some: list[Key] = []
        for key in sorted(codes):
            some.append(key)
            if sum(len(codes[each]) for each in some) * len(self.snapshots) >= _RUNS_AT_ONCE:
                yield from self._of_keys(some, codes)
                some = []
        yield from self._of_keys(some, codes)

    def _of_keys(self, keys: Sequence[Key], codes: dict[Key, list[int]]) -> Iterator[tuple[Key, States]]:
        seen = self.seen([code for key in keys for code in codes[key]])
        for key in keys:
            yield key, {path: seen[path] for path in (self.table.paths[code] for code in codes[key])}

    def seen(self, codes: Sequence[int]) -> States:
        """The runs of paths, by their codes."""
        runs = self.runs
        starts, ends = (np.searchsorted(runs.path, codes, side) for side in ("left", "right"))
        rows = np.concatenate(
            [np.arange(0), *(np.arange(*each) for each in zip(starts.tolist(), ends.tolist(), strict=True))]
        )
        states = self.states(np.unique(runs.state[rows][runs.state[rows] != ABSENT]))
        found: dict[str, list[Seen]] = {self.table.paths[code]: [] for code in codes}
        for code, state, first, last in zip(*(each[rows].tolist() for each in runs), strict=True):
            found[self.table.paths[code]].append(Seen(states.get(state), first, last))
        return found

    def states(self, numbers: Numbers) -> dict[int, ZnodeState]:
        """States by their numbers."""
        numbers, table = np.sort(numbers), self.table
        lists = (table.path[numbers].tolist(), table.acl[numbers].tolist(), table.stats[numbers].tolist())
        rows = zip(numbers.tolist(), table.data(numbers), *lists, strict=True)
        return {
            number: ZnodeState(table.paths[path], data, table.acls[acl], StoredStat(*stat))
            for number, data, path, acl, stat in rows
        }

    def tree(self, number: int) -> list[ZnodeState]:
        """All that a snapshot has, also what is of another moment; parents first."""
        found = self.runs.at(number).state
        found = np.append(found[found != ABSENT], self.later.get(number, np.empty(0, np.int32)))
        return sorted(self.states(found).values(), key=lambda state: state.path.split("/"))

    def known(self, number: int) -> set[str]:
        """The paths that a snapshot tells about, also those that it lacks."""
        return {self.table.paths[code] for code in self.runs.at(number).path.tolist()}


class _ReadFile(NamedTuple):
    snapshot: TreeSnapshot
    states: Numbers

    @property
    def rank(self) -> tuple[bool, ...]:
        """By which one of several of one zxid is taken, the best first."""
        return not self.snapshot.is_exact, bool(self.snapshot.unknown)


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
        self._reader = StatesReader(_chroot_of(files, chroot, is_whole))
        self._builder = RunsBuilder(self._reader.states)
        self._kept: list[_ReadFile] = []
        self._cluster: tuple[str, Path] | None = None
        """The id of the cluster, and the snapshot that has it."""
        self._cluster_data: bytes | None = None

    def series(self) -> Series:
        """All of them. Raises MixedEnsembleError, and DamagedFileError where none can be read."""
        count = 0
        for _, files in groupby(self._files, lambda each: each.zxid):
            read = []
            for file in files:
                self._progress("reading snapshots", count, len(self._files))
                count += 1
                try:
                    read.append(self._read(file))
                except (DamagedFileError, NotZooKeeperFileError) as error:
                    self.skipped.append(SkippedFile(str(file.path), reason_of(error)))
            if read:
                self._take(sorted(read, key=lambda each: each.rank))
        if not self._kept:
            first = self.skipped[0]
            raise DamagedFileError(first.path, 0, "a snapshot that can be read", first.reason)
        snapshots = [each.snapshot for each in self._kept]
        return Series(snapshots, self._reader.states, self._builder.runs(), self._builder.later)

    def _read(self, file: SnapshotFile) -> _ReadFile:
        if file.tree is not None and file.header is not None:
            found = _ReadFile(*self._reader.read_tree(file.path, file.header, file.tree))
        else:
            read = self._reader.read_snapshot if file.header is None else self._reader.read_export
            found = _ReadFile(*read(file.path))
        self._require_cluster(file.path)
        return found

    def _take(self, read: list[_ReadFile]) -> None:
        best, *others = read
        table = self._reader.states
        for other in others:
            before = np.full(len(table.paths), ABSENT, np.int32)
            before[table.path[best.states]] = best.states
            unknown = best.snapshot.unknown | other.snapshot.unknown
            codes = [code for path in unknown if (code := table.code(path)) is not None]
            now = other.states[~np.isin(table.path[other.states], codes)]
            before = before[table.path[now]]
            told = (before != ABSENT) | (not unknown)
            _require_one(table, before[told], now[told], best, other)
        sessions = next((each.snapshot.sessions for each in read if each.snapshot.sessions is not None), None)
        if best.snapshot.is_exact and best.snapshot.sessions is None:
            best = best._replace(snapshot=best.snapshot._replace(sessions=sessions))
        self.twins += len(others)
        before, now = self._builder.add(best.states, best.snapshot.unknown)
        if self._kept:
            last = self._kept[-1]
            _require_one(table, before, now, last, best)
            _require_time(last.snapshot, best.snapshot)
        self._kept.append(best._replace(states=best.states[:0]))

    def _require_cluster(self, file: Path) -> None:
        """Raises MixedEnsembleError for the id of another cluster than those before."""
        data = self._reader.states.last_data(ClusterId.path())
        if data is not None and data != self._cluster_data:
            self._cluster_data = data
            with suppress(CorruptZnodeError):
                found = ClusterId.decode(ClusterId.path(), data).id
                known, other = self._cluster = self._cluster or (found, file)
                if known != found:
                    why = f"their clusters have the ids {known} and {found}"
                    raise MixedEnsembleError(str(other), str(file), 0, _ONE_BY_ONE, why)


def _require_one(table: Table, before: Numbers, now: Numbers, one: _ReadFile, other: _ReadFile) -> None:
    """Raises MixedEnsembleError where states of paths that both tell about contradict each other."""
    path = contradiction(table, before, now, one.snapshot, other.snapshot)
    if path is not None:
        why = f"{path} cannot be in both as it is; zxids may have begun anew"
        paths = str(one.snapshot.path), str(other.snapshot.path)
        raise MixedEnsembleError(*paths, other.snapshot.zxid, _ONE_BY_ONE, why)


def _require_time(one: TreeSnapshot, other: TreeSnapshot) -> None:
    """Raises MixedEnsembleError for an export that is earlier than one of a lower zxid."""
    headers = one.header, other.header
    if None in headers or any(each is None or each.time_ms is None or each.detail for each in headers):
        return
    is_one_source = headers[0] and headers[1] and headers[0].source == headers[1].source
    if one.time_ms > other.time_ms + (_CLOCK_MS if is_one_source else 60 * _CLOCK_MS):
        why = f"the later one has the lower zxid, {one.zxid:#x}; zxids began anew"
        raise MixedEnsembleError(str(one.path), str(other.path), other.zxid, _ONE_BY_ONE, why)


def _chroot_of(files: Sequence[SnapshotFile], chroot: str, is_whole: bool) -> str:
    """The chroot of clients' paths. Raises ConfigError for an export that neither has it nor is of all."""
    headers = [each.header for each in files if each.header is not None]
    base = chroot or (headers[0].chroot if headers and not is_whole else "")
    for file in files:
        of_file = "" if file.header is None else file.header.chroot
        if of_file != base and not (chroot and not of_file):
            found = f"one of {of_file}" if of_file else "one of the whole tree"
            expected = f"a snapshot below the chroot {base}" if base else "a snapshot of the whole tree"
            hint = "" if chroot else f": name the chroot with --chroot {base or of_file}"
            raise ConfigError(f"{file.path}: expected {expected}, found {found}{hint}")
    return base


def _as_fact(number: int, read: TreeSnapshot) -> SeriesSnapshot:
    return SeriesSnapshot(
        number,
        str(read.path),
        read.zxid,
        read.end_zxid,
        read.time_ms,
        read.is_exact,
        read.header is None,
        read.unknown,
        None if read.sessions is None else frozenset(read.sessions),
    )
