"""The states of znodes over a series of snapshots: lives, changes, what lasts, and what they prove together.

An exact snapshot shows all of one moment. In a fuzzy one each znode is as it was at some moment of its
window, so two of its states may never have stood together. Windows do not overlap here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

from zkgroup.audit.findings.rules import AnyRule, Finding, Occurrence, Severity, runs
from zkgroup.audit.inputs.series import Seen, SeriesFacts, States, ZnodeState
from zkgroup.model.text import duration_text
from zkgroup.zkfiles.records import lifetime_of
from zkgroup.znodes.paths import Kind, PathKind, path_kind

_Item = TypeVar("_Item")
Between = tuple[int, int]
"""Two snapshots, by their numbers."""
NOWHERE = (None, None, None)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a rule of states found: between two snapshots, or, where it lasts, from one to another."""

    between: Between
    detail: str
    place: tuple[str | None, str | None, int | None] = NOWHERE
    session: int | None = None
    at_zxid: int | None = None
    severity: Severity | None = None
    """None for that of the rule."""
    lasts: bool = False

    def finding(self, rule: AnyRule, facts: SeriesFacts) -> Finding:
        """As a finding; without an end where it lasts in the last snapshot."""
        since, until = (facts.snapshots[number] for number in self.between)
        is_open = self.lasts and facts.ends and until is facts.snapshots[-1]
        to = None if is_open else Occurrence(until.end_zxid, until.time_ms)
        severity = self.severity or rule.severity
        found = Finding.between(rule.name, severity, since, to, self.detail, self.place, self.session or None)
        from_ms, to_ms = found.from_ms or None, found.to_ms or None  # an empty tree has none
        return replace(found, from_ms=from_ms, to_ms=to_ms, basis="snapshots", at_zxid=self.at_zxid)


class ZnodeLife(NamedTuple):
    """One existence of a znode, as far as snapshots show it."""

    states: Sequence[Seen]
    """Its states, in order; none of them is None."""

    @property
    def begin(self) -> ZnodeState:
        """Its first state that is known."""
        return state_in(self.states[0])

    @property
    def end(self) -> ZnodeState:
        """Its last state that is known."""
        return state_in(self.states[-1])

    @property
    def czxid(self) -> int:
        return self.begin.stat.czxid

    @property
    def between(self) -> Between:
        """The first and the last snapshot that show it."""
        return self.states[0].first, self.states[-1].last


class Turn(NamedTuple):
    """A path that came, went, or was made anew between two snapshots."""

    between: Between
    old: ZnodeState | None
    """None where it was not there."""
    new: ZnodeState | None


class Rewrite(NamedTuple):
    """A znode that is otherwise than in a snapshot before, and was not deleted meanwhile."""

    between: Between
    old: ZnodeState
    new: ZnodeState

    @property
    def writes(self) -> int:
        """The number of writes of data, which its version counts."""
        return self.new.stat.version - self.old.stat.version

    @property
    def at_zxid(self) -> int | None:
        """The zxid of the write, where it was the only one."""
        return self.new.stat.mzxid if self.writes == 1 else None


class Stretch(NamedTuple):
    """Consecutive snapshots in which each of several znodes was the same."""

    first: int
    last: int
    seen: tuple[Seen, ...]


def state_in(seen: Seen) -> ZnodeState:
    """The state of a znode that was there."""
    assert seen.state is not None
    return seen.state


def session_in(state: ZnodeState | None) -> int | None:
    """The session that holds a znode; None for one that is no session's."""
    owner = 0 if state is None else state.stat.ephemeral_owner
    return owner if owner and lifetime_of(owner) == "session" else None


def of_kind(states: States, kind: Kind) -> Iterator[tuple[PathKind, Sequence[Seen]]]:
    """The paths of one kind, with their runs."""
    for path, of_path in states.items():
        if (place := path_kind(path)).kind == kind:
            yield place, of_path


def lives(of_path: Sequence[Seen]) -> list[ZnodeLife]:
    """The existences of a znode, in order."""
    found, czxid = list[ZnodeLife](), 0
    states: list[Seen] = []
    for seen in of_path:
        if seen.state is not None:
            if not found or seen.state.stat.czxid != czxid:
                czxid, states = seen.state.stat.czxid, []
                found.append(ZnodeLife(states))
            states.append(seen)
    return found


def remade(of_path: Sequence[Seen]) -> Iterator[Turn]:
    """Where a path has another znode than the last one that was seen before."""
    for before, after in pairwise(lives(of_path)) if len(of_path) > 1 else ():
        yield Turn((before.between[1], after.between[0]), before.end, after.begin)


def turns(of_path: Sequence[Seen]) -> Iterator[Turn]:
    """Where a path came, went or was made anew, in order."""
    for before, after in pairwise(of_path):
        old, new = before.state, after.state
        is_same = old is not None and new is not None and old.stat.czxid == new.stat.czxid
        if not is_same and (old is not None or new is not None):
            yield Turn((before.last, after.first), old, new)


def rewrites(of_path: Sequence[Seen]) -> Iterator[Rewrite]:
    """What became otherwise of a znode that was not deleted meanwhile, in order."""
    for life in lives(of_path) if len(of_path) > 1 else ():
        for before, after in pairwise(life.states):
            yield Rewrite((before.last, after.first), state_in(before), state_in(after))


def runs_of(states: States, path: str, facts: SeriesFacts) -> Sequence[Seen]:
    """The runs of a path; of one that no snapshot has, those in which it is known not to be there."""
    known = states.get(path)
    if known is not None:
        return known
    if not any(snapshot.unknown for snapshot in facts.snapshots):
        return [Seen(None, 0, len(facts.snapshots) - 1)]
    return as_runs(each.number for each in facts.snapshots if facts.is_known(path, each.number))


def as_runs(numbers: Iterable[int]) -> list[Seen]:
    """Snapshots, by their numbers in order, as runs without a state."""
    return [Seen(None, run[0], run[-1]) for run in runs(numbers, lambda one, other: one + 1 == other)]


def stretches(*of_paths: Sequence[Seen]) -> Iterable[Stretch]:
    """The snapshots in which all of these are known, cut where one of them becomes otherwise."""
    found = [Stretch(seen.first, seen.last, (seen,)) for seen in of_paths[0]]
    for of_path in of_paths[1:]:
        found = list(_cut(found, of_path))
    return found


def _cut(some: Sequence[Stretch], of_path: Sequence[Seen]) -> Iterator[Stretch]:
    place = 0
    for stretch in some:
        while place < len(of_path) and of_path[place].last < stretch.first:
            place += 1
        at = place
        while at < len(of_path) and of_path[at].first <= stretch.last:
            seen = of_path[at]
            ends = max(stretch.first, seen.first), min(stretch.last, seen.last)
            yield Stretch(*ends, (*stretch.seen, seen))
            at += 1


def is_proved(stretch: Stretch, facts: SeriesFacts) -> bool:
    """True if some snapshot, by itself or with a later one, proves that these states stood at one moment.

    A fuzzy one does where no order of the moments at which it took them explains them otherwise, and where
    all that is there was there before its window and is there behind it.
    """
    there = [seen for seen in stretch.seen if seen.state is not None]
    newest = max((state_in(seen).stat.mzxid for seen in there), default=0)
    for snapshot in facts.snapshots[stretch.first : stretch.last + 1]:
        if snapshot.is_exact or len(stretch.seen) < 2:
            return True
        is_older = newest <= snapshot.zxid
        if is_older and (snapshot.number < stretch.last or len(there) == len(stretch.seen)):
            return True
        stayed = [seen for seen in there if facts.snapshots[seen.last].zxid >= snapshot.end_zxid]
        written = [seen for seen in stayed if state_in(seen).stat.mzxid <= snapshot.zxid]
        if sum(seen.last > snapshot.number for seen in written) >= len(stretch.seen) - 1:
            return True
    return False


def lasting(
    some: Iterable[Stretch], what: Callable[[Stretch], _Item | None], facts: SeriesFacts, least: float = 1
) -> Iterator[tuple[Between, list[_Item]]]:
    """What was so in `least` snapshots, one after the other: the first and the last, and each that it was.

    `what` gives None for a stretch in which it was not so. What a single snapshot does not prove is left out.
    """
    found = [(stretch, item) for stretch in some if (item := what(stretch)) is not None]
    for run in runs(found, lambda one, other: one[0].last + 1 == other[0].first):
        first, last = run[0][0].first, run[-1][0].last
        if last - first + 1 >= least and any(is_proved(one, facts) for one, _ in run):
            yield (first, last), [item for _, item in run]


def times_text(between: Between, facts: SeriesFacts) -> str:
    """`, in 3 snapshots over 2.0 h`; empty for a single one."""
    first, last = between
    over = f" over {duration_text(ms)}" if (ms := span_ms(between, facts)) else ""
    return f", in {last - first + 1} snapshots{over}" if last > first else ""


def span_ms(between: Between, facts: SeriesFacts) -> int:
    """The time from one snapshot to another, at least 0; 0 where one has no time, as an empty tree."""
    since_ms, until_ms = (facts.snapshots[number].time_ms for number in between)
    return max(until_ms - since_ms, 0) if since_ms and until_ms else 0


def by_pair(items: Iterable[tuple[Between, _Item]]) -> list[tuple[Between, list[_Item]]]:
    """Things by the two snapshots between which they came, in order."""
    found: dict[Between, list[_Item]] = {}
    for between, item in items:
        found.setdefault(between, []).append(item)
    return sorted(found.items(), key=lambda each: each[0])
