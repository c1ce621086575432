"""A partition whose ISR lacks some of its replicas, and for how long; and how much of that each broker is.

Reported where it lasts `least_ms` or more, with the time that each broker was missing; and, summed over
all of these, once for each broker. Replicas that a move adds are missing until they follow. A topic that is
being deleted counts no further than to the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_TOPIC, REPLICATION, Key
from zkgroup.audit.partitions import ChangeStamp, Spell, SpellFold, View, brokers_text, spell_finding
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.audit.texts import count_text, duration_text
from zkgroup.model import TopicPartition


@dataclass(slots=True)
class _Away:
    """The time that a broker was missing in one spell of a partition."""

    since: ChangeStamp
    until: ChangeStamp
    ms: int = 0


@dataclass(slots=True)
class _Sum:
    """The same of all that was reported."""

    since: ChangeStamp
    until: ChangeStamp | None
    """None where it lasts in one of them."""
    ms: int = 0
    partitions: set[TopicPartition] = field(default_factory=set)

    def add(self, topic_partition: TopicPartition, away: _Away, *, lasts: bool) -> None:
        self.since = min(self.since, away.since)
        self.until = None if lasts or self.until is None else max(self.until, away.until)
        self.ms += away.ms
        self.partitions.add(topic_partition)


class _Topic(SpellFold):
    """The partitions of one topic; what is reported of them is added to the sums of the brokers."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds, sums: dict[int, _Sum]) -> None:
        super().__init__(key, facts, bounds)
        self._sums = sums
        self._away: dict[int, dict[int, _Away]] = {}
        """By partition: of each broker that was missing in this spell."""
        self._reported: dict[int, ChangeStamp] = {}
        """By partition: up to when that was counted."""

    def fault(self, view: View) -> str | None:
        return "missing" if _missing(view) else None

    def changed(
        self, partition: int, before: View | None, after: View | None, at: ChangeStamp
    ) -> Iterator[Finding]:
        self._count(partition, before, at)
        yield from super().changed(partition, before, after, at)
        self._reported[partition] = at
        if after is None or not _missing(after):
            self._away.pop(partition, None)

    def found(self, partition: int, spell: Spell) -> Iterator[Finding]:
        if spell.to is None:
            self._count(partition, self.views[partition], self.last)
        ms = spell.ms(self.last)
        if ms < self.bounds["least_ms"]:
            return
        away = self._away.get(partition, {})
        self._sum_up(partition, spell, away)
        brokers = ", ".join(f"{broker} for {duration_text(each.ms)}" for broker, each in sorted(away.items()))
        detail = f"replicas {brokers_text(spell.view.replicas or ())}, not in sync: {brokers}"
        yield spell_finding(RULE.name, RULE.severity, self.topic, partition, spell, detail)

    def _count(self, partition: int, view: View | None, until: ChangeStamp) -> None:
        since = self._reported.get(partition)
        if view is None or since is None:
            return
        counted = self._away.setdefault(partition, {})
        for broker in _missing(view):
            away = counted.setdefault(broker, _Away(since, until))
            away.until = until
            away.ms += max(until.ms - since.ms, 0)

    def _sum_up(self, partition: int, spell: Spell, away: dict[int, _Away]) -> None:
        missing = _missing(self.views[partition]) if spell.to is None else ()
        for broker, each in away.items():
            known = self._sums.setdefault(broker, _Sum(each.since, each.until))
            known.add(TopicPartition(self.topic, partition), each, lasts=broker in missing)


class _Fold:
    """All topics; the sums come at the end."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._facts, self._bounds = facts, bounds
        self._topics: dict[Key, _Topic] = {}
        self._sums: dict[int, _Sum] = {}

    def see(self, event: Event) -> Iterator[Finding]:
        key = BY_TOPIC.key(event)
        if key is not None:
            topic = self._topics.get(key)
            if topic is None:
                topic = self._topics[key] = _Topic(key, self._facts, self._bounds, self._sums)
            yield from topic.see(event)

    def end(self) -> Iterator[Finding]:
        for topic in self._topics.values():
            yield from topic.end()
        for broker, each in sorted(self._sums.items()):
            topics = {topic_partition.topic for topic_partition in each.partitions}
            yield Finding(
                RULE.name,
                RULE.severity,
                from_zxid=each.since.zxid,
                to_zxid=each.until.zxid if each.until else None,
                from_ms=each.since.ms,
                to_ms=each.until.ms if each.until else None,
                detail=f"broker {broker} was not in sync in {count_text(len(each.partitions), 'partition')}"
                f" of {count_text(len(topics), 'topic')}, for {duration_text(each.ms)} in all",
            )


def _missing(view: View) -> list[int]:
    if view.state is None or view.replicas is None or view.is_deleting:
        return []
    return [broker for broker in view.replicas if broker not in view.state.isr]


RULE = Rule(
    name="under_replicated",
    severity="warning",
    question="Which partitions had fewer replicas in sync than they should, without whom, and how long; and"
    " how much of it was whose?",
    needs=("log",),
    act="Look at the brokers named: were they down, or too slow to follow? The row of a broker adds up its"
    " time over partitions, so that the one to begin with is the largest. A partition that stays so after a"
    " reassignment waits for a replica that no broker creates; reassign it again.",
    keys=REPLICATION,
    find=folded(_Fold),
    bounds={"least_ms": 10_000},
)
