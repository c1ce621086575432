"""Foreign writers: people with a shell, Kafka's tools and 0.8.2.2 controllers, and corrupt znodes."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from zkgroup.errors import CorruptZnodeError
from zkgroup.history.cluster.replay import ReplayedCluster
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper
from zkgroup.testing.simulation.cluster.controller import ControllerProcess
from zkgroup.testing.simulation.cluster.kafka_0_8_controller import Kafka08Controller
from zkgroup.znodes.admin_requests import PreferredElection, Reassignment, UncleanElection
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic, topics_path
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.controller import ControllerEpoch, ResignRequest
from zkgroup.znodes.notifications import ISR_CHANGE_PREFIX, ConfigChange, isr_changes_path
from zkgroup.znodes.reassignment_records import FinishedReassignment, StoredPlan
from zkgroup.zookeeper.settings import OPEN_ACL, Acl


class CorruptZnodes:
    """It lasts until an operator mends it."""

    def __init__(self, server: MemoryZooKeeper) -> None:
        self._server = server
        self.unreadable: dict[str, tuple[bytes, bytes | None]] = {}
        """Path of each znode that was made unreadable to what it was made, and what it was."""
        self.forbidden: set[str] = set()
        """Znodes that nobody may set."""

    def paths(self) -> list[str]:
        """Paths that still are as a stranger has made them: unreadable, or not to be set."""
        broken = [
            path
            for path, (data, _) in self.unreadable.items()
            if (found := self._server.find(path)) is not None and found.data == data
        ]
        return [*broken, *(path for path in sorted(self.forbidden) if self._server.find(path) is not None)]

    def mend(self) -> None:
        """An operator makes what was made unreadable what it was, unless somebody has made it something else,
        and lifts every ban."""
        for path, (broken, before) in self.unreadable.items():
            found = self._server.find(path)
            if found is not None and found.data == broken:
                if before is None:
                    self._server.write(Delete(path, -1))
                else:
                    self._server.write(SetData(path, before, -1))
        self.unreadable.clear()
        for path in sorted(self.forbidden):
            if self._server.find(path) is not None:
                self._server.set_acl(path, *OPEN_ACL)
        self.forbidden.clear()


class AffectedByCorruption:
    """What rests on znodes that strangers have spoilt."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        places = [place for path in self._paths if (place := ReplayedCluster().place(path)) is not None]
        self._topics = {place.topic for place in places if place.kind == "topic"}
        self._partitions = {place.topic_partition for place in places if place.kind == "state"}
        self.brokers = {place.number for place in places if place.kind == "broker"}
        self.has_moves = any(place.kind == "moves" for place in places)
        """Whether moves cannot begin, or not end."""

    def __bool__(self) -> bool:
        return bool(self._paths)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp.topic in self._topics or tp in self._partitions

    def concerns(self, what: str) -> bool:
        """Whether something that is left undone waits for them: a topic for all of its partitions."""
        if not self._paths:
            return False
        topics = {*self._topics, *(tp.topic for tp in self._partitions)}
        going = any(f"topic {name} " in what for name in topics)
        mine = any(str(tp) in what for tp in self._partitions) or any(
            f"{name}-" in what for name in self._topics
        )
        moves = self.has_moves and ("the move to" in what or "still to be deleted" in what)
        return going or mine or moves or "preferred election" in what


NOTHING_AFFECTED = AffectedByCorruption(())

if TYPE_CHECKING:
    from zkgroup.testing.simulation.cluster.world import ClusterWorld

Targets = Mapping[TopicPartition, tuple[int, ...]]

BROKEN = (b"{", b"[]", b'"text"', b"\xff\xfe", b'{"version":"one"}')
"""No znode of Kafka or of ours."""
READ_ONLY = Acl("r", "world", "anyone")
NOBODY = 9
"""No broker has this id."""


class ForeignWriters:
    """The strangers of one schedule. Each method is one act, or returns False."""

    def __init__(self, world: ClusterWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def happen(self, act: str) -> object:
        """Does the act of that name. False where it could not happen."""
        return getattr(self, act)()

    # --- the request for moves ------------------------------------------------------------------------

    def write_request(self) -> object:
        """A request in Kafka's form, perhaps over the present one, with entries that nobody can carry out."""
        world, rng = self._world, self._rng
        picture = world.audit.look()
        partitions = sorted(picture.partitions())
        if not partitions:
            return False
        before = dict(picture.moves)
        chosen = rng.sample(partitions, rng.randint(1, min(3, len(partitions))))
        entries = [_entry(tp, self._target()) for tp in chosen]
        if rng.random() < 0.3:
            entries.append(_entry(TopicPartition("none", 0), self._target()))
        if rng.random() < 0.3:  # of two entries for one partition the last counts
            entries.append(_entry(chosen[0], self._target()))
        data = json.dumps({"version": 1, "partitions": entries}).encode()
        if world.server.find(Reassignment.path()) is None:
            can_be_made = world.has_forgotten_requests
            return entries if can_be_made and world.write(Create(Reassignment.path(), data)) else False
        if not world.write(SetData(Reassignment.path(), data, -1)):
            return False
        world.take_back(before.keys() - set(chosen))
        return f"over another one: {entries}"

    def _target(self) -> list[int]:
        """Mostly one that can be reached."""
        brokers = list(self._world.setup.brokers)
        target = self._rng.sample(brokers, self._rng.randint(1, min(3, len(brokers))))
        odd: list[int] = self._rng.choice(([], [], [], [], [], [], [target[0]], [NOBODY]))
        return [] if self._rng.random() < 0.05 else target + odd

    def delete_request(self) -> object:
        moves = dict(self._world.audit.look().moves)
        if not self._world.write(Delete(Reassignment.path(), -1)):
            return False
        self._world.take_back(moves)
        return list(map(str, moves))

    # --- states of partitions -------------------------------------------------------------------------

    def outrun(self) -> object:
        """A state that a zkgroup controller is about to write gets a higher leader epoch before it does."""
        sent = self._about_to_be_set()
        paths = sorted(path for path in sent if path.endswith("/state"))
        if not paths:
            return False
        path = self._rng.choice(paths)
        found = self._world.server.find(path)
        if found is None or sent[path] not in (found.stat.version, -1):
            return False
        try:
            state = PartitionState.decode(path, found.data)
        except CorruptZnodeError:
            return False
        raised = dataclasses.replace(state, leader_epoch=state.leader_epoch + self._rng.choice((1, 2, 5)))
        return f"{path}: {raised}" if self._world.write(SetData(path, raised.encode(), -1)) else False

    # --- real controllers -----------------------------------------------------------------------------

    def real_step(self) -> object:
        """The real controller that rules takes the next step of a move, each a write of its own (4.4, K10).

        It tells nobody but of states, and whoever follows finds what it has left.
        """
        world = self._world
        picture = world.audit.look()
        rulers = [one for one in world.rulers if isinstance(one, Kafka08Controller) and one.client.session]
        moves = sorted(tp for tp in picture.moves if picture.replicas(tp) and picture.state(tp))
        if not rulers:
            return False
        if not moves:
            return self.write_request()
        real, tp = self._rng.choice(rulers), self._rng.choice(moves)
        assert real.client.session is not None
        step = self._next_step(real, tp, picture.moves)
        if step is None:
            return False
        name, operation = step
        session_id = real.client.session.session_id
        world.server.write(operation, session_id=session_id)
        state = world.audit.look().state(tp)
        found = world.server.find(PartitionState.path(tp))
        if name == "state" and state is not None and found is not None:
            real.cluster.states[tp], real.cluster.versions[tp] = state, found.stat.version
            real.tell([tp], real.cluster.live)
        return f"{name} of {tp} by {real.name}"

    def _next_step(
        self, real: Kafka08Controller, tp: TopicPartition, moves: Targets
    ) -> tuple[str, Operation] | None:
        picture = self._world.audit.look()
        target, now = moves[tp], picture.replicas(tp) or ()
        topic, state = picture.topics[tp.topic], picture.state(tp)
        assert topic is not None
        assert state is not None
        if not target or NOBODY in target or len(set(target)) < len(target):
            return None
        path = Topic.path(tp.topic)
        if not set(target) <= set(now):
            union = target + tuple(each for each in now if each not in target)
            return "union", SetData(path, topic.with_replicas(tp.partition, union).encode(), -1)
        if not set(target) <= set(state.isr) or state.controller_epoch > real.epoch:
            return None
        if state.leader not in target or set(state.isr) > set(target):
            leader = state.leader if state.leader in target else target[0]
            isr = tuple(each for each in state.isr if each in target)
            moved = PartitionState(leader, state.leader_epoch + 1, isr, real.epoch)
            return "state", SetData(PartitionState.path(tp), moved.encode(), -1)
        if now != target:
            return "list", SetData(path, topic.with_replicas(tp.partition, target).encode(), -1)
        entries = [_entry(each, list(brokers)) for each, brokers in moves.items() if each != tp]
        if not entries:
            return "end", Delete(Reassignment.path(), -1)
        data = json.dumps({"version": 1, "partitions": entries}).encode()
        return "end", SetData(Reassignment.path(), data, -1)

    def _about_to_be_set(self) -> dict[str, int]:
        """Paths that requests of a zkgroup controller set, with the version, before they are executed."""
        ours = [one for one in self._world.rulers if isinstance(one, ControllerProcess)]
        changes = [each for one in ours for transaction in one.transactions() for each in transaction]
        return {each.path: each.version for each in changes if isinstance(each, SetData)}

    def raise_epoch(self) -> object:
        """The epoch is raised by hand: whoever rules resigns."""
        epoch = self._world.audit.look().epoch
        if epoch is None:
            return False
        raised = ControllerEpoch(epoch + self._rng.choice((1, 3)))
        return raised if self._world.write(SetData(ControllerEpoch.path(), raised.encode(), -1)) else False

    # --- znodes that cannot be read -------------------------------------------------------------------

    def break_znode(self) -> object:
        """One of those that a controller reads. What it cannot do without is mended when the faults end."""
        path = self._rng.choice(self.lasting() + 2 * self.needed())
        return self.break_at(path, self._rng.choice(BROKEN))

    def forbid(self) -> object:
        """A topic, a state or a request that a zkgroup controller is about to set nobody may set any more."""
        sent = self._about_to_be_set()
        paths = sorted(
            path
            for path in sent
            if (path.startswith(f"{topics_path()}/") or "/admin/" in path) and self._world.server.find(path)
        )
        if not paths:
            return False
        path = self._rng.choice(paths)
        self._world.server.set_acl(path, READ_ONLY)
        self._world.garbage.forbidden.add(path)
        return path

    def break_at(self, path: str, data: bytes) -> object:
        """A znode of this path, or a sequential one where it is a prefix."""
        if path.endswith(("-", "_")):
            self._world.server.put(path.rpartition("/")[0])
            return path if self._world.write(Create(path, data, sequential=True)) else False
        found = self._world.server.find(path)
        if path in self.needed() and path not in self._world.garbage.unreadable:
            self._world.garbage.unreadable[path] = data, None if found is None else found.data
        elif path in self.needed():
            return False
        if path == Reassignment.path():
            self._world.take_back(self._world.audit.look().moves)
        self._world.server.put(path, data)
        return path

    def lasting(self) -> list[str]:
        """Nothing that anybody has asked for hangs on these."""
        return [
            f"{topics_path()}/broken",
            PreferredElection.path(),
            UncleanElection.path(),
            ResignRequest.path(),
            StoredPlan.path("broken"),
            ConfigEntity.topic("none").config_path,
            ConfigChange.prefix(),
            f"{isr_changes_path()}/{ISR_CHANGE_PREFIX}",
            FinishedReassignment.prefix(),
        ]

    def needed(self) -> list[str]:
        """Without these something cannot be done, or is done for ever."""
        picture = self._world.audit.look()
        topics = sorted(name for name, topic in picture.topics.items() if topic is not None)
        return [
            Reassignment.path(),
            BrokerRegistration.path(NOBODY),
            *map(Topic.path, topics),
            *(ConfigEntity.topic(name).config_path for name in topics),
            *map(PartitionState.path, sorted(tp for tp in picture.partitions() if picture.state(tp))),
        ]


def _entry(tp: TopicPartition, replicas: list[int]) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition, "replicas": replicas}
