"""What a series of snapshots shows of its paths: what changed, and what lasted.

An exact snapshot shows all of one moment. In a fuzzy one each znode is as it was at some moment of its
window, so two of its states may never have stood together. Windows do not overlap here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress, groupby, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zkgroup.audit.findings.rules import AnyRule, Bounds, Finding, Severity, StateRule, place_of, runs
from zkgroup.audit.inputs.events import Seen, States
from zkgroup.model.text import duration_text
from zkgroup.zkfiles.records import StoredZnode, is_below, lifetime_of
from zkgroup.znodes.group_records import AuditRecord
from zkgroup.znodes.paths import Kind, path_kind

if TYPE_CHECKING:
    from zkgroup.audit.inputs.snapshots import Series

_Item = TypeVar("_Item")
Between = tuple[int, int]
"""Two snapshots, by their numbers."""


class Shown(NamedTuple):
    """What a rule of states found: between two snapshots, or, where it lasts, from one to another."""

    between: Between
    detail: str
    path: str = ""
    """A path of the group, topic and partition that it is about."""
    session: int | None = None
    at_zxid: int | None = None
    severity: Severity | None = None
    """None for that of the rule."""
    lasts: bool = False

    def finding(self, rule: AnyRule, series: Series) -> Finding:
        """As a finding; without an end where it lasts in the last snapshot."""
        since, until = (series.snapshots[number] for number in self.between)
        is_open = self.lasts and series.ends and until is series.snapshots[-1]
        zxid, time_ms = (None, None) if is_open else (until.end_zxid, until.time_ms)
        ends = since.zxid, zxid, since.time_ms or None, time_ms or None  # an empty tree has no time
        severity, session, place = self.severity or rule.severity, self.session or None, place_of(self.path)
        return Finding(rule.name, severity, *place, session, *ends, self.detail, "snapshots", self.at_zxid)


class StateChange(NamedTuple):
    """A path that is otherwise than in a snapshot before; None where it was not there."""

    between: Between
    old: StoredZnode | None
    new: StoredZnode | None

    @property
    def path(self) -> str:
        return state_in(self.new or self.old).path

    @property
    def is_same(self) -> bool:
        """True if the znode was not deleted meanwhile."""
        return bool(self.old and self.new and self.old.stat.czxid == self.new.stat.czxid)

    def turned(self, made: str, gone: str, again: str) -> str:
        """The word for what became of a znode that is not the same."""
        return gone if self.new is None else again if self.old else made

    def grown(self, number: str = "version") -> int:
        """The growth of a number in the Stat of a znode; that of the version counts its writes."""
        old, new = (getattr(state_in(each).stat, number) for each in (self.old, self.new))
        return int(new - old)

    def shown(self, detail: str, severity: Severity | None = None) -> Shown:
        """As found, with its session and transaction: the create, or the write where it was the only one."""
        at_zxid = None
        if self.new and not self.is_same:
            at_zxid = self.new.stat.czxid
        elif self.new and self.grown() == 1:
            at_zxid = self.new.stat.mzxid
        return Shown(self.between, detail, self.path, session_in(self.new or self.old), at_zxid, severity)


class Stretch(NamedTuple):
    """Consecutive snapshots in which each of several znodes was the same."""

    first: int
    last: int
    seen: tuple[Seen, ...]

    @property
    def states(self) -> Sequence[StoredZnode | None]:
        return [seen.state for seen in self.seen]


class SeriesView:
    """What rules see of a series."""

    def __init__(self, series: Series, least: float) -> None:
        """`least`: in so many snapshots an offset that is owned stands still."""
        self.series, self._least = series, least
        self._of_kind: dict[Kind, States] = {}

    @cached_property
    def _codes(self) -> dict[Kind, list[int]]:
        """Of the paths that rules ask for, by kind; `other` are the operators' records."""
        found: dict[Kind, list[int]] = defaultdict(list)
        for path in self.series.paths:
            kind, name = path_kind(path).kind, path.rpartition("/")[2]
            is_below = kind in ("topic", "broker") and path.count("/") > 3
            if not is_below and (kind != "other" or path == AuditRecord.path(name)):
                found[kind].append(self.series.table.code(path) or 0)
        return found

    def of_kind(self, kind: Kind) -> States:
        """The paths of a kind, with their runs."""
        if kind not in self._of_kind:
            among = None
            if kind == "offset":
                from zkgroup.audit.findings.series_columns import without_quiet_offsets

                among = without_quiet_offsets(self.series, self._least)
            self._of_kind[kind] = self.series.seen(self._codes[kind], among)
        return self._of_kind[kind]

    def runs(self, path: str) -> Sequence[Seen]:
        """The runs of a path; of one that no snapshot has, those in which it is known not to be there."""
        if (known := self.of_kind(path_kind(path).kind).get(path)) is not None:
            return known
        snapshots = self.series.snapshots
        if not any(each.unknown for each in snapshots):
            return [Seen(None, 0, len(snapshots) - 1)]
        is_known = (not each.unknown or not is_below(path, each.unknown) for each in snapshots)
        return as_runs(compress(range(len(snapshots)), is_known))

    def changes(
        self, kind: Kind, among: Callable[[StoredZnode | None], object] = lambda _: True
    ) -> Iterator[StateChange]:
        """The changes of the paths of a kind, or of their states that are among some."""
        for of_path in self.of_kind(kind).values():
            yield from changes([seen for seen in of_path if among(seen.state)])

    def lasting(
        self, some: Iterable[Stretch], what: Callable[..., _Item | None], least: float = 1
    ) -> Iterator[tuple[Between, str, list[_Item]]]:
        """What was so in `least` snapshots, one after the other: the first and the last, how long, and what.

        `what` gets the states of a stretch, and gives None for one in which it was not so. What a single
        snapshot does not prove is left out.
        """
        found = [(stretch, item) for stretch in some if (item := what(*stretch.states)) is not None]
        for run in runs(found, lambda one, other: one[0].last + 1 == other[0].first):
            first, last = run[0][0].first, run[-1][0].last
            if last - first + 1 >= least and any(is_proved(one, self.series) for one, _ in run):
                yield (first, last), self.times((first, last)), [item for _, item in run]

    def times(self, between: Between) -> str:
        """`, in 3 snapshots over 2.0 h`; empty for a single one."""
        first, last = between
        over = f" over {duration_text(ms)}" if (ms := self.span_ms(between)) else ""
        return f", in {last - first + 1} snapshots{over}" if last > first else ""

    def span_ms(self, between: Between) -> int:
        """The time from one snapshot to another, at least 0; 0 where one has no time, as an empty tree."""
        since_ms, until_ms = (self.series.snapshots[number].time_ms for number in between)
        return max(until_ms - since_ms, 0) if since_ms and until_ms else 0


def find_states(
    rules: Iterable[StateRule], series: Series, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """What rules find in snapshots of which the order is known."""
    view = SeriesView(series.in_order, bounds.get("stalled_offset", {"snapshots": 1})["snapshots"])
    for rule in rules:
        for shown in rule.find(view, bounds[rule.name]):
            yield shown.finding(rule, view.series)


def state_in(state: StoredZnode | None) -> StoredZnode:
    """The state of a znode that is there."""
    assert state is not None
    return state


def session_in(state: StoredZnode | None) -> int | None:
    """The session that holds a znode; None for one that is no session's."""
    owner = 0 if state is None else state.stat.ephemeral_owner
    return owner if owner and lifetime_of(owner) == "session" else None


def changes(of_path: Sequence[Seen]) -> Iterator[StateChange]:
    """What came, went, was made anew or was written, in order."""
    for before, after in pairwise(of_path):
        if before.state or after.state:
            yield StateChange((before.last, after.first), before.state, after.state)


def lives(of_path: Sequence[Seen]) -> Iterator[tuple[list[Seen], StoredZnode]]:
    """The existences of a znode, in order: the runs and the last state of each."""
    there = [(seen, seen.state) for seen in of_path if seen.state is not None]
    for _, life in groupby(there, lambda each: each[1].stat.czxid):
        seen, states = zip(*life, strict=True)
        yield [*seen], states[-1]


def as_runs(numbers: Iterable[int]) -> list[Seen]:
    """Snapshots, by their numbers in order, as runs without a state."""
    return [Seen(None, run[0], run[-1]) for run in runs(numbers, lambda one, other: one + 1 == other)]


def stretches(*of_paths: Sequence[Seen]) -> list[Stretch]:
    """The snapshots in which all of these are known, cut where one of them becomes otherwise."""
    found = [Stretch(seen.first, seen.last, (seen,)) for seen in of_paths[0]]
    for of_path in of_paths[1:]:
        found, uncut, place = [], found, 0
        for first, last, seen in uncut:
            while place < len(of_path) and of_path[place].last < first:
                place += 1
            for other in islice(of_path, place, None):
                if other.first > last:
                    break
                found.append(Stretch(max(first, other.first), min(last, other.last), (*seen, other)))
    return found


def is_proved(stretch: Stretch, series: Series) -> bool:
    """True if some snapshot, by itself or with a later one, proves that these states stood at one moment.

    A fuzzy one does where no order of the moments at which it took them explains them otherwise, and where
    all that is there was there before its window and is there behind it.
    """
    there = [(seen.last, state_in(seen.state).stat.mzxid) for seen in stretch.seen if seen.state is not None]
    for snapshot in series.snapshots[stretch.first : stretch.last + 1]:
        if snapshot.is_exact or len(stretch.seen) < 2:
            return True
        older = [last for last, mzxid in there if mzxid <= snapshot.zxid]
        is_whole = snapshot.number < stretch.last or len(there) == len(stretch.seen)
        stayed = sum(last > snapshot.number for last in older)
        if (is_whole and len(older) == len(there)) or stayed >= len(stretch.seen) - 1:
            return True
    return False
