"""Replicas that leave the ISR and are back within a minute, though their broker stayed.

A broker that was registered anew in between is `broker_flapping`. Pairs of a shrink and an expansion no
more than `within_ms` apart are one row, which is reported if it has at least `pairs` of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zkgroup.audit.controller_lookup import life_at
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_TOPIC, Key
from zkgroup.audit.partitions import ChangeStamp, Spell, TopicFold, View, spell_finding
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.audit.texts import duration_text


class _Run(NamedTuple):
    """Pairs of a shrink and an expansion that follow each other closely."""

    first: ChangeStamp
    last: ChangeStamp
    pairs: int
    away_ms: int
    view: View


class _Fold(TopicFold):
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        super().__init__(key, facts, bounds)
        self._left: dict[tuple[int, int], tuple[ChangeStamp, View]] = {}
        """By partition and broker: when it left the ISR."""
        self._runs: dict[tuple[int, int], _Run] = {}

    def changed(
        self, partition: int, before: View | None, after: View | None, at: ChangeStamp
    ) -> Iterator[Finding]:
        if before is None or after is None or before.life != after.life:
            return
        self._forget_removed(partition, after)
        if before.state is None or after.state is None:
            return
        for broker in set(before.state.isr) - set(after.state.isr):
            self._left[partition, broker] = at, before
            run = self._runs.get((partition, broker))
            if run is not None and at.ms - run.last.ms > self.bounds["within_ms"]:
                yield from self._close((partition, broker))
        for broker in set(after.state.isr) - set(before.state.isr):
            left = self._left.pop((partition, broker), None)
            if left is not None and self._is_flap(broker, left[0], at):
                self._add((partition, broker), *left, at)

    def over(self) -> Iterator[Finding]:
        for key in sorted(self._runs):
            yield from self._close(key)

    def _forget_removed(self, partition: int, view: View) -> None:
        """Who is taken off the replica list, as a move does, was not too slow."""
        for left in [key for key in self._left if key[0] == partition]:
            if view.replicas is not None and left[1] not in view.replicas:
                del self._left[left]

    def _is_flap(self, broker: int, left: ChangeStamp, back: ChangeStamp) -> bool:
        """Back soon, and not because the broker was started again: that is `broker_flapping`."""
        if back.ms - left.ms > self.bounds["within_ms"]:
            return False
        life = life_at(self.facts.brokers.get(str(broker), ()), back.zxid)
        return life is None or life.from_zxid <= left.zxid

    def _add(self, key: tuple[int, int], left: ChangeStamp, view: View, back: ChangeStamp) -> None:
        run = self._runs.get(key) or _Run(left, back, 0, 0, view)
        away_ms = run.away_ms + max(back.ms - left.ms, 0)
        self._runs[key] = run._replace(last=back, pairs=run.pairs + 1, away_ms=away_ms)

    def _close(self, key: tuple[int, int]) -> Iterator[Finding]:
        run = self._runs.pop(key, None)
        if run is None or run.pairs < self.bounds["pairs"]:
            return
        partition, broker = key
        times = "once" if run.pairs == 1 else f"{run.pairs} times"
        detail = f"broker {broker} left the ISR and came back {times}, away for {duration_text(run.away_ms)}"
        spell = Spell(run.first, run.last, run.view, detail)
        yield spell_finding(RULE.name, RULE.severity, self.topic, partition, spell, detail)


RULE = Rule(
    name="isr_flapping",
    severity="warning",
    question="Which replicas left the ISR and were back within a minute, though their broker stayed up?",
    needs=("log",),
    act="The broker named follows too slowly now and then: check its pauses, its disks, its network and"
    " `replica.lag.time.max.ms`. Each pair costs two writes of the state and, with acks=all, a wait.",
    keys=BY_TOPIC,
    find=folded(_Fold),
    bounds={"within_ms": 60_000, "pairs": 1},
)
