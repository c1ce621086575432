"""Operations of a cluster, requested by the znodes that Kafka's and zkgroup's tools write."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from zkgroup.controller.machine.fenced_writes import CONTROLLER_VERSION
from zkgroup.controller.machine.leadership.selectors import UNCLEAN_SETTING
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.testing.simulation.cluster.controller import ControllerProcess
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
from zkgroup.znodes.controller import Controller, ResignRequest
from zkgroup.znodes.notifications import ConfigChange, config_changes_path
from zkgroup.znodes.reassignment_records import PlanState, StoredPlan

if TYPE_CHECKING:
    from zkgroup.testing.simulation.cluster.world import ClusterWorld

PARTITIONS_MAX = 4
PLANS_MAX = 2
"""Of a schedule: all of them end before it does."""


class Operations:
    """The operators of one schedule. Each method asks for one thing, or returns False."""

    def __init__(self, world: ClusterWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._origins: dict[TopicPartition, tuple[int, ...]] = {}
        """Replicas before a move, as its operator noted them."""
        self._old_reads: dict[str, Topic] = {}
        self._created = 0
        self._plans = 0

    def happen(self, operation: str) -> object:
        """Does the operation of that name. False where it could not happen."""
        return getattr(self, operation)()

    def _topics(self) -> dict[str, Topic]:
        picture = self._world.audit.look()
        return {name: topic for name, topic in picture.topics.items() if topic is not None}

    def _replicas(self) -> tuple[int, ...]:
        brokers = self._world.setup.brokers
        return tuple(self._rng.sample(brokers, self._rng.choice((1, 2, 2, min(3, len(brokers))))))

    def create_topic(self) -> object:
        if len(self._topics()) >= 3:
            return False
        self._created += 1
        name = self._rng.choice(("t0", f"n{self._created}"))
        lists = {number: self._replicas() for number in range(self._rng.choice((1, 2)))}
        return name if self._world.write(Create(Topic.path(name), Topic(lists).encode())) else False

    def grow(self) -> object:
        """Our tool: conditional."""
        return self._grow(stale=False)

    def grow_from_old_read(self) -> object:
        """Kafka's tool: writes the whole map as it read it some time ago, and at any version (recipes 15)."""
        return self._grow(stale=True)

    def _grow(self, *, stale: bool) -> object:
        topics = self._topics()
        if not topics:
            return False
        name = self._rng.choice(sorted(topics))
        now = topics[name]
        topic = self._old_reads.get(name, now) if stale else now
        self._old_reads[name] = now
        number = len(topic.partitions)
        if number >= PARTITIONS_MAX:
            return False
        wanted = Topic({**topic.partitions, number: self._replicas()})
        if stale:
            return name if self._world.write(SetData(Topic.path(name), wanted.encode(), -1)) else False
        found = self._world.server.find(Topic.path(name))
        assert found is not None
        data = topic.with_replicas(number, wanted.partitions[number]).encode()
        return name if self._world.write(SetData(Topic.path(name), data, found.stat.version)) else False

    def delete_topic(self) -> object:
        topics = self._topics()
        if not topics:
            return False
        name = self._rng.choice(sorted(topics))
        return name if self._world.write(Create(TopicDeletion.path(name), b"")) else False

    def force_deletion(self) -> object:
        """A topic goes, or its deletion goes on, without its brokers that are not there; where all are there,
        one is switched off until all is well without it (K20)."""
        world = self._world
        picture, ruler = world.audit.look(), world.server.find(Controller.path())
        topics = self._topics()
        if ruler is None or ruler.stat.version != CONTROLLER_VERSION or not topics:
            return False
        name = self._rng.choice(sorted(picture.deletions & topics.keys()) or sorted(topics))
        replicas = {id_ for each in topics[name].partitions.values() for id_ in each}
        gone = replicas - picture.brokers.keys()
        if not gone:
            able = sorted(replicas & world.brokers.keys() - {one.broker for one in world.rulers})
            if not able or world.switched_off or world.lost:
                return False  # enough of them stay to go on without one
            gone = {self._rng.choice(able)}
            world.switched_off |= gone
            world.close(*gone)
        brokers = tuple(sorted(gone))
        return (name, brokers) if self.delete_without(name, brokers) else False

    def delete_without(self, name: str, brokers: tuple[int, ...]) -> bool:
        """Asks for it; a request that waits is made again."""
        path = TopicDeletion.path(name)
        found = self._world.server.find(path)
        before = [] if found is None else [Delete(path, found.stat.version)]
        return self._world.write(*before, Create(path, TopicDeletion(brokers).encode()))

    # --- moves ----------------------------------------------------------------------------------------

    def reassign(self) -> object:
        partitions = sorted(self._world.audit.look().partitions())
        if not partitions:
            return False
        chosen = self._rng.sample(partitions, min(len(partitions), self._rng.choice((1, 1, 2, 3))))
        return self.move({tp: self._replicas() for tp in chosen})

    def move(self, targets: dict[TopicPartition, tuple[int, ...]]) -> object:
        """Asks for these moves, unless some are under way."""
        request = Reassignment(tuple(Move(tp, target) for tp, target in targets.items()))
        picture = self._world.audit.look()
        origins = {tp: picture.replicas(tp) or () for tp in targets}
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
        """A conditional edit of the request, where a zkgroup controller rules (recipes 17)."""
        world = self._world
        found, ruler = world.server.find(Reassignment.path()), world.server.find(Controller.path())
        if found is None or ruler is None or ruler.stat.version != CONTROLLER_VERSION:
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
        except ConfigError:  # a stranger has made it, which no tool of ours would write again
            return False
        return targets if world.write(SetData(Reassignment.path(), data, found.stat.version)) else False

    # --- elections ------------------------------------------------------------------------------------

    def prefer(self) -> object:
        partitions = tuple(sorted(self._world.audit.look().partitions()))
        if not partitions:
            return False
        data = PreferredElection(partitions).encode()
        return self._world.write(Create(PreferredElection.path(), data))

    def resign(self) -> object:
        """Asks the holder of `/controller` to give it up."""
        ruler = self._world.server.find(Controller.path())
        if ruler is None:
            return False
        return self._world.write(Create(ResignRequest.path(), ResignRequest(ruler.stat.czxid).encode()))

    def shut_down(self) -> object:
        """A broker asks the controller to relieve it, and stops whatever becomes of it some time later."""
        rulers = [one for one in self._world.rulers if isinstance(one, ControllerProcess)]
        awake = [one.broker for one in self._world.awake_brokers()]
        if not rulers or len(awake) < 2:
            return False
        broker = self._rng.choice(awake)
        self._rng.choice(rulers).shut_down(broker)
        self._world.stopping.add(broker)
        return broker

    def elect_unclean(self) -> object:
        """Some partitions shall be led by whoever lives, where a zkgroup controller rules (recipes 15)."""
        world = self._world
        partitions, ruler = sorted(world.audit.look().partitions()), world.server.find(Controller.path())
        if not partitions or ruler is None or ruler.stat.version != CONTROLLER_VERSION:
            return False
        chosen = tuple(self._rng.sample(partitions, self._rng.randint(1, len(partitions))))
        request = UncleanElection(chosen, world.clock.wall_ms(), "somebody")
        if not world.write(Create(UncleanElection.path(), request.encode())):
            return False
        world.may_lose.update(tp.topic for tp in chosen)
        return chosen

    # --- configurations -------------------------------------------------------------------------------

    def configure(self) -> object:
        """A setting of a topic or a broker that asks nothing of the controller."""
        topics = sorted(self._topics())
        if topics and self._rng.random() < 0.5:
            return self._set(ConfigEntity.topic(self._rng.choice(topics)), "retention.ms")
        if self._world.setup.kind == "kafka":  # brokers have no configurations there
            return False
        return self._set(ConfigEntity.broker(self._rng.choice(self._world.setup.brokers)), FOLLOWER_RATE)

    def allow_unclean(self) -> object:
        """A topic may be led by whoever lives, or may no more."""
        topics = sorted(self._topics())
        if not topics:
            return False
        value, name = self._rng.choice(("true", "true", "false")), self._rng.choice(topics)
        self._world.may_lose.add(name)
        return self._set(ConfigEntity.topic(name), UNCLEAN_SETTING, value)

    def _set(self, entity: ConfigEntity, name: str, value: str | None = None) -> object:
        """One override, and its notification in the format that the brokers read (controller.md 1.5)."""
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
        told = self._world.write(Create(ConfigChange.prefix(), change.encode(), sequential=True))
        return f"{entity} {name}={value}" if told else False

    # --- plans ----------------------------------------------------------------------------------------

    def store_plan(self) -> object:
        """Moves in one or two phases, some with a throttle."""
        world, rng = self._world, self._rng
        partitions = sorted(world.audit.look().partitions())
        if not partitions or len(world.plans) == PLANS_MAX:
            return False
        phases = tuple(
            tuple(
                Move(tp, self._replicas()) for tp in rng.sample(partitions, rng.randint(1, len(partitions)))
            )
            for _ in range(rng.choice((1, 2, 2)))
        )
        throttle = None if world.setup.kind == "kafka" else rng.choice((None, 1_000_000))
        plan = StoredPlan(phases, "running", 0, world.clock.wall_ms(), "somebody", throttle=throttle)
        self._plans += 1
        name = f"p{self._plans}"
        world.server.put(StoredPlan.path(name), plan.encode())
        world.plans.append(name)
        return name

    def change_plan(self) -> object:
        """Pauses one, lets it run again, or ends it."""
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
        changed = plan.at(plan.next_phase, self._rng.choice(states[plan.state]), "somebody says so")
        return changed.state if world.write(SetData(path, changed.encode(), found.stat.version)) else False
