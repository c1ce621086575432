"""Checks at every step of what must never happen, beside the checker's verdict at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkgroup.controller.machine.requests.batch import ControlRequest
from zkgroup.history.cluster.replay import ReplayedCluster
from zkgroup.history.transactions import Change, ServerTransaction
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper
from zkgroup.testing.server_history import server_transactions
from zkgroup.znodes.brokers import NO_LEADER
from zkgroup.znodes.controller import Controller
from zkgroup.znodes.stray_replicas import StrayReplicas, StrayTopic, stray_replicas_path

if TYPE_CHECKING:
    from zkgroup.testing.simulation.cluster.broker import BrokerProcess


class ClusterAuditError(AssertionError):
    """Something that breaks a promise has just happened."""


class ClusterAudit:
    """Follows the server's log, so that what a broker does can be judged at the moment that it does it."""

    def __init__(self, server: MemoryZooKeeper, clock: FakeClock) -> None:
        self.picture = ReplayedCluster()
        self.lives: dict[str, int] = {}
        """zxid of the last creation of each topic."""
        self.unclean: dict[tuple[TopicPartition, int], int] = {}
        """Partition and life to the term of its last unclean election."""
        self.abandoned: set[tuple[int, TopicPartition]] = set()
        """Brokers and what they may have of topics that were deleted without them, until they delete it."""
        self._recorded: dict[str, tuple[StrayTopic, ...]] = {}
        """By path."""
        self._server = server
        self._clock = clock
        self._seen = 0

    def look(self) -> ReplayedCluster:
        """The picture as it is now."""
        log = self._server.log
        if self._seen < len(log):
            for transaction in server_transactions(log[self._seen :], self._clock):
                if transaction.refusal is None:
                    for change in transaction.changes:
                        self._apply(transaction, change)
            self._seen = len(log)
        return self.picture

    def _apply(self, transaction: ServerTransaction, change: Change) -> None:
        picture, place = self.picture, self.picture.place(change.path)
        tp = place.topic_partition if place is not None and place.kind == "state" else None
        before = picture.state(tp) if tp is not None else None
        if change.path.startswith(f"{stray_replicas_path()}/"):
            self._strays(change)
        if place is not None and place.kind == "topic" and change.action == "delete":
            self._is_deleted(transaction, place.topic)
        if place is not None and place.kind == "epoch" and not transaction.session:
            self.abandoned.clear()  # a controller of Kafka may have let every broker in (recipes 17)
        if place is not None and place.kind == "topic" and change.action == "create":
            self.lives[place.topic] = transaction.zxid
        picture.apply(transaction, change)
        now = picture.state(tp) if tp is not None else None
        if tp is None or before is None or now is None:
            return
        if now.leader != NO_LEADER and now.leader not in before.isr:
            self.unclean[tp, self.lives.get(tp.topic, 0)] = now.leader_epoch

    def _strays(self, change: Change) -> None:
        """What is recorded of what brokers may still have."""
        if change.action == "delete":
            self._recorded.pop(change.path, None)
        elif change.action != "check":
            self._recorded[change.path] = StrayReplicas.decode(change.path, change.data).topics

    def _is_deleted(self, transaction: ServerTransaction, topic: str) -> None:
        """By a zkgroup controller, whose fence is in the transaction: what it has recorded stays."""
        if not any(each.action == "check" and each.path == Controller.path() for each in transaction.changes):
            return
        for path, topics in self._recorded.items():
            place = StrayReplicas.place_of(path.removeprefix(f"{stray_replicas_path()}/"))
            assert place is not None, path
            self.abandoned.update(
                (place[0], TopicPartition(topic, number))
                for each in topics
                if (each.topic, each.czxid) == (topic, self.lives.get(topic))
                for number in each.partitions
            )

    def deletes(self, process: BrokerProcess, tp: TopicPartition, request: ControlRequest) -> None:
        """A broker removes its lines: never while it is in sync, unless the topic goes (recipes 17)."""
        picture = self.look()
        self.abandoned.discard((process.broker, tp))
        state = picture.state(tp)
        if state is None or tp.topic in picture.deletions:
            return
        if process.broker in state.isr:
            raise ClusterAuditError(
                f"S13 {tp}: broker {process.broker} deletes its lines in epoch {request.controller_epoch}, "
                f"while {list(state.isr)} are in sync"
            )

    def begins(self, process: BrokerProcess, tp: TopicPartition, request: ControlRequest) -> None:
        """A broker is made a replica: never with the lines of another topic of that name (K20)."""
        self.look()
        if (process.broker, tp) in self.abandoned:
            raise ClusterAuditError(
                f"{tp}: broker {process.broker} is made a replica in epoch {request.controller_epoch}, "
                "and has not deleted what it has of a topic that was deleted without it"
            )
