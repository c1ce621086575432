"""Where a quiet group must arrive: every partition with the member that the plan names (L1-L3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkgroup.assignment import assign
from zkgroup.assignment.wildcards import evaluate
from zkgroup.consumer.effects import MemberState
from zkgroup.errors import AssignmentError
from zkgroup.model import EvaluatedMember, TopicPartition, Znode
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.testing.simulation.consuming import ConsumingActor
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Plan, Registration


class Goal:
    """Compares the tree, and what the members believe, with a plan computed from the tree alone."""

    def __init__(self, server: MemoryZooKeeper, group: str) -> None:
        self._server = server
        self._group = group

    def owners(self) -> Mapping[TopicPartition, tuple[str, int]]:
        """Who owns what by the tree: thread id and czxid."""
        prefix = f"/consumers/{self._group}/owners/"
        found = {}
        for path, znode in self._server.tree().items():
            topic, slash, number = path.removeprefix(prefix).partition("/")
            if path.startswith(prefix) and slash:
                owner = (znode.data or b"").decode()
                found[TopicPartition(topic, int(number))] = (owner, znode.stat.czxid)
        return found

    def missing(self, actors: Sequence[ConsumingActor]) -> str | None:
        """What is not as it should be, or None."""
        for actor in actors:
            if actor.state is not MemberState.STABLE:
                return f"{actor.member_id} is {actor.state.value}"
        registered = {actor.member_id for actor in actors}
        tree = self._server.tree()
        members = self._members(tree)
        if {m.member for m in members} != registered:
            return f"registered are {sorted(m.member for m in members)}, living {sorted(registered)}"
        expected, owners = self._expected(tree, members), self.owners()
        expected = {tp: who for tp, who in expected.items() if not _is_handed_back(actors, tp, who)}
        if {tp: who for tp, (who, _) in owners.items()} != expected:
            return f"owners {_text(owners)}, expected {dict(sorted(expected.items()))}"
        return self._beliefs(actors, owners)

    def _members(self, tree: Mapping[str, Znode]) -> list[EvaluatedMember]:
        prefix = f"/consumers/{self._group}/ids/"
        topics = [p.removeprefix("/brokers/topics/") for p in tree if p.startswith("/brokers/topics/")]
        return [
            EvaluatedMember(
                path.removeprefix(prefix),
                evaluate(Registration.decode(path, znode.data).wanted(), topics, True),
            )
            for path, znode in tree.items()
            if path.startswith(prefix)
        ]

    def _expected(
        self, tree: Mapping[str, Znode], members: Sequence[EvaluatedMember]
    ) -> Mapping[TopicPartition, str]:
        partitions = {
            topic: Topic.decode(path, tree[path].data).numbers if (path := Topic.path(topic)) in tree else ()
            for member in members
            for topic in member.threads
        }
        prefix = f"/consumers/{self._group}/ids/"
        strategies = {
            Registration.decode(path, znode.data).strategy
            for path, znode in tree.items()
            if path.startswith(prefix)
        }
        if strategies == {"sticky"}:
            path = Plan.path(self._group)
            return Plan.decode(path, tree[path].data).owners if path in tree else {}
        strategy = next(iter(strategies - {"sticky", None}), "range") or "range"
        try:
            return assign(strategy, members, partitions).owners
        except AssignmentError:
            return {tp: who for tp, (who, _) in self.owners().items()}

    @staticmethod
    def _beliefs(
        actors: Sequence[ConsumingActor], owners: Mapping[TopicPartition, tuple[str, int]]
    ) -> str | None:
        for actor in actors:
            mine = {
                tp: token for tp, (who, token) in owners.items() if who.rpartition("-")[0] == actor.member_id
            }
            believed = {tp: grant.token for tp, grant in actor.held().items()}
            if mine != believed:
                return f"{actor.member_id} believes {believed}, the tree says {mine}"
            if sorted(actor.application.owned) != sorted(mine):
                return f"{actor.member_id} delivers {actor.application.owned}"
        return None


def _is_handed_back(actors: Sequence[ConsumingActor], tp: TopicPartition, who: str) -> bool:
    """Its member does not want it before a later plan."""
    member = who.rpartition("-")[0]
    return any(actor.member_id == member and tp in actor.handed_back() for actor in actors)


def _text(owners: Mapping[TopicPartition, tuple[str, int]]) -> str:
    return ", ".join(f"{tp}: {who}" for tp, (who, _) in sorted(owners.items()))
