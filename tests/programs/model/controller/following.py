"""The model's controller A and the production machine, step by step in the same situation.

A walk follows the model's graph. The steps of the others (zkgroup's B, Kafka's controller, faults) are
repeated on the memory server as their writes; A's steps are done by the machine alone, and compared: each
transaction, the whole tree after it, and the beliefs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.programs.model.controller.election import HISTORY_KEPT, Model
from tests.programs.model.controller.election_surroundings import (
    COUNT,
    CTRL,
    EPOCH,
    HIST,
    IDR,
    NEW,
    OURS,
    STATE,
    Configuration,
    State,
    Tree,
)
from tests.programs.model.controller.tree import CZXID, DATA, OWNER, VER
from zkgroup.controller.machine.controller_election.elector import (
    FENCE_PATHS,
    ControllerLease,
    Elector,
    ElectorState,
)
from zkgroup.controller.machine.controller_election.history import ControllerHistory
from zkgroup.controller.machine.events import Elected, Resigned
from zkgroup.controller.machine.settings import ElectorConfig, ElectorContext
from zkgroup.model.ports import Instant
from zkgroup.model.requests import (
    Check,
    Create,
    Delete,
    Multi,
    MultiDone,
    Operation,
    Outcome,
    Read,
    Session,
    SetData,
)
from zkgroup.runtime.events import Submit
from zkgroup.runtime.procedures import GuardRefusedError, Procedure, Query, write
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import (
    ControllerEpoch,
    ControllerRecord,
    ControllerRegistration,
    controller_history_path,
)

A_BROKER, B_BROKER, R_BROKER = 1, 2, 9
PATHS = {
    CTRL: ControllerRegistration.path(),
    EPOCH: ControllerEpoch.path(),
    IDR: BrokerRegistration.path(R_BROKER),
    STATE: "/state",
    NEW: "/new",
}
STAGES = {
    "W": {ElectorState.WATCHING, ElectorState.UNKNOWN},
    "R": {ElectorState.UNKNOWN},
    "D": {ElectorState.VACANT},
    "G": {ElectorState.GRACE},
    "E": {ElectorState.ELECTING},
    "L": {ElectorState.ACTIVE},
}
"""The model's words for where an elector is. At its start W and R are one: nothing was read."""


class Pruned(Exception):  # noqa: N818 - not an error
    """The model lets a dead session act before its owner learns of it; no server would answer it."""


class Following:
    """Both worlds along one walk."""

    def __init__(self, configuration: Configuration) -> None:
        self.model = Model(configuration)
        self.s: State = self.model.init()
        self.server = MemoryZooKeeper(FakeClock())
        self.sessions: dict[int, int] = {}
        """The model's sessions to the server's."""
        self.zxids: dict[int, int] = {0: 0}
        self.labels: list[str] = []
        self.sent: list[tuple[Operation, ...]] = []
        self.server.put(controller_history_path())
        self.server.put("/brokers/ids")
        self._mirror((None,) * len(self.s[0]), self.s[0])
        self.core = ElectorContext(ElectorConfig(broker=A_BROKER))
        self.election = Elector(self.core, ControllerLease(self.core))
        self.incarnation = 0
        self._connect()
        if self.s[1][3][0]:  # it has read the real one's
            self._procedure("read the controller")

    def go(self, label: str, after: State) -> None:
        """Takes this step in both worlds. Raises Pruned where the step has no meaning on a server."""
        self.labels.append(label)
        before, self.s = self.s, after
        if not label.startswith("A "):
            self._mirror(before[0], after[0])
            self._expire(before, after)
        else:
            self._act(label, before, after)
        self.assert_same_trees()
        self.assert_same_beliefs()

    def _act(self, label: str, before: State, after: State) -> None:
        if label == "A learns that its session is lost":
            self.election.session_over("expired")
            self.core.forget_session()
            self._take()
            self._connect()
            return
        if not before[1][2]:
            raise Pruned
        match label.split("(")[0].split(":")[0].rstrip("0123456789 "):
            case "A sees /controller gone" | "A reads /controller":
                self._sees(before)
                self._procedure("read the controller")
            case "A sees it lost, resigns":
                self._sees(before)
                self._procedure("read the controller")
                self._settle_leaving()
            case _ if label.startswith("A reads the epoch"):
                self._procedure("prepare the election")
            case "A ends its grace" | "A ends its grace, reads again":
                self.core.begin(Instant(self.core.now.ms + 10_000, 0))
                self._procedure("end the grace")
            case _ if label.startswith("A elect"):
                self._procedure("elect")
                self._compare_election(before, after)
            case "A UpdateMetadata answered" | "A finds nothing to rewrite":
                pass  # of the cluster's work, which the election does not know
            case _ if label.startswith("A refused by the broker"):
                self.election.resign("a broker knows a later epoch")
                self._settle_leaving()
            case "A prunes the history":
                self._prune(label)
            case _:
                self._write(label, before)

    def _prune(self, label: str) -> None:
        """Prunes the records that the machine knows; the model's A also sees those of a later controller."""
        work = ControllerHistory(self.election, HISTORY_KEPT).next()
        refused = "refused" in label
        if work is None:
            assert refused
            raise Pruned
        try:
            self._drive(work[1]())
        except GuardRefusedError:
            self.election.fenced()
        assert (self.election.won is None) == refused
        if refused:
            self._settle_leaving()

    def _sees(self, before: State) -> None:
        """Checks that the watch has fired, or that the read at the start is due."""
        work = self.election.next()
        assert work is not None, (self.labels, self.election.stage)
        assert work[0] == "read the controller", (work[0], before[1])

    def _settle_leaving(self) -> None:
        """Completes a resignation: the model deletes `/controller` at once, the machine after a read."""
        controller = self.server.find(PATHS[CTRL])
        if controller is not None and self.core.owns(controller.stat.ephemeral_owner):
            self._procedure("read the controller")
        assert self.election.stage is ElectorState.UNKNOWN

    def _write(self, label: str, before: State) -> None:
        """A write of the controller's work: the machine gives its fence, the model the operation."""
        won = self.election.won
        assert won is not None
        tree, lead = before[0], before[1][4]
        if "creates new" in label:
            operation: Operation = Create(PATHS[NEW], _data(NEW, lead[1]))
        else:
            (leader_epoch, _), version = tree[STATE][DATA], tree[STATE][VER]
            operation = SetData(PATHS[STATE], _data(STATE, (leader_epoch + 1, lead[1])), version)
        expected = (Check(PATHS[CTRL], 1), Check(PATHS[EPOCH], lead[0]), operation)
        assert (*won.fence.checks(), operation) == expected
        try:
            self._drive(write(expected, FENCE_PATHS))
        except GuardRefusedError:
            self.election.fenced()
        refused = "refused" in label
        if refused and self.election.won is not None:
            self.election.resign(
                "refused"
            )  # the model gives up for any refusal; zkgroup's elector reads the state again
        assert (self.election.won is None) == refused
        if refused:
            self._settle_leaving()

    def _compare_election(self, before: State, after: State) -> None:
        """Checks that the transaction equals the model's, operation by operation."""
        number, version, _, _ = before[1][4]
        create, mark, bump, record = self.sent[-1]
        assert (create.path, mark.path, bump.path) == (PATHS[CTRL], PATHS[CTRL], PATHS[EPOCH])
        assert isinstance(create, Create)
        assert create.ephemeral
        assert isinstance(mark, SetData)
        assert mark.version == 0
        assert isinstance(bump, SetData)
        assert (bump.data, bump.version) == (_data(EPOCH, number + 1), version)
        assert record.path == ControllerRecord.path(number + 1)
        received = [effect for effect in self.received if isinstance(effect, Elected)]
        assert bool(received) == (after[1][0] == "L")
        if received:
            self.zxids[after[0][COUNT]] = received[-1].czxid
            assert received[-1].foreign_epoch == before[1][4][3]

    def _procedure(self, name: str) -> None:
        """Runs the machine's next procedure, which must be this one, to its end."""
        self.election.may_be_elected = True
        work = self.election.next()
        assert work is not None, (self.labels, self.election.stage)
        assert work[0] == name, (self.labels, work[0])
        self._drive(work[1]())
        self._take()

    def _drive(self, procedure: Procedure[Any]) -> None:
        outcomes: tuple[Outcome, ...] | None = None
        while True:
            try:
                queries: Sequence[Query] = next(procedure) if outcomes is None else procedure.send(outcomes)
            except StopIteration:
                return
            outcomes = tuple(self._answer(query) for query in queries)

    def _answer(self, query: Query) -> Outcome:
        if isinstance(query.request, Multi):
            self.sent.append(query.request.operations)
        outcomes: list[Outcome] = []
        watched = isinstance(query.request, Read) and query.request.watch
        on_watch: Callable[[str], None] | None = None
        if watched and query.on_watch is not None:
            fired = query.on_watch

            def on_watch(path: str) -> None:
                fired()

        self.client.submit(
            query.request,
            incarnation=self.client.incarnation,
            on_outcome=outcomes.append,
            on_watch=on_watch,
        )
        if isinstance(outcomes[0], MultiDone):
            self.core.on_write_acknowledged(self.core.now.ms)
        return outcomes[0]

    def _take(self) -> None:
        self.received = [effect for effect in self.core.take_effects() if not isinstance(effect, Submit)]
        if any(isinstance(effect, Resigned) for effect in self.received):
            assert self.election.won is None

    def _connect(self) -> None:
        """Opens a new session of A, which replaces the old one at the server."""
        self.incarnation += 1
        self.client = self.server.client(f"a{self.incarnation}")
        assert self.client.session is not None
        session_id = self.client.session.session_id
        self.sessions[self.s[1][1]] = session_id
        self.core.connected_to(Session(self.incarnation, session_id, 6000))
        self.election.connected()
        self.election.may_be_elected = True

    def _session(self, number: int) -> int:
        if number == 0:
            return 0
        if number not in self.sessions:
            client = self.server.client(f"s{number}")
            assert client.session is not None
            self.sessions[number] = client.session.session_id
        return self.sessions[number]

    def _expire(self, before: State, after: State) -> None:
        if before[1][2] and not after[1][2]:
            self.server.expire_session(self.sessions[after[1][1]])

    def _mirror(self, before: Tree, after: Tree) -> None:
        """Makes the same change of the tree as another client."""
        owned = before[CTRL] is not None and after[CTRL] is None and self._dies(before, after)
        if owned:
            return  # it goes with A's session
        old, new = dict(before[HIST][DATA] if before[HIST] else ()), dict(after[HIST][DATA])
        records = [
            Create(
                ControllerRecord.path(epoch),
                ControllerRecord(B_BROKER, 0, "model", 0).after(new[epoch]).encode(),
            )
            for epoch in new.keys() - old.keys()
        ]
        for at, path in PATHS.items():
            self._change(at, path, before[at], after[at], records if at == EPOCH else ())
        for epoch in old.keys() - new.keys():
            assert isinstance(self.server.write(Delete(ControllerRecord.path(epoch), -1)), MultiDone)

    def _dies(self, before: Tree, after: Tree) -> bool:
        return self.labels[-1:] == ["session of A expires, it does not know"]

    def _change(self, at: int, path: str, old: Any, new: Any, others: Sequence[Operation] = ()) -> None:
        """Changes one znode; `others` are of the transaction of its last version."""
        if old == new:
            return
        if old is not None and (new is None or new[CZXID] != old[CZXID]):
            assert isinstance(self.server.write(Delete(path, -1)), MultiDone)
            old = None
        if new is None:
            return
        if old is None:
            made = Create(path, _data(at, new[DATA]), ephemeral=new[OWNER] != 0)
            answer = self.server.write(made, session_id=self._session(new[OWNER]))
            assert isinstance(answer, MultiDone)
            if at == CTRL:
                self.zxids[new[CZXID]] = answer.zxid or 0
        for version in range(0 if old is None else old[VER], new[VER]):
            operations = [SetData(path, _data(at, new[DATA]), version)]
            if version == new[VER] - 1:
                operations += others
            assert isinstance(self.server.write(*operations), MultiDone)

    def assert_same_trees(self) -> None:
        tree = self.s[0]
        for at, path in PATHS.items():
            node, znode = tree[at], self.server.find(path)
            assert (node is None) == (znode is None), (self.labels, path)
            if node is None or znode is None:
                continue
            found = (znode.stat.version, znode.stat.ephemeral_owner)
            assert found == (node[VER], self._session(node[OWNER])), (self.labels, path)
            if at != CTRL:
                assert znode.data == _data(at, node[DATA]), (self.labels, path)
            else:
                assert znode.stat.czxid == self.zxids[node[CZXID]], self.labels
        prefix = f"{controller_history_path()}/"
        recorded = [path for path in self.server.tree() if path.startswith(prefix)]
        received = {
            int(path.removeprefix(prefix)): ControllerRecord.decode(path, znode.data).foreign_epoch
            for path in recorded
            if (znode := self.server.find(path)) is not None
        }
        assert received == dict(tree[HIST][DATA]), self.labels

    def assert_same_beliefs(self) -> None:
        pc, _, _, last, lead, _ = self.s[1]
        election = self.election
        assert election.stage in STAGES[pc], (self.labels, election.stage)
        kept = election.predecessor
        assert (kept.czxid, kept.is_real, kept.epoch_version) == (
            self.zxids[last[0]],
            last[2] != OURS,
            last[3],
        ), self.labels
        if last[1]:
            assert kept.session == self._session(last[1])
        if pc in "GE":
            assert election.attempt is not None
            assert election.attempt == (lead[0], lead[1], lead[3]), self.labels
        if pc == "L":
            assert election.won is not None
            assert election.won.fence == (lead[1], lead[0]), self.labels


def _data(at: int, value: Any) -> bytes:
    """The model's data of a znode, as bytes."""
    if at == CTRL:
        return ControllerRegistration(B_BROKER if value == OURS else R_BROKER, 0).encode()
    if at == EPOCH:
        return ControllerEpoch(value).encode()
    if at == IDR:
        return BrokerRegistration("k", 9092, 1, 0).encode()
    return repr(value).encode()
