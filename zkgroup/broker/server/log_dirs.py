"""DescribeLogDirs and AlterReplicaLogDirs: a broker has one folder, and all its replicas are there.

Sources: kafka/server/ReplicaManager.scala (`describeLogDirs`, `alterReplicaLogDirs`) @2.8.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Final

from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.handlers import RequestContext, ServedApi
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.wire.log_dirs import (
    AlteredReplica,
    AlteredReplicaTopic,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    ReplicaInLogDir,
    TopicInLogDir,
)
from zkgroup.wire.messages import ErrorCode, by_topic

IN_MEMORY: Final = "memory"
"""The path of the folder of a broker whose logs are in memory."""


class LogDirHandlers:
    """The handlers of the two requests. Used on one event loop."""

    def __init__(
        self, replicas: ReplicaExecutor, path: str, is_known: Callable[[TopicPartition], bool]
    ) -> None:
        """`path`: of the folder; `is_known`: whether a partition exists, by the last UpdateMetadata."""
        self._replicas, self._path, self._is_known = replicas, path, is_known

    def rows(self) -> Iterator[ServedApi[Any]]:
        """The rows of the table of served APIs."""
        yield ServedApi(DescribeLogDirsRequest, self.describe)
        yield ServedApi(AlterReplicaLogDirsRequest, self.alter)

    async def describe(
        self, context: RequestContext, request: DescribeLogDirsRequest
    ) -> DescribeLogDirsResponse:
        """The folder with the sizes of its replicas; error 56 where it cannot be read.

        A topic that is not asked for is there without replicas, as in Kafka.
        Other calls of the replicas come between two of them.
        """
        try:
            found = await self._replicas.call(ReplicaManager.partitions)
        except ReplicaStorageError:
            return DescribeLogDirsResponse((LogDir(ErrorCode.KAFKA_STORAGE_ERROR, self._path, ()),))
        wanted: Collection[TopicPartition] = found
        if request.topics is not None:
            wanted = {TopicPartition(one.topic, each) for one in request.topics for each in one.partitions}
        topics: dict[str, list[ReplicaInLogDir]] = {tp.topic: [] for tp in found}
        for tp in found:
            if tp in wanted and (row := await self._replicas.call(partial(_described, tp=tp))) is not None:
                topics[tp.topic].append(row)
        rows = tuple(TopicInLogDir(topic, tuple(each)) for topic, each in topics.items())
        return DescribeLogDirsResponse((LogDir(ErrorCode.NONE, self._path, rows),))

    async def alter(
        self, context: RequestContext, request: AlterReplicaLogDirsRequest
    ) -> AlterReplicaLogDirsResponse:
        """Nothing moves: error 0 for a replica that is in the folder, and 57 for any other folder.

        Without a replica here: 9 for a partition that exists, else 3; 56: its files have failed.
        """
        wanted = {
            TopicPartition(topic.topic, number): log_dir.path
            for log_dir in request.log_dirs
            for topic in log_dir.topics
            for number in topic.partitions
        }
        rows = []
        for tp, path in wanted.items():
            error = await self._error(tp) if path == self._path else ErrorCode.LOG_DIR_NOT_FOUND
            rows.append((tp, AlteredReplica(tp.partition, error)))
        return AlterReplicaLogDirsResponse(by_topic(rows, AlteredReplicaTopic))

    async def _error(self, tp: TopicPartition) -> ErrorCode:
        view = await self._replicas.call(partial(ReplicaManager.view, topic_partition=tp))
        if view is not None:
            return ErrorCode.NONE if view.failure is None else ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.REPLICA_NOT_AVAILABLE if self._is_known(tp) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _described(replicas: ReplicaManager, tp: TopicPartition) -> ReplicaInLogDir | None:
    size, view = replicas.size(tp), replicas.view(tp)
    if size is None or view is None:
        return None
    return ReplicaInLogDir(tp.partition, size, max(0, view.high_watermark - view.log_end_offset))
