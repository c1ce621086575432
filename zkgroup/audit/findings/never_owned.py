"""A partition that members subscribe to and no member owns, at the end of the history.

Wildcards are expanded as members do it. An error once it has stood so for `grace_ms`, info before: the
group may be in the middle of a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.group_picture import GroupPicture
from zkgroup.audit.keys import BY_MEMBERSHIP, Key
from zkgroup.audit.membership import existence, overlaps, partitions_at, topics_wanted, wanting
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.audit.texts import duration_text
from zkgroup.model import TopicPartition

NAME = "never_owned"


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group = key[0]
        self._facts = facts
        self._grace_ms = bounds["grace_ms"]
        self._picture = GroupPicture(self._group, facts)

    def see(self, event: Event) -> Iterator[Finding]:
        self._picture.apply(event)
        yield from ()

    def end(self) -> Iterator[Finding]:
        facts, picture = self._facts, self._picture
        partitions = partitions_at(facts, facts.end_zxid)
        topics: set[str] = set()
        for registration in picture.registrations().values():
            topics.update(topics_wanted(registration, tuple(partitions)) or ())
        missing = [
            TopicPartition(topic, number)
            for topic in sorted(topics)
            for number in partitions.get(topic, ())
            if TopicPartition(topic, number) not in picture.owners
        ]
        if not missing:
            return
        plan = picture.expected_owners(facts.end_zxid)
        for tp in missing:
            if facts.is_whole or tp in picture.freed:
                yield self._finding(tp, None if plan is None else plan.owners.get(tp))

    def _finding(self, tp: TopicPartition, thread: str | None) -> Finding:
        spans = overlaps(
            wanting(self._facts, self._group, tp.topic), existence(self._facts, tp.topic, tp.partition)
        )
        since_zxid, since_ms = (spans[-1].from_zxid, spans[-1].from_ms) if spans else (0, 0)
        freed = self._picture.freed.get(tp)
        if freed is not None and freed.zxid > since_zxid:
            since_zxid, since_ms = freed.zxid, freed.time_ms
        ms = self._facts.end_ms - since_ms
        meant = "" if thread is None else f"; it is assigned to {thread!r}"
        return Finding(
            NAME,
            "error" if ms > self._grace_ms else "info",
            self._group,
            tp.topic,
            tp.partition,
            None,
            since_zxid,
            None,
            since_ms,
            None,
            f"no member has owned it for {duration_text(ms)} at the end, and members subscribe to it{meant}",
        )


RULE = Rule(
    name=NAME,
    severity="error",
    question="Is there a partition that members subscribe to and no member owns?",
    needs=("snapshot",),
    act=(
        "`group verify` names the member that should have it. A JVM member that gave up its rebalance stays"
        " idle until the next change of the group: restart it. Look for an owner or a registration in the way"
        " (orphan_owner, owner_session_mismatch)."
    ),
    keys=BY_MEMBERSHIP,
    find=folded(_Fold),
    bounds={"grace_ms": 10_000},
)
