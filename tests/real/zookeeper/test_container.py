"""The store's contract and a group's life on ZooKeeper in a container."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.clients import opener
from zkgroup import GroupMember, GroupSettings, TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing.conformance import CHECKS, Target
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def container_address() -> Iterator[str]:
    """Address of a server in a container; skips, or fails where it is required, when there is no daemon."""
    container = pytest.importorskip(
        "tests.real.zookeeper.container", reason="testcontainers is not installed"
    )
    obstacle = container.why_not()
    if obstacle is not None:
        (pytest.fail if container.REQUIRED else pytest.skip)(obstacle)
    with container.ZooKeeperContainer() as server:
        yield server.address


@pytest.fixture
def address(container_address: str) -> str:
    """The same with a chroot of the test's own."""
    chroot = f"/container-{next(_numbers)}"
    with ZooKeeperClient(container_address) as client, Blocking(client) as blocking:
        blocking.wait_connected()
        blocking.create_missing(chroot)
    return container_address + chroot


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_store(address: str, check: Callable[[Target], None]) -> None:
    """Our client keeps every rule of the contract against the server in the container."""
    with Target(opener(address)) as target:
        check(target)


def test_two_members_share_and_take_over(address: str) -> None:
    """Two members split a topic, commit, and one that leaves hands its partitions with their offsets over."""
    topic = "orders"
    with ZooKeeperClient(address) as client, Blocking(client) as blocking:
        blocking.wait_connected()
        blocking.create_missing("/brokers", "/brokers/topics")
        assignment = b'{"version":1,"partitions":{"0":[0],"1":[0],"2":[0],"3":[0]}}'
        blocking.multi(Create(f"/brokers/topics/{topic}", assignment))
    with _member(address, "a", topic) as first:
        with _member(address, "b", topic) as second:
            first.wait_until_stable(PATIENCE_S)
            second.wait_until_stable(PATIENCE_S)
            assert [lease.partition for lease in first.leases()] == [0, 1]
            assert [lease.partition for lease in second.leases()] == [2, 3]
            second.commit({TopicPartition(topic, 2): 20, TopicPartition(topic, 3): 30})
        first.wait_until_stable(PATIENCE_S)
        assert [lease.partition for lease in first.leases()] == [0, 1, 2, 3]
        everything = [TopicPartition(topic, p) for p in range(4)]
        assert first.committed(everything) == dict(zip(everything, (None, None, 20, 30), strict=True))


def _member(address: str, consumer_id: str, topic: str) -> GroupMember:
    settings = GroupSettings(consumer_id=consumer_id, session_timeout_ms=6000, server_tick_ms=500)
    return GroupMember(address, group="container", topics=[topic], settings=settings)
