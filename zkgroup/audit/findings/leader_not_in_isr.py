"""A partition led by a broker that its state does not count as in sync.

From the transaction that left it so to the one that mended it.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.keys import BY_TOPIC
from zkgroup.audit.partitions import Spell, SpellFold, View, brokers_text, spell_finding
from zkgroup.audit.rules import Finding, Rule, folded
from zkgroup.audit.texts import duration_text
from zkgroup.znodes.brokers import NO_LEADER


class _Fold(SpellFold):
    def fault(self, view: View) -> str | None:
        state = view.state
        if state is None or state.leader == NO_LEADER or state.leader in state.isr:
            return None
        return f"leader {state.leader} is not in the ISR {brokers_text(state.isr)}"

    def found(self, partition: int, spell: Spell) -> Iterator[Finding]:
        detail = f"{spell.detail} for {duration_text(spell.ms(self.last))}"
        yield spell_finding(RULE.name, RULE.severity, self.topic, partition, spell, detail)


RULE = Rule(
    name="leader_not_in_isr",
    severity="error",
    question="Which partitions were led by a broker that is not in their ISR?",
    needs=("snapshot",),
    act="No controller or leader of Kafka writes such a state: find the session that did. Restart the broker"
    " that leads, or have the leader elected again (`zkgroup elect preferred`), so that the state is written"
    " anew.",
    keys=BY_TOPIC,
    find=folded(_Fold),
)
