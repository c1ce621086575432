"""What operators ask of a cluster, by the znodes that tools write: Kafka's own, and ours."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from zkgroup.controller.machine.fence import CONTROLLER_VERSION
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.testing.cluster_simulation.controller import ControllerProcess
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import Controller
from zkgroup.znodes.controller_records import ResignRequest
from zkgroup.znodes.topics import TopicDeletion

if TYPE_CHECKING:
    from zkgroup.testing.cluster_simulation.world import World

PARTITIONS_MAX = 4


class Operations:
    """The operators of one schedule. Each method asks for one thing, or returns False."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._origins: dict[TopicPartition, tuple[int, ...]] = {}
        """Replicas before a move, as its operator noted them."""
        self._old_reads: dict[str, Topic] = {}
        self._created = 0

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
        if not self._world.write(Create(Reassignment.path(), request.encode())):
            return False
        self._origins = origins
        return targets

    def change_target(self) -> object:
        return self._edit(lambda tp: self._replicas())

    def cancel(self) -> object:
        return self._edit(lambda tp: self._origins.get(tp) or self._replicas())

    def _edit(self, target: object) -> object:
        """A conditional edit of the request, where a controller of ours rules (recipes 17)."""
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
        return (
            targets
            if world.write(SetData(Reassignment.path(), request.encode(), found.stat.version))
            else False
        )

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
