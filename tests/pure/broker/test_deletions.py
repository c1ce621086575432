"""DeleteRecords on the leader: the wait for its followers."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.worlds.replica_managers import TP, answered, append, changes_of, in_memory, over, pair, replicate
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.replicas.delayed_operations import DelayedDeleteRecords, DeletedRecords
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import HIGH_WATERMARK


@pytest.fixture
def leader() -> ReplicaManager:
    return in_memory(1)


@pytest.fixture
def follower() -> ReplicaManager:
    return in_memory(2)


def _of_three(leader: ReplicaManager, follower: ReplicaManager) -> None:
    """Both have three records, and the leader knows it."""
    pair(leader, follower)
    for value in (b"a", b"b", b"c"):
        append(leader, 0, value)
    assert replicate(leader, follower, TP)
    assert replicate(leader, follower, TP)


def _delete(leader: ReplicaManager, offset: int, live: Collection[int] = (1, 2)) -> DelayedDeleteRecords:
    return DelayedDeleteRecords(leader, {TP: offset}, live.__contains__)


def test_a_deletion_is_complete_when_the_followers_log_starts_there(
    leader: ReplicaManager, follower: ReplicaManager
) -> None:
    """The follower says so with the fetch after the answer, and that is a change of the partition."""
    _of_three(leader, follower)

    deletion = _delete(leader, 2)
    assert not deletion.check(leader)
    assert deletion.results[TP] == DeletedRecords(ErrorCode.REQUEST_TIMED_OUT, 0)
    follower.take(TP, *answered(leader, follower))
    assert not deletion.check(leader)
    changes = changes_of(leader)
    answered(leader, follower)

    assert changes() == 1
    assert deletion.check(leader)
    assert deletion.results[TP] == DeletedRecords(ErrorCode.NONE, 2)


def test_a_broker_that_has_ended_is_not_waited_for(leader: ReplicaManager, follower: ReplicaManager) -> None:
    """As in Kafka: it deletes them when it is back."""
    _of_three(leader, follower)

    deletion = _delete(leader, HIGH_WATERMARK, live=[1])

    assert deletion.check(leader)
    assert deletion.results[TP] == DeletedRecords(ErrorCode.NONE, 3)


def test_a_follower_that_has_not_fetched_is_waited_for(leader: ReplicaManager) -> None:
    """In this leader epoch: what the last one knew is not known any more."""
    pair(leader, in_memory(2))

    deletion = _delete(leader, 0)

    assert not deletion.check(leader)
    assert deletion.results[TP].low_watermark == -1


def test_a_leader_that_leads_no_more_does_not_know(leader: ReplicaManager, follower: ReplicaManager) -> None:
    """Error 6 ends the wait."""
    _of_three(leader, follower)
    deletion = _delete(leader, 2)
    leader.become_follower(TP, 1)

    assert deletion.check(leader)
    assert deletion.results[TP] == DeletedRecords(ErrorCode.NOT_LEADER_FOR_PARTITION)


@pytest.mark.parametrize(("offset", "error"), [(4, 1), (-2, 1), (0, 0)])
def test_only_records_below_the_high_watermark_are_deleted(
    leader: ReplicaManager, follower: ReplicaManager, offset: int, error: int
) -> None:
    """The others are refused at once, as Kafka 2.8.2 does."""
    _of_three(leader, follower)

    deletion = _delete(leader, offset)

    assert deletion.check(leader)
    assert deletion.results[TP].error == error
    assert leader.offsets(TP).log_start_offset == 0


def test_nothing_is_deleted_from_a_topic_that_is_to_be_compacted() -> None:
    """Error 44: a key's last record would be lost."""
    leader = over(1, MemoryStorage())
    leader.configure_logs(lambda topic: LogConfig(keeps_all=True))
    leader.become_leader(TP, 0, (1,), {1})
    append(leader, 0, b"a")

    deletion = _delete(leader, 1)

    assert deletion.check(leader)
    assert deletion.results[TP] == DeletedRecords(ErrorCode.POLICY_VIOLATION)
