"""A partition without an owner for long, while a member subscribed to it.

From the end of one owner to the claim of the next, or to the end of the history; only the time counts in
which a member that can be read wanted the topic and the partition existed, and only what is longer than
`longest_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_OWNED_PARTITION, Key
from zkgroup.audit.membership import Span, demand, overlaps
from zkgroup.audit.owner_lives import OwnerLife, OwnerLives
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import duration_text

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

NAME = "unowned_interval"


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._longest_ms = bounds["longest_ms"]
        self._lives = OwnerLives(facts)
        self._demand: list[Span] | None = None
        self._last: OwnerLife | None = None
        """The last ownership that is over, until the next one begins."""

    def see(self, event: Event) -> Iterator[Finding]:
        over = self._lives.see(event)
        if over is not None:
            self._last = over
        current = self._lives.current
        if self._last is not None and current is not None:
            yield from self._judge(self._last, current.from_zxid, current.from_ms, current.thread)
            self._last = None

    def end(self) -> Iterator[Finding]:
        if self._last is not None:
            yield from self._judge(self._last, None, None, None)

    def _judge(
        self, last: OwnerLife, to_zxid: int | None, to_ms: int | None, thread: str | None
    ) -> Iterator[Finding]:
        assert last.to_zxid is not None
        assert last.to_ms is not None
        gap = Span(last.to_zxid, last.to_ms, to_zxid, to_ms)
        if gap.ms(self._facts) <= self._longest_ms:
            return
        if self._demand is None:
            self._demand = demand(self._facts, self._group, self._topic, self._partition)
        for piece in overlaps([gap], self._demand):
            ms = piece.ms(self._facts)
            if ms > self._longest_ms:
                after = "no owner until the end" if piece.to_zxid is None else f"then {thread!r}"
                if piece.to_zxid is not None and piece.to_zxid != to_zxid:
                    after = "until no member subscribed to it any more"
                yield Finding(
                    NAME,
                    "warning",
                    self._group,
                    self._topic,
                    self._partition,
                    None,
                    piece.from_zxid,
                    piece.to_zxid,
                    piece.from_ms,
                    piece.to_ms,
                    f"no member owned it for {duration_text(ms)}: {last.thread!r} before, {after}",
                )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions without an owner for long."""
    return Screened(tables.owners.keys_unowned_for(bounds["longest_ms"]))


RULE = Rule(
    name=NAME,
    severity="warning",
    question="For how long had a partition no owner, while a member subscribed to it?",
    needs=("log",),
    act=(
        "Records waited that long. After an expiry the session timeout comes on top, before the rebalance."
        " JVM members retry every `rebalance.backoff.ms` and give up after `rebalance.max.retries`: then only"
        " the next change of the group helps. A registration that they cannot read stops all of them."
    ),
    keys=BY_OWNED_PARTITION,
    find=folded(_Fold),
    bounds={"longest_ms": 1_000},
    screen=_screen,
)
