"""Consumers of a schedule: they read from any leader, and what they were given may not be lost."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from zkgroup.model import TopicPartition
from zkgroup.wire.error_codes import ErrorCode
from zkgroup.wire.replica_host import CONSUMER, NO_EPOCH, FetchLinesRequest

if TYPE_CHECKING:
    from zkgroup.testing.cluster_simulation.broker import BrokerProcess
    from zkgroup.testing.cluster_simulation.world import World


class Consumers:
    """One position for each partition and life of its topic, from wherever it was read last."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._positions: dict[tuple[TopicPartition, int], int] = {}

    def read(self) -> None:
        """One fetch from any broker that takes itself for the leader."""
        partitions = sorted(self._world.audit.look().partitions())
        if not partitions:
            return
        tp = self._rng.choice(partitions)
        able = [one for one in self._world.awake_brokers() if one.leads(tp) is not None]
        if able:
            self.read_from(self._rng.choice(able), tp)

    def read_from(self, process: BrokerProcess, tp: TopicPartition) -> None:
        """Reads on, and records what is new. A leader of a former topic of the name is passed over."""
        life = self._world.life(tp.topic)
        if process.lives.get(tp) != life:
            return
        offset = self._positions.get((tp, life), 0)
        response = process.host.fetch(
            FetchLinesRequest(CONSUMER, -1, *tp, NO_EPOCH, NO_EPOCH, offset, 1_000, 0)
        )
        if response.error != ErrorCode.NONE:
            return  # beyond its end: what was read before is judged at the end
        for batch in response.batches:
            lines = batch.lines.splitlines()[max(0, offset - batch.base_offset) :]
            if lines:
                process.note_read(tp, offset, lines, batch.leader_epoch, life)
                offset += len(lines)
        self._positions[tp, life] = offset
