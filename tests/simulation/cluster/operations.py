"""Operations of a schedule of a cluster, requested by the znodes that Kafka's and zkgroup's tools write."""

from __future__ import annotations

import random

from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.world import ClusterWorld
from zkgroup.controller.machine.fenced_writes import CONTROLLER_VERSION
from zkgroup.controller.machine.leadership.selectors import UNCLEAN_SETTING
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.znodes.admin_requests import (
    Move,
    PreferredElection,
    Reassignment,
    TopicDeletion,
    UncleanElection,
)
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import ConfigEntity, EntityConfig
from zkgroup.znodes.config_settings import FOLLOWER_RATE
from zkgroup.znodes.controller import ControllerRegistration, ResignRequest
from zkgroup.znodes.notifications import ConfigChange, config_changes_path
from zkgroup.znodes.reassignment_records import PlanState, StoredPlan

PARTITIONS_MAX = 4
PLANS_MAX = 2
"""Most stored plans of a schedule, so that all of them end before it does."""


class Operations:
    """The operators of one schedule. Each method requests one operation, or returns False."""

    def __init__(self, world: ClusterWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._origins: dict[TopicPartition, tuple[int, ...]] = {}
        """Replicas before a reassignment, as its operator noted them."""
        self._created = 0
        self._plans = 0

    def inject(self, operation: str) -> object:
        """Requests the operation of that name; False where it is not possible."""
        return getattr(self, operation)()

    def _topics(self) -> dict[str, Topic]:
        cluster = self._world.audit.catch_up()
        return {name: topic for name, topic in cluster.topics.items() if topic is not None}

    def _replicas(self) -> tuple[int, ...]:
        brokers = self._world.setup.brokers
        return tuple(self._rng.sample(brokers, self._rng.choice((1, 2, 2, min(3, len(brokers))))))

    def delete_records(self) -> object:
        """A leader, in its own view, deletes records below its high watermark, as retention does."""
        partitions = sorted(self._world.audit.catch_up().partitions())
        if not partitions:
            return False
        tp = self._rng.choice(partitions)
        leaders = [(one, view) for one in self._world.awake_brokers() if (view := one.leads(tp)) is not None]
        if not leaders:
            return False
        leader, view = self._rng.choice(leaders)
        offset = self._rng.randint(0, view.high_watermark)
        return leader.delete_records(tp, offset) and f"{tp} below {offset}"

    def create_topic(self) -> object:
        if len(self._topics()) >= 3:
            return False
        self._created += 1
        name = self._rng.choice(("t0", f"n{self._created}"))
        lists = {number: self._replicas() for number in range(self._rng.choice((1, 2)))}
        return name if self._world.write(Create(Topic.path(name), Topic(lists).encode())) else False

    def grow(self) -> object:
        """Adds a partition as zkgroup's tool does, with a version check."""
        topics = self._topics()
        if not topics:
            return False
        name = self._rng.choice(sorted(topics))
        topic = topics[name]
        number = len(topic.partitions)
        if number >= PARTITIONS_MAX:
            return False
        found = self._world.server.find(Topic.path(name))
        assert found is not None
        data = topic.with_replicas(number, self._replicas()).encode()
        return name if self._world.write(SetData(Topic.path(name), data, found.stat.version)) else False

    def delete_topic(self) -> object:
        topics = self._topics()
        if not topics:
            return False
        name = self._rng.choice(sorted(topics))
        return name if self._world.write(Create(TopicDeletion.path(name), b"")) else False

    def force_deletion(self) -> object:
        """Deletes a topic, or continues its deletion, without its absent brokers. Where all are running, one
        is switched off until the cluster has converged without it (K20)."""
        world = self._world
        cluster, controller = world.audit.catch_up(), world.server.find(ControllerRegistration.path())
        topics = self._topics()
        if controller is None or controller.stat.version != CONTROLLER_VERSION or not topics:
            return False
        name = self._rng.choice(sorted(cluster.deletions & topics.keys()) or sorted(topics))
        replicas = {id_ for each in topics[name].partitions.values() for id_ in each}
        gone = replicas - cluster.brokers.keys()
        if not gone:
            able = sorted(replicas & world.brokers.keys() - {one.broker for one in world.active_controllers})
            if not able or world.switched_off or world.lost:
                return False  # enough brokers are left without it
            gone = {self._rng.choice(able)}
            world.switched_off |= gone
            world.close(*gone)
        brokers = tuple(sorted(gone))
        return (name, brokers) if self.delete_without(name, brokers) else False

    def delete_without(self, name: str, brokers: tuple[int, ...]) -> bool:
        """Requests the deletion; a waiting request is replaced."""
        path = TopicDeletion.path(name)
        found = self._world.server.find(path)
        before = [] if found is None else [Delete(path, found.stat.version)]
        return self._world.write(*before, Create(path, TopicDeletion(brokers).encode()))

    def reassign(self) -> object:
        partitions = sorted(self._world.audit.catch_up().partitions())
        if not partitions:
            return False
        chosen = self._rng.sample(partitions, min(len(partitions), self._rng.choice((1, 1, 2, 3))))
        return self.move({tp: self._replicas() for tp in chosen})

    def move(self, targets: dict[TopicPartition, tuple[int, ...]]) -> object:
        """Requests these reassignments, unless some are open."""
        request = Reassignment(tuple(Move(tp, target) for tp, target in targets.items()))
        cluster = self._world.audit.catch_up()
        origins = {tp: cluster.replicas(tp) or () for tp in targets}
        if not self._world.has_forgotten_requests or not self._world.write(
            Create(Reassignment.path(), request.encode())
        ):
            return False
        self._origins = origins
        return targets

    def change_target(self) -> object:
        return self._edit(lambda tp: self._replicas())

    def cancel(self) -> object:
        return self._edit(lambda tp: self._origins.get(tp) or self._replicas())

    def _edit(self, target: object) -> object:
        """Edits the request with a version check, where a zkgroup controller is active (recipes 17)."""
        world = self._world
        found, controller = (
            world.server.find(Reassignment.path()),
            world.server.find(ControllerRegistration.path()),
        )
        if found is None or controller is None or controller.stat.version != CONTROLLER_VERSION:
            return False
        try:
            targets = dict(Reassignment.decode(found.path, found.data).targets)
        except CorruptZnodeError:
            return False
        tp = self._rng.choice(sorted(targets))
        targets[tp] = target(tp)  # type: ignore[operator]
        if not targets[tp]:
            return False
        request = Reassignment(tuple(Move(each, brokers) for each, brokers in targets.items()))
        try:
            data = request.encode()
        except ConfigError:  # a foreign writer wrote it; zkgroup's tools would not write it back
            return False
        return targets if world.write(SetData(Reassignment.path(), data, found.stat.version)) else False

    def prefer(self) -> object:
        partitions = tuple(sorted(self._world.audit.catch_up().partitions()))
        if not partitions:
            return False
        data = PreferredElection(partitions).encode()
        return self._world.write(Create(PreferredElection.path(), data))

    def resign(self) -> object:
        """Requests the resignation of the active controller."""
        controller = self._world.server.find(ControllerRegistration.path())
        if controller is None:
            return False
        return self._world.write(Create(ResignRequest.path(), ResignRequest(controller.stat.czxid).encode()))

    def shut_down(self) -> object:
        """A broker requests a controlled shutdown, and stops some time later in any case."""
        active = [one for one in self._world.active_controllers if isinstance(one, ControllerProcess)]
        awake = [one.broker for one in self._world.awake_brokers()]
        if not active or len(awake) < 2:
            return False
        broker = self._rng.choice(awake)
        self._rng.choice(active).shut_down(broker)
        self._world.stopping.add(broker)
        return broker

    def elect_unclean(self) -> object:
        """Requests unclean elections, where a zkgroup controller is active (recipes 15)."""
        world = self._world
        partitions, controller = (
            sorted(world.audit.catch_up().partitions()),
            world.server.find(ControllerRegistration.path()),
        )
        if not partitions or controller is None or controller.stat.version != CONTROLLER_VERSION:
            return False
        chosen = tuple(self._rng.sample(partitions, self._rng.randint(1, len(partitions))))
        request = UncleanElection(chosen, world.clock.wall_ms(), "operator")
        if not world.write(Create(UncleanElection.path(), request.encode())):
            return False
        world.may_lose.update(tp.topic for tp in chosen)
        return chosen

    def configure(self) -> object:
        """Changes a setting that needs nothing from the controller."""
        topics = sorted(self._topics())
        if topics and self._rng.random() < 0.5:
            return self._set(ConfigEntity.topic(self._rng.choice(topics)), "retention.ms")
        if self._world.setup.kind == "kafka":  # brokers have no configurations there
            return False
        return self._set(ConfigEntity.broker(self._rng.choice(self._world.setup.brokers)), FOLLOWER_RATE)

    def allow_unclean(self) -> object:
        """Allows or forbids unclean elections for a topic."""
        topics = sorted(self._topics())
        if not topics:
            return False
        value, name = self._rng.choice(("true", "true", "false")), self._rng.choice(topics)
        self._world.may_lose.add(name)
        return self._set(ConfigEntity.topic(name), UNCLEAN_SETTING, value)

    def _set(self, entity: ConfigEntity, name: str, value: str | None = None) -> object:
        """Writes one override, and its notification in the format that brokers read (controller.md 1.5)."""
        server, path = self._world.server, entity.config_path
        found = server.find(path)
        try:
            now = EntityConfig() if found is None else EntityConfig.decode(path, found.data)
        except CorruptZnodeError:
            return False
        value = value or str(self._rng.randint(1, 1_000_000_000))
        server.put(path, now.changed({name: value}).encode())
        change = ConfigChange(entity, "bare" if self._world.setup.kind == "kafka" else "v2")
        server.put(config_changes_path())
        is_written = self._world.write(Create(ConfigChange.prefix(), change.encode(), sequential=True))
        return f"{entity} {name}={value}" if is_written else False

    def store_plan(self) -> object:
        """Stores a reassignment plan of one or two phases, some with a throttle."""
        world, rng = self._world, self._rng
        partitions = sorted(world.audit.catch_up().partitions())
        if not partitions or len(world.plans) == PLANS_MAX:
            return False
        phases = tuple(
            tuple(
                Move(tp, self._replicas()) for tp in rng.sample(partitions, rng.randint(1, len(partitions)))
            )
            for _ in range(rng.choice((1, 2, 2)))
        )
        throttle = None if world.setup.kind == "kafka" else rng.choice((None, 1_000_000))
        plan = StoredPlan(phases, "running", 0, world.clock.wall_ms(), "operator", throttle=throttle)
        self._plans += 1
        name = f"p{self._plans}"
        world.server.put(StoredPlan.path(name), plan.encode())
        world.plans.append(name)
        return name

    def change_plan(self) -> object:
        """Pauses, resumes or ends a plan."""
        world = self._world
        if not world.plans:
            return False
        path = StoredPlan.path(self._rng.choice(world.plans))
        found = world.server.find(path)
        if found is None:
            return False
        plan = StoredPlan.decode(path, found.data)
        states: dict[PlanState, tuple[PlanState, ...]] = {
            "running": ("paused", "cancelled"),
            "paused": ("running", "cancelled"),
            "failed": ("running",),
        }
        if plan.state not in states:
            return False
        changed = plan.at(plan.next_phase, self._rng.choice(states[plan.state]), "an operator's change")
        return changed.state if world.write(SetData(path, changed.encode(), found.stat.version)) else False
