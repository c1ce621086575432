"""Checks at every step that brokers keep records that they must keep."""

from __future__ import annotations

from zkgroup.controller.machine.events import ControlRequest
from zkgroup.history.cluster.replay import ReplayedCluster
from zkgroup.history.transactions import Change, ServerTransaction
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.leader import server_transactions
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper
from zkgroup.znodes.brokers import NO_LEADER
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.stray_replicas import StrayReplicas, StrayTopic, stray_replicas_path


class ClusterAuditError(AssertionError):
    """A broker violated an invariant at this step."""


class ClusterAudit:
    """Replays the server's log, so that each action of a broker is checked when it happens."""

    def __init__(self, server: MemoryZooKeeper, clock: FakeClock) -> None:
        self.replayed = ReplayedCluster()
        self.lives: dict[str, int] = {}
        """zxid of the last creation of each topic."""
        self.unclean: dict[tuple[TopicPartition, int], int] = {}
        """Partition and incarnation to the leader epoch of its last unclean election."""
        self.undeleted: set[tuple[int, TopicPartition]] = set()
        """Stray replicas of deleted topics that brokers may still have, until they delete them."""
        self._recorded: dict[str, tuple[StrayTopic, ...]] = {}
        """By path."""
        self._server = server
        self._clock = clock
        self._seen = 0

    def catch_up(self) -> ReplayedCluster:
        """Replays new transactions; returns the present cluster."""
        log = self._server.log
        if self._seen < len(log):
            for transaction in server_transactions(log[self._seen :], self._clock):
                if transaction.refusal is None:
                    for change in transaction.changes:
                        self._apply(transaction, change)
            self._seen = len(log)
        return self.replayed

    def _apply(self, transaction: ServerTransaction, change: Change) -> None:
        replayed, place = self.replayed, self.replayed.place(change.path)
        tp = place.topic_partition if place is not None and place.kind == "state" else None
        before = replayed.state(tp) if tp is not None else None
        if change.path.startswith(f"{stray_replicas_path()}/"):
            self._stray_replicas_changed(change)
        if place is not None and place.kind == "topic" and change.action == "delete":
            self._is_deleted(transaction, place.topic)
        if place is not None and place.kind == "epoch" and not transaction.session:
            self.undeleted.clear()  # a Kafka controller may have added every broker to the ISR (recipes 17)
        if place is not None and place.kind == "topic" and change.action == "create":
            self.lives[place.topic] = transaction.zxid
        replayed.apply(transaction, change)
        now = replayed.state(tp) if tp is not None else None
        if tp is None or before is None or now is None:
            return
        if now.leader != NO_LEADER and now.leader not in before.isr:
            self.unclean[tp, self.lives.get(tp.topic, 0)] = now.leader_epoch

    def _stray_replicas_changed(self, change: Change) -> None:
        """Reads the records of stray replicas."""
        if change.action == "delete":
            self._recorded.pop(change.path, None)
        elif change.action != "check":
            self._recorded[change.path] = StrayReplicas.decode(change.path, change.data).topics

    def _is_deleted(self, transaction: ServerTransaction, topic: str) -> None:
        """Called when a zkgroup controller deletes a topic, with its fence: its records stay."""
        if not any(
            each.action == "check" and each.path == ControllerRegistration.path()
            for each in transaction.changes
        ):
            return
        for path, topics in self._recorded.items():
            place = StrayReplicas.place_of(path.removeprefix(f"{stray_replicas_path()}/"))
            assert place is not None, path
            self.undeleted.update(
                (place[0], TopicPartition(topic, number))
                for each in topics
                if (each.topic, each.czxid) == (topic, self.lives.get(topic))
                for number in each.partitions
            )

    def deletes(self, broker: int, tp: TopicPartition, request: ControlRequest) -> None:
        """Checks that a broker deletes no records while it is in sync, unless the topic is deleted (recipes
        17)."""
        replayed = self.catch_up()
        self.undeleted.discard((broker, tp))
        state = replayed.state(tp)
        if state is None or tp.topic in replayed.deletions:
            return
        if broker in state.isr:
            raise ClusterAuditError(
                f"S13 {tp}: broker {broker} deletes its records in epoch {request.controller_epoch}, "
                f"while {list(state.isr)} are in sync"
            )

    def begins(self, broker: int, tp: TopicPartition, request: ControlRequest) -> None:
        """Checks that a broker becomes no replica with records of a deleted topic of that name (K20)."""
        self.catch_up()
        if (broker, tp) in self.undeleted:
            raise ClusterAuditError(
                f"{tp}: broker {broker} becomes a replica in epoch {request.controller_epoch}, "
                "and has not deleted its stray replica of the deleted topic"
            )
