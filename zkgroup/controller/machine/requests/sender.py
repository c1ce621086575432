"""The queue of requests to each broker, and the sender that fills the queues and takes the responses.

What was written is sent: `unsent` are the partitions whose state got a new leader epoch that no LeaderAndIsr
has carried yet. A handler takes them off by `send`; what one leaves behind goes out when it ends. A leader of
0.8.2.2 that never receives such a write never changes its ISR again (stuck leaders, K9).

The queue to one broker: in order, one request in flight. Source: channels (controller.md 7.4), moves (recipes
17).
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import ControllerContext, PartitionSet
from zkgroup.controller.machine.event_manager import EventKind
from zkgroup.controller.machine.events import (
    BrokerAnswered,
    BrokerRequest,
    CloseChannel,
    OpenChannel,
)
from zkgroup.controller.machine.open_reassignments import OpenReassignments
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.controller.machine.requests.batch import RequestBatch
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import ErrorCode, Response, describe
from zkgroup.znodes.brokers import Endpoint

_NEEDS: Final = ": the user of brokers belongs to super.users, or is allowed ClusterAction on the cluster"
"""What to do about the refusals of an authorizer: without it no broker leads or follows anything."""


class AnsweredRequest(NamedTuple):
    """The request that the broker has answered, and what its answer is worth."""

    request: BrokerRequest
    again: bool
    """It was sent more than once: an earlier copy may still arrive, so no deletion is over."""


class SendQueue:
    """The requests to one incarnation of a broker, in order, one of them in flight."""

    def __init__(self, broker: int, incarnation: int) -> None:
        self.broker = broker
        self.incarnation = incarnation
        self._waiting: deque[BrokerRequest] = deque()
        self._flying: BrokerRequest | None = None
        self._sent = 0
        """The number of times that the one in flight has been sent."""
        self._connected = False

    def __len__(self) -> int:
        return len(self._waiting) + (self._flying is not None)

    def put(self, requests: Iterable[BrokerRequest]) -> frozenset[TopicPartition]:
        """Adds requests of one batch. Those meant for another incarnation are dropped (late requests, K8).

        A StopReplica that waits here is dropped for the partitions of a LeaderAndIsr that is added. Returns
        the partitions of which a deletion was dropped so: no response to it will come.
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

    def unanswered_deletions(self) -> tuple[BrokerRequest, ...]:
        """The part of its unanswered UpdateMetadata that names partitions being deleted."""
        unanswered = [] if self._flying is None else [self._flying]
        found = []
        for each in (*unanswered, *self._waiting):
            if isinstance(each.request, UpdateMetadataRequest):
                going = tuple(one for one in each.request.partitions if one.leader == LEADER_DURING_DELETE)
                if going:
                    request = dataclasses.replace(each.request, partitions=going)
                    found.append(dataclasses.replace(each, request=request, body=None))
        return tuple(found)

    def connected(self) -> BrokerRequest | None:
        """A connection is there. Returns what to send on it: what was in flight comes first, again."""
        self._connected = True
        if self._flying is None:
            return self.next()
        self._sent += 1
        return self._flying

    def next(self) -> BrokerRequest | None:
        """The request to send now; None while one is in flight, nothing waits or there is no connection."""
        if not self._connected or self._flying is not None or not self._waiting:
            return None
        self._flying = self._waiting.popleft()
        self._sent = 1
        return self._flying

    def answered(self) -> AnsweredRequest | None:
        """Ends the request in flight, if there is one: the broker has answered it."""
        if self._flying is None:
            return None
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
    """One queue for each incarnation of a broker that can be reached."""

    def __init__(self, core: ElectorContext) -> None:
        self._core = core
        self._send_queues: dict[int, SendQueue] = {}
        self._fresh: set[int] = set()
        """Connected, and what was in flight before not yet sent again."""
        self._deletions: dict[int, tuple[BrokerRequest, ...]] = {}
        """Of partitions that are deleted: what former incarnations of these brokers have not answered."""

    def open(self, broker: int, incarnation: int, endpoint: Endpoint, epoch: int) -> None:
        """A channel to this incarnation, instead of the one to another. `epoch`: the controller's.

        A process that has just started is reached on the former incarnation's channel until the controller
        knows of it, and may then know partitions whose deletion was not sent yet. That is sent first.
        """
        known = self._send_queues.get(broker)
        if known is not None and known.incarnation == incarnation:
            return
        self.close(broker)
        assert endpoint.host is not None, "only brokers that can be reached have a queue"
        send_queue = self._send_queues[broker] = SendQueue(broker, incarnation)
        send_queue.put(
            dataclasses.replace(
                each,
                incarnation=incarnation,
                request=dataclasses.replace(each.request, controller_epoch=epoch),
            )
            for each in self._deletions.pop(broker, ())
        )
        self._core.emit(OpenChannel(broker, incarnation, endpoint.host, endpoint.port))

    def close(self, broker: int) -> None:
        """The incarnation is gone, and with it its requests, but for deletions."""
        self._fresh.discard(broker)
        if (known := self._send_queues.pop(broker, None)) is not None:
            deletions = known.unanswered_deletions()
            if deletions:
                self._deletions[broker] = (*self._deletions.get(broker, ()), *deletions)
            self._core.emit(CloseChannel(broker, known.incarnation))

    def put(self, requests: Iterable[BrokerRequest]) -> dict[int, frozenset[TopicPartition]]:
        """Queues requests. Returns, by broker, the partitions whose deletion will never be sent."""
        by_broker: dict[int, list[BrokerRequest]] = {}
        for each in requests:
            by_broker.setdefault(each.broker, []).append(each)
        dropped = {}
        for broker, mine in by_broker.items():
            send_queue = self._send_queues.get(broker)
            if send_queue is not None and (gone := send_queue.put(mine)):
                dropped[broker] = gone
        return dropped

    def up(self, broker: int, incarnation: int) -> None:
        if self._send_queue(broker, incarnation) is not None:
            self._fresh.add(broker)

    def down(self, broker: int, incarnation: int) -> None:
        if (send_queue := self._send_queue(broker, incarnation)) is not None:
            self._fresh.discard(broker)
            send_queue.broken()

    def answered(self, broker: int, incarnation: int) -> AnsweredRequest | None:
        """The request that the broker has answered; None for a response without a request."""
        send_queue = self._send_queue(broker, incarnation)
        if send_queue is None or broker in self._fresh:
            return None
        return send_queue.answered()

    def flush(self) -> None:
        """Sends what is due. Called only while requests to brokers may go out."""
        for broker, send_queue in self._send_queues.items():
            if broker in self._fresh:
                self._fresh.discard(broker)
                due = send_queue.connected()
            else:
                due = send_queue.next()
            if due is not None:
                self._core.emit(due)

    def _send_queue(self, broker: int, incarnation: int) -> SendQueue | None:
        send_queue = self._send_queues.get(broker)
        return send_queue if send_queue is not None and send_queue.incarnation == incarnation else None


class BrokerResponse(NamedTuple):
    """The response of one broker to one request. No copy of a deletion in it can still arrive."""

    broker: int
    request: BrokerRequest
    response: Response
    was_sent_again: bool = False
    """The request was sent more than once, as a connection broke before the response to the first copy."""


@dataclass(slots=True)
class UnresolvedDeletes:
    """Deletions of one broker that were sent more than once and answered: a copy may still be on its way."""

    responses: list[BrokerResponse] = field(default_factory=list)
    epoch: int | None = None
    """Resolved once the broker has answered a request of this epoch; None until the epoch was raised."""


class RequestSender:
    """Builds and queues the requests of one active controller, and keeps what was written and not sent."""

    def __init__(
        self,
        core: ElectorContext,
        context: ControllerContext,
        pending_deletes: PendingDeletes,
        reassignments: OpenReassignments,
        *,
        epoch: Callable[[], int],
        enqueue: Callable[[EventKind], None],
    ) -> None:
        """
        Args:
            epoch: the controller epoch as it is now.
            enqueue: adds an event for the features that a response concerns.
        """
        self._core = core
        self._context = context
        self._pending_deletes = pending_deletes
        self._reassignments = reassignments
        self._epoch = epoch
        self._enqueue = enqueue
        self.queues = SendQueues(core)
        self.unsent = PartitionSet()
        self.omitted_partitions: dict[int, tuple[TopicPartition, ...]] = {}
        """Broker to what its first LeaderAndIsr could not name: it may fetch these partitions again."""
        self.unresolved: dict[int, UnresolvedDeletes] = {}
        self.is_stopped = False

    def topic_forgotten(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self.unsent.discard(each)

    def stop(self) -> None:
        self.is_stopped = True

    def batch(self) -> RequestBatch:
        return RequestBatch(self._core.config.broker, self._epoch())

    def send(self, batch: RequestBatch) -> None:
        """Builds the batch from the context as it is now and queues its requests."""
        if self.is_stopped:
            return
        context = self._context
        built = batch.build(context, self._pending_deletes, self._reassignments.late)
        self._note_sent(batch)
        if self._reassignments.interrupted(batch.led(context), context, self._pending_deletes):
            self._enqueue(event_manager.REASSIGNMENT)
        self.omitted_partitions.update(built.omitted_partitions)
        for each in built.requests:
            if isinstance(each.request, StopReplicaRequest) and each.request.delete:
                for topic_partition in each.request.partitions:
                    self._pending_deletes.delete_asked(topic_partition, [each.broker])
        for broker, partitions in self.queues.put(built.requests).items():
            self._released(self._pending_deletes.delete_answered(broker, partitions))

    def send_unsent(self) -> None:
        """Sends what a handler has written and not sent."""
        batch = self.batch()
        for topic_partition in list(self.unsent):
            if topic_partition not in self._context or self._context.is_going(topic_partition):
                self.unsent.discard(topic_partition)
        self.to_replicas(batch, self.unsent)
        if self.unsent:
            self.send(batch)
            self.unsent.clear()

    def to_replicas(self, batch: RequestBatch, partitions: Iterable[TopicPartition]) -> None:
        """Adds LeaderAndIsr for every replica of the partitions, the targets of reassignments included."""
        late = self._reassignments.late
        for each in partitions:
            recipients = self._context.replicas(each)
            if each in late:
                recipients = tuple(dict.fromkeys((*recipients, *late[each])))
            batch.leader_and_isr(recipients, each)

    def _note_sent(self, batch: RequestBatch) -> None:
        """Removes from `unsent` the partitions whose live replicas all get the state."""
        context = self._context
        if batch.leads_all:
            self.unsent = PartitionSet(filter(context.is_going, self.unsent.of(context.deletions)))
        live = context.live
        for topic_partition in [each for each in batch.named if each in self.unsent]:
            live_replicas = context.with_online_replica(topic_partition, live) - self._pending_deletes.of(
                context, topic_partition
            )
            wanted = live_replicas.intersection(context.replicas(topic_partition))
            if topic_partition in self._reassignments or batch.reaches(topic_partition, wanted):
                self.unsent.discard(topic_partition)

    def responded(self, event: BrokerAnswered) -> Iterator[BrokerResponse]:
        """Takes a response, if a request waits for it; yields the responses that the features get now.

        They get that to a deletion that was sent more than once when no copy of it is obeyed any more.
        """
        done = self.queues.answered(event.broker, event.incarnation)
        if done is None:
            return
        broker, request = event.broker, done.request.request
        error: int = getattr(event.response, "error", ErrorCode.NONE)
        if error != ErrorCode.NONE:
            kind = type(request).__name__
            needs = _NEEDS if error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else ""
            self._core.note("broker.refused", broker=broker, request=kind, error=describe(error) + needs)
        elif request.controller_epoch == self._epoch():
            if self._pending_deletes.answered(broker, event.incarnation) and self._context.moves:
                self._enqueue(event_manager.ELECTIONS)
                self._enqueue(event_manager.REASSIGNMENT)
            for earlier in self._resolved(broker):
                self._delete_answered(earlier.request)
                yield earlier
        response = BrokerResponse(broker, done.request, event.response, done.again)
        if isinstance(request, StopReplicaRequest) and request.delete:
            if done.again:
                unresolved = self.unresolved.setdefault(broker, UnresolvedDeletes())
                unresolved.responses.append(response)
                unresolved.epoch = None
                self._enqueue(event_manager.EPOCH_BUMP)
                return
            self._delete_answered(done.request)
        yield response

    def broker_gone(self, broker: int) -> None:
        """This incarnation is gone: nothing that was sent to it can arrive."""
        self.unresolved.pop(broker, None)
        self.omitted_partitions.pop(broker, None)
        self._released(self._pending_deletes.restarted(broker))

    def _resolved(self, broker: int) -> list[BrokerResponse]:
        """Responses to deletions of which the broker obeys no copy any more, as it knows the raised epoch."""
        unresolved = self.unresolved.get(broker)
        if unresolved is None or unresolved.epoch is None or unresolved.epoch > self._epoch():
            return []
        del self.unresolved[broker]
        return unresolved.responses

    def _delete_answered(self, asked: BrokerRequest) -> None:
        """No copy of the deletion can still arrive: its replicas may be used again."""
        assert isinstance(asked.request, StopReplicaRequest)
        self._released(self._pending_deletes.delete_answered(asked.broker, asked.request.partitions))

    def _released(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._enqueue(event_manager.ELECTIONS)
            self._enqueue(event_manager.REASSIGNMENT)
            self._enqueue(event_manager.DELETIONS)
