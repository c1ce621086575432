"""`ClusterHistory`: the server's log of a cluster that follows the protocol. Tests change one event of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from zkgroup.history import (
    Change,
    ClusterOptions,
    ClusterReport,
    HistoryRecord,
    ServerTransaction,
    TransactionRefusal,
)
from zkgroup.history import check_cluster as check
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRecord, ControllerRegistration
from zkgroup.znodes.reassignment_records import FinishedReassignment, Outcome

TOPIC = "t"
TP = TopicPartition(TOPIC, 0)
ZKGROUP, KAFKA, OPERATOR = {"zkgroup": {"role": "data"}}, {}, 900


def broken(report: ClusterReport) -> set[str]:
    """The violated invariants of a report."""
    return {violation.invariant for violation in report.violations}


class ClusterHistory:
    """Brokers 1 to 4, each in the session of a hundred times its id, and one partition on 1, 2, 3."""

    def __init__(self) -> None:
        self.zxid, self.ms = 100, 1_000
        self.transactions: list[ServerTransaction] = []
        self.records: list[HistoryRecord] = []
        self.versions: dict[str, int] = {}
        self.epoch = 0
        self.registered: dict[int, int] = {}
        self.put(0, "create", ControllerEpoch.path(), ControllerEpoch(0).encode())
        for broker in (1, 2, 3, 4):
            self.register(broker)
        self.create_topic({0: (1, 2, 3)})
        self.elect(1)
        self.state(100, 1, 0, (1, 2, 3), action="create")

    def write(
        self, session: int, *changes: Change, refused: TransactionRefusal | None = None, kind: Any = "write"
    ) -> int:
        self.zxid += 1
        self.ms += 1
        self.transactions.append(ServerTransaction(self.zxid, self.ms, session, changes, kind, refused))
        return self.zxid

    def change(
        self,
        action: Literal["create", "set", "delete"],
        path: str,
        data: bytes | None = None,
        owner: int = 0,
    ) -> Change:
        self.versions[path] = 0 if action == "create" else self.versions.get(path, -1) + 1
        return Change(action, path, data, None if action == "delete" else self.versions[path], owner)

    def put(self, session: int, action: Any, path: str, data: bytes | None = None, owner: int = 0) -> int:
        return self.write(session, self.change(action, path, data, owner))

    def check(self, **options: Any) -> ClusterReport:
        return check(self.transactions, self.records, ClusterOptions(**options))

    def note(self, broker: int, kind: str, /, **fields: Any) -> None:
        """Adds a record of a broker."""
        number = len(self.records) + 1
        self.records.append(HistoryRecord(number, number, broker, f"broker-{broker}", None, kind, fields))

    def register(
        self, broker: int, session: int | None = None, extensions: Mapping[str, Any] = ZKGROUP
    ) -> None:
        self.registered[broker] = session = session or 100 * broker
        data = BrokerRegistration(f"h{broker}", 9092, 1, 0, extensions=extensions).encode()
        self.put(session, "create", BrokerRegistration.path(broker), data, session)

    def expire(self, session: int) -> None:
        """Ends a session, and deletes its ephemerals."""
        gone = [BrokerRegistration.path(b) for b, owner in self.registered.items() if owner == session]
        if ControllerRegistration.path() in self.versions and self.controller_session == session:
            gone.append(ControllerRegistration.path())
        self.write(session, *(self.change("delete", path) for path in gone), kind="close_session")

    def elect(self, broker: int, session: int | None = None, epoch: int | None = None) -> None:
        """Elects a zkgroup controller, in one transaction."""
        session = session or 100 * broker
        self.controller_session, self.epoch = session, self.epoch + 1 if epoch is None else epoch
        data = ControllerRegistration(broker, 0).encode()
        self.write(
            session,
            self.change("create", ControllerRegistration.path(), data, session),
            self.change("set", ControllerRegistration.path(), data),
            self.change("set", ControllerEpoch.path(), ControllerEpoch(self.epoch).encode()),
            self.change(
                "create",
                ControllerRecord.path(self.epoch),
                ControllerRecord(broker, session, "started", 0).encode(),
            ),
        )

    def create_topic(self, partitions: Mapping[int, Sequence[int]]) -> None:
        data = Topic({number: tuple(brokers) for number, brokers in partitions.items()}).encode()
        self.put(OPERATOR, "create", Topic.path(TOPIC), data)

    def topic_change(self, *replicas: int) -> Change:
        return self.change("set", Topic.path(TOPIC), Topic({0: replicas}).encode())

    def state_change(
        self,
        leader: int,
        leader_epoch: int,
        isr: Sequence[int],
        epoch: int | None = None,
        action: Any = "set",
    ) -> Change:
        state = PartitionState(leader, leader_epoch, tuple(isr), self.epoch if epoch is None else epoch)
        return self.change(action, PartitionState.path(TP), state.encode())

    def state(self, session: int, *args: Any, **kwargs: Any) -> int:
        return self.write(session, self.state_change(*args, **kwargs))

    def ask_move(self, *target: int, action: Any = "create") -> None:
        data = Reassignment((Move(TP, target),)).encode()
        self.put(OPERATOR, action, Reassignment.path(), data)

    def ending(self, *target: int, outcome: Outcome = "done", reason: str = "moved") -> tuple[Change, Change]:
        """The changes that remove the entry and create its final record."""
        record = FinishedReassignment(TP, (1, 2, 3), target, outcome, reason, self.epoch)
        return (
            self.change("delete", Reassignment.path()),
            self.change("create", FinishedReassignment.path(len(self.transactions)), record.encode()),
        )

    def move(self, *target: int) -> None:
        """A reassignment by the controller in session 100, from its request to its record."""
        union = (*target, *(one for one in (1, 2, 3) if one not in target))
        self.ask_move(*target)
        self.write(100, self.topic_change(*union))
        self.state(100, 1, 1, (1, 2, 3))
        self.state(100, 1, 1, (1, 2, 3, 4))
        leader = 1 if 1 in target else target[0]
        self.state(100, leader, 2, (1, 2, 3, 4))
        self.state(100, leader, 3, target)
        self.write(100, self.topic_change(*target), *self.ending(*target))

    def ask_deletion(self) -> None:
        self.put(OPERATOR, "create", TopicDeletion.path(TOPIC), b"")
