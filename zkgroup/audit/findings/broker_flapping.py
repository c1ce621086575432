"""Registrations of brokers that did not last, how long each was away, and what it had led.

Each registration that ended within `short_ms` is reported, from its end to the next one, with the topics that
had a partition whose state named the broker as leader while it was registered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zkgroup.audit.controller_lookup import ending_text
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import REPLICATION, Key
from zkgroup.audit.partitions import state_of
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.audit.texts import count_text, duration_text
from zkgroup.model import TopicPartition
from zkgroup.znodes.paths import path_kind

_NAMED_MAX = 5


@dataclass(slots=True)
class _Broker:
    """One broker id, as far as the history has come."""

    name: str
    up: Event | None = None
    leads: set[TopicPartition] = field(default_factory=set)
    """Whose states name it as leader."""
    led: set[TopicPartition] = field(default_factory=set)
    """The same, ever since it is up."""
    short: tuple[Event, Event, str] | None = None
    """Beginning and end of the last life, where it was short, and what it led in it; reported with the time
    that it was away."""


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._facts = facts
        self._short_ms = bounds["short_ms"]
        self._brokers: dict[str, _Broker] = {}
        self._leaders: dict[TopicPartition, _Broker] = {}

    def see(self, event: Event) -> Iterator[Finding]:
        place = path_kind(event.path)
        if place.kind == "broker":
            yield from self._registered(self._broker(place.name), event)
        elif place.kind == "partition_state" and event.op in ("create", "set", "delete"):
            self._led(event, TopicPartition(place.topic, place.partition))

    def end(self) -> Iterator[Finding]:
        for _, broker in sorted(self._brokers.items()):
            yield from self._report(broker, None)

    def _broker(self, name: str) -> _Broker:
        return self._brokers.setdefault(name, _Broker(name))

    def _led(self, event: Event, topic_partition: TopicPartition) -> None:
        before = self._leaders.pop(topic_partition, None)
        if before is not None:
            before.leads.discard(topic_partition)
        state = None if event.op == "delete" else state_of(event.path, event.data)
        if state is not None:
            leader = self._leaders[topic_partition] = self._broker(str(state.leader))
            leader.leads.add(topic_partition)
            if leader.up is not None:
                leader.led.add(topic_partition)

    def _registered(self, broker: _Broker, event: Event) -> Iterator[Finding]:
        if event.op == "create":
            yield from self._report(broker, event)
            broker.up, broker.led = event, set(broker.leads)
        elif event.op == "delete" and broker.up is not None:
            if max(event.time_ms - broker.up.time_ms, 0) < self._short_ms:
                broker.short = broker.up, event, _led_text(broker.led)
            broker.up = None

    def _report(self, broker: _Broker, back: Event | None) -> Iterator[Finding]:
        if broker.short is None:
            return
        (up, down, led), broker.short = broker.short, None
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
            detail=f"broker {broker.name} was up for {duration_text(up_ms)} only,"
            f" {ending_text(self._facts, up.session, down.zxid, down.session)}, {away}; {led}",
        )


def _led_text(led: set[TopicPartition]) -> str:
    if not led:
        return "it led nothing"
    topics = sorted({each.topic for each in led})
    more = f" and {len(topics) - _NAMED_MAX} more" if len(topics) > _NAMED_MAX else ""
    return f"it led {count_text(len(led), 'partition')} of {', '.join(topics[:_NAMED_MAX])}{more}"


RULE = Rule(
    name="broker_flapping",
    severity="warning",
    question="Which brokers were registered for a short time only, how long were they away, and what had"
    " they led?",
    needs=("log",),
    act="Look at the broker's own log and its pauses at that time. Sessions that expire again and again mean"
    " that `zookeeper.session.timeout.ms` is shorter than its longest pause, or a network that loses pings.",
    keys=REPLICATION,
    find=folded(_Fold),
    bounds={"short_ms": 300_000},
)
