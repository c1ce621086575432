"""Registrations of brokers that did not last, and how long each was away.

Told of each that ended within `short_ms`, from its end to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keyings import BY_BROKER
from zkgroup.audit.rules import Bounds, Finding, Key, Rule
from zkgroup.audit.ruling import ending_text
from zkgroup.audit.words import duration_text


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._broker = key[0]
        self._facts = facts
        self._short_ms = bounds["short_ms"]
        self._up: Event | None = None
        self._short: tuple[Event, Event] | None = None
        """Beginning and end of the last life, where it was short; told with the time that it was away."""

    def see(self, event: Event) -> Iterator[Finding]:
        if event.op == "create":
            yield from self._tell(event)
            self._up = event
        elif event.op == "delete" and self._up is not None:
            if max(event.time_ms - self._up.time_ms, 0) < self._short_ms:
                self._short = self._up, event
            self._up = None

    def end(self) -> Iterator[Finding]:
        yield from self._tell(None)

    def _tell(self, back: Event | None) -> Iterator[Finding]:
        if self._short is None:
            return
        (up, down), self._short = self._short, None
        away_ms = (back.time_ms if back else self._facts.end_ms) - down.time_ms
        up_ms = down.time_ms - up.time_ms
        away = f"away for {duration_text(away_ms)}" + ("" if back else " and not back")
        yield Finding(
            RULE.name,
            RULE.severity,
            session=up.session or None,
            from_zxid=down.zxid,
            to_zxid=back.zxid if back else None,
            from_ms=down.time_ms,
            to_ms=back.time_ms if back else None,
            detail=f"broker {self._broker} was up for {duration_text(up_ms)} only,"
            f" {ending_text(self._facts, up.session, down.zxid, down.session)}, {away}",
        )


RULE = Rule(
    name="broker_flapping",
    severity="warning",
    question="Which brokers were registered for a short time only, and how long were they away?",
    needs=("log",),
    act="Look at the broker's own log and its pauses at that time. Sessions that expire again and again mean"
    " that `zookeeper.session.timeout.ms` is shorter than its longest pause, or a network that loses pings.",
    keying=BY_BROKER,
    fold=_Fold,
    bounds={"short_ms": 300_000},
)
