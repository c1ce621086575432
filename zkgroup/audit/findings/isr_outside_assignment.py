"""A broker in the ISR of a partition whose replica list does not name it.

A warning where that began during a move and ended, or the move still stands; an error otherwise. What
cannot be read is not known, and contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.controller_lookup import is_requested
from zkgroup.audit.keys import BY_TOPIC
from zkgroup.audit.partitions import Spell, SpellFold, View, brokers_text, spell_finding
from zkgroup.audit.rules import Finding, Rule, folded
from zkgroup.audit.texts import duration_text
from zkgroup.model import TopicPartition


class _Fold(SpellFold):
    def fault(self, view: View) -> str | None:
        if view.state is None or view.replicas is None or view.is_deleting:
            return None
        outside = [broker for broker in view.state.isr if broker not in view.replicas]
        if not outside:
            return None
        return f"{brokers_text(outside)} in the ISR, not in the replica list {brokers_text(view.replicas)}"

    def found(self, partition: int, spell: Spell) -> Iterator[Finding]:
        with_move = self._is_moving(partition, spell.view, spell.since.zxid) and (
            spell.to is not None or self._is_moving(partition, self.views[partition], self.last.zxid)
        )
        detail = f"{spell.detail} for {duration_text(spell.ms(self.last))}"
        yield spell_finding(
            RULE.name,
            "warning" if with_move else "error",
            self.topic,
            partition,
            spell,
            f"{detail}; it is being moved" if with_move else detail,
        )

    def _is_moving(self, partition: int, view: View, zxid: int) -> bool:
        return view.is_moving or is_requested(self.facts, TopicPartition(self.topic, partition), zxid)


RULE = Rule(
    name="isr_outside_assignment",
    severity="error",
    question="Which partitions had brokers in their ISR that their replica list does not name?",
    needs=("snapshot",),
    act="A warning came with a reassignment and ends with it. An error stays: a replica in no replica list"
    " can be elected. Find the session that wrote the state or the replica list, then reassign the partition"
    " to the replicas that it shall have.",
    keys=BY_TOPIC,
    find=folded(_Fold),
)
