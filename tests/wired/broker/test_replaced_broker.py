"""A broker that is lost, and an empty one in its place, or none: whole brokers with their controllers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, eventually_at
from tests.worlds.replica_managers import records_on_disk
from tests.worlds.running_brokers import QUICK
from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.admin.topics.creation import create_topic, plan_topic
from zkgroup.admin.topics.deletion import delete_topic, plan_topic_deletion
from zkgroup.admin.topics.listing import describe_topics, topic_exists
from zkgroup.broker.broker import Broker
from zkgroup.broker.replica_view import Role
from zkgroup.clients.producer import DeliveryReport, NewRecord, Outcome, RecordProducer
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing import MemoryZooKeeper
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.stray_replicas import stray_replicas_path
from zkgroup.zookeeper.blocking import Blocking

T0 = TopicPartition("t", 0)
StartBroker = Callable[[int, str], Broker]


@pytest.fixture
def server() -> MemoryZooKeeper:
    """A ZooKeeper in memory, with the clock of all clients."""
    return MemoryZooKeeper()


@pytest.fixture
def operator(server: MemoryZooKeeper) -> Iterator[Ensemble]:
    """The admin client of an operator."""
    with Blocking(server.client("operator")) as zk:
        yield Ensemble(zk=zk, clock=server.clock)


@pytest.fixture
def broker(server: MemoryZooKeeper, tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers, by id and folder."""
    with ExitStack() as ended:

        def start(number: int, folder: str) -> Broker:
            client = server.client(f"{folder} {len(server.clients)}")
            one = Broker(
                client=client, broker=number, data=tmp_path / folder, settings=QUICK, clock=server.clock
            )
            ended.callback(one.close)
            one.start()
            one.wait_registered(PATIENCE_S)
            return one

        yield start


def told(operator: Ensemble) -> str:
    """The brokers that the deletion waits for; the controller writes its status every few seconds."""
    pending = describe_topics(operator, ["t"])[1][0].deletion
    return (pending.detail if pending else None) or ""


def make_topic(operator: Ensemble) -> None:
    create_topic(operator, plan_topic(operator, "t", partitions=1, replica_assignment=[[1, 2]]))


def produce(operator: Ensemble, *values: bytes) -> None:
    """Acknowledged by all replicas in sync when it returns."""

    def run() -> None:
        producer = RecordProducer(ClusterReader(operator), "t", delivered.append)
        try:
            for value in values:
                producer.send(NewRecord(value, partition=0))
            producer.flush()
        finally:
            producer.close()

    delivered: list[DeliveryReport] = []
    producing = threading.Thread(target=run)
    producing.start()
    eventually_at(operator.clock, producing.is_alive, lambda alive: not alive)
    producing.join()
    assert [one.outcome for one in delivered] == [Outcome.ACKNOWLEDGED] * len(values)


def follows(back: Broker, records: int) -> bool:
    """Whether it has as many records as the new topic."""
    view = back.replicas().get(T0)
    return view is not None and (view.role, view.high_watermark) == (Role.FOLLOWER, records)


def test_a_deletion_ends_when_an_empty_broker_takes_the_place(
    operator: Ensemble, server: MemoryZooKeeper, broker: StartBroker, tmp_path: Path
) -> None:
    """K20, end to end: the deletion names the lost broker; an empty broker with its id ends the wait."""
    broker(1, "one")
    lost = broker(2, "two")
    make_topic(operator)
    eventually_at(server.clock, lambda: (tmp_path / "two" / "t-0").is_dir())
    lost.close()
    delete_topic(operator, plan_topic_deletion(operator, "t"))
    awaited = "waits for broker 2 to be back"
    eventually_at(server.clock, lambda: told(operator).startswith(awaited), what=lambda: told(operator))
    broker(2, "new")
    eventually_at(server.clock, lambda: not topic_exists(operator, "t"))

    assert list((tmp_path / "two" / "t-0").iterdir()), "what the lost broker had is where it was"


def test_a_broker_that_a_move_has_left_behind_brings_nothing_back(
    operator: Ensemble, server: MemoryZooKeeper, broker: StartBroker, tmp_path: Path
) -> None:
    """K16 and K20, from end to end: the topic has moved away while the broker was down, no list names it, and
    the deletion does not wait for it. The next topic of the name gives it a place and has more records: with
    the old ones before the last of them it would be in sync."""
    broker(1, "one")
    left = broker(2, "two")
    broker(3, "three")
    make_topic(operator)
    for value in (b"old 0", b"old 1"):
        produce(operator, value)
    eventually_at(server.clock, lambda: left.replicas()[T0].high_watermark, lambda found: found == 2)
    left.close()
    operator.zk.multi(Create(Reassignment.path(), Reassignment((Move(T0, (1, 3)),)).encode()))
    eventually_at(server.clock, lambda: operator.zk.exists(Reassignment.path()), lambda found: found is None)
    delete_topic(operator, plan_topic_deletion(operator, "t"))
    eventually_at(server.clock, lambda: not topic_exists(operator, "t"))
    make_topic(operator)
    for value in (b"new 0", b"new 1", b"new 2"):
        produce(operator, value)
    back = broker(2, "two")

    eventually_at(server.clock, lambda: follows(back, 3), what=lambda: str(back.replicas()))
    assert records_on_disk(tmp_path / "two", T0) == [b"new 0", b"new 1", b"new 2"]
    assert operator.zk.children(stray_replicas_path())[0] == ()


def test_a_broker_that_was_given_up_brings_nothing_back(
    operator: Ensemble, server: MemoryZooKeeper, broker: StartBroker, tmp_path: Path
) -> None:
    """K20, end to end: its old records have the same offsets and epoch as those of the new topic.

    Its files cannot show the difference; in the end it has only the records of the new topic.
    """
    broker(1, "one")
    lost = broker(2, "two")
    make_topic(operator)
    produce(operator, b"old 0", b"old 1", b"old 2")
    eventually_at(server.clock, lambda: lost.replicas()[T0].high_watermark, lambda found: found == 3)
    lost.close()
    delete_topic(operator, plan_topic_deletion(operator, "t"))
    eventually_at(
        server.clock,
        lambda: "--without-broker 2" in told(operator),
        what=lambda: told(operator),
    )
    delete_topic(operator, plan_topic_deletion(operator, "t", [2]))
    eventually_at(server.clock, lambda: not topic_exists(operator, "t"))
    old = records_on_disk(tmp_path / "two", T0)
    make_topic(operator)
    produce(operator, b"new 0", b"new 1")
    back = broker(2, "two")

    eventually_at(server.clock, lambda: follows(back, 2), what=lambda: str(back.replicas()))
    assert old == [b"old 0", b"old 1", b"old 2"]
    assert records_on_disk(tmp_path / "two", T0) == [b"new 0", b"new 1"]
    assert operator.zk.children(stray_replicas_path())[0] == ()


def test_a_broker_that_only_zookeeper_has_lost_does_not_stop_its_next_leader(
    operator: Ensemble, server: MemoryZooKeeper, broker: StartBroker, tmp_path: Path
) -> None:
    """It keeps fetching while its topic is deleted and created again without it.

    It has more records than the new leader in the same leader epoch. Its fetches are refused until it has got
    StopReplica.
    """
    leader = broker(1, "one")
    lost = broker(2, "two")
    (name,) = (name for name in server.clients if name.startswith("two"))
    make_topic(operator)
    produce(operator, b"old 0", b"old 1", b"old 2")
    eventually_at(server.clock, lambda: lost.replicas()[T0].high_watermark, lambda found: found == 3)
    server.suspend(name)
    server.expire(name)
    delete_topic(operator, plan_topic_deletion(operator, "t"))
    eventually_at(
        server.clock,
        lambda: "--without-broker 2" in told(operator),
        what=lambda: told(operator),
    )
    delete_topic(operator, plan_topic_deletion(operator, "t", [2]))
    eventually_at(server.clock, lambda: not topic_exists(operator, "t"))
    make_topic(operator)
    produce(operator, b"new 0", b"new 1")
    assert lost.replicas()[T0].log_end_offset == 3
    server.resume(name)

    eventually_at(server.clock, lambda: follows(lost, 2), what=lambda: str(lost.replicas()))
    view = leader.replicas()[T0]
    assert (view.role, view.leader_epoch, view.failure) == (Role.LEADER, 0, None)
    leader.check()
    assert records_on_disk(tmp_path / "two", T0) == [b"new 0", b"new 1"]
