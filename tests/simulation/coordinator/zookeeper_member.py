"""A ZooKeeper consumer in the same groups: the production machine of a member, with commits of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from tests.simulation.group.members import Actor
from tests.simulation.schedule import Action, ScheduleRecording
from zkgroup.consumer.machine import MemberConfig
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.settings import GroupSettings
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.client import MemoryClient

COMMIT_MS: Final = 800
SETTINGS: Final = GroupSettings(
    session_timeout_ms=6000,
    settle_ms=10,
    settle_max_ms=100,
    initial_rebalance_delay_ms=50,
    revoke_timeout_ms=1000,
    rebalance_backoff_ms=500,
    server_tick_ms=500,
    verify_interval_ms=5000,
    publish_interval_ms=10_000,
    require_brokers=False,
)


class ZooKeeperMember:
    """One start of a ZooKeeper consumer."""

    def __init__(
        self,
        group: str,
        client: MemoryClient,
        clock: FakeClock,
        recording: ScheduleRecording,
        pid: int,
        topic: str,
        rng: random.Random,
    ) -> None:
        self.group, self.name, self.client = group, client.name, client
        self._clock, self._rng = clock, rng
        config = MemberConfig(
            group=group,
            member_id=f"{group}_{client.name}",
            subscription=StaticSubscription({topic: 1}),
            settings=SETTINGS,
            version="sim",
            jitter=rng.random,
        )
        self.actor = Actor(config, client, clock, recording, pid)
        self._positions: dict[tuple[TopicPartition, int], int] = {}
        """By partition and token."""
        self._commit_ms = 0
        self.is_leaving = False
        self.commits = 0

    @property
    def is_running(self) -> bool:
        return self.actor.finished is None

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that it owns."""
        return frozenset(self.actor.grants())

    def leave(self) -> None:
        """Leaves the group in order."""
        if not self.is_leaving:
            self.is_leaving = True
            self.actor.engine.begin_close(5.0)

    def actions(self) -> Iterator[Action]:
        """Possible next steps."""
        if not self.is_running:
            return
        if self.actor.has_work:
            yield self._run
        if self._clock.now_ms() >= self._commit_ms and self._grants:
            yield self.commit

    def next_due_ms(self) -> int | None:
        """When it acts next without an event."""
        if not self.is_running:
            return None
        times = [self.actor.next_timer_ms(), self._commit_ms if self._grants else None]
        return min((each for each in times if each is not None), default=None)

    def _run(self) -> None:
        self.actor.run(self._rng.choice((1, 5, 100)))
        error = None if self.actor.finished is None else self.actor.finished.error
        self.failure = error

    @property
    def _grants(self) -> bool:
        return not self.is_leaving and bool(self.actor.engine.lease_table.current.grants)

    def commit(self) -> None:
        """Commits what it has processed."""
        self._commit_ms = self._clock.now_ms() + COMMIT_MS
        offsets = {}
        for tp, grant in self.actor.engine.lease_table.current.grants.items():
            before = self._positions.get((tp, grant.token), grant.offset or 0)
            offsets[tp] = self._positions[tp, grant.token] = before + self._rng.randint(0, 2)
        self.commits += 1
        self.actor.engine.commit_offsets(offsets)
