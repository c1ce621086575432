"""How many files of zkgroup a reader passes who follows one commit, or one JoinGroup, on real ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.files_passed import Passed, profiled
from tests.worlds.public_apis import orders, settings
from tests.worlds.running_brokers import ask
from zkgroup import GroupMember
from zkgroup.broker.broker import Broker
from zkgroup.broker.settings import BrokerSettings
from zkgroup.coordinator.settings import GENERATIONS_RESERVED
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import Create
from zkgroup.testing.plugin import ServerTree
from zkgroup.wire.groups import JoinGroupRequest, JoinGroupResponse, JoinProtocol
from zkgroup.wire.messages import decode_response, encode_request
from zkgroup.wire.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from zkgroup.znodes.brokers import Topic
from zkgroup.zookeeper.blocking import Blocking

COMMIT_AT_MOST, JOIN_AT_MOST = 28, 32
COMMITS = 20
ONE_SLOT = BrokerSettings(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1)
VERSION = 5


@pytest.fixture
def passed() -> Iterator[Passed]:
    with profiled() as passed:
        yield passed


def names_of(passed: Passed) -> list[str]:
    return [name for name in passed.names if not name.startswith("testing/")]


def test_a_commit_passes_few_files(passed: Passed, zk_server: ServerTree, witness: Blocking) -> None:
    """From the call to its return. Of many commits the one that coincides with nothing else counts."""
    witness.create_missing("/brokers", "/brokers/ids", "/brokers/topics")
    witness.multi(Create(Topic.path("orders"), Topic({0: (0,)}).encode()))
    found = []
    with GroupMember(zk_server.address, group="g", topics=["orders"], settings=settings()) as member:
        member.wait_until_stable(PATIENCE_S)
        for offset in range(COMMITS):
            with passed.counting():
                member.commit({orders(0)[0]: offset})
            found.append(names_of(passed))

    fewest = min(found, key=len)
    assert {"consumer/sync.py", "consumer/machine/commit.py", "zookeeper/wire.py"} <= set(fewest)
    assert len(fewest) <= COMMIT_AT_MOST, fewest


def test_a_join_of_a_known_member_passes_few_files(passed: Passed, zk_server: ServerTree) -> None:
    """From the request to its answer. One of so many joins reserves generations in ZooKeeper first.

    Of the joins with a write, and of those without, the one that coincides with nothing else counts.
    """
    written, unwritten = [], []
    with Broker(zk_server.address, broker=1, settings=ONE_SLOT) as broker:
        broker.wait_registered(PATIENCE_S)
        assert broker.serving is not None
        coordinator = FindCoordinatorRequest("g")
        port = broker.serving[1]
        eventually(lambda: ask(port, coordinator, FindCoordinatorResponse).error, lambda error: not error)
        with socket.create_connection(broker.serving, timeout=PATIENCE_S) as connection:
            first = eventually(lambda: sent(connection, join("", 0)), is_known)
            assert sent(connection, join(first.member_id, 0)).error == 0
            for number in range(1, 2 * GENERATIONS_RESERVED + 1):
                request = join(first.member_id, number)
                with passed.counting():
                    answer = answered(connection, request)
                assert decode_response(JoinGroupResponse, answer, version=VERSION)[1].error == 0
                names = names_of(passed)
                (written if "broker/groups/group_writes.py" in names else unwritten).append(names)

    assert "zookeeper/wire.py" in min(written, key=len)
    for fewest in (min(written, key=len), min(unwritten, key=len)):
        assert {"broker/server/connection.py", "coordinator/join_group.py"} <= set(fewest)
        assert len(fewest) <= JOIN_AT_MOST, fewest


def is_known(joined: JoinGroupResponse) -> bool:
    """The coordinator has given an id."""
    return joined.error == ErrorCode.MEMBER_ID_REQUIRED


def join(member_id: str, number: int) -> bytes:
    """A join with metadata of its own, so that it starts a generation."""
    request = JoinGroupRequest(
        group="g",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinProtocol(name="range", metadata=str(number).encode()),),
    )
    return encode_request(request, 0, "test", version=VERSION)


def sent(connection: socket.socket, request: bytes) -> JoinGroupResponse:
    return decode_response(JoinGroupResponse, answered(connection, request), version=VERSION)[1]


def answered(connection: socket.socket, request: bytes) -> bytes:
    """The frame of the answer, without its size."""
    connection.sendall(request)
    return exactly(connection, int.from_bytes(exactly(connection, 4), "big"))


def exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        assert more, "the connection was closed"
        found += more
    return found
