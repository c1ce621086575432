"""The steps of the model's active controller, done by the production machine in the same situation.

In each state of the walk, the machine gets the same tree, the same brokers and what its controller remembers
of the move. It runs one round of its moves, or elects; its transaction is translated to the model and
compared operation by operation (checks, versions, values, their order), and so are the requests that it
queues for brokers, and what it remembers afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.programs.model.controller import reassign
from tests.programs.model.controller.reassign_steps import STAGES
from tests.programs.model.controller.reassign_surroundings import (
    ADMIN,
    AR,
    CE,
    CTRL,
    DONE,
    EPOCH,
    FRESH,
    STATE,
    UP,
    Deed,
)
from tests.programs.model.controller.tree import DATA, OWNER, VER
from zkgroup.controller.machine import open_reassignments
from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.context import LeaderIsrAndControllerEpoch, LiveBroker
from zkgroup.controller.machine.controller_election.elector import ControllerLease, Elector
from zkgroup.controller.machine.controller_election.transactions import WonElection
from zkgroup.controller.machine.events import BrokerRequest, ControlRequest
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.open_reassignments import ReassignmentRequest
from zkgroup.controller.machine.requests.sender import UnresolvedDeletes
from zkgroup.controller.machine.settings import ControllerSettings, ElectorConfig, ElectorContext
from zkgroup.controller.machine.state_machines import PartitionPhase
from zkgroup.model import TopicPartition
from zkgroup.model.requests import (
    Check,
    Create,
    Delete,
    Multi,
    MultiDone,
    Operation,
    Outcome,
    Session,
    SetData,
)
from zkgroup.runtime.procedures import Procedure
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRecord, ControllerRegistration
from zkgroup.znodes.reassignment_records import FinishedReassignment

T0 = TopicPartition("t", 0)
RULER = 100
"""The controller hosts nothing: its death is no broker's."""
PLACES = {
    ControllerRegistration.path(): CTRL,
    ControllerEpoch.path(): EPOCH,
    PartitionState.path(T0): STATE,
    Topic.path(T0.topic): AR,
    Reassignment.path(): ADMIN,
}
WORDS = {"done": "completed", "cancelled": "cancelled"}

State = tuple[Any, ...]
Process = tuple[Any, ...]


class Following(reassign.Model):
    """The model of the code's steps, whose active controller's steps the machine does as well.

    Raises AssertionError where they differ.
    """

    def __init__(self, faults: str) -> None:
        super().__init__("code", faults)
        self.met: Counter[str] = Counter()
        """Kinds of steps to how often they were compared."""
        self._known: set[Any] = set()
        self._deeds: list[Deed] = []

    def did(self, deed: Deed) -> None:
        self._deeds.append(deed)

    def controller(self, s: State, k: int) -> Iterator[Any]:
        self._deeds = []
        yield from (steps := list(super().controller(s, k)))
        p, tree = s[1][k], s[0]
        pc, session, lives, version, epoch, _, _, heard = p
        is_active = lives and tree[CTRL] and tree[CTRL][OWNER] == session and tree[EPOCH][VER] == version
        situation = (
            tree[STATE],
            tree[AR],
            tree[ADMIN],
            s[5],
            p,
            tuple((x[UP], x[CE] >= epoch, x[FRESH]) for x in s[2]),
            tuple(sorted(self.held(s, epoch))),
        )
        if not is_active or pc not in STAGES or situation in self._known:
            return
        self._known.add(situation)
        deeds = {deed.what.split()[1]: deed for deed in self._deeds}
        if (deed := deeds.pop("elects", None)) is not None:
            self._compare(s, p, deed, self._elected(s, p))
        if (deed := deeds.pop("raises", None)) is not None:
            self._compare(s, p, deed, self._raised(s, p))
        if tree[ADMIN] is None:
            return
        if not deeds:
            waits = [step for step in steps if step[0].startswith("AB"[k]) and " waits for " in step[0]]
            after = waits[0][2][1][k][0] if waits else pc
            deeds["waits"] = Deed(f"{'AB'[k]} waits", [], [], after, heard)
        ((_, deed),) = deeds.items()
        self._compare(s, p, deed, self._moved(s, p))

    def _compare(self, s: State, p: Process, deed: Deed, machine: Machine) -> None:
        where = (deed.what, s)
        assert machine.written == deed.operations, where
        received = sorted(each for each in deed.messages if s[2][each[0] - 1][UP])
        assert machine.received == received, where
        move = machine.active.parts.reassignments.get(T0)
        if any(kind == "delete" for kind, *_ in deed.operations):
            assert move is None, where
        elif s[0][ADMIN]:
            assert move is not None
            assert move.stage is STAGES[deed.after], (*where, move.stage)
        known = machine.active.parts.reassignments._left_out.get(T0)
        assert (known and (tuple(sorted(known.replicas)), known.leader_epoch)) == deed.heard, (*where, known)
        self.met[" ".join(deed.what.split(":")[0].split()[1:3])] += 1

    def _moved(self, s: State, p: Process) -> Machine:
        machine = self._machine(s, p)
        machine.drive(machine.active.features.reassignments.run_round())
        machine.flush()
        return machine

    def _elected(self, s: State, p: Process) -> Machine:
        machine = self._machine(s, p)
        active = machine.active
        active.features.elections._set_partition_phase([T0], PartitionPhase.OFFLINE)
        batch = active.parts.requests.batch()
        machine.drive(active.features.elections.elect_leaderless(batch))
        active.parts.requests.send(batch)
        machine.flush()
        return machine

    def _raised(self, s: State, p: Process) -> Machine:
        machine = self._machine(s, p)
        active = machine.active
        active.parts.requests.unresolved[next(b for e, b in s[4] if e == p[4])] = UnresolvedDeletes()
        machine.drive(active.features.epoch_bump.bump_epoch())
        machine.flush(p[4] + 1)
        assert active.parts.identity.fence == (p[4] + 1, p[3] + 1)
        return machine

    def _machine(self, s: State, p: Process) -> Machine:
        """A controller with this tree, these brokers and what `p` remembers."""
        tree, (pc, _, _, version, epoch, drop, aver, heard) = s[0], p
        machine = Machine(tree, Fence(epoch, version))
        active = machine.active
        context, moves = active.context, active.parts.reassignments
        live = {b: _broker(b) for b, x in enumerate(s[2], 1) if x[UP]}
        context.set_brokers(live)
        context.first_request_sent.update({b: 1 for b in live if not s[2][b - 1][FRESH]})
        context.topic_seen(T0.topic, Topic({0: tree[AR][DATA]}), tree[AR][VER])
        leader, isr, leader_epoch, by = tree[STATE][DATA]
        state = PartitionState(leader, leader_epoch, isr, by)
        context.state_seen(T0, LeaderIsrAndControllerEpoch(state, tree[STATE][VER]))
        for b, each in live.items():
            active.parts.requests.queues.open(
                b, each.epoch, active.context.endpoints[b], active.parts.identity.epoch
            )
            active.parts.requests.queues.up(b, each.epoch)
            if s[2][b - 1][CE] >= epoch:
                active.parts.pending_deletes.answered(b, each.epoch)
        unanswered = [b for (e, b), q in s[3] if e == epoch and ("S",) in q]
        active.parts.pending_deletes.delete_asked(T0, unanswered + [b for e, b in s[4] if e == epoch])
        moves.follow(context)  # it was there when the request came
        if heard is not None:
            moves._left_out[T0] = open_reassignments._SentList(frozenset(heard[0]), heard[1])
        if tree[ADMIN] is None:
            return machine
        (target, source, cancelled), entry_version = tree[ADMIN][:2]
        asked = self.moves[s[5] - 1]
        is_changed = pc != "P" and entry_version != aver
        known = asked if is_changed else target
        czxid = machine.czxid(Reassignment.path())
        moves.request = ReassignmentRequest({T0: known}, aver if is_changed else entry_version, czxid)
        moves.follow(context)
        move = moves[T0]
        move.before = move.origin = source
        move.former = asked if cancelled and not is_changed else None
        moves.reached(T0, STAGES[pc], drop if pc == "9" else ())
        assert active.parts.pending_deletes.of(context, T0) == set(self.held(s, epoch)), s
        return machine


class Machine:
    """One active controller on a server of its own, with this tree."""

    def __init__(self, tree: State, fence: Fence) -> None:
        self._tree = tree
        self._fence = fence
        self._server = MemoryZooKeeper(FakeClock())
        self._client = self._server.client("machine")
        self.written: list[tuple[Any, ...]] = []
        """Its transaction, in the model's words, without the two checks of its fence."""
        self.received: list[Any] = []
        """LeaderAndIsr and deletions, by broker, in the model's words."""
        self._put(ControllerRegistration.path(), [b"", b""])
        self._server.put(ControllerRecord.path(fence.epoch), b"")
        self._put(ControllerEpoch.path(), [b""] * fence.version + [ControllerEpoch(fence.epoch).encode()])
        leader, isr, leader_epoch, epoch = tree[STATE][DATA]
        state = PartitionState(leader, leader_epoch, isr, epoch)
        for at, path, data in (
            (AR, Topic.path(T0.topic), Topic({0: tree[AR][DATA]}).encode()),
            (STATE, PartitionState.path(T0), state.encode()),
            (ADMIN, Reassignment.path(), tree[ADMIN] and _request(tree[ADMIN][DATA][0])),
        ):
            if tree[at] is not None:
                self._put(path, [data] * (tree[at][VER] + 1))
        core = ElectorContext(ElectorConfig(broker=RULER))
        core.connected_to(Session(1, 1, 6000))
        election = Elector(core, ControllerLease(core))
        core.on_write_acknowledged(core.now.ms)
        election.won = WonElection(fence, 1, ControllerRecord(RULER, 0, "model", 0), 0, 0)
        self.active = ActiveController(core, election, ControllerSettings())

    def czxid(self, path: str) -> int:
        """The czxid of a znode, which must exist."""
        found = self._server.find(path)
        assert found is not None
        return found.stat.czxid

    def _put(self, path: str, values: list[bytes]) -> None:
        self._server.put(path, values[0])
        for version, data in enumerate(values[1:]):
            assert isinstance(self._server.write(SetData(path, data, version)), MultiDone)

    def drive(self, procedure: Procedure[Any]) -> None:
        """Runs a procedure to its end and records its writes."""
        answers: tuple[Outcome, ...] | None = None
        while True:
            try:
                queries = next(procedure) if answers is None else procedure.send(answers)
            except StopIteration:
                return
            outcomes: list[Outcome] = []
            for query in queries:
                self._client.submit(
                    query.request,
                    incarnation=self._client.incarnation,
                    on_outcome=outcomes.append,
                    on_watch=None if query.on_watch is None else lambda path: None,
                )
                if isinstance(query.request, Multi):
                    self._note(query.request.operations, outcomes[-1])
            answers = tuple(outcomes)

    def _note(self, operations: tuple[Operation, ...], outcome: Outcome) -> None:
        assert not self.written, "one transaction in a round"
        assert isinstance(outcome, MultiDone), outcome
        assert operations[:2] == self._fence.checks()
        epoch = self._fence.epoch
        records = [ControllerRecord.path(epoch + 1), ControllerRecord.path(epoch)]
        mine = [each for each in operations[2:] if each.path not in records]
        assert [each.path for each in operations[2:] if each not in mine] in ([], records)
        self.written = [self._words(each) for each in mine]

    def _words(self, operation: Operation) -> tuple[Any, ...]:
        match operation:
            case Check(path, version):
                return "check", PLACES[path], version
            case Delete(path, version):
                return "delete", PLACES[path], version
            case SetData(path, data, version):
                return "set", PLACES[path], _value(path, data), version
            case Create(path, data):
                assert (path, operation.sequential, operation.ephemeral) == (
                    FinishedReassignment.prefix(),
                    True,
                    False,
                )
                return "set", DONE, (*self._tree[DONE][DATA], self._outcome(path, data)), -1
        raise AssertionError(operation)

    def _outcome(self, path: str, data: bytes | None) -> str:
        record = FinishedReassignment.decode(path, data)
        target, source, _ = self._tree[ADMIN][DATA]
        assert (record.topic_partition, record.before, record.target, record.epoch) == (
            T0,
            source,
            target,
            self._fence.epoch,
        )
        return WORDS[record.outcome]

    def flush(self, epoch: int | None = None) -> None:
        """The queued requests for brokers, one after the other. `epoch`: the requests', if it was raised."""
        core, channels = self.active.parts.core, self.active.parts.requests.queues
        while True:
            core.take_effects()
            channels.flush()
            sent = [each for each in core.take_effects() if isinstance(each, BrokerRequest)]
            if not sent:
                break
            for message in sent:
                assert message.request.controller_epoch == (epoch or self._fence.epoch)
                self._received_one(message.broker, message.request)
                channels.answered(message.broker, message.incarnation)
        self.received.sort()

    def _received_one(self, broker: int, request: ControlRequest) -> None:
        if isinstance(request, LeaderAndIsrRequest):
            (info,) = request.partitions
            if broker in info.replicas:  # others pass it over
                words = ("L", info.leader_epoch, info.leader, info.isr, info.replicas, info.zk_version)
                self.received.append((broker, words))
        elif isinstance(request, StopReplicaRequest):
            assert request.partitions == (T0,)
            if request.delete:
                assert self._stopped == broker, "it stops before it deletes"
                self.received.append((broker, ("S",)))
            else:
                self._stopped = broker


def _broker(id_: int) -> LiveBroker:
    """A broker of a version that knows no move keys in topics, so that the request alone reports moves."""
    return LiveBroker(BrokerRegistration("h", 9000 + id_, 1, 0), 1)


def _request(target: tuple[int, ...]) -> bytes:
    return Reassignment((Move(T0, target),)).encode()


def _value(path: str, data: bytes | None) -> Any:
    """The written value, as the model represents it."""
    place = PLACES[path]
    if place == AR:
        return Topic.decode(path, data).partitions[0]
    if place == STATE:
        state = PartitionState.decode(path, data)
        return state.leader, state.isr, state.leader_epoch, state.controller_epoch
    assert place == EPOCH, f"{path}: no step writes it"
    return ControllerEpoch.decode(path, data).epoch
