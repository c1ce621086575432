"""The follower's side of a fetch session (KIP-227): which partitions a request names. Pure.

Source: org/apache/kafka/clients/FetchSessionHandler.java@2.8.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode, by_topic
from zkgroup.wire.records import (
    INITIAL_SESSION_EPOCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    next_session_epoch,
)


class FetchSessionHandler:
    """One session at a time with one leader."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, FetchPartition] = {}
        """The partitions that the next request fetches, as they were named last; those with records last."""
        self._session_id = 0
        self._epoch = INITIAL_SESSION_EPOCH
        self._named: dict[TopicPartition, FetchPartition] = {}
        self._forgotten: dict[TopicPartition, None] = {}

    def fetch(self, tp: TopicPartition, partition: FetchPartition) -> None:
        """Fetches a partition from there on with the next request."""
        if self.partitions.get(tp) != partition:
            self.partitions[tp] = self._named[tp] = partition
        self._forgotten.pop(tp, None)

    def forget(self, tp: TopicPartition) -> None:
        """Fetches a partition no more."""
        self._named.pop(tp, None)
        if self.partitions.pop(tp, None) is not None:
            self._forgotten[tp] = None

    def reset(self) -> None:
        """Begins a new session with the next request, which ends the present one: no answer has come."""
        self._epoch = INITIAL_SESSION_EPOCH

    def request(
        self,
        *,
        replica_id: int,
        broker_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
    ) -> FetchRequest:
        """The next request."""
        is_full = self._epoch == INITIAL_SESSION_EPOCH
        named = self.partitions if is_full else self._named
        forgotten: Iterable[TopicPartition] = () if is_full else self._forgotten
        request = FetchRequest(
            replica_id,
            max_wait_ms,
            min_bytes,
            by_topic(named.items(), FetchTopic),
            max_bytes=max_bytes,
            broker_epoch=broker_epoch,
            session_id=self._session_id,
            session_epoch=self._epoch,
            forgotten=by_topic(((tp, tp.partition) for tp in forgotten), ForgottenTopic),
        )
        self._named, self._forgotten = {}, {}
        return request

    def answered(self, response: FetchResponse) -> bool:
        """Takes the leader's answer; False after an error: the next request begins a new session."""
        if response.error != ErrorCode.NONE:
            self._session_id, self._epoch = 0, INITIAL_SESSION_EPOCH
            return False
        if self._epoch == INITIAL_SESSION_EPOCH:
            self._session_id = response.session_id
        self._epoch = next_session_epoch(self._epoch) if self._session_id else INITIAL_SESSION_EPOCH
        for topic in response.topics:
            for fetched in topic.partitions:
                tp = TopicPartition(topic.topic, fetched.partition)
                if fetched.records and tp in self.partitions:
                    self.partitions[tp] = self.partitions.pop(tp)
        return True
