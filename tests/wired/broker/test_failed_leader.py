"""A broker whose disk fails under a partition that it leads, or follows."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worlds.running_brokers import QUICK, T0, MemoryBrokers
from zkgroup.broker.replica_view import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.wire.control import (
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    PartitionStateInfo,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import ControllerRegistration

T1 = TopicPartition("t", 1)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file takes the record "too much"."""
    pwrite = os.pwrite

    def refuse(file: int, data: bytes, position: int) -> int:
        if b"too much" in bytes(data):
            raise OSError(28, "No space left on device")
        return pwrite(file, data, position)

    monkeypatch.setattr(os, "pwrite", refuse)


def begin(
    world: MemoryBrokers,
    folder: Path,
    led: tuple[TopicPartition, ...] = (T0, T1),
    replicas: tuple[int, ...] = (1, 2),
    settings: BrokerSettings = QUICK,
) -> None:
    """Broker 1 leads, with its records in a folder; the controller is in broker 2's process."""
    world.add(1, settings=settings, data=folder)
    world.add(2)
    session = world.server.clients["b2"].session
    assert session is not None
    world.server.write(
        Create(ControllerRegistration.path(), ControllerRegistration(2, 0).encode(), True),
        session_id=session.session_id,
    )
    for tp in led:
        world.running.lead(world.zk, tp, 1, replicas)
        assert world.running.append(1, tp, b"kept").error == 0


def fail(world: MemoryBrokers) -> None:
    """The disk takes no record of the first partition; the broker has said so."""
    assert world.running.append(1, T0, b"too much").error == 6
    world.eventually(lambda: world.running.told[1].of("failed"))


@pytest.mark.usefixtures("full_disk")
def test_a_broker_whose_disk_fails_under_a_partition_that_it_leads_leaves(
    world: MemoryBrokers, tmp_path: Path
) -> None:
    """It begins a controlled shutdown without waiting for `close`, and reports the reason."""
    begin(world, tmp_path / "one")
    fail(world)
    world.becomes(lambda: world.running.idle[2].asked, [1])
    assert world.running.append(1, T1, b"too much").error == 6
    broker = world.running.brokers[1]
    with pytest.raises(ReplicaStorageError) as caught:
        broker.check()
    broker.close()

    told = world.running.told[1]
    assert str(caught.value) == (
        f"t-0, which this broker led: {tmp_path}/one/t-0/00000000000000000000.log: "
        "No space left on device; it stops, so that others can lead: free space or repair the disk, "
        "then start it again"
    )
    assert told.of("failed") == [("failed", caught.value)]
    assert told.of("none") == [("none", T0, 0), ("none", T1, 0)]
    assert told.of("leader") == [("leader", T0, 0), ("leader", T1, 0)]
    assert world.running.idle[2].asked == [1], "once, however much fails"
    assert world.zk.exists(BrokerRegistration.path(1)) is None


@pytest.mark.usefixtures("full_disk")
def test_the_only_replica_is_given_up_too(world: MemoryBrokers, tmp_path: Path) -> None:
    """No replica has a role, and none can lead: the broker uses up its retries and stops."""
    begin(world, tmp_path / "one", led=(T0,), replicas=(1,))
    world.running.idle[2].answers += [ControlledShutdownResponse(0, (T0,))] * 3
    fail(world)
    world.running.brokers[1].close()

    assert world.running.idle[2].asked == [1, 1, 1]
    assert world.zk.exists(BrokerRegistration.path(1)) is None


@pytest.mark.usefixtures("full_disk")
def test_without_controlled_shutdown_it_goes_at_once(world: MemoryBrokers, tmp_path: Path) -> None:
    """As on SIGTERM; the end of its session takes its leaderships."""
    begin(world, tmp_path / "one", settings=replace(QUICK, controlled_shutdown_enable=False))
    fail(world)
    world.running.brokers[1].close()

    assert world.running.idle[2].asked == []
    assert world.zk.exists(BrokerRegistration.path(1)) is None


def test_a_leader_that_has_fewer_records_than_a_follower_of_its_term_leaves(
    world: MemoryBrokers, tmp_path: Path
) -> None:
    """It restarted with an empty directory and became leader: it would lead in ZooKeeper without serving."""
    begin(world, tmp_path / "one", led=(T0,))
    world.becomes(lambda: world.running.view(2, T0).log_end_offset, 1)
    world.running.brokers[1].close()
    del world.running.brokers[1]
    client = world.server.client("b1 again")
    world.running.add(client, 1, settings=QUICK, data=tmp_path / "emptied")
    world.running.lead(world.zk, T0, 1, (1, 2), told=(1,))
    world.eventually(lambda: world.running.told[1].of("failed"))
    broker = world.running.brokers[1]

    with pytest.raises(
        ReplicaStorageError, match="t-0, which this broker led: records are lost: broker 2 has 1"
    ):
        broker.check()
    broker.close()
    assert world.running.idle[2].asked == [1, 1]
    assert world.zk.exists(BrokerRegistration.path(1)) is None


@pytest.mark.usefixtures("full_disk")
def test_a_follower_whose_disk_is_full_does_not_end_its_broker(world: MemoryBrokers, tmp_path: Path) -> None:
    """The leader waits no longer once it is out of the ISR; partitions that its broker leads continue."""
    world.add(2)
    world.add(1, data=tmp_path / "one")
    world.running.lead(world.zk, T0, 2, (1, 2))
    world.running.lead(world.zk, T1, 1, (1, 2))
    assert world.running.append(2, T0, b"too much").error == 0
    assert world.isr() == (2,)

    world.running.brokers[1].check()
    assert world.running.view(1, T0).role is Role.NONE
    assert "No space left on device" in (world.running.view(1, T0).failure or "")
    assert world.running.append(1, T1, b"more").error == 0
    assert world.running.told[1].of("failed") == []


def test_a_follower_whose_files_cannot_be_opened_at_first_follows_later(
    world: MemoryBrokers, tmp_path: Path
) -> None:
    """Error 56; when its directory can be made, it follows in the same leader epoch without a request.

    Past bug: the fetcher did not know it, and only a new leader epoch or a restart gave it a role.
    """
    world.add(2)
    world.add(1, data=tmp_path / "one")
    in_the_way = tmp_path / "one" / "t-0"
    in_the_way.write_text("no directory")
    world.running.lead(world.zk, T0, 2, (1, 2), told=(2,))
    info = PartitionStateInfo("t", 0, 1, 2, 0, (1, 2), 0, (1, 2))
    request = LeaderAndIsrRequest(9, world.running.controller_epoch, (info,), (world.running.address(2),))
    response = world.running.ask(1, request, LeaderAndIsrResponse)
    assert response.partitions == (PartitionError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR),)
    in_the_way.unlink()

    world.eventually(lambda: T0 in world.running.brokers[1].replicas())
    assert world.running.append(2, T0, b"one").error == 0
    world.becomes(lambda: world.running.view(1, T0).log_end_offset, 1)
    response = world.running.ask(1, request, LeaderAndIsrResponse)
    assert [one.error for one in response.partitions] == [ErrorCode.NONE]
