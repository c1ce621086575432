"""Runs real machines of members over a ZooKeeper in memory, with only the faults that a test asks for.

When `run` lets time pass, everything happens in a fixed order, so a test reads as a transcript: the members
that join, their requests, and the effects that they report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from tests.simulation.group.members import Actor
from tests.simulation.schedule import ScheduleRecording
from zkgroup.consumer.callbacks import RebalanceListener
from zkgroup.consumer.lease import ProcessedPositions
from zkgroup.consumer.machine import MemberConfig
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import Assign, CommitRequested, Effect, FinishCommit, MemberState, SeekTo
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.history import HistoryRecord
from zkgroup.model import LeaseGrant, StaticSubscription, Subscription, TopicPartition, Znode
from zkgroup.model.requests import Create, CreateMissing, Multi, Operation, ReadMany, Request
from zkgroup.settings import GroupSettings
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.testing.memory_zookeeper import Fault, ServerStep
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner, Registration


@dataclass(slots=True)
class _Claim:
    token: int
    position: int
    """The next record to deliver; all before it are processed."""
    must_commit: bool
    """The position came from the reset policy: it is committed before the first delivery."""
    is_stopped: bool = False
    seek: int = 0
    """Number of the last seek."""


class PositionsByHand:
    """A `Share` of one member."""

    def __init__(self) -> None:
        self.engine: MemberEngine | None = None
        self.last_seek_id = 0
        self.last_commit_id = 1_000_000
        """Call ids far from those of the member's loop."""
        self._claims: dict[TopicPartition, _Claim] = {}
        self._last_seek = 0

    def assigned(self, effect: Assign) -> None:
        self.last_seek_id = effect.seek_id
        for grant in effect.grants:
            offset = grant.offset
            self._claims[grant.topic_partition] = _Claim(grant.token, offset or 0, offset is None)

    def started(self, grants: Iterable[LeaseGrant]) -> None:
        del grants

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._claims[tp].is_stopped = True

    def drain(
        self, partitions: Iterable[TopicPartition], until_ms: int, done: Callable[[ProcessedPositions], None]
    ) -> None:
        del until_ms
        positions = {tp: self._claims[tp].position for tp in partitions if tp in self._claims}
        done(ProcessedPositions(positions, self._seeks(positions), self.last_seek_id))

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._claims.pop(tp, None)

    def extended(self) -> None:
        pass

    def seek_performed(self, seek: SeekTo) -> None:
        self.last_seek_id = seek.seek_id
        claim = self._claims.get(seek.topic_partition)
        if claim is not None:
            claim.position = max(seek.offset, 0)
            claim.must_commit = seek.offset < 0
            claim.seek = 0

    def committed(self, outcome: FinishCommit) -> None:
        for tp in outcome.committed:
            if tp in self._claims:
                self._claims[tp].must_commit = False

    def finished(self) -> None:
        self._claims.clear()

    def deliverable(self) -> list[TopicPartition]:
        """Partitions that may be delivered now."""
        assert self.engine is not None
        lease_table = self.engine.lease_table
        return [
            tp
            for tp, claim in self._claims.items()
            if lease_table.current.may_deliver(tp, claim.token, lease_table.now_ms())
            and not claim.must_commit
        ]

    def deliver(self, tp: TopicPartition) -> None:
        """Delivers and processes the next record."""
        assert self.engine is not None
        claim = self._claims[tp]
        fields = {
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": claim.position,
            "token": claim.token,
            "until_ms": self.engine.lease_table.current.until_ms,
        }
        self.engine.note_delivery("deliver.start", fields)
        self.engine.note_delivery("deliver.end", fields)
        claim.position += 1

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Seeks to an offset."""
        assert self.engine is not None
        self._last_seek += 1
        claim = self._claims[tp]
        claim.position, claim.seek = offset, self._last_seek
        fields = {"topic": tp.topic, "partition": tp.partition, "offset": offset, "token": claim.token}
        self.engine.note_delivery("seek", fields)

    def commit(self, values: Mapping[TopicPartition, int] | None = None) -> CommitRequested:
        """The event that requests a commit of these partitions, or of all owned ones."""
        positions = dict(values or {tp: claim.position for tp, claim in self._claims.items()})
        self.last_commit_id += 1
        return CommitRequested(
            self.last_commit_id, positions, self._seeks(positions), last_seek_id=self.last_seek_id
        )

    def _seeks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {
            tp: self._claims[tp].seek for tp in partitions if tp in self._claims and self._claims[tp].seek
        }


GROUP = "g"
E = TypeVar("E", bound=Effect)


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


class Called(RebalanceListener):
    """An application that is called before its partitions are revoked."""

    def on_prepare(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        pass


class Member(Actor):
    """A member; the test plays its application."""

    def __init__(self, config: MemberConfig, stage: SteppedGroup, client: MemoryClient, pid: int) -> None:
        self.application = PositionsByHand()
        share = self.application
        super().__init__(config, client, stage.clock, stage.recording, pid, listener=Called(), share=share)
        self.application.engine = self.engine


class SteppedGroup:
    """A group on one ZooKeeper in memory."""

    def __init__(self, topics: Mapping[str, int] | None = None, **settings: object) -> None:
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock, stepped=True)
        self.recording = ScheduleRecording(self.clock)
        self.settings = GroupSettings(**settings)  # type: ignore[arg-type]
        self.actors: dict[str, Member] = {}
        self._interferences: list[tuple[str, Callable[[Request], bool], Callable[[], object]]] = []
        self.hangs: set[str] = set()
        """Members whose callbacks do not return."""
        self.never_ready: set[str] = set()
        """Members whose `on_prepare` does not return."""
        for topic, partitions in (topics if topics is not None else {"t": 4}).items():
            self.topic(topic, partitions)

    def topic(self, name: str, partitions: int) -> None:
        """Creates a topic, or changes its partitions."""
        self.server.put(Topic.path(name), Topic(dict.fromkeys(range(partitions), (0,))).encode())

    def client(self, name: str, session_timeout_ms: int = 6000) -> MemoryClient:
        return self.server.clients.get(name) or self.server.client(name, session_timeout_ms)

    def join(
        self,
        name: str,
        wanted: Subscription | Mapping[str, int] | None = None,
        *,
        client: str | None = None,
        run_ms: int | None = 1000,
        settings: GroupSettings | None = None,
        jitter: Callable[[], float] = lambda: 0.5,
        request_bytes_max: int = 800_000,
        creates_parents: bool = True,
        prepares: bool = False,
    ) -> Member:
        """Starts member `g_<name>`, by default on a client of its own, and lets time pass."""
        if not isinstance(wanted, Subscription):
            wanted = StaticSubscription(dict(wanted if wanted is not None else {"t": 1}))
        config = MemberConfig(
            group=GROUP,
            member_id=f"{GROUP}_{name}",
            subscription=wanted,
            settings=settings or self.settings,
            version="1.2.3",
            jitter=jitter,
            prepares=prepares,
            owns_client=client is None,
            request_bytes_max=request_bytes_max,
            creates_parents=creates_parents,
        )
        store = self.client(client or f"client-{name}")
        actor = Member(config, self, store, len(self.actors))
        self.actors[name] = actor
        if run_ms is not None:
            self.run(run_ms)
        return actor

    def foreign_write(self, *operations: Operation) -> None:
        """Writes as a client that is no member of the group."""
        self.server.write(*operations)

    def commit(self, actor: Member, values: Mapping[TopicPartition, int], **fields: object) -> None:
        """Requests a commit and runs until it is done."""
        request = actor.application.commit(values)
        actor.post(ev.CommitRequested(request.commit_id, request.positions, **fields))  # type: ignore[arg-type]
        self.drain()

    def when(
        self,
        client: str,
        wanted: Callable[[Request], bool],
        action: Callable[[], object] | None = None,
        fault: Fault | None = None,
    ) -> None:
        """Calls a function or loses the request, just before the server executes a client's next such one."""
        self._interferences.append((client, wanted, action or (lambda: fault)))

    def _interfere(self, step: ServerStep) -> Fault | None:
        """Calls what a test set for this moment; the fault for the request, if any."""
        if step.kind != "request":
            return None
        request = self.server.clients[step.client].requests[0].request
        fault: Fault | None = None
        for entry in list(self._interferences):
            client, wanted, action = entry
            if client == step.client and request is not None and wanted(request):
                self._interferences.remove(entry)
                done = action()
                fault = cast("Fault", done) if isinstance(done, str) else fault
        return fault

    def drain(self) -> None:
        """Runs everything that can happen without time passing."""
        for _ in range(20_000):
            steps = self.server.pending()
            for step in steps:
                if step in self.server.pending():
                    self.server.deliver(step, self._interfere(step))
            acted = [self._act(name, actor) for name, actor in self.actors.items()]
            if not any(acted) and not steps:
                return
        raise AssertionError("something goes on for ever")

    def _act(self, name: str, actor: Actor) -> bool:
        while actor.runner.can_prepare and name not in self.never_ready:
            actor.runner.prepare()
        if actor.runner.can_begin:
            actor.runner.begin()
        if actor.runner.can_return and name not in self.hangs:
            actor.runner.finish()
        return actor.run() > 0

    def run(self, ms: int) -> None:
        """Advances time; clients that are connected send heartbeats."""
        end_ms = self.clock.now_ms() + ms
        self.drain()
        while self.clock.now_ms() < end_ms:
            timers = [a.next_timer_ms() for a in self.actors.values() if a.finished is None]
            due = [at for at in timers if at is not None]
            self.clock.advance_to(
                max(self.clock.now_ms() + 1, min([*due, end_ms, self.clock.now_ms() + 1000]))
            )
            for client in self.server.clients:
                self.server.ping(client)
            for session_id in self.server.overdue():
                self.server.expire_session(session_id)
            self.drain()

    def run_until(self, condition: Callable[[], object], limit_ms: int = 30_000) -> int:
        """Advances time until the predicate is true; how long that took."""
        started_ms = self.clock.now_ms()
        while not condition():
            assert self.clock.now_ms() - started_ms < limit_ms, "it does not come to that"
            self.run(1)
        return self.clock.now_ms() - started_ms

    def owners(self, topic: str = "t") -> dict[int, str]:
        """Partition number to thread id without the group, as the owner znodes have it."""
        found = {}
        for path, znode in self.server.tree().items():
            components = path.split("/")
            if path.startswith(f"/consumers/{GROUP}/owners/{topic}/"):
                found[int(components[5])] = (znode.data or b"").decode().removeprefix(f"{GROUP}_")
        return found

    def owner(self, number: int) -> Znode | None:
        return self.server.find(Owner.path(GROUP, tp(number)))

    def offset(self, number: int) -> Znode:
        found = self.server.find(Offset.path(GROUP, tp(number)))
        assert found is not None
        return found

    def registration(self, name: str) -> Znode | None:
        return self.server.find(Registration.path(GROUP, f"{GROUP}_{name}"))

    def notes(self, kind: str, name: str | None = None) -> list[HistoryRecord]:
        return [
            r
            for r in self.recording.records
            if r.kind == kind and (name is None or r.member == f"{GROUP}_{name}")
        ]


def effects_of(actor: Actor, kind: type[E]) -> list[E]:
    """The effects of one type, in order."""
    return [effect for effect in actor.effects if isinstance(effect, kind)]


def multis(requests: Sequence[Request]) -> list[tuple[Operation, ...]]:
    return [request.operations for request in requests if isinstance(request, Multi)]


def writes_to(part: str, kind: type[Operation] | None = None) -> Callable[[Request], bool]:
    """Matches a transaction with an operation (of this kind) on a path that contains `part`."""

    def wanted(request: Request) -> bool:
        return isinstance(request, Multi) and any(
            part in o.path and (kind is None or isinstance(o, kind)) for o in request.operations
        )

    return wanted


def reads(part: str) -> Callable[[Request], bool]:
    """Matches a bulk read of a path that contains `part`."""
    return lambda request: isinstance(request, ReadMany) and any(part in path for path in request.paths)


def packets(requests: Sequence[Request]) -> int:
    """How many packets a real client sends for these requests."""
    return sum(len(r.paths) if isinstance(r, CreateMissing) else 1 for r in requests)


def is_stable(actor: Actor) -> bool:
    return actor.state is MemberState.STABLE


def owned(actor: Actor) -> list[int]:
    return sorted(held.partition for held in actor.machine.grants())


def claims(actor: Actor) -> list[tuple[Operation, ...]]:
    """The transactions that create owners."""
    return [
        ops for ops in multis(actor.asked) if any(isinstance(o, Create) and "/owners/" in o.path for o in ops)
    ]
