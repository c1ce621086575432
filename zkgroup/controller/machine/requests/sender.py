"""What the active controller has to send to brokers, and what became of it.

What was written is sent: `unsent` are the partitions whose state got a new leader epoch that no LeaderAndIsr
has carried yet. A handler takes them off by `send`; what one leaves behind goes out when it ends. A leader of
0.8.2.2 that never hears of such a write never changes its ISR again (K9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from zkgroup.controller.machine.context import ControllerContext, PartitionSet
from zkgroup.controller.machine.deletion.pending_deletes import PendingDeletes
from zkgroup.controller.machine.elector_context import ElectorContext
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.events import BrokerAnswered
from zkgroup.controller.machine.reassignment.open_reassignments import OpenReassignments
from zkgroup.controller.machine.requests.batch import BrokerRequest, RequestBatch
from zkgroup.controller.machine.requests.send_queue import SendQueues
from zkgroup.model import TopicPartition
from zkgroup.wire.control import StopReplicaRequest
from zkgroup.wire.error_codes import ErrorCode, describe
from zkgroup.wire.messages import Response


class BrokerResponse(NamedTuple):
    """The response of one broker to one request. No copy of a deletion in it can still arrive."""

    broker: int
    request: BrokerRequest
    response: Response


@dataclass(slots=True)
class UnresolvedDeletes:
    """Deletions of one broker that were sent more than once and answered: a copy may still be on its way."""

    responses: list[BrokerResponse] = field(default_factory=list)
    epoch: int | None = None
    """Resolved once the broker has answered a request of this epoch; None until the epoch was raised."""


class Delivered(NamedTuple):
    """What a response is to the features."""

    response: BrokerResponse
    again: bool
    """The request was sent more than once."""
    resolved: tuple[BrokerResponse, ...]
    """Earlier responses to deletions, of which no copy is obeyed any more."""


class RequestSender:
    """Builds the requests of one active controller, queues them, and keeps what brokers have yet to hear."""

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
        self.omitted: dict[int, tuple[TopicPartition, ...]] = {}
        """Broker to what its first LeaderAndIsr could not name: it may fetch these partitions again."""
        self.unresolved: dict[int, UnresolvedDeletes] = {}
        self.is_stopped = False

    def stop(self) -> None:
        """The controller has resigned: nothing is sent any more."""
        self.is_stopped = True

    # --- sending ----------------------------------------------------------------------------------

    def batch(self) -> RequestBatch:
        """An empty batch of this epoch."""
        return RequestBatch(self._core.config.broker, self._epoch())

    def send(self, batch: RequestBatch) -> None:
        """Builds the batch from the context as it is now and queues its requests."""
        if self.is_stopped:
            return
        context = self._context
        built = batch.build(context, self._pending_deletes, self._reassignments.late)
        self._note_sent(batch)
        if self._reassignments.interrupted(batch.led(context), context, self._pending_deletes):
            self._enqueue(EventKind.REASSIGNMENT)
        omitted: dict[int, list[TopicPartition]] = {}
        for broker, topic_partition in built.unnamed:
            omitted.setdefault(broker, []).append(topic_partition)
        self.omitted.update({broker: tuple(named) for broker, named in omitted.items()})
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

    def flush(self) -> None:
        """Sends what is due. Called only while requests may be sent."""
        if not self.is_stopped:
            self.queues.flush()

    def _note_sent(self, batch: RequestBatch) -> None:
        """Takes off `unsent` what all replicas hear of that can hear of anything."""
        context = self._context
        if batch.leads_all:
            self.unsent = PartitionSet(filter(context.is_going, self.unsent.of(context.deletions)))
        live = context.live
        for topic_partition in [each for each in batch.named if each in self.unsent]:
            able = context.candidates(topic_partition, live) - self._pending_deletes.of(
                context, topic_partition
            )
            wanted = able.intersection(context.replicas(topic_partition))
            if topic_partition in self._reassignments or batch.tells(topic_partition, wanted):
                self.unsent.discard(topic_partition)

    # --- responses --------------------------------------------------------------------------------

    def responded(self, event: BrokerAnswered) -> Delivered | None:
        """Takes a response; None for one that no request waits for."""
        done = self.queues.answered(event.broker, event.incarnation)
        if done is None:
            return None
        broker, request = event.broker, done.request.request
        response = BrokerResponse(broker, done.request, event.response)
        resolved: tuple[BrokerResponse, ...] = ()
        error: int = getattr(event.response, "error", ErrorCode.NONE)
        if error != ErrorCode.NONE:
            kind = type(request).__name__
            self._core.note("broker.refused", broker=broker, request=kind, error=describe(error))
        elif request.controller_epoch == self._epoch():
            if self._pending_deletes.answered(broker, event.incarnation) and self._context.moves:
                self._enqueue(EventKind.ELECTIONS)
                self._enqueue(EventKind.REASSIGNMENT)
            resolved = self._resolve(broker)
        return Delivered(response, done.again, resolved)

    def settle_delete(self, delivered: Delivered) -> bool:
        """Notes the deletion in it, if there is one. Returns whether handlers hear of the response now.

        Of a deletion that was sent more than once they hear when it is resolved.
        """
        response = delivered.response
        request = response.request.request
        if not isinstance(request, StopReplicaRequest) or not request.delete:
            return True
        if not delivered.again:
            self.delete_is_over(response)
            return True
        unresolved = self.unresolved.setdefault(response.broker, UnresolvedDeletes())
        unresolved.responses.append(response)
        unresolved.epoch = None
        self._enqueue(EventKind.EPOCH)
        return False

    def delete_is_over(self, response: BrokerResponse) -> None:
        """No copy of the deletion can still arrive: its replicas may be used again."""
        request = response.request.request
        assert isinstance(request, StopReplicaRequest)
        self._released(self._pending_deletes.delete_answered(response.broker, request.partitions))

    def broker_restarted(self, broker: int) -> None:
        """A new incarnation, or none any more: nothing that was sent to it can arrive."""
        self.unresolved.pop(broker, None)
        self.omitted.pop(broker, None)
        self._released(self._pending_deletes.restarted(broker))

    def _resolve(self, broker: int) -> tuple[BrokerResponse, ...]:
        """The broker knows the raised epoch: no copy of an older deletion is obeyed any more."""
        unresolved = self.unresolved.get(broker)
        if unresolved is None or unresolved.epoch is None or unresolved.epoch > self._epoch():
            return ()
        del self.unresolved[broker]
        return tuple(unresolved.responses)

    def _released(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._enqueue(EventKind.ELECTIONS)
            self._enqueue(EventKind.REASSIGNMENT)
            self._enqueue(EventKind.DELETIONS)
