"""Findings about brokers: those that come and go, and those that do not lead what they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from zkgroup.audit.findings.controller_lookup import ending_text
from zkgroup.audit.findings.partition_views import history_end, state_of, topic_of
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import REPLICATION, Key
from zkgroup.audit.inputs.texts import count_text, duration_text, first_of
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.paths import path_kind

_CHANGES: Final = frozenset(("create", "set", "delete"))
_NAMED_MAX: Final = 5


@dataclass(slots=True)
class _Broker:
    """One broker id, as far as the history has come."""

    name: str
    up: Event | None = None
    leads: set[TopicPartition] = field(default_factory=set)
    """Says whose states name it as leader."""
    led: set[TopicPartition] = field(default_factory=set)
    """The same, ever since it is up."""
    short: _ShortLife | None = None
    """The last life, where it was short; reported with the time that the broker was away."""


class _ShortLife(NamedTuple):
    up: Event
    down: Event
    led: str
    """Holds what it led in it, in words."""


@partial(
    Rule,
    question="Which brokers were registered for a short time only, how long were they away, and what had"
    " they led?",
    act="Look at the broker's own log and its pauses at that time. Sessions that expire again and again mean"
    " that `zookeeper.session.timeout.ms` is shorter than its longest pause, or a network that loses pings.",
    keys=REPLICATION,
    bounds={"short_ms": 300_000},
)
def broker_flapping(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Registrations of brokers that did not last, how long each was away, and what it had led.

    Each registration that ended within `short_ms` is reported, from its end to the next one, with the
    topics that had a partition whose state named the broker as leader while it was registered.
    """
    brokers: dict[str, _Broker] = {}
    leaders: dict[TopicPartition, _Broker] = {}
    for event in rows:
        place = path_kind(event.path)
        if place.kind == "broker":
            broker = brokers.setdefault(place.name, _Broker(place.name))
            if event.op == "create":
                yield from _short_life_finding(broker, event, facts)
                broker.up, broker.led = event, set(broker.leads)
            elif event.op == "delete" and broker.up is not None:
                if max(event.time_ms - broker.up.time_ms, 0) < bounds["short_ms"]:
                    broker.short = _ShortLife(broker.up, event, _led_text(broker.led))
                broker.up = None
        elif place.kind == "partition_state" and event.op in _CHANGES:
            _note_leader(event, TopicPartition(place.topic, place.partition), brokers, leaders)
    for _, broker in sorted(brokers.items()):
        yield from _short_life_finding(broker, None, facts)


def _note_leader(
    event: Event,
    topic_partition: TopicPartition,
    brokers: dict[str, _Broker],
    leaders: dict[TopicPartition, _Broker],
) -> None:
    before = leaders.pop(topic_partition, None)
    if before is not None:
        before.leads.discard(topic_partition)
    state = None if event.op == "delete" else state_of(event.path, event.data)
    if state is not None:
        name = str(state.leader)
        leader = leaders[topic_partition] = brokers.setdefault(name, _Broker(name))
        leader.leads.add(topic_partition)
        if leader.up is not None:
            leader.led.add(topic_partition)


def _short_life_finding(broker: _Broker, back: Event | None, facts: Facts) -> Iterator[Finding]:
    """Of the last life, where it was short; `back` is the next registration."""
    if broker.short is None:
        return
    (up, down, led), broker.short = broker.short, None
    away_ms = (back.time_ms if back else facts.end_ms) - down.time_ms
    away = f"away for {duration_text(away_ms)}" + ("" if back else " and not back")
    detail = (
        f"broker {broker.name} was up for {duration_text(down.time_ms - up.time_ms)} only,"
        f" {ending_text(facts, up.session, down.zxid, down.session)}, {away}; {led}"
    )
    yield Finding.between("broker_flapping", "warning", down, back, detail, session=up.session or None)


def _led_text(led: set[TopicPartition]) -> str:
    if not led:
        return "it led nothing"
    topics = sorted({each.topic for each in led})
    return f"it led {count_text(len(led), 'partition')} of {first_of(topics, _NAMED_MAX)}"


@partial(
    Rule,
    question="Which brokers lead fewer partitions than they are the first replica of, at the end?",
    needs=("snapshot",),
    act="`zkgroup elect preferred` brings leaders back to the first replica, once that is in sync. A broker"
    " that is not registered has to be started first, or its partitions reassigned.",
    keys=REPLICATION,
    bounds={"share": 0.1},
)
def preferred_leader_imbalance(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Brokers whose partitions are led by others: load that is not where the replica lists put it.

    A broker is reported if, at the end of the history, more than `share` of its partitions (those whose
    replica list begins with it) are led by another broker, or by none.
    """
    all_of: Counter[int] = Counter()
    away: Counter[int] = Counter()
    for preferred, leader in _leaders_at_the_end(rows):
        all_of[preferred] += 1
        away[preferred] += leader != preferred
    for broker, count in sorted(all_of.items()):
        share = away[broker] / count
        if share > bounds["share"]:
            lives = facts.brokers.get(str(broker), ())
            is_up = bool(lives) and lives[-1].to_zxid is None
            detail = (
                f"broker {broker} does not lead {away[broker]} of {count} partitions ({share:.0%})"
                f" that it should{'' if is_up else '; it is not registered'}"
            )
            end = history_end(facts)
            yield Finding.between("preferred_leader_imbalance", "warning", end, None, detail)


def _leaders_at_the_end(rows: KeyRows) -> Iterator[tuple[int, int]]:
    """Of every partition with a state: the first broker of its replica list, and its leader."""
    lists: dict[str, Topic | None] = {}
    leaders: dict[tuple[str, int], int] = {}
    deleting: set[str] = set()
    for event in rows:
        if event.op not in _CHANGES:
            continue
        place, gone = path_kind(event.path), event.op == "delete"
        if place.kind == "partition_state":
            state = None if gone else state_of(event.path, event.data)
            if state is None:
                leaders.pop((place.topic, place.partition), None)
            else:
                leaders[place.topic, place.partition] = state.leader
        elif event.path == Topic.path(place.name):
            lists[place.name] = None if gone else topic_of(event.path, event.data)
        elif event.path == TopicDeletion.path(place.name):
            (deleting.discard if gone else deleting.add)(place.name)
    for name, topic in lists.items():
        for partition, replicas in (topic.partitions if topic else {}).items():
            leader = leaders.get((name, partition))
            if replicas and leader is not None and name not in deleting:
                yield replicas[0], leader
