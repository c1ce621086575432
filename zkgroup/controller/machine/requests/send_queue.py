"""The queue to one broker: in order, one request in flight. Source: controller.md 7.4, recipes 17."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zkgroup.controller.machine.context import LiveBroker
from zkgroup.controller.machine.effects import CloseChannel, OpenChannel, SendToBroker
from zkgroup.controller.machine.elector_context import ElectorContext
from zkgroup.controller.machine.requests.batch import BrokerRequest
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)


class AnsweredRequest(NamedTuple):
    """The request that the broker has answered, and what its answer is worth."""

    request: BrokerRequest
    again: bool
    """It was sent more than once: an earlier copy may still arrive, so no deletion is over (recipes 17)."""


class SendQueue:
    """What one incarnation of a broker is still to be told."""

    def __init__(self, broker: int, incarnation: int) -> None:
        self.broker = broker
        self.incarnation = incarnation
        self._waiting: deque[BrokerRequest] = deque()
        self._flying: BrokerRequest | None = None
        self._sent = 0
        """How often the one in flight has been sent."""
        self._connected = False

    def __len__(self) -> int:
        return len(self._waiting) + (self._flying is not None)

    @property
    def is_flying(self) -> bool:
        """Whether a request is sent and not answered."""
        return self._flying is not None

    def put(self, requests: Iterable[BrokerRequest]) -> frozenset[TopicPartition]:
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

    def connected(self) -> BrokerRequest | None:
        """A connection is there. Returns what to send on it: what was in flight comes first, again."""
        self._connected = True
        if self._flying is None:
            return self.next()
        self._sent += 1
        return self._flying

    def next(self) -> BrokerRequest | None:
        """The request to send now; None while one is in flight, nothing waits or nobody is connected."""
        if not self._connected or self._flying is not None or not self._waiting:
            return None
        self._flying = self._waiting.popleft()
        self._sent = 1
        return self._flying

    def answered(self) -> AnsweredRequest:
        """The broker has answered what is in flight; `next` gives what follows."""
        assert self._flying is not None
        done = AnsweredRequest(self._flying, self._sent > 1)
        self._flying = None
        return done

    def broken(self) -> None:
        """The connection is gone: what was in flight is sent again on the next one, for ever."""
        self._connected = False

    def _drop_stops(self, newer: set[TopicPartition]) -> frozenset[TopicPartition]:
        deletions: set[TopicPartition] = set()
        kept: deque[BrokerRequest] = deque()
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
                kept.append(BrokerRequest(each.broker, each.incarnation, shorter))
        self._waiting = kept
        return frozenset(deletions)


class SendQueues:
    """One outbox for each incarnation of a broker that is told things."""

    def __init__(self, core: ElectorContext) -> None:
        self._core = core
        self._outboxes: dict[int, SendQueue] = {}
        self._fresh: set[int] = set()
        """Connected, and what was in flight before not yet sent again."""
        self._deletions: dict[int, tuple[UpdateMetadataRequest, ...]] = {}
        """Of partitions that are deleted: what former incarnations of these brokers have not answered."""

    def open(self, broker: int, live: LiveBroker, epoch: int) -> None:
        """A channel to this incarnation, instead of the one to another.

        A process that has just started is reached on the former incarnation's channel until the controller
        knows of it, and then knows partitions whose deletion it was yet to be told. That is told first.
        """
        known = self._outboxes.get(broker)
        if known is not None and known.incarnation == live.epoch:
            return
        self.close(broker)
        host, port = live.registration.host, live.registration.port
        assert host is not None, "only brokers that can be reached are told things"
        outbox = self._outboxes[broker] = SendQueue(broker, live.epoch)
        deletions = self._deletions.pop(broker, ())
        outbox.put(
            BrokerRequest(broker, live.epoch, dataclasses.replace(each, controller_epoch=epoch))
            for each in deletions
        )
        self._core.emit(OpenChannel(broker, live.epoch, host, port))

    def close(self, broker: int) -> None:
        """The incarnation is gone, and with it what it had yet to be told, but for deletions."""
        self._fresh.discard(broker)
        if (known := self._outboxes.pop(broker, None)) is not None:
            deletions = known.unanswered_deletions()
            if deletions:
                self._deletions[broker] = (*self._deletions.get(broker, ()), *deletions)
            self._core.emit(CloseChannel(broker, known.incarnation))

    @property
    def waiting(self) -> Mapping[int, int]:
        """Broker to the number of requests that it has not answered."""
        return {broker: len(outbox) for broker, outbox in self._outboxes.items() if len(outbox)}

    def put(self, requests: Iterable[BrokerRequest]) -> dict[int, frozenset[TopicPartition]]:
        """Queues requests. Returns, by broker, the partitions whose deletion will never be sent (K28)."""
        by_broker: dict[int, list[BrokerRequest]] = {}
        for each in requests:
            by_broker.setdefault(each.broker, []).append(each)
        dropped = {}
        for broker, mine in by_broker.items():
            outbox = self._outboxes.get(broker)
            if outbox is not None and (gone := outbox.put(mine)):
                dropped[broker] = gone
        return dropped

    def up(self, broker: int, incarnation: int) -> None:
        """A connection is made."""
        if self._outbox(broker, incarnation) is not None:
            self._fresh.add(broker)

    def down(self, broker: int, incarnation: int) -> None:
        """It is gone."""
        if (outbox := self._outbox(broker, incarnation)) is not None:
            self._fresh.discard(broker)
            outbox.broken()

    def answered(self, broker: int, incarnation: int) -> AnsweredRequest | None:
        """What the broker has answered; None for an answer that nobody waits for."""
        outbox = self._outbox(broker, incarnation)
        if outbox is None or broker in self._fresh or not outbox.is_flying:
            return None
        return outbox.answered()

    def flush(self) -> None:
        """Sends what is due. Called only while requests to brokers may go out (recipes 13)."""
        for broker, outbox in self._outboxes.items():
            if broker in self._fresh:
                self._fresh.discard(broker)
                due = outbox.connected()
            else:
                due = outbox.next()
            if due is not None:
                self._core.emit(SendToBroker(due))

    def _outbox(self, broker: int, incarnation: int) -> SendQueue | None:
        outbox = self._outboxes.get(broker)
        return outbox if outbox is not None and outbox.incarnation == incarnation else None
