"""Members that come and go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts, Life
from zkgroup.audit.keys import BY_GROUP, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.sliding_window import Burst, SlidingWindow
from zkgroup.audit.texts import duration_text
from zkgroup.znodes.paths import path_kind

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables


class _Fold:
    """The lives of members are facts; the rows have nothing to add."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group = key[0]
        self._facts = facts
        self._lives, self._window_ms = int(bounds["lives"]), bounds["window_ms"]

    def see(self, event: Event) -> Iterable[Finding]:
        return ()

    def end(self) -> Iterator[Finding]:
        by_member: dict[str, list[Life]] = {}
        for life in self._facts.members.get(self._group, ()):
            by_member.setdefault(path_kind(life.path).member, []).append(life)
        for member, lives in by_member.items():
            if len(lives) > self._lives:
                yield from self._flaps(member, lives)

    def _flaps(self, member: str, lives: Sequence[Life]) -> Iterator[Finding]:
        window = SlidingWindow(self._lives + 1, self._window_ms)
        for life in lives:
            yield from self._found(member, lives, window.add_moment(life.from_zxid, life.from_ms))
        yield from self._found(member, lives, window.end())

    def _found(self, member: str, lives: Sequence[Life], burst: Burst | None) -> Iterator[Finding]:
        if burst is None:
            return
        within = [life for life in lives if burst.first.zxid <= life.from_zxid <= burst.last.zxid]
        lasted = [
            (self._facts.end_ms if life.to_ms is None else life.to_ms) - life.from_ms for life in within
        ]
        yield Finding(
            RULE.name,
            RULE.severity,
            group=self._group,
            session=within[-1].session,
            from_zxid=burst.first.zxid,
            to_zxid=burst.last.zxid,
            from_ms=burst.first.time_ms,
            to_ms=burst.last.time_ms,
            detail=f"member {member} registered {burst.times} times within"
            f" {duration_text(burst.last.time_ms - burst.first.time_ms)}, for"
            f" {duration_text(int(median(lasted)))} each (median)",
        )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """One row of each group: the lives of members are facts."""
    from zkgroup.audit.columns.groups import first_rows

    groups = tables.groups
    return Screened(groups.where(first_rows(groups)))


RULE = Rule(
    name="member_flapping",
    severity="warning",
    question="Which members registered again and again?",
    needs=("log",),
    act="Each registration makes the whole group rebalance. See session_end: sessions that expire need a"
    " longer timeout or a process that pauses less; sessions that close are a process that is restarted.",
    keys=BY_GROUP,
    find=folded(_Fold),
    bounds={"lives": 3, "window_ms": 3_600_000},
    screen=_screen,
)
