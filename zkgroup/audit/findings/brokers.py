"""Findings about brokers: those that come and go, and those that do not lead what they should."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from zkgroup.audit.findings.cluster import (
    CHANGES,
    all_stretches,
    begin_of,
    end_of,
    ending_text,
    history_end,
    lasted_ms,
    state_of,
)
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import REPLICATION, Key
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, duration_text, named
from zkgroup.znodes.paths import path_kind

_NAMED_MAX: Final = 5


@Rule(
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
    led = _led(rows)
    for broker, lives in sorted(facts.brokers.items()):
        for life, following in zip_longest(lives, lives[1:]):
            down, back = end_of(life), begin_of(following) if following else None
            if down is None or life.ended_by is None:
                continue
            up_ms = lasted_ms(begin_of(life), down, facts)
            if up_ms < bounds["short_ms"]:
                away = f"away for {duration_text(lasted_ms(down, back, facts))}"
                detail = (
                    f"broker {broker} was up for {duration_text(up_ms)} only, {ending_text(facts, life)},"
                    f" {away}{'' if back else ' and not back'}; {_led_text(led[broker, down.zxid])}"
                )
                session = life.session or None
                yield Finding.between("broker_flapping", "warning", down, back, detail, session=session)


def _led(rows: KeyRows) -> dict[tuple[str, int], set[TopicPartition]]:
    """By broker and the zxid at which its registration ended: the partitions that it led while it lasted."""
    leaders: dict[TopicPartition, str] = {}
    leads: dict[str, set[TopicPartition]] = defaultdict(set)
    led: dict[str, set[TopicPartition]] = defaultdict(set)
    found: dict[tuple[str, int], set[TopicPartition]] = {}
    for event in rows:
        place = path_kind(event.path)
        if place.kind == "broker":
            if event.op == "create":
                led[place.name] = set(leads[place.name])
            elif event.op == "delete":
                found[place.name, event.zxid] = led.pop(place.name, set())
        elif place.kind == "partition_state" and event.op in CHANGES:
            partition = TopicPartition(place.name, place.partition)
            leads[leaders.pop(partition, "")].discard(partition)
            state = None if event.op == "delete" else state_of(event.path, event.data)
            if state is not None:
                leader = leaders[partition] = str(state.leader)
                leads[leader].add(partition)
                led[leader].add(partition)
    return found


def _led_text(led: set[TopicPartition]) -> str:
    if not led:
        return "it led nothing"
    topics = sorted({each.topic for each in led})
    return f"it led {counted(len(led), 'partition')} of {named(topics, _NAMED_MAX)}"


@Rule(
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
    for _, stretches in rows.once(all_stretches, key, facts):
        last = stretches[-1].view
        if last.state is not None and last.replicas and not last.is_deleting:
            all_of[last.replicas[0]] += 1
            away[last.replicas[0]] += last.state.leader != last.replicas[0]
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
