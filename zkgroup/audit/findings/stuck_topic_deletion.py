"""A topic whose deletion was requested long ago and that still exists, or did for long.

Reported where the request existed longer than `standing_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.controller_lookup import change_at
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import ADMIN, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.audit.texts import duration_text
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.paths import path_kind


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._facts = facts
        self._standing_ms = bounds["standing_ms"]
        self._asked: dict[str, Event] = {}
        """By topic: the request."""

    def see(self, event: Event) -> Iterator[Finding]:
        topic = path_kind(event.path).name
        if event.path != TopicDeletion.path(topic):
            return
        if event.op == "create":
            self._asked[topic] = event
        elif event.op == "delete" and topic in self._asked:
            yield from self._judge(topic, self._asked.pop(topic), event)

    def end(self) -> Iterator[Finding]:
        for topic, request in sorted(self._asked.items()):
            yield from self._judge(topic, request, None)

    def _judge(self, topic: str, request: Event, done: Event | None) -> Iterator[Finding]:
        stood_ms = max((done.time_ms if done else self._facts.end_ms) - request.time_ms, 0)
        if stood_ms <= self._standing_ms or (done is None and not self._is_there(topic)):
            return
        yield Finding(
            RULE.name,
            RULE.severity,
            topic=topic,
            session=request.session or None,
            from_zxid=request.zxid,
            to_zxid=done.zxid if done else None,
            from_ms=request.time_ms,
            to_ms=done.time_ms if done else None,
            detail=f"deletion asked for {duration_text(stood_ms)} ago, and the topic is still there"
            if done is None
            else f"deletion took {duration_text(stood_ms)}",
        )

    def _is_there(self, topic: str) -> bool:
        change = change_at(self._facts.topics.get(topic, ()), self._facts.end_zxid)
        return change is not None and change.data is not None


RULE = Rule(
    name="stuck_topic_deletion",
    severity="warning",
    question="Which topics should have been deleted long ago?",
    needs=("snapshot",),
    act="A controller deletes a topic once every broker of its replica lists is up and none of its partitions"
    " is being moved: start those brokers, or finish the move. Brokers with `delete.topic.enable=false`, the"
    " default of 0.8.2.2, never do it.",
    keys=ADMIN,
    find=folded(_Fold),
    bounds={"standing_ms": 600_000},
)
