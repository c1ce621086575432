"""Foreign writers of a schedule: people with a shell, and Kafka's tools and controllers."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping
from typing import Any

from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.kafka_0_8_controller import Kafka08Controller
from tests.simulation.cluster.world import ClusterWorld
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.znodes.admin_requests import PreferredElection, Reassignment, UncleanElection
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic, topics_path
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.controller import ControllerEpoch, ResignRequest
from zkgroup.znodes.notifications import ISR_CHANGE_PREFIX, ConfigChange, isr_changes_path
from zkgroup.znodes.reassignment_records import FinishedReassignment, StoredPlan
from zkgroup.zookeeper.settings import Acl

Targets = Mapping[TopicPartition, tuple[int, ...]]

BROKEN = (b"{", b"[]", b'"text"', b"\xff\xfe", b'{"version":"one"}')
"""Data that no znode of Kafka or zkgroup has."""
READ_ONLY = Acl("r", "world", "anyone")
NO_BROKER = 9
"""No broker has this id."""


class ForeignWriters:
    """The foreign writers of one schedule. Each method makes one write, or returns False."""

    def __init__(self, world: ClusterWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def inject(self, step: str) -> object:
        """Makes the write of that name; False where it is not possible."""
        return getattr(self, step)()

    def write_request(self) -> object:
        """Writes a request in Kafka's form, perhaps over the present one, with entries that cannot be
        executed."""
        world, rng = self._world, self._rng
        cluster = world.audit.catch_up()
        partitions = sorted(cluster.partitions())
        if not partitions:
            return False
        before = dict(cluster.moves)
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
        world.withdraw(before.keys() - set(chosen))
        return f"over another: {entries}"

    def _target(self) -> list[int]:
        """A target, mostly of running brokers."""
        brokers = list(self._world.setup.brokers)
        target = self._rng.sample(brokers, self._rng.randint(1, min(3, len(brokers))))
        odd: list[int] = self._rng.choice(([], [], [], [], [], [], [target[0]], [NO_BROKER]))
        return [] if self._rng.random() < 0.05 else target + odd

    def delete_request(self) -> object:
        moves = dict(self._world.audit.catch_up().moves)
        if not self._world.write(Delete(Reassignment.path(), -1)):
            return False
        self._world.withdraw(moves)
        return list(map(str, moves))

    def outrun(self) -> object:
        """Raises the leader epoch of a state just before a zkgroup controller writes it."""
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

    def kafka_step(self) -> object:
        """The active Kafka controller performs the next step of a reassignment, each as one write (4.4, K10).

        It sends states only, and its successor finds the unfinished reassignment.
        """
        world = self._world
        cluster = world.audit.catch_up()
        kafka = [
            one
            for one in world.active_controllers
            if isinstance(one, Kafka08Controller) and one.client.session
        ]
        moves = sorted(tp for tp in cluster.moves if cluster.replicas(tp) and cluster.state(tp))
        if not kafka:
            return False
        if not moves:
            return self.write_request()
        real, tp = self._rng.choice(kafka), self._rng.choice(moves)
        assert real.client.session is not None
        step = self._next_step(real, tp, cluster.moves)
        if step is None:
            return False
        name, operation = step
        session_id = real.client.session.session_id
        world.server.write(operation, session_id=session_id)
        state = world.audit.catch_up().state(tp)
        found = world.server.find(PartitionState.path(tp))
        if name == "state" and state is not None and found is not None:
            real.cluster.states[tp], real.cluster.versions[tp] = state, found.stat.version
            # In its memory the target is the replica list from here on (controller.md 4.4, step 6).
            real.cluster.topics.setdefault(tp.topic, {})[tp.partition] = cluster.moves[tp]
            real.send_states([tp], real.cluster.live)
        return f"{name} of {tp} by {real.name}"

    def _next_step(
        self, real: Kafka08Controller, tp: TopicPartition, moves: Targets
    ) -> tuple[str, Operation] | None:
        cluster = self._world.audit.catch_up()
        target, now = moves[tp], cluster.replicas(tp) or ()
        topic, state = cluster.topics[tp.topic], cluster.state(tp)
        assert topic is not None
        assert state is not None
        if not target or NO_BROKER in target or len(set(target)) < len(target):
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
        """Paths and versions that requests in flight of a zkgroup controller will set."""
        active = [one for one in self._world.active_controllers if isinstance(one, ControllerProcess)]
        changes = [each for one in active for transaction in one.transactions() for each in transaction]
        return {each.path: each.version for each in changes if isinstance(each, SetData)}

    def raise_epoch(self) -> object:
        """Raises the controller epoch by hand: the active controller resigns."""
        epoch = self._world.audit.catch_up().epoch
        if epoch is None:
            return False
        raised = ControllerEpoch(epoch + self._rng.choice((1, 3)))
        return raised if self._world.write(SetData(ControllerEpoch.path(), raised.encode(), -1)) else False

    def break_znode(self) -> object:
        """Corrupts a znode that a controller reads. Needed ones are repaired when the faults end."""
        path = self._rng.choice(self.lasting() + 2 * self.needed())
        return self.break_at(path, self._rng.choice(BROKEN))

    def forbid(self) -> object:
        """Makes a znode read-only that a zkgroup controller is about to set: a topic, a state or a
        request."""
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
        self._world.corrupt.forbidden.add(path)
        return path

    def break_at(self, path: str, data: bytes) -> object:
        """Corrupts the znode at a path, or creates a sequential one where the path is a prefix."""
        if path.endswith(("-", "_")):
            self._world.server.put(path.rpartition("/")[0])
            return path if self._world.write(Create(path, data, sequential=True)) else False
        found = self._world.server.find(path)
        if path in self.needed() and path not in self._world.corrupt.unreadable:
            self._world.corrupt.unreadable[path] = data, None if found is None else found.data
        elif path in self.needed():
            return False
        if path == Reassignment.path():
            self._world.withdraw(self._world.audit.catch_up().moves)
        self._world.server.put(path, data)
        return path

    def lasting(self) -> list[str]:
        """Paths whose corruption affects no requested work."""
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
        """Paths whose corruption stops some work, or repeats it for ever."""
        cluster = self._world.audit.catch_up()
        topics = sorted(name for name, topic in cluster.topics.items() if topic is not None)
        return [
            Reassignment.path(),
            BrokerRegistration.path(NO_BROKER),
            *map(Topic.path, topics),
            *(ConfigEntity.topic(name).config_path for name in topics),
            *map(PartitionState.path, sorted(tp for tp in cluster.partitions() if cluster.state(tp))),
        ]


def _entry(tp: TopicPartition, replicas: list[int]) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition, "replicas": replicas}
