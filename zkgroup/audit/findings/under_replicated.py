"""A partition whose ISR lacks some of its replicas, and for how long.

Told where it lasts `least_ms` or more, with the time that each broker was missing. Replicas that a move
adds are missing until they follow. A topic that is being deleted counts no further than to the request.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.facts import Facts
from zkgroup.audit.keyings import BY_TOPIC
from zkgroup.audit.partitions import Moment, Spell, SpellFold, View, brokers_text, spell_finding
from zkgroup.audit.rules import Bounds, Finding, Key, Rule
from zkgroup.audit.words import duration_text


class _Fold(SpellFold):
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        super().__init__(key, facts, bounds)
        self._away: dict[int, dict[int, int]] = {}
        """By partition: how long each broker was missing in this spell, in milliseconds."""
        self._told: dict[int, Moment] = {}
        """By partition: up to when that was counted."""

    def fault(self, view: View) -> str | None:
        return "missing" if _missing(view) else None

    def changed(
        self, partition: int, before: View | None, after: View | None, at: Moment
    ) -> Iterator[Finding]:
        self._count(partition, before, at)
        yield from super().changed(partition, before, after, at)
        self._told[partition] = at
        if after is None or not _missing(after):
            self._away.pop(partition, None)

    def found(self, partition: int, spell: Spell) -> Iterator[Finding]:
        if spell.to is None:
            self._count(partition, self.views[partition], self.last)
        ms = spell.ms(self.last)
        if ms < self.bounds["least_ms"]:
            return
        away = sorted(self._away.get(partition, {}).items())
        brokers = ", ".join(f"{broker} for {duration_text(lasted)}" for broker, lasted in away)
        detail = f"replicas {brokers_text(spell.view.replicas or ())}, not in sync: {brokers}"
        yield spell_finding(RULE.name, RULE.severity, self.topic, partition, spell, detail)

    def _count(self, partition: int, view: View | None, until: Moment) -> None:
        since = self._told.get(partition)
        if view is None or since is None:
            return
        counted = self._away.setdefault(partition, {})
        for broker in _missing(view):
            counted[broker] = counted.get(broker, 0) + max(until.ms - since.ms, 0)


def _missing(view: View) -> list[int]:
    if view.state is None or view.replicas is None or view.is_deleting:
        return []
    return [broker for broker in view.replicas if broker not in view.state.isr]


RULE = Rule(
    name="under_replicated",
    severity="warning",
    question="Which partitions had fewer replicas in sync than they should, without whom, and how long?",
    needs=("log",),
    act="Look at the brokers named: were they down, or too slow to follow? A partition that stays so after a"
    " reassignment waits for a replica that nobody makes; reassign it again.",
    keying=BY_TOPIC,
    fold=_Fold,
    bounds={"least_ms": 10_000},
)
