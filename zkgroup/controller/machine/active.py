"""Everything that one rule knows, and the order in which it does its duties.

Theory of operation
-------------------
A reign begins with `Elected` and is dropped whole with `Resigned`: nothing of it survives (KAFKA-5310).
Watches, timers and answers of brokers only say what to look at; `next` takes the first of it and makes the
procedure that reads, decides, writes and tells. One procedure runs at a time and awaits ZooKeeper alone,
never a broker.

What was written is told: `unsent` are the partitions whose state got a new leader epoch that no LeaderAndIsr
has carried yet. A procedure takes them off by `send`; what one leaves behind goes out when it ends, and after
a missing answer everything is read again (`EventKind.LOAD`) and compared, so that a write whose answer was
lost is told too. A leader of 0.8.2.2 that never hears of such a write never changes its ISR again (K9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from zkgroup.controller.machine.controller_election.elector import Elector
from zkgroup.controller.machine.deletion.pending_deletes import PART_BYTES, PendingDeletes
from zkgroup.controller.machine.event_processor import EVENT_TIMER, EventProcessor
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.events import BrokerAnswered, ShutdownAsked
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.leadership.shutdown_requests import ShutdownRequest, ShutdownRequests
from zkgroup.controller.machine.leadership.unconfirmed_leaders import UnconfirmedLeaders
from zkgroup.controller.machine.reassignment.open_reassignments import OpenReassignments
from zkgroup.controller.machine.requests.sender import BrokerResponse, RequestSender
from zkgroup.controller.machine.settings import ControllerSettings, ElectorContext, Recalled, Shown
from zkgroup.controller.machine.state_machines import (
    PartitionPhase,
    Replica,
    ReplicaPhase,
)
from zkgroup.model import TopicPartition
from zkgroup.runtime.procedures import Procedure
from zkgroup.wire.control import LeaderAndIsrRequest, LeaderAndIsrResponse
from zkgroup.wire.messages import ErrorCode

T = TypeVar("T")

Handler = Callable[["ActiveController", str], Procedure[None]]
"""Looks at one kind of thing; the text is the subject, the topic for `EventKind.TOPIC`."""
ResponseHandler = Callable[["ActiveController", BrokerResponse], None]
"""Told of every answer of a broker, in the order of a table; may change the books and add work."""


class ActiveController(EventProcessor):
    """One rule of one controller. Not thread-safe: the candidate's thread steps it."""

    def __init__(
        self,
        core: ElectorContext,
        election: Elector,
        settings: ControllerSettings,
        duties: Mapping[EventKind, Handler],
        listeners: Sequence[ResponseHandler] = (),
    ) -> None:
        """Begins with `EventKind.LOAD`. Only for an election that was won."""
        assert election.rule is not None, "nobody reigns without having been elected"
        super().__init__(core, {look: partial(duty, self) for look, duty in duties.items()})
        self.election = election
        self.settings = settings
        self.began_ms = core.now.ms
        self.pending_deletes = PendingDeletes(min(PART_BYTES, core.config.request_bytes_max // 8))
        self.reassignments = OpenReassignments()
        self.requests = RequestSender(
            core,
            self.context,
            self.pending_deletes,
            self.reassignments,
            epoch=lambda: self.epoch,
            enqueue=self.enqueue,
        )
        self.shutdowns = ShutdownRequests(core)
        self.readable_again: dict[TopicPartition, None] = {}
        """Partitions whose state was unreadable until some duty has just read it."""
        self.unconfirmed_leaders = UnconfirmedLeaders()
        self.published = Shown()
        self.deletion_requests: dict[str, int] = {}
        """Topic to the czxid of the request to delete it: a younger topic of that name is not meant."""
        self.strays: dict[Replica, None] = {}
        """Replicas that a move has left behind, and that their brokers have not deleted."""
        self.recall = Recalled()
        self._rule = election.rule
        self._listeners = listeners
        self.enqueue(EventKind.LOAD)

    # --- what everybody asks ----------------------------------------------------------------------

    @property
    def fence(self) -> Fence:
        """Of every write. It changes when the epoch is raised."""
        if self.election.rule is not None and self.election.rule.czxid == self._rule.czxid:
            self._rule = self.election.rule
        return self._rule.fence

    @property
    def epoch(self) -> int:
        return self.fence.epoch

    @property
    def foreign_epoch(self) -> int:
        """The last epoch that no controller of ours had (recipes 13, recovery)."""
        return self._rule.foreign_epoch

    @property
    def broker(self) -> int:
        """The id of this controller."""
        return self.core.config.broker

    def move_partitions(
        self, partitions: Iterable[TopicPartition], after: PartitionPhase
    ) -> Mapping[TopicPartition, PartitionPhase]:
        """Moves those that may be moved, with the phase each came from; the others are noted (3.1)."""
        moved = self.context.partition_phases.move(partitions, after)
        for illegal in moved.illegal:
            self.core.note("transition.refused", detail=str(illegal))
        return moved.done

    def move_replicas(
        self, replicas: Iterable[Replica], after: ReplicaPhase
    ) -> Mapping[Replica, ReplicaPhase]:
        """The same for replicas (3.2)."""
        moved = self.context.replica_phases.move(replicas, after)
        for illegal in moved.illegal:
            self.core.note("transition.refused", detail=str(illegal))
        return moved.done

    def is_mine(self, election: Elector) -> bool:
        """Whether this is the reign of the election's present rule."""
        return election.rule is not None and election.rule.czxid == self._rule.czxid

    def connected(self) -> None:
        """A new connection of the same session: all watches are gone, so all is read again."""
        self.load_again()

    def drop(self) -> None:
        """The rule is over. Who waits for an answer gets one."""
        self.requests.stop()
        self.core.cancel_timer(EVENT_TIMER)
        self.shutdowns.refuse_all()

    def forget(self, topic: str) -> None:
        """The topic is gone: nothing that is known of it holds for another one of its name."""
        context, mine = self.context, list(self.context.partitions(topic))
        for each in mine:
            self.requests.unsent.discard(each)
            self.readable_again.pop(each, None)
            self.unconfirmed_leaders.discard(each)
            self.wait(f"leader of {each}", None)
        context.forget_topic(topic)
        context.deletions.discard(topic)
        self.sort_strays(topic)
        self.wait(f"deletion of {topic}", None)

    def sort_strays(self, topic: str | None = None) -> None:
        """What is recorded of a topic is looked at anew, as it is gone, or there is one; None: of all.

        What a broker may have of a topic that is gone is not asked for as a stray.
        """
        pending_deletes = self.pending_deletes
        if topic is not None and not pending_deletes.book.has_topic(topic):
            return
        before = dict(pending_deletes.abandoned)
        pending_deletes.sort(self.context.topic_czxids)
        for gone in before.keys() - pending_deletes.abandoned.keys():
            record = before[gone].record
            self.wait(f"removal of {record.topic} on broker {record.broker}", None)
        for replica in [each for each in self.strays if pending_deletes.is_abandoned(each)]:
            del self.strays[replica]
            self.wait(f"removal of {replica}", None)

    def after_event(self) -> None:
        """Nothing is written without being sent, whatever a handler has forgotten."""
        self.requests.send_unsent()

    def flush(self) -> None:
        """Sends what is due, while it may be sent."""
        if self.election.may_send:
            self.requests.flush()

    # --- what brokers say -------------------------------------------------------------------------

    def responded(self, event: BrokerAnswered) -> None:
        """Gives the response of a broker to the features that it concerns."""
        delivered = self.requests.responded(event)
        if delivered is None:
            return
        for earlier in delivered.resolved:
            self.requests.delete_is_over(earlier)
            self._hand_on(earlier)
        request, response = delivered.response.request.request, event.response
        if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
            self._note_leaders(event.broker, response, again=delivered.again)
        if self.requests.settle_delete(delivered):
            self._hand_on(delivered.response)

    def broker_restarted(self, broker: int) -> None:
        """A new incarnation of a broker, or none any more: nothing that was sent to it can arrive."""
        self.unconfirmed_leaders.broker_restarted(broker)
        self.wait(f"broker {broker}", None)
        self.requests.broker_restarted(broker)

    def shutdown_requested(self, event: ShutdownAsked) -> None:
        """Is answered by the handler of `EventKind.SHUTDOWNS`, or when the controller resigns."""
        known = self.context.brokers.get(event.broker)
        if known is None:
            error = ErrorCode.BROKER_NOT_AVAILABLE if self.is_loaded else ErrorCode.STALE_CONTROLLER_EPOCH
            self.shutdowns.refuse(event.request_id, error)
            return
        self.shutdowns.add(ShutdownRequest(event.request_id, event.broker, known.epoch))
        self.enqueue(EventKind.SHUTDOWNS)

    def _note_leaders(self, broker: int, response: LeaderAndIsrResponse, *, again: bool) -> None:
        """A replica that its broker cannot serve is offline to every election until the broker restarts.

        A response to a request that was sent `again` may hide that the broker has led since the first copy.
        """
        for each in response.partitions:
            if again or each.error == ErrorCode.NONE:
                self.unconfirmed_leaders.confirmed(each.topic_partition, broker)
        broken = [
            each.topic_partition
            for each in response.partitions
            if each.error == ErrorCode.KAFKA_STORAGE_ERROR and each.topic_partition in self.context
        ]
        for topic_partition in broken:
            self.context.failed_to_serve(topic_partition, broker)
        if broken:
            self.core.note("replica.unfit", broker=broker, partitions=tuple(map(str, broken)))
            self.enqueue(EventKind.ELECTIONS)
            self.enqueue(EventKind.REASSIGNMENT)  # a deletion does not wait for one that nobody can lead

    def _hand_on(self, response: BrokerResponse) -> None:
        for handler in self._listeners:
            handler(self, response)
