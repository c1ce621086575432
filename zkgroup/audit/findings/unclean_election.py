"""A leader that was not in sync when it was elected: what only the others had is lost.

Compared with the last ISR that was not empty, in the same life of the partition: a controller of 0.8.2.2
writes an empty one, and the last replica of it may come back. Slots of zkgroup's group coordinators have
empty logs: any replica of them may lead (recipes 20).
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_TOPIC, Key
from zkgroup.audit.partitions import ChangeStamp, TopicFold, View, brokers_text, moment_finding
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.znodes.brokers import NO_LEADER
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC


class _Fold(TopicFold):
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        super().__init__(key, facts, bounds)
        self._slots_zxid = facts.slots_zxid if self.topic == OFFSETS_TOPIC else None
        self._in_sync: dict[int, tuple[int, tuple[int, ...]]] = {}
        """By partition: the life of its state, and the last ISR in it that was not empty."""

    def changed(
        self, partition: int, before: View | None, after: View | None, at: ChangeStamp
    ) -> Iterator[Finding]:
        if after is None or after.state is None:
            return
        if self._slots_zxid is not None and at.zxid >= self._slots_zxid:
            return
        life, in_sync = self._in_sync.get(partition, (0, ()))
        leader = after.state.leader
        if (
            life == after.life
            and leader not in (NO_LEADER, *in_sync)
            and not (before and before.state and before.state.leader == leader)
        ):
            detail = f"broker {leader} leads, in sync were {brokers_text(in_sync)}"
            yield moment_finding(RULE.name, RULE.severity, self.topic, partition, at, detail)
        if after.state.isr:
            self._in_sync[partition] = after.life, after.state.isr


RULE = Rule(
    name="unclean_election",
    severity="error",
    question="Which leaders were elected although they were not in sync?",
    needs=("log",),
    act="Records that only the in-sync replicas had are lost, and offsets may mean other records than before:"
    " check the consumers of the topic. Set `unclean.leader.election.enable=false` for topics that must not"
    " lose records (`zkgroup config alter --topic T --set ... --execute`); at 0.8.2.2 the default is true.",
    keys=BY_TOPIC,
    find=folded(_Fold),
)
