"""A reassignment that stays open for long, that no controller finishes, or that was dropped without a record.

Standing: longer than `standing_ms`. Never finished: a request without an entry, or one that cannot be read,
after `endless_ms`. Given up: an entry that went while the replica list was another than it asked for,
unless the topic is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from zkgroup.audit.controller_lookup import change_at, replicas_at
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import ADMIN, Key
from zkgroup.audit.partitions import brokers_text, decoded
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.audit.texts import count_text, duration_text
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.paths import path_kind

_NAMED_MAX = 5


class _Request(NamedTuple):
    """`/admin/reassign_partitions` from its create on."""

    made: Event
    targets: Mapping[TopicPartition, tuple[int, ...]] | None
    """What is left of it; None where it cannot be read."""
    since: Mapping[TopicPartition, Event]
    """The write that asked for each first."""


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._facts = facts
        self._bounds = bounds
        self._request: _Request | None = None
        self._deleting: set[str] = set()
        """Topics whose deletion is asked for: their moves are given up rightly."""

    def see(self, event: Event) -> Iterator[Finding]:
        topic = path_kind(event.path).name
        if event.path == TopicDeletion.path(topic) and event.op in ("create", "delete"):
            (self._deleting.add if event.op == "create" else self._deleting.discard)(topic)
        elif event.path == Reassignment.path() and event.op in ("create", "set", "delete"):
            yield from self._see_request(event)

    def _see_request(self, event: Event) -> Iterator[Finding]:
        before = self._request
        if event.op == "delete":
            self._request = None
        else:
            value = decoded(Reassignment.decode, event.path, event.data)
            targets = None if value is None else value.targets
            known = before.since if before else {}
            since = {partition: known.get(partition, event) for partition in targets or ()}
            made = event if before is None or event.op == "create" else before.made
            self._request = _Request(made, targets, since)
        if before is not None:
            yield from self._given_up(before, event)
            if self._request is None:
                yield from self._stood(before, event)

    def end(self) -> Iterator[Finding]:
        if self._request is not None:
            yield from self._stood(self._request, None)

    def _given_up(self, before: _Request, event: Event) -> Iterator[Finding]:
        """Entries that went although the replica list is not what they asked for."""
        left = (self._request.targets or {}) if self._request else {}
        for partition, target in sorted((before.targets or {}).items()):
            replicas = replicas_at(self._facts, partition, event.zxid)
            if partition in left or replicas in (None, target) or partition.topic in self._deleting:
                continue
            asked = before.since[partition]
            yield Finding(
                RULE.name,
                RULE.severity,
                topic=partition.topic,
                partition=partition.partition,
                session=event.session,
                from_zxid=asked.zxid,
                to_zxid=event.zxid,
                from_ms=asked.time_ms,
                to_ms=event.time_ms,
                detail=f"given up: asked for {brokers_text(target)}, left at {brokers_text(replicas or ())}",
            )

    def _stood(self, request: _Request, done: Event | None) -> Iterator[Finding]:
        made = request.made
        stood_ms = max((done.time_ms if done else self._facts.end_ms) - made.time_ms, 0)
        endless = not request.targets
        if stood_ms <= self._bounds["endless_ms" if endless else "standing_ms"]:
            return
        yield Finding(
            RULE.name,
            RULE.severity,
            session=made.session or None,
            from_zxid=made.zxid,
            to_zxid=done.zxid if done else None,
            from_ms=made.time_ms,
            to_ms=done.time_ms if done else None,
            detail=f"{self._what(request)}; {'stood' if done else 'has stood'} for {duration_text(stood_ms)}",
        )

    def _what(self, request: _Request) -> str:
        if request.targets is None:
            return "the request cannot be read"
        if not request.targets:
            return "the request names no partition, and Kafka 0.8.2.2 never removes such a one"
        untouched = [
            str(partition)
            for partition in sorted(request.targets)
            if not self._was_touched(partition, request.since[partition].zxid)
        ]
        named = ", ".join(untouched[:_NAMED_MAX])
        more = f" and {len(untouched) - _NAMED_MAX} more" if len(untouched) > _NAMED_MAX else ""
        begun = f"; not even begun: {named}{more}" if untouched else ""
        return f"{count_text(len(request.targets), 'partition')} to be moved{begun}"

    def _was_touched(self, partition: TopicPartition, since: int) -> bool:
        """Whether its replica list has changed since it was asked for."""
        now = change_at(self._facts.topics.get(partition.topic, ()), self._facts.end_zxid)
        return now is not None and replicas_at(self._facts, partition, since) != replicas_at(
            self._facts, partition, now.zxid
        )


RULE = Rule(
    name="stuck_reassignment",
    severity="warning",
    question="Which reassignments do not end, and which ended with the partition somewhere else?",
    needs=("snapshot", "log"),
    act="Standing: a replica that it moves to does not come into sync; start its broker, or `zkgroup reassign"
    " cancel`. Without an entry: delete the znode, no controller of 0.8.2.2 will. Given up: a controller of"
    " 0.8.2.2 drops what it cannot do when it takes over, and the partition keeps the replicas of both"
    " sides: reassign it again once the brokers are up.",
    keys=ADMIN,
    find=folded(_Fold),
    bounds={"standing_ms": 600_000, "endless_ms": 1_000},
)
