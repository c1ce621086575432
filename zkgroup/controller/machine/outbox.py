"""The queue to one broker: in order, one request in flight. Source: controller.md 7.4, recipes 17."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from zkgroup.controller.machine.requests import ToBroker
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)


class Answered(NamedTuple):
    """The request that the broker has answered, and what its answer is worth."""

    request: ToBroker
    again: bool
    """It was sent more than once: an earlier copy may still arrive, so no deletion is over (recipes 17)."""


class Outbox:
    """What one incarnation of a broker is still to be told."""

    def __init__(self, broker: int, incarnation: int) -> None:
        self.broker = broker
        self.incarnation = incarnation
        self._waiting: deque[ToBroker] = deque()
        self._flying: ToBroker | None = None
        self._sent = 0
        """How often the one in flight has been sent."""
        self._connected = False

    def __len__(self) -> int:
        return len(self._waiting) + (self._flying is not None)

    @property
    def is_flying(self) -> bool:
        """Whether a request is sent and not answered."""
        return self._flying is not None

    def put(self, requests: Iterable[ToBroker]) -> frozenset[TopicPartition]:
        """Adds requests of one batch. Those meant for another incarnation are dropped (K8).

        A StopReplica that waits here is dropped for the partitions of a LeaderAndIsr that is added (K28).
        Returns the partitions of which a deletion was dropped so: nobody will answer it.
        """
        mine = [
            each for each in requests if (each.broker, each.incarnation) == (self.broker, self.incarnation)
        ]
        dropped: frozenset[TopicPartition] = frozenset()
        if any(isinstance(each.request, StopReplicaRequest) for each in self._waiting):
            newer = {
                info.topic_partition
                for each in mine
                if isinstance(each.request, LeaderAndIsrRequest)
                for info in each.request.partitions
            }
            dropped = self._drop_stops(newer)
        self._waiting.extend(mine)
        return dropped

    def unanswered_deletions(self) -> tuple[UpdateMetadataRequest, ...]:
        """What it was to be told of partitions that are deleted, and has not answered; nothing else of it."""
        unanswered = [] if self._flying is None else [self._flying]
        found = []
        for each in (*unanswered, *self._waiting):
            if isinstance(each.request, UpdateMetadataRequest):
                going = tuple(one for one in each.request.partitions if one.leader == LEADER_DURING_DELETE)
                if going:
                    found.append(dataclasses.replace(each.request, partitions=going))
        return tuple(found)

    def connected(self) -> ToBroker | None:
        """A connection is there. Returns what to send on it: what was in flight comes first, again."""
        self._connected = True
        if self._flying is None:
            return self.next()
        self._sent += 1
        return self._flying

    def next(self) -> ToBroker | None:
        """The request to send now; None while one is in flight, nothing waits or nobody is connected."""
        if not self._connected or self._flying is not None or not self._waiting:
            return None
        self._flying = self._waiting.popleft()
        self._sent = 1
        return self._flying

    def answered(self) -> Answered:
        """The broker has answered what is in flight; `next` gives what follows."""
        assert self._flying is not None
        done = Answered(self._flying, self._sent > 1)
        self._flying = None
        return done

    def broken(self) -> None:
        """The connection is gone: what was in flight is sent again on the next one, for ever."""
        self._connected = False

    def _drop_stops(self, newer: set[TopicPartition]) -> frozenset[TopicPartition]:
        deletions: set[TopicPartition] = set()
        kept: deque[ToBroker] = deque()
        for each in self._waiting:
            request = each.request
            if not isinstance(request, StopReplicaRequest) or newer.isdisjoint(request.partitions):
                kept.append(each)
                continue
            if request.delete:
                deletions.update(newer & set(request.partitions))
            if left := tuple(one for one in request.partitions if one not in newer):
                shorter = StopReplicaRequest(
                    request.controller_id, request.controller_epoch, request.delete, left
                )
                kept.append(ToBroker(each.broker, each.incarnation, shorter))
        self._waiting = kept
        return frozenset(deletions)
