"""Faults of clients and ZooKeeper consumers of coordinated groups."""

from __future__ import annotations

import random

from tests.simulation.cluster.operations import Operations
from tests.simulation.coordinator.client import GroupClient
from tests.simulation.coordinator.world import CoordinatorWorld, OutsideClient
from tests.simulation.coordinator.zookeeper_member import ZooKeeperMember
from zkgroup.coordinator.group import ConsumerGroupState
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, MultiDone, SetData
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotOwner
from zkgroup.znodes.group_records import Freeze


class MemberFaults:
    """The faults of one schedule. Each method injects one, or returns False where it is not possible."""

    def __init__(self, world: CoordinatorWorld, rng: random.Random, operations: Operations) -> None:
        self._world, self._rng, self._operations = world, rng, operations
        self._outside = 0

    def inject(self, fault: str) -> object:
        """Injects the fault of that name; False where it is not possible."""
        self._world.forget_ended()
        return getattr(self, fault)()

    def _client(self) -> GroupClient | None:
        clients = self._world.group_clients
        return self._rng.choice(clients) if clients else None

    def _member(self) -> ZooKeeperMember | None:
        members = self._world.zookeeper_members
        return self._rng.choice(members) if members else None

    def cut_group_client(self) -> object:
        """Breaks the connection of a client, preferably one with a request or an answer on it."""
        busy = self._world.calls.busy()
        caller = self._rng.choice(busy) if busy else self._client()
        if caller is None:
            return False
        self._world.calls.cut(caller)
        caller.disconnected()
        return caller.name

    def pause_group_client(self) -> object:
        """Pauses a client, perhaps for longer than its session."""
        client = self._client()
        if client is None:
            return False
        ms = self._rng.choice((300, 1_000, 4_000))
        self._world.pause(client.name, ms)
        return f"{client.name} for {ms}"

    def lose_commit(self) -> object:
        """Breaks the connection of a client whose commit is on its way, and begins a rebalance."""
        world = self._world
        able = [one for one in world.group_clients if one.has_sent_commit]
        if not able:
            return False
        client = self._rng.choice(able)
        world.calls.cut(client, keeps=True)
        client.disconnected()
        if len(world.clients_of(client.group)) <= world.members_setup.clients:
            world.start_client(client.group, world.members_setup.clients)
        return client.name

    def kill_group_client(self) -> object:
        client = self._client()
        if client is None:
            return False
        client.end()
        return client.name

    def leave_group(self) -> object:
        """Several clients of a group leave it in order: often all, so that the group is empty."""
        client = self._client()
        if client is None:
            return False
        leaving = self._world.clients_of(client.group) if self._rng.random() < 0.6 else [client]
        for each in leaving:
            each.leave()
        return [each.name for each in leaving]

    def duplicate_static(self) -> object:
        """Starts a static member again, while the former process still runs."""
        static = [one for one in self._world.group_clients if one.instance_id is not None]
        if not static:
            return False
        former = self._rng.choice(static)
        return self._world.start_client(former.group, former.index).name

    def commit_outside(self) -> object:
        """A client that is no member commits."""
        self._outside += 1
        group = self._rng.choice(self._world.members_setup.groups)
        outside = OutsideClient(self._world, group, self._outside)
        return outside.name if outside.commit() else False

    def fetch_outside(self) -> object:
        """A client that is no member reads the offsets of a group."""
        self._outside += 1
        group = self._rng.choice(self._world.members_setup.groups)
        outside = OutsideClient(self._world, group, self._outside)
        return outside.name if outside.fetch() else False

    def pause_zookeeper_member(self) -> object:
        member = self._member()
        if member is None:
            return False
        ms = self._rng.choice((500, 3_000, 9_000))
        self._world.pause(member.name, ms)
        return f"{member.name} for {ms}"

    def kill_zookeeper_member(self) -> object:
        member = self._member()
        if member is None:
            return False
        self._world.kill_zookeeper_member(member)
        return member.name

    def stop_zookeeper_member(self) -> object:
        member = self._member()
        if member is None:
            return False
        member.leave()
        return member.name

    def move_slot(self) -> object:
        """A reassignment moves a slot from the broker that leads it to another one."""
        world = self._world
        tp = TopicPartition(OFFSETS_TOPIC, self._rng.randrange(world.setup.slots))
        state = world.audit.catch_up().state(tp)
        others = [] if state is None else sorted(world.brokers.keys() - {state.leader})
        return bool(others) and self._operations.move({tp: (self._rng.choice(others),)})

    def fence_slot(self) -> object:
        """An operator fences a slot, as `coordinator release` does where no broker leads it."""
        slot = self._rng.randrange(self._world.setup.slots)
        if self._world.server.find(SlotOwner.path(slot)) is None:
            return False
        self._world.server.put(SlotOwner.path(slot), SlotOwner(-1, 0).encode())
        return slot

    def freeze_group(self) -> object:
        """An operator freezes a stable group, for a short time."""
        world, group = self._world, self._rng.choice(self._world.members_setup.groups)
        stable = [
            each
            for process in world.brokers.values()
            if process.coordinator is not None
            for each in process.coordinator.stored.coordinator.groups()
            if each.group_id == group and each.state is ConsumerGroupState.STABLE
        ]
        if not stable or world.server.find(Freeze.path(group)) is not None:
            return False
        for_ms = self._rng.choice((300, 2_000, 6_000))
        freeze = Freeze(reason="a fault", by="operator", for_ms=for_ms, allows_takeover=False)
        return self._with_slot(group, Create(Freeze.path(group), freeze.encode())) and for_ms

    def unfreeze_group(self) -> object:
        group = self._rng.choice(self._world.members_setup.groups)
        if self._world.server.find(Freeze.path(group)) is None:
            return False
        return self._with_slot(group, Delete(Freeze.path(group), -1))

    def _with_slot(self, group: str, change: Create | Delete) -> bool:
        """Writes with the group's slot set, so that its coordinator loads it again."""
        server, path = self._world.server, SlotOwner.path(slot_of(group, self._world.setup.slots))
        owner = server.find(path)
        if owner is None:
            return False
        set_again = SetData(path, owner.data or b"", owner.stat.version)
        return isinstance(server.write(change, set_again), MultiDone)

    def depose_coordinator(self) -> object:
        """The coordinator ends, or loses its slot, between a generation and its assignment."""
        world = self._world
        able = [
            (process, group)
            for process in world.brokers.values()
            if process.coordinator is not None
            for group in process.coordinator.stored.coordinator.groups()
            if group.state is ConsumerGroupState.COMPLETING_REBALANCE
        ]
        if not able:
            return False
        process, group = self._rng.choice(able)
        if self._rng.random() < 0.5:
            world.kill(process.broker, executed=self._rng.randint(0, 1))
            world.restart(process.broker)
        else:
            slot = slot_of(group.group_id, world.setup.slots)
            world.server.put(SlotOwner.path(slot), SlotOwner(-1, 0).encode())
        return f"{process.name}, {group.group_id} in generation {group.generation}"

    def start_member(self) -> object:
        """Starts a member that a group lacks, of any kind."""
        world, setup = self._world, self._world.members_setup
        group = self._rng.choice(setup.groups)
        lacks_clients = len(world.clients_of(group)) < setup.clients
        lacks_members = len(world.members_of(group)) < setup.zookeeper_members
        if not lacks_clients and not lacks_members:
            return False
        if lacks_clients and (not lacks_members or self._rng.random() < 0.6):
            return world.start_client(group, self._rng.randrange(setup.clients)).name
        return world.start_zookeeper_member(group, self._rng.randrange(setup.zookeeper_members)).name
