"""Brokers whose partitions are led by others: load that is not where the replica lists put it.

A broker is reported if, at the end of the history, more than `share` of its partitions (those whose replica
list begins with it) are led by another broker, or by none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import REPLICATION, Key
from zkgroup.audit.partitions import state_of, topic_of
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.paths import path_kind


class _Fold:
    """Keeps the last word on every partition; what it finds is of the end of the history."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._facts = facts
        self._share = bounds["share"]
        self._preferred: dict[str, dict[int, int]] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._deleting: set[str] = set()

    def see(self, event: Event) -> Iterator[Finding]:
        if event.op in ("create", "set", "delete"):
            place = path_kind(event.path)
            if place.kind == "partition_state":
                self._lead(event, (place.topic, place.partition))
            elif event.path == Topic.path(place.name):
                self._assign(event, place.name)
            elif event.path == TopicDeletion.path(place.name):
                (self._deleting.discard if event.op == "delete" else self._deleting.add)(place.name)
        yield from ()

    def end(self) -> Iterator[Finding]:
        all_of: Counter[int] = Counter()
        away: Counter[int] = Counter()
        for topic, preferred in self._preferred.items():
            for partition, broker in preferred.items():
                leader = self._leaders.get((topic, partition))
                if leader is not None and topic not in self._deleting:
                    all_of[broker] += 1
                    away[broker] += leader != broker
        for broker, count in sorted(all_of.items()):
            share = away[broker] / count
            if share > self._share:
                yield self._finding(broker, f"{away[broker]} of {count} partitions ({share:.0%})")

    def _lead(self, event: Event, partition: tuple[str, int]) -> None:
        state = None if event.op == "delete" else state_of(event.path, event.data)
        if state is None:
            self._leaders.pop(partition, None)
        else:
            self._leaders[partition] = state.leader

    def _assign(self, event: Event, topic: str) -> None:
        value = None if event.op == "delete" else topic_of(event.path, event.data)
        self._preferred[topic] = {
            partition: replicas[0]
            for partition, replicas in (value.partitions if value else {}).items()
            if replicas
        }

    def _finding(self, broker: int, how_many: str) -> Finding:
        lives = self._facts.brokers.get(str(broker), ())
        is_up = bool(lives) and lives[-1].to_zxid is None
        return Finding(
            RULE.name,
            RULE.severity,
            from_zxid=self._facts.end_zxid,
            from_ms=self._facts.end_ms,
            detail=f"broker {broker} does not lead {how_many} that it should"
            + ("" if is_up else "; it is not registered"),
        )


RULE = Rule(
    name="preferred_leader_imbalance",
    severity="warning",
    question="Which brokers lead fewer partitions than they are the first replica of, at the end?",
    needs=("snapshot",),
    act="`zkgroup elect preferred` brings leaders back to the first replica, once that is in sync. A broker"
    " that is not registered has to be started first, or its partitions reassigned.",
    keys=REPLICATION,
    find=folded(_Fold),
    bounds={"share": 0.1},
)
