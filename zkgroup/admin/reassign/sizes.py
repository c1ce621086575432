"""What moves have still to copy, in bytes: the leader's log less what the brokers that shall have it have.

Brokers say how large their replicas are. A replica that is in sync has nothing left to copy; one that is not
counts, whether the move adds it or not, because the move ends when all of its target are in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zkgroup.admin.cluster.brokers import read_states, readable, registrations
from zkgroup.admin.reassign.progress import (
    IN_PROGRESS,
    ReassignmentProgress,
    ReassignmentStatus,
    list_reassignments,
    verify_reassignments,
)
from zkgroup.clients.leaders import find_brokers
from zkgroup.clients.log_dirs import read_replica_sizes
from zkgroup.clients.log_ends import Replica
from zkgroup.errors import ConfigError, CorruptZnodeError, SourceUnavailableError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move
from zkgroup.znodes.brokers import NO_LEADER, PartitionState

ASK_MS: Final = 2_000
"""Longest wait for the answer of a broker."""

States = Mapping[TopicPartition, PartitionState | None]


def replicas_to_ask(rows: Sequence[ReassignmentStatus], states: States) -> list[Replica]:
    """The leader of each partition that moves, and the replicas of its target that are not in sync."""
    return [
        (row.topic_partition, broker)
        for row in rows
        if (state := states.get(row.topic_partition)) is not None and state.leader != NO_LEADER
        for broker in dict.fromkeys((state.leader, *row.target))
        if broker == state.leader or broker not in state.isr
    ]


def bytes_left(
    row: ReassignmentStatus, state: PartitionState | None, sizes: Mapping[Replica, int | str]
) -> int | None:
    """The bytes that the move of one partition has still to copy; None where a size is not known."""
    if state is None:
        return None
    leader = sizes.get((row.topic_partition, state.leader))
    left = 0
    for broker in row.target:
        if broker in state.isr:
            continue
        size = sizes.get((row.topic_partition, broker))
        if not isinstance(leader, int) or not isinstance(size, int):
            return None
        left += max(0, leader - size)
    return left


def with_bytes_left(ensemble: Ensemble, rows: Sequence[ReassignmentStatus]) -> tuple[ReassignmentStatus, ...]:
    """The rows, those of moves under way with what is left to copy, as far as brokers say it."""
    moving = [row for row in rows if row.status == IN_PROGRESS]
    if not moving:
        return tuple(rows)
    states = read_states(ensemble, [row.topic_partition for row in moving])
    try:
        addresses = find_brokers(readable(registrations(ensemble)), ensemble.access)
    except (ConfigError, SourceUnavailableError):
        return tuple(rows)
    sizes = read_replica_sizes(addresses, replicas_to_ask(moving, states), ASK_MS)
    return tuple(
        replace(row, bytes_left=bytes_left(row, states.get(row.topic_partition), sizes))
        if row.status == IN_PROGRESS
        else row
        for row in rows
    )


def list_with_sizes(
    ensemble: Ensemble, window_ms: int | None = None
) -> tuple[AsOf, tuple[ReassignmentStatus, ...], tuple[CorruptZnodeError, ...]]:
    """As `list_reassignments`, with the bytes left; over a window, by two reads, also with the time left."""

    def read() -> tuple[AsOf, tuple[ReassignmentStatus, ...], tuple[CorruptZnodeError, ...]]:
        as_of, rows, unreadable = list_reassignments(ensemble)
        return as_of, with_bytes_left(ensemble, rows), unreadable

    first = read()
    if window_ms is None or not first[1]:
        return first
    ensemble.pause(window_ms / 1000)
    as_of, rows, unreadable = read()
    before = {row.topic_partition: row for row in first[1]}
    elapsed_ms = as_of.time_ms - first[0].time_ms
    timed = (with_time_left(row, before.get(row.topic_partition), elapsed_ms) for row in rows)
    return as_of, tuple(timed), unreadable


def with_time_left(
    row: ReassignmentStatus, before: ReassignmentStatus | None, elapsed_ms: int
) -> ReassignmentStatus:
    """The row with the time left at the rate since the row before; without it where that is not known."""
    if before is None or before.target != row.target or before.bytes_left is None or row.bytes_left is None:
        return row
    copied = before.bytes_left - row.bytes_left
    if row.bytes_left == 0:
        return replace(row, left_ms=0)
    return replace(row, left_ms=round(row.bytes_left * elapsed_ms / copied)) if copied > 0 else row


def telling_bytes(
    ensemble: Ensemble, moves: Sequence[Move], on_progress: Callable[[ReassignmentProgress], object]
) -> Callable[[ReassignmentProgress], object]:
    """Of a wait for these moves: tells also the bytes left, where brokers say them for every move."""
    first: list[int] = []

    def tell(found: ReassignmentProgress) -> object:
        rows = with_bytes_left(ensemble, verify_reassignments(ensemble, moves)[1])
        known = [row.bytes_left for row in rows if row.status == IN_PROGRESS]
        if None in known:
            return on_progress(found)
        left = sum(one for one in known if one is not None)
        first.append(left)
        return on_progress(replace(found, bytes_left=left, bytes_done=max(0, first[0] - left)))

    return tell
