"""How often a group commits: the main write load on most ensembles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_GROUP, Key
from zkgroup.audit.partition_offsets import PartitionOffsets
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import count_text
from zkgroup.znodes.paths import path_kind

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

_MINUTE_MS = 60_000


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group = key[0]
        self._facts = facts
        self._partitions: dict[tuple[str, int], PartitionOffsets] = {}
        self._first: Event | None = None
        self._last: Event | None = None
        self._commits = 0
        self._repeats = 0
        self._writers: set[int] = set()
        self._minute, self._in_minute = 0, 0
        self._busiest = 0

    def see(self, event: Event) -> Iterable[Finding]:
        place = path_kind(event.path)
        if place.kind in ("owner", "offset"):
            at = (place.topic, place.partition)
            if at not in self._partitions:
                self._partitions[at] = PartitionOffsets(self._group, self._facts)
            write = self._partitions[at].see(event)
            if write is not None and write.is_commit:
                self._count(event, repeats=write.repeats)
        return ()

    def end(self) -> Iterator[Finding]:
        first, last = self._first, self._last
        if first is not None and last is not None:
            ends = (first.zxid, last.zxid, first.time_ms, last.time_ms)
            counts = _Counts(self._commits, self._repeats, len(self._writers), self._busiest)
            yield _finding(self._group, ends, counts)

    def _count(self, event: Event, *, repeats: bool) -> None:
        self._first, self._last = self._first or event, event
        self._commits += 1
        self._repeats += repeats
        self._writers.add(event.session)
        minute = event.time_ms // _MINUTE_MS
        self._in_minute = self._in_minute + 1 if minute == self._minute else 1
        self._minute = minute
        self._busiest = max(self._busiest, self._in_minute)


class _Counts(NamedTuple):
    commits: int
    repeats: int
    writers: int
    busiest: int
    """Commits of the minute that had most."""


def _finding(group: str, ends: tuple[int, int, int, int], counts: _Counts) -> Finding:
    from_zxid, to_zxid, from_ms, to_ms = ends
    seconds = max((to_ms - from_ms) / 1_000, 1.0)
    return Finding(
        RULE.name,
        RULE.severity,
        group=group,
        from_zxid=from_zxid,
        to_zxid=to_zxid,
        from_ms=from_ms,
        to_ms=to_ms,
        detail=f"{count_text(counts.commits, 'commit')} by {count_text(counts.writers, 'session')},"
        f" {counts.commits / seconds:.2f}/s, {100 * counts.repeats / counts.commits:.0f} % of them repeat"
        f" the offset; at most {counts.busiest} in one minute",
    )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Counted in columns, but for groups that have an offset which is no plain number."""
    from zkgroup.audit.columns.commits import commits_by_group

    found = [
        _finding(group, ends, _Counts(*counts))
        for group, ends, counts in commits_by_group(tables, _MINUTE_MS)
    ]
    return Screened(tables.groups.of_keys(tables.odd_groups), found)


RULE = Rule(
    name="commit_rate",
    severity="info",
    question="How many offsets does a group write, and how many of them say nothing new?",
    needs=("log",),
    act="Where a group loads the ensemble, commit less often (`auto.commit.interval.ms`); where it mostly"
    " repeats, its client writes unchanged offsets.",
    keys=BY_GROUP,
    find=folded(_Fold),
    screen=_screen,
)
