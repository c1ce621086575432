"""A leader epoch that fell, or stayed while the leader changed, in one life of a partition."""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.keys import BY_TOPIC
from zkgroup.audit.partitions import ChangeStamp, TopicFold, View, moment_finding
from zkgroup.audit.rules import Finding, Rule, folded


class _Fold(TopicFold):
    def changed(
        self, partition: int, before: View | None, after: View | None, at: ChangeStamp
    ) -> Iterator[Finding]:
        if before is None or after is None or before.life != after.life:
            return
        was, now = before.state, after.state
        if was is None or now is None:
            return
        if now.leader_epoch < was.leader_epoch:
            detail = f"leader epoch fell from {was.leader_epoch} to {now.leader_epoch}"
        elif now.leader != was.leader and now.leader_epoch == was.leader_epoch:
            detail = f"leader {was.leader} became {now.leader} within leader epoch {now.leader_epoch}"
        else:
            return
        yield moment_finding(RULE.name, RULE.severity, self.topic, partition, at, detail)


RULE = Rule(
    name="leader_epoch_not_rising",
    severity="error",
    question="Which partitions changed their leader without a new leader epoch, or went back in it?",
    needs=("log",),
    act="Brokers obey only a higher leader epoch, so this state is not what they do: find the session that"
    " wrote it, and let the controller elect again (`zkgroup elect preferred`, or a restart of the leader).",
    keys=BY_TOPIC,
    find=folded(_Fold),
)
