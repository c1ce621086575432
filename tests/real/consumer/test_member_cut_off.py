"""Members whose server is cut off from the others of its ensemble, while they still reach it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from tests.waiting import becomes, eventually
from tests.worlds.clients import leader_of, opener
from tests.worlds.faces import Application, Listener, orders, settings
from tests.worlds.recording import Recorder
from zkgroup.consumer.consumer import Consumer
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.sources.memory import MemorySource
from zkgroup.history import CheckOptions, check_history
from zkgroup.model.requests import Create, Read, ReadDone
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Target
from zkgroup.testing.peer_links import PeerLinks
from zkgroup.znodes.brokers import Topic, brokers_path, topics_path
from zkgroup.znodes.consumers import Owner
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

(FIRST,) = orders(0)
SESSION_MS = 3000
"""Shorter than the 5 s (syncLimit) for which a server that is cut off still answers its clients."""
PATIENCE_S = 60.0
"""An election, the end of a session and a rebalance, on a machine with other things to do."""


class Work:
    """Two consumers of one group, each in a thread, of records that come one by one."""

    def __init__(self, chaos: ChaosZooKeeper) -> None:
        self._chaos = chaos
        self._source = MemorySource()
        self._lock = threading.Lock()
        self.recorder = Recorder()
        self.seen: set[tuple[int, int]] = set()

    @contextmanager
    def consumer(self, name: str, servers: Sequence[int], app: Application) -> Iterator[Consumer]:
        """A consumer that knows these servers only, at work."""
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
                thread.join(PATIENCE_S)

    def feed(self, each: int = 5) -> None:
        """So many records more for each partition; returns when all were delivered."""
        for _ in range(each):
            for partition in range(4):
                self._source.append("orders", partition, b"")
        all_of_them = 4 * self._source.bounds(FIRST).end
        becomes(lambda: len(self.seen), all_of_them)


@pytest.fixture
def work(zk_chaos: ChaosZooKeeper) -> Work:
    return _work(zk_chaos)


def _work(chaos: ChaosZooKeeper) -> Work:
    with ZooKeeperClient(chaos.direct_address) as client, Blocking(client) as blocking:
        blocking.create_missing(brokers_path(), topics_path())
        blocking.multi(Create(Topic.path("orders"), Topic(dict.fromkeys(range(4), (0,))).encode()))
    return Work(chaos)


@pytest.fixture
def patient() -> Iterator[ChaosZooKeeper]:
    """Servers of the test's own: one that is cut off answers its clients for 30 s."""
    with (
        PeerLinks() as links,
        EmbeddedZooKeeper(3, fsync=False, route=links.route, config={"syncLimit": "60"}) as zookeeper,
        ChaosZooKeeper(zookeeper, "", links) as chaos,
    ):
        yield chaos


BOTH, UNHEARD, DEAF = {}, {"from_peers": False}, {"to_peers": False}


@pytest.mark.parametrize(
    ("role", "ways"),
    [("follower", BOTH), ("follower", UNHEARD), ("follower", DEAF), ("leader", BOTH), ("leader", UNHEARD)],
    ids=["follower", "follower unheard", "follower deaf", "leader", "leader unheard"],
)
def test_a_member_at_a_server_cut_off_stops_before_others_begin(
    zk_chaos: ChaosZooKeeper, work: Work, role: str, ways: Mapping[str, bool]
) -> None:
    """F13, F14: S7 and S8 hold, nothing is lost, and healed the group shares again."""
    leader = leader_of(zk_chaos)
    cut_off = leader if role == "leader" else (leader + 1) % 3
    rest = [number for number in range(3) if number != cut_off]
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

            zk_chaos.isolate(cut_off, **ways)
            work.feed()

            eventually(lambda: valid_at_takeover)
            assert not any(valid_at_takeover)
            becomes(lambda: shares(first, second), (0, 4))
            work.feed()

            zk_chaos.heal()
            becomes(lambda: shares(first, second), (2, 2))
            work.feed()

    report = check_history(work.recorder.records, (), CheckOptions(group="g"))
    assert report.violations == ()
    assert {"S7", "S8", "S9"} <= report.decided
    assert report.figures.ownership_changes >= 4


def taken(leases: Sequence[Lease]) -> list[Lease]:
    """The lease of the partition that is watched, where it is among them."""
    return [lease for lease in leases if lease.topic_partition == FIRST]


def shares(*consumers: Consumer) -> tuple[int, ...]:
    """How many partitions each holds a valid lease of."""
    return tuple(sum(lease.is_valid for lease in consumer.leases()) for consumer in consumers)


def test_its_own_server_still_shows_it_as_the_owner(patient: ChaosZooKeeper) -> None:
    """faults.md, finding 6: others deliver already, and no read at its server could tell the member."""
    work = _work(patient)
    cut_off = (leader_of(patient) + 1) % 3
    rest = [number for number in range(3) if number != cut_off]
    begun = threading.Event()
    app = Application({"assigned": lambda new: begun.set() if taken(new) else None})
    with Target(opener(patient.addresses[cut_off])) as here:
        neighbour = here.connect(60_000)
        with work.consumer("a", [cut_off], Application()) as first:
            becomes(lambda: shares(first), (4,))
            with work.consumer("b", rest, app) as second:
                becomes(lambda: shares(first, second), (2, 2))

                patient.isolate(cut_off)
                assert begun.wait(PATIENCE_S)
                shown = neighbour.ask(Read(Owner.path("g", FIRST)), ReadDone).znode

                assert shares(first) == (0,)
                assert shown is not None
                assert shown.data == b"g_a-0"
                patient.heal()
                work.feed()
