"""Which replicas of a host have failed: why, with the file, and since when."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.replica_managers import on_disk, over
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.replica_view import ReplicaFailure
from zkgroup.broker.replicas.manager import REASON_MAX, ReplicaManager
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


class World:
    """A host in memory on a clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.storage = MemoryStorage()
        self.host = self.open()

    def open(self) -> ReplicaManager:
        return over(1, self.storage, lambda: self.now_ms)


@pytest.fixture
def world() -> World:
    return World()


def test_a_failure_has_the_time_of_its_beginning(world: World) -> None:
    """Attempts to go on in vain, and words of the controller that come to nothing, do not make it younger."""
    assert world.host.become_follower(TP, 0) is ErrorCode.NONE
    assert world.host.become_follower(OTHER, 0) is ErrorCode.NONE
    world.storage.broken.add(str(TP))
    world.host.stop(TP)
    world.host.close()
    world.host = world.open()
    assert world.host.become_follower(TP, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    world.now_ms = 2_000
    assert world.host.become_follower(TP, 2) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not world.host.reopen(TP)

    assert world.host.failures() == {TP: ReplicaFailure("orders-0: Input/output error", 1_000)}


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_follower_without_files_gets_them_when_they_can_be_made(world: World, epoch: int) -> None:
    """It follows in the same leader epoch. Past bug: `reopen` did not try replicas that were never open."""
    world.storage.broken.add(str(TP))
    assert world.host.become_follower(TP, epoch) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not world.host.reopen(TP)
    world.storage.broken.clear()

    assert world.host.reopen(TP)
    assert world.host.failures() == {}
    request = world.host.next_fetch(TP, 1_000)
    assert request is not None
    assert (request.offset, request.current_leader_epoch) == (0, epoch)
    assert not world.host.reopen(TP)
    error = world.host.become_leader(TP, epoch + 1, (1, 2), (1, 2))
    assert error is ErrorCode.KAFKA_STORAGE_ERROR, "it may have had records, and has not caught up"


def test_a_follower_whose_files_cannot_be_opened_is_opened_later(world: World) -> None:
    """Its files are those of an earlier process. Past bug: `reopen` did not try it."""
    world.host.become_follower(TP, 0)
    world.host.close()
    world.host = world.open()
    world.storage.broken.add(str(TP))
    assert world.host.become_follower(TP, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    world.storage.broken.clear()

    assert world.host.reopen(TP)
    request = world.host.next_fetch(TP, 1_000)
    assert request is not None
    assert request.current_leader_epoch == 1


def test_a_replica_that_lost_its_role_is_not_opened_again(world: World) -> None:
    """It was stopped, or became the leader: a failed leader may have lost records."""
    world.storage.broken.add(str(TP))
    world.host.become_follower(TP, 0)
    world.host.stop(TP)
    world.storage.broken.clear()
    assert not world.host.reopen(TP)

    world.storage.broken.add(str(OTHER))
    world.host.become_follower(OTHER, 0)
    assert world.host.become_leader(OTHER, 1, (1, 2), (1, 2)) is ErrorCode.KAFKA_STORAGE_ERROR
    world.storage.broken.clear()
    assert not world.host.reopen(OTHER)


def test_a_replica_that_is_served_again_has_not_failed(world: World) -> None:
    """Neither has a stopped or deleted one; a later failure is a new one."""
    world.storage.broken.add(str(TP))
    world.host.become_follower(TP, 0)
    world.storage.broken.clear()
    assert world.host.become_follower(TP, 1) is ErrorCode.NONE
    assert world.host.failures() == {}

    world.now_ms = 5_000
    assert world.host.become_leader(OTHER, 3, (1,), (1,)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.host.failures()[OTHER].since_ms == 5_000
    world.host.stop(OTHER)
    assert world.host.failures() == {}
    world.now_ms = 6_000
    world.host.become_leader(OTHER, 4, (1,), (1,))
    assert world.host.failures()[OTHER].since_ms == 6_000
    world.host.delete(OTHER)
    assert world.host.failures() == {}


def test_what_must_not_lead_has_failed_with_why(world: World) -> None:
    """Its records are there, and not those of a leader."""
    world.host.become_follower(TP, 3)
    assert world.host.become_leader(TP, 4, (1, 2), (1, 2)) is ErrorCode.KAFKA_STORAGE_ERROR

    ((tp, failure),) = world.host.failures().items()
    assert (tp, failure.since_ms) == (TP, 1_000)
    assert "cannot lead in epoch 4" in failure.reason


def test_a_failure_that_was_not_reported_is_found_by_the_check(world: World) -> None:
    """As `view` opens it."""
    world.host.become_follower(TP, 0)
    world.host.close()
    world.storage.broken.add(str(TP))
    world.host = world.open()
    assert world.host.failures() == {}
    world.host.view(TP)
    assert world.host.failures() == {TP: ReplicaFailure("orders-0: Input/output error", 1_000)}


def test_the_reason_names_the_file(tmp_path: Path) -> None:
    """An operator has to find it; a reason that no answer could carry is cut."""
    host = on_disk(1, tmp_path / "data")
    (tmp_path / "data" / "orders-0").write_text("in the way")
    assert host.become_follower(TP, 0) is ErrorCode.KAFKA_STORAGE_ERROR

    answer = host.offsets(TP)
    host.close()
    assert (answer.error, answer.failed_since_ms >= 0) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    assert str(tmp_path / "data" / "orders-0") in answer.failure
    assert len(answer.failure) <= REASON_MAX


def test_an_observer_gets_the_time_and_the_reason(world: World) -> None:
    """Also of a replica that still has its log; of another one it gets the offsets, and of none error 3."""
    world.host.become_follower(OTHER, 0)
    world.host.become_follower(TP, 3)
    world.host.become_leader(TP, 4, (1, 2), (1, 2))

    failed, works = world.host.offsets(TP), world.host.offsets(OTHER)
    assert (failed.error, failed.failed_since_ms) == (ErrorCode.KAFKA_STORAGE_ERROR, 1_000)
    assert "cannot lead in epoch 4" in failed.failure
    assert (works.error, works.high_watermark, works.failed_since_ms, works.failure) == (0, 0, -1, "")
    assert world.host.offsets(TopicPartition("orders", 2)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
