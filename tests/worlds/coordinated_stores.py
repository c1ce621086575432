"""Two brokers with coordinator and store, clients and ZooKeeper consumers, in a seeded schedule with faults.

What the exhaustive model promises is checked at every transaction (`tests/programs/model/coordinator`): no
generation begins twice, no stale commit is accepted, never both kinds of members.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.worlds.coordinators import SETTINGS
from tests.worlds.stepped_stores import GROUP, P0, SteppedStores, StoreNode
from zkgroup.broker.groups.store_events import Effect, SlotLed, SlotResigned, SlotsCounted
from zkgroup.coordinator.coordinator import GroupCoordinator
from zkgroup.coordinator.effects import (
    DropRequest,
    JoinGroupResult,
    Reply,
    SyncGroupResult,
)
from zkgroup.coordinator.effects import Effect as CoordinatorEffect
from zkgroup.coordinator.events import (
    CommitOffsets,
    CoordinatorEvent,
    GroupWritten,
    JoinGroup,
    LeaseExtended,
    LeaveGroup,
    LeavingIdentity,
    OffsetsWritten,
    SlotKept,
    SlotLoaded,
    SlotLoading,
    SlotUnloaded,
    Started,
    SyncGroup,
)
from zkgroup.coordinator.group import ConsumerGroupState
from zkgroup.coordinator.records import OffsetAndMetadata
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import Create, Delete, MultiDone
from zkgroup.runtime.events import LogEvent
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.consumers import ids_path, offset_path
from zkgroup.znodes.coordinated_groups import GroupHeader, ProtocolMarker, SlotOwner

SCALE = 1000
"""An offset is generation x SCALE + a number, so that a commit says its generation."""
MEMBER = "zk-1"


@dataclass(slots=True)
class Client:
    """What a client believes."""

    name: str
    broker: int = 1
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: tuple[str, ...] = ()


class CoordinatedNode(StoreNode):
    """A broker with its coordinator."""

    def __init__(self, world: CoordinatedStores, broker: int) -> None:
        self.world = world
        self.coordinator: GroupCoordinator | None = None
        self.loads = 0
        self.open: dict[int, Client] = {}
        super().__init__(world, broker)

    def perform(self, effect: Effect | LogEvent) -> None:
        super().perform(effect)
        match effect:
            case SlotsCounted(count):
                self.coordinator = GroupCoordinator(SETTINGS, count, lambda: f"{next(self.world.numbers):04}")
                self.handle(Started())
            case (
                SlotLoading()
                | SlotLoaded()
                | SlotKept()
                | SlotUnloaded()
                | GroupWritten()
                | OffsetsWritten()
                | LeaseExtended()
            ):
                self.loads += isinstance(effect, SlotLoaded)
                self.handle(effect)

    def handle(self, event: CoordinatorEvent) -> None:
        if self.coordinator is not None:
            self._take(self.coordinator.handle(event, self.world.clock.now_ms()))

    def advance(self) -> None:
        if self.coordinator is not None:
            self._take(self.coordinator.advance(self.world.clock.now_ms()))

    def _take(self, effects: Iterable[CoordinatorEffect]) -> None:
        for effect in effects:
            match effect:
                case Reply(number, result):
                    client = self.open.pop(number, None)
                    if client is not None:
                        self.world.replied(self, client, result)
                case DropRequest(number):
                    self.open.pop(number, None)
                case LogEvent(kind, fields):
                    if kind == "group_state" and fields["after"] == "CompletingRebalance":
                        self.world.generation_began(self, int(str(fields["generation"])))
                case _:
                    self.loop.post(effect)  # type: ignore[arg-type]

    @property
    def has_members(self) -> bool:
        """Whether members have a generation of this coordinator, which owns the slot."""
        group = None if self.coordinator is None else self.coordinator.group(GROUP)
        return group is not None and group.state in (
            ConsumerGroupState.STABLE,
            ConsumerGroupState.COMPLETING_REBALANCE,
        )


class CoordinatedStores(SteppedStores):
    """The world of one schedule."""

    def __init__(self, seed: int) -> None:
        super().__init__(slots=1)
        self.random = random.Random(seed)
        self.numbers = itertools.count(1)
        self.began: dict[int, tuple[int, int]] = {}
        """Generation to the broker that began it, and the number of its load."""
        self.stats: Counter[str] = Counter()
        self.clients = [Client(f"c{number}") for number in range(3)]
        self.seen = 0
        """Transactions that were checked."""
        self.leader = 1
        for broker in (1, 2):
            node = CoordinatedNode(self, broker)
            self.nodes.append(node)
        self.server.put(ids_path(GROUP))
        self.lead(self.nodes[0])
        self.run()

    @property
    def brokers(self) -> list[CoordinatedNode]:
        return [node for node in self.nodes if isinstance(node, CoordinatedNode)]

    # --- what happens -----------------------------------------------------------------------------

    def generation_began(self, node: CoordinatedNode, generation: int) -> None:
        load = node.broker, node.loads
        assert generation not in self.began, f"generation {generation} began at {self.began} and {load}"
        self.began[generation] = load
        self.stats["generations"] += 1

    def replied(self, node: CoordinatedNode, client: Client, result: object) -> None:
        match result:
            case JoinGroupResult(error=ErrorCode.NONE):
                client.broker, client.member_id = node.broker, result.member_id
                client.generation, client.leads = result.generation, result.leader == result.member_id
                client.members = tuple(each.member_id for each in result.members)
            case JoinGroupResult(error=ErrorCode.UNKNOWN_MEMBER_ID):
                client.member_id = ""
            case JoinGroupResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
                self.stats["refused for ZooKeeper members"] += 1
            case SyncGroupResult(error=ErrorCode.NONE):
                self.stats["synced"] += 1

    def ask(self, client: Client, broker: int, event: CoordinatorEvent) -> None:
        node = self.brokers[broker - 1]
        node.open[event.request_id] = client  # type: ignore[union-attr]
        node.handle(event)

    def act(self, client: Client) -> None:
        """A client joins, syncs, commits or leaves, with what it believes."""
        number = next(self.numbers)
        kind = self.random.choices(("join", "sync", "commit", "leave"), (4, 8, 8, 1))[0]
        if kind == "join":
            broker = self.leader if self.random.random() < 0.8 else 3 - self.leader
            self.ask(client, broker, join(number, client))
        elif client.generation < 0:
            return
        elif kind == "sync":
            assignments = dict.fromkeys(client.members, b"a") if client.leads else {}
            self.ask(client, client.broker, sync(number, client, assignments))
        elif kind == "commit":
            self.ask(client, client.broker, commit(number, client))
        else:
            leaving = (LeavingIdentity(member_id=client.member_id),)
            self.ask(client, client.broker, LeaveGroup(request_id=number, group_id=GROUP, members=leaving))
            client.member_id, client.generation = "", -1

    def zookeeper_consumer(self) -> None:
        """Registers as zkgroup's members do, commits, or leaves."""
        path, marker = f"{ids_path(GROUP)}/{MEMBER}", ProtocolMarker.path(GROUP)
        if self.server.find(path) is None:
            done = self.server.write(Create(marker, b""), Delete(marker, -1), Create(path, b"{}"))
            self.stats["registered"] += isinstance(done, MultiDone)
        elif self.random.random() < 0.85:
            self.server.remove(path)
        else:
            self.server.put(offset_path(GROUP, P0), str(10**9 + next(self.numbers)).encode())

    def disturb(self) -> None:
        """The slot moves, connections break, sessions end, an operator fences, the ISR changes."""
        node = self.random.choice(self.brokers)
        name = node.client.name
        match self.random.randrange(6):
            case 0 | 1:
                self.leader = self.random.choice((1, 2))
                epoch = self.elect(self.leader)
                for each in self.brokers:
                    if self.random.random() < 0.7:
                        event = SlotLed if each.broker == self.leader else SlotResigned
                        each.loop.post(event(0, epoch))
            case 2:
                self.server.cut(
                    name, executed=self.random.randrange(3), keep_requests=self.random.random() < 0.5
                )
            case 3:
                if node.client.session is not None:
                    self.server.expire(name)
                    self.server.cut(name)
            case 4:
                self.server.put(SlotOwner.path(0), SlotOwner(-1, 0).encode())
            case 5:
                self.elect(self.leader, epoch=self._epochs[0])  # the ISR changes

    def step(self) -> None:
        """One event of the schedule."""
        kind = self.random.random()
        steps = self.server.pending()
        if kind < 0.012:
            self.disturb()
        elif kind < 0.03:
            self.zookeeper_consumer()
        elif kind < 0.30:
            self.act(self.random.choice(self.clients))
        elif kind < 0.36 or not steps:
            self.clock.advance(self.random.choice((10, 60, 200)))
            for node in self.brokers:
                node.loop.run_pending()
                node.advance()
        else:
            step = self.random.choice(steps)
            faults: tuple[Fault, ...] = ("lost_reply", "lost_request", "late")
            is_lost = step.kind == "request" and self.random.random() < 0.04
            self.deliver(step, self.random.choice(faults) if is_lost else None)
        for node in self.brokers:
            node.loop.run_pending()
        self.check()

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        """The promises, at every transaction since the last check."""
        log = self.server.log
        for entry in log[self.seen :]:
            for change in entry.changes:
                if getattr(change, "path", "") == offset_path(GROUP, P0) and entry.client.startswith("n"):
                    self.check_commit(entry.client, getattr(change, "data", b""))
        self.seen = len(log)
        if self.server.find(f"{ids_path(GROUP)}/{MEMBER}") is not None:
            header = self.server.find(GroupHeader.path(0, GROUP))
            stored = None if header is None or not header.data else self.header()
            assert stored is None or not stored.chunks, "a ZooKeeper member beside a stored one"
            owner = self.server.find(SlotOwner.path(0))
            version = None if owner is None else owner.stat.version
            for node in self.brokers:
                slot = node.machine._core.slots.get(0)
                if slot is not None and slot.version == version:
                    assert not node.has_members, "a ZooKeeper member beside one with a generation"

    def check_commit(self, client: str, data: bytes) -> None:
        generation = int(data) // SCALE
        broker = next(node.broker for node in self.brokers if node.client.name == client)
        if generation < 10**5:
            self.stats["committed"] += 1
            later = [each for each, (by, _) in self.began.items() if each > generation and by != broker]
            assert not later, f"a commit of generation {generation} by {broker}, after {later}"

    def settle(self) -> ErrorCode | None:
        """Without further faults: what a new client's join at the leader becomes; None without a result."""
        if self.server.find(f"{ids_path(GROUP)}/{MEMBER}") is not None:
            self.server.remove(f"{ids_path(GROUP)}/{MEMBER}")
        epoch = self.elect(self.leader)
        for node in self.brokers:
            event = SlotLed if node.broker == self.leader else SlotResigned
            node.loop.post(event(0, epoch))
        self._quiet(3000)
        client = Client("last")
        self.ask(client, self.leader, join(next(self.numbers), client))
        self._quiet(3000)
        return ErrorCode.NONE if client.generation >= 0 else None

    def _quiet(self, ms: int) -> None:
        for _ in range(ms // 50):
            self.clock.advance(50)
            self.run()
            for node in self.brokers:
                node.advance()
            self.run()
            self.check()


def join(number: int, client: Client) -> JoinGroup:
    return JoinGroup(
        request_id=number,
        group_id=GROUP,
        member_id=client.member_id,
        requires_member_id=False,
        client_id=client.name,
        client_host="/127.0.0.1",
        session_timeout_ms=500,
        rebalance_timeout_ms=500,
        protocol_type="consumer",
        protocols=(("range", b"r"),),
    )


def sync(number: int, client: Client, assignments: dict[str, bytes]) -> SyncGroup:
    return SyncGroup(
        request_id=number,
        group_id=GROUP,
        generation=client.generation,
        member_id=client.member_id,
        assignments=assignments,
    )


def commit(number: int, client: Client) -> CommitOffsets:
    return CommitOffsets(
        request_id=number,
        group_id=GROUP,
        generation=client.generation,
        member_id=client.member_id,
        offsets={P0: OffsetAndMetadata(offset=client.generation * SCALE + number % SCALE)},
    )
