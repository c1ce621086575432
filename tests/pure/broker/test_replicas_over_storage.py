"""Replicas over a storage that a test controls: followers that wait, disks that are lost or fail."""

from __future__ import annotations

from tests.worlds.batches import records_of
from tests.worlds.replica_managers import (
    TP,
    append,
    end,
    in_memory,
    over,
    pair,
    replicate,
    text_of,
    view,
    watermark,
)
from tests.worlds.replica_managers import fetch as fetch_from
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.log_loader import create_log
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.replica_view import Role
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.replica import Replica
from zkgroup.wire.messages import ErrorCode


def led_pair() -> tuple[ReplicaManager, ReplicaManager]:
    one, two = in_memory(1), in_memory(2)
    pair(one, two)
    for value in (b"a", b"b", b"c"):
        append(one, 0, value)
    return one, two


def test_a_follower_catches_up_as_far_as_the_script_says() -> None:
    """The leader counts its records; at the log end the follower has the high watermark too."""
    one, two = led_pair()

    assert replicate(one, two, TP, until=2)
    assert (end(two), watermark(one), view(one).followers[2].log_end_offset) == (2, 2, 2)
    assert replicate(one, two, TP)
    assert (end(two), watermark(one), watermark(two)) == (3, 3, 3)


def test_a_follower_does_not_get_further_than_the_leader() -> None:
    """Nor anything from a host that does not lead."""
    one, two = led_pair()

    assert not replicate(one, two, TP, until=4)
    assert end(two) == 3
    one.stop(TP)
    assert not replicate(one, two, TP)


def test_a_replica_that_is_stopped_neither_leads_nor_follows() -> None:
    """Later requests to it are refused, and its records stay as they are."""
    leader = Replica(1, TP, create_log(MemoryStorage(), TP, LogConfig(), 0))
    leader.lead(0, (1,), {1})
    records = records_of((b"a",), timestamp_ms=1)
    assert leader.append(records, 1).error is ErrorCode.NONE
    leader.stop()

    assert (leader.leads, leader.view().role) == (False, Role.NONE)
    assert leader.append(records, 1).error is ErrorCode.NOT_LEADER_FOR_PARTITION
    assert leader.end_offset == 1
    follower = Replica(2, TP, create_log(MemoryStorage(), TP, LogConfig(), 0))
    follower.follow(0)
    follower.stop()
    assert (follower.following, follower.next_fetch(1)) == (None, None)


def test_a_replica_shows_no_high_watermark_behind_its_end() -> None:
    """Of records that are lost nothing can be read; that they were acknowledged keeps it from leading."""
    replica = Replica(1, TP, create_log(MemoryStorage(), TP, LogConfig(), 5))
    assert (replica.view().high_watermark, replica.view().log_end_offset) == (0, 0)

    assert replica.lead(1, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (replica.leads, replica.view().failure) == (
        False,
        "cannot lead in epoch 1: records are lost: it ends at 0, and 5 was its high watermark",
    )


def test_a_storage_outlives_its_host() -> None:
    """With its records; records that it loses are missing for the next replica manager."""
    storage = MemoryStorage()
    first = over(1, storage)
    first.become_leader(TP, 0, (1,), {1})
    append(first, 0, b"a")
    first.close()
    second = over(1, storage)
    assert second.become_leader(TP, 1, (1,), {1}) is ErrorCode.NONE
    assert text_of(fetch_from(second, 0)) == b"a\n"
    second.close()

    storage.lose()

    assert over(1, storage).become_leader(TP, 2, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_log_that_is_broken_is_answered_with_an_error() -> None:
    """56 in either role and for its deletion, and no exception; mended it is as before."""
    storage = MemoryStorage()
    first = over(1, storage)
    first.become_leader(TP, 0, (1,), {1})
    append(first, 0, b"a")
    first.close()
    storage.broken.add(str(TP))
    host = over(1, storage)

    assert host.become_leader(TP, 1, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert host.become_follower(TP, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert host.delete(TP) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (view(host).role, view(host).failure) == (Role.NONE, "orders-0: Input/output error")

    storage.broken.clear()
    assert host.become_leader(TP, 1, (1,), {1}) is ErrorCode.NONE
    assert end(host) == 1
