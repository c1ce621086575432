"""A frame from anyone does not move the cluster: what it claims is compared with ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.worlds.running_brokers import T0, MemoryBrokers
from zkgroup.broker.replica_view import Role
from zkgroup.model import TopicPartition
from zkgroup.model.requests import SetData
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    PartitionStateInfo,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import ErrorCode, Request, Response
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.wire.records import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import ControllerEpoch

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@pytest.fixture(name="world")
def _world() -> Iterator[MemoryBrokers]:
    world = MemoryBrokers()
    yield world
    world.running.close()


def led(world: MemoryBrokers) -> None:
    """Broker 1 leads a partition with a record that broker 2 has too."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    assert world.running.append(1, T0, b"a").error == 0


def fetched(world: MemoryBrokers, offset: int, broker_epoch: int) -> int:
    """The error that the leader answers to a fetch in the name of broker 2."""
    partition = FetchPartition(0, offset, 1_000, current_leader_epoch=0, last_fetched_epoch=0)
    request = FetchRequest(2, 0, 0, (FetchTopic("t", (partition,)),), broker_epoch=broker_epoch)
    ((found,),) = (
        topic.partitions for topic in world.running.ask(1, request, FetchResponse, version=12).topics
    )
    return found.error


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (UpdateMetadataRequest(9, INT32_MAX, (), ()), UpdateMetadataResponse),
        (StopReplicaRequest(9, INT32_MAX, True, (T0,)), StopReplicaResponse),
        (LeaderAndIsrRequest(9, INT32_MAX, (), ()), LeaderAndIsrResponse),
        (UpdateMetadataRequest(4, 1, (), ()), UpdateMetadataResponse),
    ],
    ids=["UpdateMetadata", "StopReplica", "LeaderAndIsr", "of another controller"],
)
def test_a_controller_that_never_was_is_refused_and_the_present_one_obeyed(
    world: MemoryBrokers, request_: Request, kind: type[Response], caplog: pytest.LogCaptureFixture
) -> None:
    """Error 11 and one line; the epoch is not kept, so the controller goes on, and so does the next one."""
    led(world)

    response = world.running.ask(1, request_, kind)

    assert response.error == ErrorCode.STALE_CONTROLLER_EPOCH  # type: ignore[attr-defined]
    assert caplog.text.count("ZooKeeper has no such registration; refused") == 1
    world.running.lead(world.zk, T0, 1, (1, 2), leader_epoch=1)
    world.running.controller_epoch += 1
    world.running.lead(world.zk, T0, 1, (1, 2), leader_epoch=2)
    assert world.running.append(1, T0, b"b").error == 0


@pytest.mark.parametrize("offset", [0, 1, 1_000], ids=["behind", "level", "beyond the end"])
def test_only_a_registered_broker_is_a_follower(world: MemoryBrokers, offset: int) -> None:
    """Neither does the leader stop, nor does the follower leave the ISR, nor is it shut out."""
    led(world)

    assert fetched(world, offset, INT64_MAX) == ErrorCode.STALE_BROKER_EPOCH
    assert fetched(world, offset, -1) == ErrorCode.STALE_BROKER_EPOCH

    assert world.running.append(1, T0, b"b").error == 0
    assert world.isr() == (1, 2)
    assert world.running.view(1, T0).role is Role.LEADER
    world.becomes(lambda: world.running.view(2, T0).log_end_offset, 2)
    assert not world.running.told[1].of("failed")


def test_a_follower_that_has_started_again_is_believed_once_zookeeper_is_read(world: MemoryBrokers) -> None:
    """The leader has read its former registration; a fetch of that one is stale from then on."""
    led(world)
    former = world.running.brokers[2].epoch
    assert former is not None
    world.server.expire("b2")
    world.becomes(lambda: len(world.running.told[2].of("registered")), 2)

    assert world.running.append(1, T0, b"b").error == 0
    world.becomes(lambda: world.running.view(2, T0).log_end_offset, 2)
    assert fetched(world, 2, former) == ErrorCode.STALE_BROKER_EPOCH
    assert world.isr() == (1, 2)


def test_a_new_controller_waits_while_zookeeper_is_away(
    world: MemoryBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """Its request closes the connection, so it is sent again; the present controller is still obeyed."""
    led(world)
    world.server.suspend("b1")
    world.eventually(lambda: world.running.told[1].of("disconnected"))
    found = world.zk.read(ControllerEpoch.path())
    world.zk.multi(SetData(found.path, ControllerEpoch(2).encode(), found.stat.version))

    brokers = world.running.live_brokers(1, 2)
    assert world.running.ask(1, UpdateMetadataRequest(9, 1, (), brokers), UpdateMetadataResponse).error == 0
    with pytest.raises(ConnectionResetError):
        world.running.ask(1, UpdateMetadataRequest(9, 2, (), brokers), UpdateMetadataResponse)
    assert "of epoch 2: refused for now, ZooKeeper cannot be read" in caplog.text

    world.server.resume("b1")
    world.running.controller_epoch = 2
    world.eventually(lambda: world.running.brokers[1].health().live_brokers)

    def obeyed() -> bool:
        try:
            update = UpdateMetadataRequest(9, 2, (), brokers)
            return world.running.ask(1, update, UpdateMetadataResponse).error == 0
        except ConnectionResetError:
            return False

    assert world.eventually(obeyed)
    assert world.running.brokers[1].health().controller_epoch == 2


@pytest.mark.parametrize(("version", "epoch"), [(0, -1), (1, -1), (2, INT64_MAX), (2, -1)])
def test_only_the_broker_itself_is_stopped(world: MemoryBrokers, version: int, epoch: int) -> None:
    """Error 77; its controller is not asked. The broker itself names its epoch."""
    led(world)
    request = ControlledShutdownRequest(2, epoch)

    answer = world.running.ask(1, request, ControlledShutdownResponse, version=version)

    assert answer.error == ErrorCode.STALE_BROKER_EPOCH
    assert world.running.idle[1].asked == []
    present = ControlledShutdownRequest(2, world.running.brokers[2].epoch or 0)
    assert world.running.ask(1, present, ControlledShutdownResponse, version=2).error == 0
    assert world.running.idle[1].asked == [2]


def test_a_request_in_the_name_of_the_controller_changes_nothing_that_zookeeper_does_not_say(
    world: MemoryBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """Error 13: neither is the controller shut out, nor are records deleted or the leader stopped."""
    led(world)
    beyond = PartitionStateInfo(*T0, 1, 2, INT32_MAX, (2,), 0, (1, 2))
    forged = LeaderAndIsrRequest(world.running.controller, 1, (beyond,), ())
    for delete in (False, True):
        stop = StopReplicaRequest(world.running.controller, 1, delete, (T0,))
        answer = world.running.ask(1, stop, StopReplicaResponse)
        assert answer.partitions == (PartitionError(*T0, ErrorCode.STALE_LEADER_EPOCH),)

    found = world.running.ask(1, forged, LeaderAndIsrResponse)

    assert found.partitions == (PartitionError(*T0, ErrorCode.STALE_LEADER_EPOCH),)
    assert "not as in ZooKeeper: t-0; refused" in caplog.text
    assert world.running.view(1, T0).role is Role.LEADER
    world.running.lead(world.zk, T0, 1, (1, 2), leader_epoch=1)
    assert world.running.append(1, T0, b"b").error == 0
    assert world.running.view(1, T0).log_end_offset == 2


def test_metadata_in_the_name_of_the_controller_says_what_zookeeper_says(world: MemoryBrokers) -> None:
    """No leader of an epoch to come, no topic gone, no broker away or elsewhere: else clients and followers
    would go there until the controller has something new to say."""
    led(world)
    brokers = world.running.live_brokers(1, 2)
    beyond = PartitionStateInfo(*T0, INT32_MAX, 2, INT32_MAX, (2,), 0, (1, 2))
    elsewhere = (brokers[0], replace(brokers[1], port=1))

    def sent(live: tuple[UpdateMetadataBroker, ...], *states: PartitionStateInfo) -> int:
        update = UpdateMetadataRequest(world.running.controller, 1, states, live)
        return world.running.ask(1, update, UpdateMetadataResponse).error

    assert sent(brokers, beyond) == ErrorCode.STALE_LEADER_EPOCH
    assert (
        sent(brokers, PartitionStateInfo.during_delete(T0, 1, (1, 2), (1, 2))) == ErrorCode.STALE_LEADER_EPOCH
    )
    assert sent(()) == ErrorCode.STALE_BROKER_EPOCH
    assert sent(elsewhere) == ErrorCode.STALE_BROKER_EPOCH

    found = world.running.ask(1, MetadataRequest.of("t"), MetadataResponse)
    assert [(one.broker, one.port) for one in found.brokers] == [(one.broker, one.port) for one in brokers]
    assert found.topics[0].partitions[0].leader == 1
    assert world.running.append(1, T0, b"b").error == 0
    assert world.isr() == (1, 2)


def test_a_known_role_with_fewer_replicas_shuts_out_no_follower(world: MemoryBrokers) -> None:
    """Sent in the name of a later controller, in the leader epoch of the former one."""
    led(world)
    path = Topic.path(T0.topic)
    world.zk.multi(SetData(path, Topic({0: (1, 2)}).encode(), world.zk.read(path).stat.version))
    world.running.controller_epoch += 1
    world.running.lead(world.zk, TopicPartition("u", 0), 1, (1, 2))
    fewer = PartitionStateInfo(*T0, 1, 1, 0, (1,), 0, (1,))
    forged = LeaderAndIsrRequest(world.running.controller, 2, (fewer,), ())

    found = world.running.ask(1, forged, LeaderAndIsrResponse)

    assert found.partitions == (PartitionError(*T0, ErrorCode.STALE_LEADER_EPOCH),)
    assert world.running.append(1, T0, b"b").error == 0
    assert world.isr() == (1, 2)
