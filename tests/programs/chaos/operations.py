"""Operations of operators during a round, through the same functions as the command line."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from tests.programs.chaos.cluster import RECORDS, ChaosCluster
from tests.programs.chaos.moves import exchange
from tests.programs.chaos.reader import GROUP
from tests.programs.chaos.schedule import BROKERS
from zkgroup.admin.cluster.brokers import read_states
from zkgroup.admin.elections import elect_preferred, plan_preferred
from zkgroup.admin.freezes import freeze_group, plan_freeze
from zkgroup.admin.reassign.cancellation import cancel, plan_cancel
from zkgroup.admin.reassign.submission import plan_reassignment, submit
from zkgroup.admin.topics.alteration import AddedPartitions, alter_topic, plan_alteration
from zkgroup.admin.topics.creation import create_topic, plan_topic
from zkgroup.admin.topics.deletion import delete_topic, plan_topic_deletion
from zkgroup.errors import ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import SetData
from zkgroup.znodes.admin_requests import Move, Reassignment

PARTITIONS = 3
REPLICAS = 3

Lists = Mapping[TopicPartition, tuple[int, ...]]


class Operations:
    """Runs operations as far as the cluster accepts them; a refusal is counted and is no failure."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self.cluster = cluster
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.epochs: dict[TopicPartition, int] = {}
        """Leader epoch of each partition when its last move was asked for."""
        self._before: dict[TopicPartition, tuple[int, ...]] = {}
        self._names = 0

    def begin(self) -> None:
        """Creates the topic of the records, and two others that are deleted and created later."""
        lists = [tuple(BROKERS[(n + k) % len(BROKERS)] for k in range(REPLICAS)) for n in range(PARTITIONS)]
        plan = plan_topic(self.cluster.ensemble, RECORDS, partitions=None, replica_assignment=lists)
        create_topic(self.cluster.ensemble, plan)
        for number in (1, 2):
            self._create(random.Random(number))

    def do(self, name: str, number: int) -> None:
        """Runs one operation; `number` chooses its objects."""
        rng = random.Random(number)
        try:
            did = getattr(self, f"_{name.replace(' ', '_')}")(rng)
        except ZkGroupError as error:
            self.refused[f"{name}: {type(error).__name__}"] += 1
        else:
            (self.done if did else self.refused)[name] += 1

    def _freeze(self, rng: random.Random) -> bool:
        """Freezes the group of the readers for a few seconds; the freeze ends by itself."""
        plan = plan_freeze(
            self.cluster.ensemble,
            GROUP,
            reason="chaos",
            for_ms=rng.randint(500, 6_000),
            allow_takeover=rng.random() < 0.5,
        )
        freeze_group(self.cluster.ensemble, plan, "chaos")
        return True

    def _create(self, rng: random.Random) -> bool:
        """Creates a topic, with a new name or with the name of a deleted topic."""
        self._names += 1
        name = f"t{rng.randrange(3)}" if rng.random() < 0.4 else f"u{self._names}"
        count, factor = rng.randint(1, 5), rng.randint(2, 3)
        lists = [tuple(rng.sample(BROKERS, factor)) for _ in range(count)]
        plan = plan_topic(self.cluster.ensemble, name, partitions=None, replica_assignment=lists)
        create_topic(self.cluster.ensemble, plan)
        return True

    def _grow(self, rng: random.Random) -> bool:
        name = self._pick(rng)
        if name is None:
            return False
        count = len(self.cluster.topics()[name].partitions) + rng.randint(1, 2)
        alter_topic(
            self.cluster.ensemble,
            plan_alteration(self.cluster.ensemble, name, AddedPartitions(partitions=count)),
        )
        return True

    def _delete(self, rng: random.Random) -> bool:
        name = self._pick(rng)
        if name is None:
            return False
        delete_topic(self.cluster.ensemble, plan_topic_deletion(self.cluster.ensemble, name))
        return True

    def _delete_moving(self, rng: random.Random) -> bool:
        """Moves a topic and deletes it at once."""
        name = self._pick(rng)
        if name is None:
            return False
        self.submit(self._targets(rng, [name]))
        delete_topic(self.cluster.ensemble, plan_topic_deletion(self.cluster.ensemble, name))
        return True

    def _pick(self, rng: random.Random) -> str | None:
        names = [name for name in self.cluster.topics() if name != RECORDS]
        return rng.choice(names) if names else None

    def submit(self, targets: Lists) -> None:
        """Requests these moves, even to dead brokers. Raises as `plan_reassignment` and `submit`."""
        moves = [Move(tp, target) for tp, target in targets.items()]
        plan = plan_reassignment(self.cluster.ensemble, moves, force=True)
        if not plan.effective:
            return
        self.epochs = {
            tp: -1 if state is None else state.leader_epoch
            for tp, state in read_states(self.cluster.ensemble, list(targets)).items()
        }
        submit(self.cluster.ensemble, plan)
        self._before.update(plan.rollback)

    def exchange_one(self, tp: TopicPartition, number: int) -> tuple[int, ...] | None:
        """Replaces one replica by another; the requested list, None where the request was refused."""
        try:
            now = self.cluster.topics()[tp.topic].partitions[tp.partition]
            target = exchange(now, BROKERS, number)
            if target is None:
                self.refused["exchange: every broker has it"] += 1
                return None
            self.submit({tp: target})
        except ZkGroupError as error:
            self.refused[f"exchange: {type(error).__name__}"] += 1
            return None
        self.done["exchange"] += 1
        return target

    def create_one(self, name: str) -> None:
        """Creates a topic of one partition. Raises as `plan_topic` and `create_topic`."""
        plan = plan_topic(self.cluster.ensemble, name, partitions=None, replica_assignment=[BROKERS[:2]])
        create_topic(self.cluster.ensemble, plan)

    def _move(self, rng: random.Random) -> bool:
        self.submit(self._targets(rng, sorted(self.cluster.topics())))
        return True

    def _targets(self, rng: random.Random, names: list[str]) -> Lists:
        topics = self.cluster.topics()
        every = [TopicPartition(name, n) for name in names for n in topics[name].partitions]
        chosen = rng.sample(every, min(len(every), rng.randint(1, 6)))
        return {tp: _other(rng, topics[tp.topic].partitions[tp.partition]) for tp in chosen}

    def _cancel(self, rng: random.Random) -> bool:
        """Cancels all running moves, or one of them, back to the former replicas."""
        request = self._request()
        if request is None:
            return False
        chosen = [rng.choice(sorted(request))] if rng.random() < 0.5 else sorted(request)
        back = [Move(tp, before) for tp in chosen if (before := self._before.get(tp)) is not None]
        cancel(self.cluster.ensemble, plan_cancel(self.cluster.ensemble, chosen, back))
        return True

    def _retarget(self, rng: random.Random) -> bool:
        """Writes another target into the running request, as an operator does by hand."""
        znode = self.cluster.zk.find(Reassignment.path())
        if znode is None:
            return False
        targets = dict(Reassignment.decode(znode.path, znode.data).targets)
        if not targets:
            return False
        tp = rng.choice(sorted(targets))
        targets[tp] = _other(rng, targets[tp])
        data = Reassignment(tuple(Move(each, target) for each, target in targets.items())).encode()
        self.cluster.zk.multi(SetData(znode.path, data, znode.stat.version))
        return True

    def _request(self) -> Lists | None:
        znode = self.cluster.zk.find(Reassignment.path())
        return None if znode is None else Reassignment.decode(znode.path, znode.data).targets or None

    def _prefer(self, rng: random.Random) -> bool:
        plan = plan_preferred(self.cluster.ensemble, None)
        if not plan.wanted:
            return False
        elect_preferred(self.cluster.ensemble, plan)
        return True


def _other(rng: random.Random, now: tuple[int, ...]) -> tuple[int, ...]:
    """Another replica list, of at least two brokers, so that losing one disk loses no line."""
    while True:
        target = tuple(rng.sample(BROKERS, rng.randint(2, 3)))
        if target != now:
            return target
