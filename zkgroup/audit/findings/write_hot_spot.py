"""Where the writes go, minute by minute.

Refused requests, which show no path, are a place of their own, reported with their share of all transactions
from the first to the last of them in that minute: within an epoch zxids have no gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import Key, Keys
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import count_text, who
from zkgroup.zkfiles.zxids import epoch_of
from zkgroup.znodes.consumers import consumers_path
from zkgroup.znodes.paths import path_kind

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

_MINUTE_MS = 60_000
_REFUSED = "refused requests"


def _area(event: Event) -> Key | None:
    """What a write is a write to: of a group its ids, owners or offsets, else the first two names."""
    if event.seed or event.op == "check":
        return None
    if not event.applied:
        return (_REFUSED,) if event.op == "error" else None
    if not event.path:
        return None
    names = event.path.split("/")
    depth = 4 if names[1] == "consumers" else 3
    return ("/".join(names[:depth]),)


BY_AREA = Keys("area", _area)
"""What was written, and what was refused; key: the subtree, or that it was refused."""


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._area = key[0]
        self._facts = facts
        self._enough = bounds["per_minute"]
        self._minute = _Minute(0)
        self._busiest = _Minute(0)
        self._hot_minutes = 0
        self._multi = (0, 0)
        """Zxid of the row before, and how many of its transaction were here."""
        self._biggest_multi = 0

    def see(self, event: Event) -> Iterable[Finding]:
        zxid, operations = self._multi
        is_same = zxid == event.zxid
        self._multi = (event.zxid, operations + 1 if is_same else 1)
        self._biggest_multi = max(self._biggest_multi, self._multi[1])
        if self._area == _REFUSED and is_same:
            return ()  # one failed multi, however many rows it has
        if event.time_ms // _MINUTE_MS != self._minute.number:
            self._over()
            self._minute = _Minute(event.time_ms // _MINUTE_MS)
        self._minute.add(event)
        return ()

    def end(self) -> Iterator[Finding]:
        self._over()
        busiest = self._busiest
        if busiest.first is None or busiest.last is None:
            return
        session, most = min(busiest.sessions.items(), key=lambda item: (-item[1], item[0]))
        ends = (busiest.first.zxid, busiest.last.zxid, busiest.first.time_ms, busiest.last.time_ms)
        counts = _Counts(busiest.count, busiest.size, session, most, self._hot_minutes, self._biggest_multi)
        yield _finding(self._area, self._facts, ends, counts)

    def _over(self) -> None:
        if self._minute.count >= self._enough:
            self._hot_minutes += 1
            if self._minute.count > self._busiest.count:
                self._busiest = self._minute


class _Minute:
    """What happened in one minute of the leader's clock."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        self.size = 0
        self.sessions: Counter[int] = Counter()
        self.first: Event | None = None
        self.last: Event | None = None

    def add(self, event: Event) -> None:
        self.count += 1
        self.size += len(event.data or b"")
        self.sessions[event.session] += 1
        self.first, self.last = self.first or event, event


class _Counts(NamedTuple):
    """Of the busiest minute."""

    operations: int
    size: int
    session: int
    """Who wrote most."""
    most: int
    minutes: int
    """How many minutes had enough."""
    biggest: int
    """Rows of the transaction that had most of them here, at any time."""


def _finding(area: str, facts: Facts, ends: tuple[int, int, int, int], counts: _Counts) -> Finding:
    from_zxid, to_zxid, from_ms, to_ms = ends
    more = f"; biggest transaction {counts.biggest}"
    if area == _REFUSED:
        more = _share(counts.operations, from_zxid, to_zxid)
    return Finding(
        RULE.name,
        RULE.severity,
        group=path_kind(area).name if area.startswith(f"{consumers_path()}/") else None,
        session=counts.session or None,
        from_zxid=from_zxid,
        to_zxid=to_zxid,
        from_ms=from_ms,
        to_ms=to_ms,
        detail=f"{area}: {count_text(counts.operations, 'operation')},"
        f" {count_text(counts.size, 'byte')} in the busiest minute, {counts.most} of them by"
        f" {who(facts, counts.session)}; {count_text(counts.minutes, 'minute')} like it{more}",
    )


def _share(refused: int, from_zxid: int, to_zxid: int) -> str:
    """How many of the transactions of that time were refused; nothing where an election lay in it."""
    if epoch_of(from_zxid) != epoch_of(to_zxid):
        return ""
    return f"; {refused / (to_zxid - from_zxid + 1):.0%} of all transactions in that time"


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Counted in columns."""
    from zkgroup.audit.columns.minutes import busiest_minutes

    selection = tables.of(BY_AREA)
    if bounds["per_minute"] <= 0:
        return Screened(selection)
    counted = busiest_minutes(tables, selection, bounds["per_minute"], _MINUTE_MS, (_REFUSED,))
    found = [_finding(area, tables.facts, ends, _Counts(*counts)) for (area,), ends, counts in counted]
    return Screened(selection.of_keys(selection.keys_with(selection.rows < 0)), found)


RULE = Rule(
    name="write_hot_spot",
    severity="info",
    question="Which subtrees are written most, by whom, and how many requests are refused?",
    needs=("log",),
    act="Every write goes to every server and to its disk. Offsets: commit less often (commit_rate). Owners"
    " and ids: see rebalance_storm. States: see isr_flapping. Refused requests: a client that repeats them.",
    keys=BY_AREA,
    find=folded(_Fold),
    bounds={"per_minute": 600},
    screen=_screen,
)
