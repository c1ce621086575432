"""Members on a ZooKeeper server that is cut off from its ensemble, while they still reach it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.waiting import becomes, eventually, joined
from tests.wired.consumer.recording import Recorder
from tests.worlds.clients import leader_of
from tests.worlds.public_apis import Application, Listener, orders, settings
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.sync import Consumer
from zkgroup.history import CheckOptions, check_history
from zkgroup.model.requests import Create
from zkgroup.sources.memory import MemorySource
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.znodes.brokers import Topic, brokers_path, topics_path
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock

(FIRST,) = orders(0)
SESSION_MS = 3000
"""Shorter than the 5 s (syncLimit) for which a server that is cut off still answers its clients."""


class Work:
    """Two consumers of one group, each in a thread, with a few records at a time."""

    def __init__(self, chaos: ChaosZooKeeper, witness: Blocking) -> None:
        """Creates the topic with four partitions."""
        witness.create_missing(brokers_path(), topics_path())
        witness.multi(Create(Topic.path("orders"), Topic(dict.fromkeys(range(4), (0,))).encode()))
        self._chaos = chaos
        self._source = MemorySource()
        self._lock = threading.Lock()
        self.recorder = Recorder(SystemClock())
        self.seen: set[tuple[int, int]] = set()

    @contextmanager
    def consumer(self, name: str, servers: Sequence[int], app: Application) -> Iterator[Consumer]:
        """Starts a consumer that connects to these servers only."""
        address = ",".join(self._chaos.addresses[number] for number in servers) + self._chaos.chroot
        consumer = Consumer(
            address,
            group="g",
            topics=["orders"],
            source=self._source,
            settings=settings(
                consumer_id=name,
                session_timeout_ms=SESSION_MS,
                server_tick_ms=500,
                auto_commit_interval_ms=50,
            ),
            listener=Listener(app),
            history=self.recorder.sink(f"g_{name}"),
        )

        def consume() -> None:
            for record in consumer:
                with self._lock:
                    self.seen.add((record.partition, record.offset))

        thread = threading.Thread(target=consume, name=f"work-{name}")
        with consumer:
            thread.start()
            try:
                yield consumer
            finally:
                consumer.stop()
                joined(thread)

    def feed(self, each: int = 5) -> None:
        """Adds records to each partition; returns when all were delivered."""
        for _ in range(each):
            for partition in range(4):
                self._source.append("orders", partition, b"")
        all_of_them = 4 * self._source.bounds(FIRST).end
        becomes(lambda: len(self.seen), all_of_them)


def cut_off_a_member(chaos: ChaosZooKeeper, work: Work, role: str, **ways: bool) -> None:
    """Cuts off the server of one member, and heals it; fails where the other delivers before the first
    stopped."""
    cut_off, rest = cut_off_and_rest(chaos, role)
    valid_at_takeover: list[bool] = []
    app = Application()
    with work.consumer("a", [cut_off], Application()) as first:
        becomes(lambda: shares(first), (4,))
        lease = first.lease(FIRST)
        assert lease is not None
        app.on["assigned"] = lambda new: valid_at_takeover.extend(lease.is_valid for _ in taken(new))
        with work.consumer("b", rest, app) as second:
            becomes(lambda: shares(first, second), (2, 2))
            work.feed()

            chaos.isolate(cut_off, **ways)
            work.feed()

            assert not any(eventually(lambda: list(valid_at_takeover)))
            becomes(lambda: shares(first, second), (0, 4))
            work.feed()

            chaos.heal()
            becomes(lambda: shares(first, second), (2, 2))
            work.feed()

    report = check_history(work.recorder.records, (), CheckOptions(group="g"))
    assert report.violations == ()
    assert {"S7", "S8", "S9"} <= report.decided
    assert report.figures.ownership_changes >= 4


def cut_off_and_rest(chaos: ChaosZooKeeper, role: str) -> tuple[int, list[int]]:
    """The server to cut off, the leader or a follower, and the others."""
    leader = leader_of(chaos)
    cut_off = leader if role == "leader" else (leader + 1) % 3
    return cut_off, [number for number in range(3) if number != cut_off]


def taken(leases: Sequence[Lease]) -> list[Lease]:
    """The lease of the watched partition, where it is among them."""
    return [lease for lease in leases if lease.topic_partition == FIRST]


def shares(*consumers: Consumer) -> tuple[int, ...]:
    """Number of partitions for which each has a valid lease."""
    return tuple(sum(lease.is_valid for lease in consumer.leases()) for consumer in consumers)
