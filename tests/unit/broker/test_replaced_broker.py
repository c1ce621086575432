"""A broker that never comes back, and an empty one in its place: whole brokers with their controllers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.running_brokers import QUICK
from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.topic_deletion import delete_topic, plan_topic_deletion
from zkgroup.admin.topics import create_topic, describe_topics, plan_topic, topic_exists
from zkgroup.broker.node.broker import Broker
from zkgroup.testing import MemoryZooKeeper, wait_until
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock

WAIT_S = 60.0


@pytest.fixture
def server() -> MemoryZooKeeper:
    return MemoryZooKeeper(SystemClock())


@pytest.fixture
def operator(server: MemoryZooKeeper) -> Iterator[Ensemble]:
    """Somebody with the commands."""
    with Blocking(server.client("operator")) as zk:
        yield Ensemble(zk=zk, clock=SystemClock())


def test_a_deletion_ends_when_an_empty_broker_takes_the_place(
    server: MemoryZooKeeper, operator: Ensemble, tmp_path: Path
) -> None:
    """K20, from end to end: whom the deletion waits for is told, and a new folder with that id is enough."""

    def broker(number: int, folder: str) -> Broker:
        one = Broker(client=server.client(folder), broker=number, data=tmp_path / folder, settings=QUICK)
        ended.callback(one.close)
        one.start()
        one.wait_registered(WAIT_S)
        return one

    with ExitStack() as ended:
        broker(1, "one")
        lost = broker(2, "two")
        create_topic(operator, plan_topic(operator, "t", partitions=1, replica_assignment=[[1, 2]]))
        wait_until(lambda: (tmp_path / "two" / "t").is_dir(), WAIT_S)
        lost.close()
        delete_topic(operator, plan_topic_deletion(operator, "t"))

        def told() -> str | None:
            pending = describe_topics(operator, ["t"])[1][0].deletion
            return pending.detail if pending else None

        wait_until(lambda: told() == "waits for broker 2 to be back", WAIT_S, lambda: str(told()))
        broker(2, "new")
        wait_until(lambda: not topic_exists(operator, "t"), WAIT_S)

    assert list((tmp_path / "two" / "t").iterdir()), "what the lost broker had is where it was"
