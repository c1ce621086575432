"""Administration of the groups of a schedule: requests to their coordinators, and operators of ZooKeeper.

An operator's change of offsets is that of `zkgroup offsets set`: it is planned, and applied some time later.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.simulation.coordinator.calls import ClientCall
from tests.simulation.coordinator.client import REQUEST_MS
from tests.simulation.coordinator.setup import OTHER_TOPIC, TOPIC
from tests.simulation.coordinator.world import OTHER, CoordinatorWorld
from zkgroup.admin.offsets.planning import OffsetPlan, plan_values
from zkgroup.admin.offsets.writes import apply_plan
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.broker.groups.stored_coordinator import OffsetsRemoved, ServiceResult
from zkgroup.coordinator.effects import RemoveGroupResult, RemoveOffsetsResult
from zkgroup.coordinator.events import GroupRequest, LeaveGroup, RemoveGroup, RemoveOffsets
from zkgroup.coordinator.group import ConsumerGroupState
from zkgroup.errors import ConflictError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import read_snapshots
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import (
    Connected,
    Create,
    CreateMissing,
    CreateMissingDone,
    Exists,
    ExistsDone,
    ListMany,
    ListManyDone,
    Multi,
    Outcome,
    Read,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Request,
    Session,
    SessionEvent,
    Sync,
    SyncDone,
)
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.wire.groups import LeaveGroupResponse, LeavingMember
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.zookeeper.blocking import Blocking

_SESSION: Final = Session(session_id=0, incarnation=1, timeout_ms=0)


class AdminClient:
    """A client that sends one request of administration, and records its answer."""

    def __init__(self, world: CoordinatorWorld, group: str, number: int) -> None:
        self.group, self.name = group, f"admin-{number}"
        self._world = world
        self._instance: str | None = None
        self._sent_ms = 0

    def delete_group(self) -> bool:
        """DeleteGroups; False where there is no coordinator."""
        return self._send(RemoveGroup(request_id=0, group_id=self.group))

    def delete_offsets(self, partitions: tuple[TopicPartition, ...]) -> bool:
        """OffsetDelete."""
        return self._send(RemoveOffsets(request_id=0, group_id=self.group, partitions=partitions))

    def remove_static(self, instance: str) -> bool:
        """LeaveGroup for the member with a `group.instance.id`, whatever its member id is."""
        self._instance = instance
        leaving = LeavingMember(member_id="", group_instance_id=instance)
        return self._send(LeaveGroup(request_id=0, group_id=self.group, members=(leaving,)))

    def _send(self, request: GroupRequest) -> bool:
        world = self._world
        process = world.find_coordinator(self.group)
        if process is None:
            return False
        self._sent_ms = world.clock.now_ms()
        if self._instance is not None:
            self._note("static.removing", owner=self._instance, request=self.name)
        world.calls.send(self, process, request, self._sent_ms + REQUEST_MS)
        return True

    def received(self, call: ClientCall, result: ServiceResult) -> None:
        """Records what was done."""
        match result:
            case RemoveGroupResult(ErrorCode.NONE):
                self._note("group.deleted", since_ms=self._sent_ms)
            case OffsetsRemoved(errors):
                deleted = [tp for tp, error in errors.items() if error is ErrorCode.NONE]
                if deleted:
                    rows = [[tp.topic, tp.partition] for tp in deleted]
                    self._note("offsets.deleted", since_ms=self._sent_ms, partitions=rows)
                if ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC in errors.values():
                    self._world.figures["admin subscribed offsets kept"] += 1
            case LeaveGroupResponse(error=ErrorCode.NONE, members=(left,)) if left.error is ErrorCode.NONE:
                self._note("static.removed", owner=self._instance, request=self.name)
            case RemoveGroupResult(ErrorCode.NON_EMPTY_GROUP):
                self._world.figures["admin living groups kept"] += 1
            case RemoveGroupResult() | RemoveOffsetsResult() | LeaveGroupResponse():
                pass
            case _:
                raise AssertionError(f"{self.name}: {call.request} was answered with {result}")

    def _note(self, kind: str, **fields: object) -> None:
        self._world.recording.record(0, self.name, 0, kind, {"group": self.group, **fields})
        self._world.figures[f"admin {kind}"] += 1

    def disconnected(self) -> None:
        """It does not try again."""


class OperatorStore:
    """A store whose requests the server executes at once, as session 0."""

    last_zxid = 0

    def __init__(self, server: MemoryZooKeeper) -> None:
        self._server = server

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        on_outcome(self._execute(request))

    def listen(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        listener(Connected(_SESSION))
        return lambda: None

    def abandon(self, incarnation: int, reason: str) -> None:
        """There is no session to give up."""

    def close(self, timeout_s: float = 5.0) -> None:
        """Nothing is open."""

    def _execute(self, request: Request) -> Outcome:
        tree = self._server.leader.tree
        match request:
            case Multi(operations):
                return self._server.write(*operations)
            case ReadMany(paths):
                return ReadManyDone(tuple(map(tree.read, paths)))
            case ListMany(paths):
                return ListManyDone(tuple(map(tree.children, paths)))
            case Read(path):
                return ReadDone(tree.read(path))
            case Exists(path):
                return ExistsDone(tree.stat(path))
            case Sync():
                return SyncDone()
            case CreateMissing(paths):
                for path in paths:
                    if tree.read(path) is None:
                        self._server.put(path)
                return CreateMissingDone()
            case _:
                raise AssertionError(f"no operator sends {request}")


class Administrators:
    """The administrators of one schedule. Each method does one thing, or returns False."""

    def __init__(self, world: CoordinatorWorld, rng: random.Random) -> None:
        self._world, self._rng = world, rng
        self._number = 0
        self._ensemble = Ensemble(zk=Blocking(OperatorStore(world.server)), clock=world.clock)
        self._plans: list[OffsetPlan] = []
        """Those that are not applied."""

    def inject(self, what: str) -> object:
        """Does what has this name; False where it is not possible."""
        return getattr(self, what)()

    def _client(self, group: str) -> AdminClient:
        self._number += 1
        return AdminClient(self._world, group, self._number)

    def _group(self) -> str | None:
        """A group that a coordinator has as Empty, without ZooKeeper members; now and then any group."""
        if self._rng.random() < 0.1:
            return self._rng.choice(self._world.members_setup.groups)
        self._world.forget_ended()
        empty = {
            group.group_id
            for process in self._world.brokers.values()
            if process.coordinator is not None
            for group in process.coordinator.stored.coordinator.groups()
            if group.state is ConsumerGroupState.EMPTY and not self._world.members_of(group.group_id)
        }
        return self._rng.choice(sorted(empty)) if empty else None

    def delete_group(self) -> object:
        group = self._group()
        return group is not None and self._client(group).delete_group() and group

    def delete_offsets(self) -> object:
        """Deletes offsets of the topic that the members subscribe to, and of another one."""
        group = self._group()
        if group is None:
            return False
        partitions = tuple(self._rng.sample([*self._world.partitions(), OTHER], self._rng.choice((1, 2, 4))))
        return self._client(group).delete_offsets(partitions) and f"{group} {partitions}"

    def delete_topic(self) -> object:
        """Requests the deletion of a topic; often, a coordinator dies that would be notified of it."""
        world, topic = self._world, self._rng.choice((TOPIC, TOPIC, OTHER_TOPIC))
        is_there = world.server.find(Topic.path(topic)) is not None
        if not is_there or not world.write(Create(TopicDeletion.path(topic), b"")):
            return False
        needed = {broker for replicas in world.setup.topics[topic] for broker in replicas}
        needed |= {one.broker for one in world.active_controllers}
        coordinators = [
            broker
            for broker, process in world.brokers.items()
            if process.coordinator is not None and process.coordinator.led_slots and broker not in needed
        ]
        if coordinators and self._rng.random() < 0.7:
            world.kill(self._rng.choice(coordinators))
        return topic

    def create_topic(self) -> object:
        """Creates a deleted topic again."""
        missing = self._world.missing_topics()
        if not missing:
            return False
        topic = self._rng.choice(missing)
        return self._world.create_topic(topic) and topic

    def remove_static(self) -> object:
        """Removes a static member, which may go on."""
        static = [one for one in self._world.group_clients if one.instance_id is not None]
        if not static:
            return False
        member = self._rng.choice(static)
        assert member.instance_id is not None
        return self._client(member.group).remove_static(member.instance_id) and member.name

    def change_offsets(self) -> object:
        """An operator applies the change that was planned before, and plans another one, perhaps for now."""
        group = self._group()
        if group is None:
            return False
        applied = [self._apply(plan) for plan in self._plans]
        snapshot = read_snapshots(self._ensemble, [group])[group] or GroupSnapshot.of_nothing(
            group, self._ensemble.as_of(), {}
        )
        tp = self._rng.choice(self._world.partitions())
        self._plans = [plan_values(snapshot, {tp: self._rng.randint(0, 30)}, allow_missing=True)]
        if self._rng.random() < 0.5:
            applied.append(self._apply(self._plans.pop()))
        return f"{', '.join(applied)}; {len(self._plans)} planned for {tp} of {group}"

    def _apply(self, plan: OffsetPlan) -> str:
        by = ChangeRecord(undo_id="1", command="", user="operator")
        try:
            apply_plan(self._ensemble, plan, by)
        except (ConflictError, RefusedError) as error:
            self._world.figures[f"operator {type(error).__name__}"] += 1
            return f"{plan.group}: {error}"
        return f"{plan.group}: changed"
