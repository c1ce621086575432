"""OffsetCommit 0: offsets in Kafka's znodes, on any broker, without a coordinator.

    multi[ delete(ids), create(ids), create(protocol), delete(protocol), per partition: set(offset) ]

Kafka 0.8.2 sets each znode without a condition (ZkUtils.updatePersistentPath). Here the transaction is
refused while the group has members: of ZooKeeper by `ids`, of the coordinator by the marker.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from zkgroup.broker.groups.led_slots import StoreCore
from zkgroup.broker.groups.store_events import LegacyOffsetsWritten, WriteLegacyOffsets
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.model.requests import Code, Create, Delete, MultiDone, Operation, SetData
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import ConnectionLossError, Procedure, read_many, write
from zkgroup.znodes.consumers import (
    Offset,
    consumers_path,
    group_path,
    ids_path,
    offset_path,
    offsets_path,
    offsets_topic_path,
)
from zkgroup.znodes.coordinated_groups import ProtocolMarker

TRIES: Final = 5
"""Transactions that other clients' changes may refuse."""


class LegacyCommits:
    """The commits of version 0; each request is a job of its own."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._under_way: dict[int, WriteLegacyOffsets] = {}
        self._sent: set[int] = set()
        """Requests whose transaction may be stored."""

    def add(self, commit: WriteLegacyOffsets) -> None:
        """Takes a commit; refuses it without a connection."""
        self._under_way[commit.request_id] = commit
        if not self._core.context.connected:
            self._finish(commit, WriteOutcome.UNKNOWN)
            return
        job = Job("write offsets", partial(self._write, commit), partial(self._ended, commit))
        self._core.run(("legacy commit", commit.request_id), job)

    def session_over(self) -> None:
        """No reply comes any more."""
        for commit in list(self._under_way.values()):
            self._finish(commit, WriteOutcome.UNKNOWN)

    def _ended(self, commit: WriteLegacyOffsets, error: Exception | None) -> None:
        if error is not None:
            too_big = isinstance(error, ConnectionLossError)
            self._finish(commit, WriteOutcome.TOO_LARGE if too_big else WriteOutcome.CONFLICT)

    def _finish(self, commit: WriteLegacyOffsets, outcome: WriteOutcome) -> None:
        if self._under_way.pop(commit.request_id, None) is not None:
            self._sent.discard(commit.request_id)
            self._core.context.emit(
                LegacyOffsetsWritten(commit.request_id, dict.fromkeys(commit.offsets, outcome))
            )

    def _write(self, commit: WriteLegacyOffsets) -> Procedure[None]:
        outcome = WriteOutcome.UNKNOWN
        if commit.request_id not in self._sent:
            outcome = yield from self._stored(commit)
        self._finish(commit, outcome)

    def _stored(self, commit: WriteLegacyOffsets) -> Procedure[WriteOutcome]:
        ids, marker = ids_path(commit.group_id), ProtocolMarker.path(commit.group_id)
        for _ in range(TRIES):
            if (operations := (yield from self._operations(commit))) is None:
                return WriteOutcome.SLOT_FULL
            self._sent.add(commit.request_id)
            try:
                outcome = yield from write(operations, ())
            except ConnectionLossError as error:
                if error.certain:
                    self._sent.discard(commit.request_id)
                raise
            self._sent.discard(commit.request_id)
            if isinstance(outcome, MultiDone):
                return WriteOutcome.STORED
            path = operations[outcome.index].path
            if path == ids and outcome.code is Code.NOT_EMPTY:
                return WriteOutcome.ZOOKEEPER_MEMBERS
            if path == marker:
                return WriteOutcome.CONFLICT
        return WriteOutcome.CONFLICT

    def _operations(self, commit: WriteLegacyOffsets) -> Procedure[list[Operation] | None]:
        """The operations of the transaction; None for a group too many.

        Without a coordinator the groups of all slots are counted, and those of ZooKeeper consumers.
        """
        group = commit.group_id
        parents = [consumers_path(), group_path(group), ids_path(group), offsets_path(group)]
        parents += [offsets_topic_path(group, topic) for topic in sorted(_topics(commit))]
        leaves = [offset_path(group, each) for each in commit.offsets]
        above, below = yield from read_many(parents, leaves)
        groups_max = self._core.context.config.bounds.groups_max * (self._core.count or 1)
        if above[1] is None and above[0] is not None and above[0].stat.children_count >= groups_max:
            return None
        has_ids = above[2] is not None
        operations: list[Operation] = [Delete(ids_path(group), -1)] if has_ids else []
        operations += [Create(path, None) for path in parents[:2] if above[parents.index(path)] is None]
        operations.append(Create(ids_path(group), None))
        marker = ProtocolMarker.path(group)
        operations += [Create(marker, None), Delete(marker, -1)]
        operations += [
            Create(path, None) for path, found in zip(parents[3:], above[3:], strict=True) if found is None
        ]
        for path, value, found in zip(leaves, commit.offsets.values(), below, strict=True):
            data = Offset(value).encode()
            operations.append(Create(path, data) if found is None else SetData(path, data, -1))
        return operations


def _topics(commit: WriteLegacyOffsets) -> set[str]:
    return {partition.topic for partition in commit.offsets}
