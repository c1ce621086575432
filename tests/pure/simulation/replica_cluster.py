"""Three brokers that replicate one partition, with a simple controller and a simple ISR of the leader.

The seed decides everything: appends, fetches whose answers arrive late, crashes and restarts, lost folders,
decisions that some brokers receive late, ISR writes with an unknown outcome. After every step the cluster
checks that no two replicas differ below their high watermarks and that no acknowledged record is lost.

The partition exists when a schedule begins. The controller elects ISR members only, raises the leader epoch
when a broker restarts, and treats a replica that answers error 56 as offline. A folder is lost only while
another running ISR member has all records and its own folder: without one, no record can be guaranteed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.worlds.replica_managers import TP, Hosts, append, caught_up
from zkgroup.broker.replica_view import FollowerId, Role
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import FetchedPartition, FetchPartition

BROKERS = (1, 2, 3)


class ViolationError(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True)
class State:
    """The partition's state znode."""

    leader: int | None
    leader_epoch: int
    isr: frozenset[int]
    version: int


@dataclass
class Leading:
    """The state znode as a leader knows it; the broker may have been replaced as leader."""

    state: State
    proposed: frozenset[int] | None = None


@dataclass(frozen=True)
class Waiting:
    """Records appended with acks=all that have not been answered."""

    broker: int
    broker_epoch: int
    leader_epoch: int
    base_offset: int
    records: tuple[bytes, ...]


@dataclass
class Cluster:
    """The cluster of the module. `step` does one random thing, `heal` lets all brokers catch up."""

    hosts: Hosts
    seed: int
    state: State = State(1, 0, frozenset(BROKERS), 0)
    up: dict[int, ReplicaManager] = field(default_factory=dict)
    acked: dict[int, bytes] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    """How often each step could do something."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.broker_epochs = dict.fromkeys(BROKERS, 0)
        self.untold: dict[int, State] = {}
        self.follows: dict[int, State] = {}
        self.leading: dict[int, Leading] = {}
        self.answers: dict[int, tuple[FetchPartition, FetchedPartition]] = {}
        self.waiting: list[Waiting] = []
        self.committed: dict[int, bytes] = {}
        self.watermarks: dict[tuple[int, int, int], int] = {}
        self.offline: set[int] = set()
        self.unnoticed: set[int] = set()
        self.emptied: set[int] = set()
        """Brokers whose folders were lost, until they join the ISR."""
        self.deleted = 0
        """The highest log start offset of a leader: records below it may be gone."""
        self.records = 0
        self.incarnations = 0
        for broker in BROKERS:
            self._open(broker)
            self.untold[broker] = self.state
            self.tell(broker)

    def close(self) -> None:
        for host in self.up.values():
            host.close()

    def decide(self, leader: int | None, isr: frozenset[int]) -> None:
        """Writes a new leader epoch; each broker receives it when `tell` is called for it."""
        self.state = State(leader, self.state.leader_epoch + 1, isr, self.state.version + 1)
        for broker in self.up:
            self.untold[broker] = self.state

    def elect(self) -> None:
        able = [b for b in BROKERS if b in self.up and b in self.state.isr and b not in self.offline]
        if not able:
            self.decide(None, self.state.isr)
            return
        self.decide(self.random.choice(able), frozenset(able))

    def notice(self, broker: int) -> None:
        """The controller notices that the broker has restarted."""
        self.unnoticed.discard(broker)
        if broker == self.state.leader:
            self.elect()
        elif broker in self.state.isr and len(self.state.isr) > 1:
            self.decide(self.state.leader, self.state.isr - {broker})

    def tell(self, broker: int) -> None:
        """Sends the latest decision to the broker."""
        state = self.untold.pop(broker)
        host = self.up[broker]
        self.leading.pop(broker, None)
        self.follows.pop(broker, None)
        self.answers.pop(broker, None)
        if state.leader != broker:
            if state.leader is not None and host.become_follower(TP, state.leader_epoch) is ErrorCode.NONE:
                self.follows[broker] = state
            return
        if host.become_leader(TP, state.leader_epoch, BROKERS, state.isr) is ErrorCode.NONE:
            self.leading[broker] = Leading(state)
            self._check_has_all(broker, f"became leader in epoch {state.leader_epoch}")
            return
        self.offline.add(broker)
        if state.leader_epoch == self.state.leader_epoch:
            self.elect()

    def crash(self, broker: int) -> None:
        self.up.pop(broker).close()
        self.untold.pop(broker, None)
        self.follows.pop(broker, None)
        self.answers.pop(broker, None)
        self.unnoticed.add(broker)
        leading = self.leading.pop(broker, None)
        if leading is not None and leading.proposed is not None and self.random.random() < 0.5:
            self._store(leading)  # the request was under way

    def start(self, broker: int, seen: bool = True) -> None:
        """Starts a broker. The controller notices the restart if `seen` or in the first leader epoch."""
        self._open(broker)
        self.offline.discard(broker)
        if broker in self.unnoticed and (seen or self.state.leader_epoch == 0):
            self.notice(broker)
        self.unnoticed.discard(broker)
        self.untold[broker] = self.state
        if self.state.leader is None:
            self.elect()

    def may_go(self, broker: int, loses: bool) -> bool:
        """Whether all records are safe without this broker's folder."""
        safe = {member for member in self.state.isr if member not in self.emptied and self.has_all(member)}
        if not loses and safe == self.state.isr:
            return True
        return any(member in self.up and member not in self.unnoticed for member in safe - {broker})

    def has_all(self, broker: int) -> bool:
        records = self.records_of(broker)
        return all(
            records.get(offset) == value for offset, value in self.acked.items() if offset >= self.deleted
        )

    def records_of(self, broker: int) -> dict[int, bytes]:
        """The records in a broker's log, by offset."""
        return dict(enumerate(self.hosts.records(broker), self.hosts.first_offset(broker)))

    def _open(self, broker: int) -> None:
        self.incarnations += 1
        self.broker_epochs[broker] = self.incarnations
        self.up[broker] = self.hosts.open(broker)

    def propose(self, broker: int, joins: int | None = None, leaves: int | None = None) -> bool:
        leading, host = self.leading[broker], self.up[broker]
        view = host.view(TP)
        if leading.proposed is not None or view is None or view.role is not Role.LEADER:
            return False
        isr = leading.state.isr
        lost = {member for member, follower in view.followers.items() if follower.lost}
        joining = {joins} - isr if joins is not None and caught_up(host, TP, joins) else set()
        wanted = (isr | joining) - lost - ({leaves} - {broker})
        if wanted == isr:
            return False
        leading.proposed = wanted
        self.emptied -= joining
        host.set_isr(TP, leading.state.leader_epoch, isr | wanted)
        return True

    def written(self, broker: int) -> None:
        """Stores the ISR that the leader proposed. A leader whose write is refused keeps the larger ISR."""
        leading = self.leading[broker]
        if self._store(leading):
            self.up[broker].set_isr(TP, leading.state.leader_epoch, leading.state.isr)

    def _store(self, leading: Leading) -> bool:
        if leading.proposed is None or leading.state.version != self.state.version:
            return False
        self.state = State(
            self.state.leader, self.state.leader_epoch, leading.proposed, self.state.version + 1
        )
        self.offline -= leading.proposed
        leading.state, leading.proposed = self.state, None
        return True

    def append(self, broker: int) -> None:
        count = self.random.randint(1, 3)
        records = tuple(b"line %d" % (self.records + number) for number in range(count))
        self.records += count
        leader_epoch = self.leading[broker].state.leader_epoch
        response = append(self.up[broker], leader_epoch, *records)
        if response.error == ErrorCode.NONE:
            self.waiting.append(
                Waiting(broker, self.broker_epochs[broker], leader_epoch, response.base_offset, records)
            )

    def delete(self, broker: int) -> None:
        """Retention of a leader: its log starts at an offset up to its high watermark."""
        offset = self.random.randint(0, self.up[broker].high_watermark(TP) or 0)
        if self.up[broker].delete_records(TP, offset) is ErrorCode.NONE:
            self.deleted = max(self.deleted, offset)

    def ask(self, broker: int) -> bool:
        """A follower fetches from the leader that it knows; the answer is in flight."""
        request = self.up[broker].next_fetch(TP, self.random.choice((1, 40)))
        leader = self.follows[broker].leader
        if request is None or leader not in self.up:
            return False
        follower = FollowerId(broker, self.broker_epochs[broker])
        self.answers[broker] = request, self.up[leader].fetch(TP, request, follower)
        if leader in self.leading:
            self.propose(leader, joins=broker)
        return True

    def answer(self, broker: int) -> None:
        self.up[broker].take(TP, *self.answers.pop(broker))

    def check(self) -> None:
        self._answer_appends()
        for broker, host in self.up.items():
            view = host.view(TP)
            if view is None or view.failure:
                continue
            records = self.records_of(broker)
            for offset in range(host.offsets(TP).log_start_offset, view.high_watermark):
                value = self.committed.setdefault(offset, records[offset])
                if value != records[offset]:
                    raise ViolationError(
                        f"{self}: broker {broker} has {records[offset]!r} at {offset}, another {value!r}"
                    )
            if view.role is Role.LEADER:
                term = broker, self.broker_epochs[broker], view.leader_epoch
                if view.high_watermark < self.watermarks.get(term, 0):
                    raise ViolationError(f"{self}: the high watermark of broker {broker} has fallen")
                self.watermarks[term] = view.high_watermark

    def _answer_appends(self) -> None:
        still: list[Waiting] = []
        for waiting in self.waiting:
            host = self.up.get(waiting.broker)
            if host is None or self.broker_epochs[waiting.broker] != waiting.broker_epoch:
                continue
            view = host.view(TP)
            if view is None or (view.role, view.leader_epoch) != (Role.LEADER, waiting.leader_epoch):
                continue
            if view.high_watermark < waiting.base_offset + len(waiting.records):
                still.append(waiting)
                continue
            self.acked.update(enumerate(waiting.records, waiting.base_offset))
        self.waiting = still

    def _check_has_all(self, broker: int, when: str) -> None:
        if self.state.leader == broker and not self.has_all(broker):
            raise ViolationError(f"{self}: broker {broker} {when} without {self.acked}")

    def __str__(self) -> str:
        return f"seed {self.seed}"

    def step(self) -> None:
        """Does one thing, chosen at random among those that can happen."""
        while True:
            name = self.random.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]
            if self._do(name, self.random.choice(BROKERS)):
                break
        self.steps[name] = self.steps.get(name, 0) + 1
        self.check()

    def _do(self, name: str, broker: int) -> bool:
        able = {
            "append": broker in self.leading,
            "delete": broker in self.leading,
            "ask": broker in self.follows and broker not in self.answers,
            "answer": broker in self.answers,
            "drop": broker in self.leading,
            "written": broker in self.leading and self.leading[broker].proposed is not None,
            "tell": broker in self.untold,
            "elect": not self.unnoticed,
            "crash": broker in self.up and self.may_go(broker, loses=False),
            "lose": broker not in self.up and self.may_go(broker, loses=True),
            "start": broker not in self.up,
            "notice": broker in self.unnoticed and broker not in self.up,
        }[name]
        if not able:
            return False
        match name:
            case "drop":
                return self.propose(broker, leaves=self.random.choice(BROKERS))
            case "ask":
                return self.ask(broker)
            case "elect":
                self.elect()
            case "lose":
                self.hosts.lose(broker)
                self.emptied.add(broker)
            case "start":
                self.start(broker, seen=self.random.random() < 0.2)
            case _:
                getattr(self, name)(broker)
        return True

    def heal(self) -> None:
        """Starts every broker; then the ISR is full, all logs are equal, and a record is acknowledged.

        Raises ViolationError otherwise.
        """
        for broker in BROKERS:
            if broker not in self.up:
                self.start(broker)
        before = len(self.acked)
        for _ in range(60):
            for broker in BROKERS:
                for name in ("tell", "written", "ask", "answer"):
                    self._do(name, broker)
                self.check()
            if self.state.isr == frozenset(BROKERS) and self.state.leader in self.leading:
                if len(self.acked) > before:
                    break
                if not self.waiting:
                    self.append(self.state.leader)
        logs = [self.hosts.records(broker) for broker in BROKERS]
        if len(self.acked) == before or not all(self.has_all(broker) for broker in BROKERS):
            raise ViolationError(f"{self}: {self.state} after healing, {logs}, acknowledged {self.acked}")


WEIGHTS = {
    "append": 8,
    "delete": 1,
    "ask": 20,
    "answer": 30,
    "written": 3,
    "tell": 12,
    "drop": 3,
    "elect": 4,
    "crash": 2,
    "lose": 20,
    "start": 8,
    "notice": 1,
}


def run(hosts: Hosts, seed: int, steps: int) -> Cluster:
    """Runs one schedule. Raises ViolationError, which names the seed."""
    cluster = Cluster(hosts, seed)
    try:
        for _ in range(steps):
            cluster.step()
        cluster.heal()
    finally:
        cluster.close()
    return cluster
