"""Everything that one rule knows, and the order in which it does its duties.

Theory of operation
-------------------
A reign begins with `Elected` and is dropped whole with `Resigned`: nothing of it survives (KAFKA-5310).
Watches, timers and answers of brokers only say what to look at; `next` takes the first of it and makes the
procedure that reads, decides, writes and tells. One procedure runs at a time and awaits ZooKeeper alone,
never a broker.

What was written is told: `untold` are the partitions whose state got a new leader epoch that no LeaderAndIsr
has carried yet. A procedure takes them off by `tell`; what one leaves behind goes out when it ends, and
after a missing answer everything is read again (`Look.LOAD`) and compared, so that a write whose answer was
lost is told too. A leader of 0.8.2.2 that never hears of such a write never changes its ISR again (K9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.channels import Channels
from zkgroup.controller.machine.core import Core
from zkgroup.controller.machine.effects import ShutdownAnswered
from zkgroup.controller.machine.election import Election
from zkgroup.controller.machine.events import BrokerAnswered, ShutdownAsked
from zkgroup.controller.machine.fence import Fence
from zkgroup.controller.machine.holding import Holding
from zkgroup.controller.machine.moving import LATE
from zkgroup.controller.machine.open_moves import Moves
from zkgroup.controller.machine.partition_set import PartitionSet
from zkgroup.controller.machine.picture import Brokers
from zkgroup.controller.machine.requests import Batch, Targets
from zkgroup.controller.machine.rule_books import Answer, ControllerSettings, Doubt, Recalled, Shown, Stopping
from zkgroup.controller.machine.stray_book import PART_BYTES
from zkgroup.controller.machine.transitions import (
    PartitionPhase,
    Replica,
    ReplicaPhase,
    partition_table,
    replica_table,
)
from zkgroup.controller.machine.working import DUTY_TIMER, Working
from zkgroup.machinery.procedures import Procedure
from zkgroup.model import TopicPartition
from zkgroup.wire.control import LeaderAndIsrRequest, LeaderAndIsrResponse, StopReplicaRequest
from zkgroup.wire.error_codes import ErrorCode, describe
from zkgroup.znodes.brokers import Topic

T = TypeVar("T")

Duty = Callable[["Reign", str], Procedure[None]]
"""Looks at one kind of thing; the text is the subject, the topic for `Look.TOPIC`."""
Listener = Callable[["Reign", Answer], None]
"""Told of every answer of a broker, in the order of a table; may change the books and add work."""


class Reign(Working):
    """One rule of one controller. Not thread-safe: the candidate's thread steps it."""

    def __init__(
        self,
        core: Core,
        election: Election,
        settings: ControllerSettings,
        duties: Mapping[Look, Duty],
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Begins with `Look.LOAD`. Only for an election that was won."""
        assert election.rule is not None, "nobody reigns without having been elected"
        super().__init__(core, {look: partial(duty, self) for look, duty in duties.items()})
        self.election = election
        self.settings = settings
        self.began_ms = core.now.ms
        self.partitions = partition_table()
        """Phase of each partition; those not mentioned are online."""
        self.replicas = replica_table()
        """Phase of each replica; those not mentioned are online."""
        self.holding = Holding(min(PART_BYTES, core.config.request_bytes_max // 8))
        self.channels = Channels(core)
        self.moves = Moves()
        self.shutdowns: list[Stopping] = []
        """Requests for a controlled shutdown that are not answered yet."""
        self.lists_in_doubt: dict[str, list[Topic]] = {}
        """Topic to replica lists that were sent and not answered: found, they are this controller's own."""
        self.untold = PartitionSet()
        self.outlived: dict[TopicPartition, None] = {}
        """Partitions led by a broker of ours that has started since its state was written."""
        self.mended: dict[TopicPartition, None] = {}
        """Partitions whose state was unreadable until some duty has just read it."""
        self.untried: dict[TopicPartition, tuple[int, Brokers]] = {}
        """Partition to its leader that is alone in the ISR and has not said yet that it can serve, and to the
        ISR before its election."""
        self.unnamed: dict[int, tuple[TopicPartition, ...]] = {}
        """Broker to what its first LeaderAndIsr could not name: it may fetch these partitions again."""
        self.doubts: dict[int, Doubt] = {}
        self.shown = Shown()
        self.births: dict[str, int] = {}
        """Topic to the czxid of its znode: tells it from another one of the same name."""
        self.markers: dict[str, int] = {}
        """Topic to the czxid of the request to delete it: a younger topic of that name is not meant."""
        self.strays: dict[Replica, None] = {}
        """Replicas that a move has left behind, and that their brokers have not deleted."""
        self.recalled = Recalled()
        self.is_over = False
        self._rule = election.rule
        self._listeners = listeners
        self.look(Look.LOAD)

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

    @property
    def late(self) -> Targets:
        """Partition to the target of its move, for moves past step 7."""
        return {each: move.target for each, move in self.moves.items() if move.stage in LATE}

    def move_partitions(
        self, partitions: Iterable[TopicPartition], after: PartitionPhase
    ) -> Mapping[TopicPartition, PartitionPhase]:
        """Moves those that may be moved, with the phase each came from; the others are noted (3.1)."""
        moved = self.partitions.move(partitions, after)
        for illegal in moved.illegal:
            self.core.note("transition.refused", detail=str(illegal))
        return moved.done

    def move_replicas(
        self, replicas: Iterable[Replica], after: ReplicaPhase
    ) -> Mapping[Replica, ReplicaPhase]:
        """The same for replicas (3.2)."""
        moved = self.replicas.move(replicas, after)
        for illegal in moved.illegal:
            self.core.note("transition.refused", detail=str(illegal))
        return moved.done

    def is_mine(self, election: Election) -> bool:
        """Whether this is the reign of the election's present rule."""
        return election.rule is not None and election.rule.czxid == self._rule.czxid

    def connected(self) -> None:
        """A new connection of the same session: all watches are gone, so all is read again."""
        self.load_again()

    def drop(self) -> None:
        """The rule is over. Who waits for an answer gets one."""
        self.is_over = True
        self.core.cancel_timer(DUTY_TIMER)
        for asked in self.shutdowns:
            self.core.emit(ShutdownAnswered(asked.request_id, ErrorCode.STALE_CONTROLLER_EPOCH))
        self.shutdowns.clear()

    def forget(self, topic: str) -> None:
        """The topic is gone: nothing that is known of it holds for another one of its name."""
        picture, mine = self.picture, list(self.picture.partitions(topic))
        self.partitions.forget(mine)
        self.replicas.forget(Replica(each, broker) for each in mine for broker in picture.replicas(each))
        for each in mine:
            self.untold.discard(each)
            self.outlived.pop(each, None)
            self.mended.pop(each, None)
            self.untried.pop(each, None)
            self.wait(f"leader of {each}", None)
        picture.forget_topic(topic)
        picture.deletions.discard(topic)
        self.births.pop(topic, None)
        self.sort_strays(topic)
        self.wait(f"deletion of {topic}", None)

    def sort_strays(self, topic: str | None = None) -> None:
        """What is recorded of a topic is looked at anew, as it is gone, or there is one; None: of all.

        What a broker may have of a topic that is gone is not asked for as a stray.
        """
        holding = self.holding
        if topic is not None and not holding.book.has_topic(topic):
            return
        before = dict(holding.abandoned)
        holding.sort(self.births)
        for gone in before.keys() - holding.abandoned.keys():
            record = before[gone].record
            self.wait(f"removal of {record.topic} on broker {record.broker}", None)
        for replica in [each for each in self.strays if holding.is_abandoned(each)]:
            del self.strays[replica]
            self.wait(f"removal of {replica}", None)

    # --- telling ----------------------------------------------------------------------------------

    def batch(self) -> Batch:
        """An empty batch of this epoch."""
        return Batch(self.broker, self.epoch)

    def tell(self, batch: Batch) -> None:
        """Builds the batch from the picture as it is now and queues its requests."""
        if self.is_over:
            return
        picture = self.picture
        built = batch.build(picture, self.holding, self.late)
        self._take_as_told(batch)
        if self.moves.interrupted(batch.led(picture), picture, self.holding):
            self.look(Look.REASSIGNMENT)
        unnamed: dict[int, list[TopicPartition]] = {}
        for broker, topic_partition in built.unnamed:
            unnamed.setdefault(broker, []).append(topic_partition)
        self.unnamed.update({broker: tuple(named) for broker, named in unnamed.items()})
        for each in built.requests:
            if isinstance(each.request, StopReplicaRequest) and each.request.delete:
                for topic_partition in each.request.partitions:
                    self.holding.delete_asked(topic_partition, [each.broker])
        for broker, partitions in self.channels.put(built.requests).items():
            self._freed(self.holding.delete_answered(broker, partitions))

    def _take_as_told(self, batch: Batch) -> None:
        """What all replicas hear of that can be told anything."""
        picture = self.picture
        if batch.leads_all:
            self.untold = PartitionSet(filter(picture.is_going, self.untold.of(picture.deletions)))
        live = picture.live
        for topic_partition in [each for each in batch.named if each in self.untold]:
            able = picture.candidates(topic_partition, live) - self.holding.of(picture, topic_partition)
            wanted = able.intersection(picture.replicas(topic_partition))
            if topic_partition in self.moves or batch.tells(topic_partition, wanted):
                self.untold.discard(topic_partition)

    def tell_untold(self) -> None:
        """Nothing is written without being told, whatever a procedure has forgotten."""
        batch = self.batch()
        for topic_partition in list(self.untold):
            if topic_partition not in self.picture or self.picture.is_going(topic_partition):
                self.untold.discard(topic_partition)
        self.to_replicas(batch, self.untold)
        if self.untold:
            self.tell(batch)
            self.untold.clear()

    def to_replicas(self, batch: Batch, partitions: Iterable[TopicPartition]) -> None:
        """Adds LeaderAndIsr to every replica of the partitions, the targets of their moves included."""
        late = self.late
        for each in partitions:
            told = self.picture.replicas(each)
            if each in late:
                told = tuple(dict.fromkeys((*told, *late[each])))
            batch.leader_and_isr(told, each)

    def flush(self) -> None:
        """Sends what is due, while it may be sent."""
        if self.election.may_send and not self.is_over:
            self.channels.flush()

    # --- answers of brokers -----------------------------------------------------------------------

    def answered(self, event: BrokerAnswered) -> None:
        """Takes the answer of a broker into the books."""
        done = self.channels.answered(event.broker, event.incarnation)
        if done is None:
            return
        broker, request = event.broker, done.request.request
        answer = Answer(broker, done.request, event.response)
        error: int = getattr(event.response, "error", ErrorCode.NONE)
        if error != ErrorCode.NONE:
            kind = type(request).__name__
            self.core.note("broker.refused", broker=broker, request=kind, error=describe(error))
        elif request.controller_epoch == self.epoch:
            if self.holding.answered(broker, event.incarnation) and self.picture.moves:
                self.look(Look.ELECTIONS)
                self.look(Look.REASSIGNMENT)
            self._resolve(broker)
        if isinstance(request, LeaderAndIsrRequest) and isinstance(event.response, LeaderAndIsrResponse):
            self._leads(broker, event.response, again=done.again)
        if isinstance(request, StopReplicaRequest) and request.delete:
            if done.again:
                self.doubts.setdefault(broker, Doubt()).answers.append(answer)
                self.doubts[broker].epoch = None
                self.look(Look.EPOCH)
                return
            self._freed(self.holding.delete_answered(broker, request.partitions))
        self._heard(answer)

    def restarted(self, broker: int) -> None:
        """A new incarnation of a broker, or none any more: nothing that was sent to it can arrive."""
        self.doubts.pop(broker, None)
        for topic_partition in [each for each, (leader, _) in self.untried.items() if leader == broker]:
            del self.untried[topic_partition]  # it may have led, and gone before it said so
        self.wait(f"broker {broker}", None)
        self.unnamed.pop(broker, None)
        self._freed(self.holding.restarted(broker))

    def _leads(self, broker: int, response: LeaderAndIsrResponse, *, again: bool) -> None:
        """A replica that its broker cannot serve is offline to every election until the broker restarts.

        An answer to a request that was sent `again` may hide that the broker has led since the first copy.
        """
        for each in response.partitions:
            untried = self.untried.get(each.topic_partition)
            serves = again or each.error == ErrorCode.NONE
            if serves and untried is not None and untried[0] == broker:
                del self.untried[each.topic_partition]
        broken = [
            each.topic_partition
            for each in response.partitions
            if each.error == ErrorCode.KAFKA_STORAGE_ERROR and each.topic_partition in self.picture
        ]
        for topic_partition in broken:
            self.picture.failed_to_serve(topic_partition, broker)
        if broken:
            self.core.note("replica.unfit", broker=broker, partitions=tuple(map(str, broken)))
            self.look(Look.ELECTIONS)
            self.look(Look.REASSIGNMENT)  # a deletion does not wait for a move that nobody can lead

    def _resolve(self, broker: int) -> None:
        """The broker knows the raised epoch: no copy of an older deletion is obeyed any more."""
        doubt = self.doubts.get(broker)
        if doubt is None or doubt.epoch is None or doubt.epoch > self.epoch:
            return
        del self.doubts[broker]
        for answer in doubt.answers:
            assert isinstance(answer.request.request, StopReplicaRequest)
            self._freed(self.holding.delete_answered(broker, answer.request.request.partitions))
            self._heard(answer)

    def _freed(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self.look(Look.ELECTIONS)
            self.look(Look.REASSIGNMENT)
            self.look(Look.DELETIONS)

    def _heard(self, answer: Answer) -> None:
        for listener in self._listeners:
            listener(self, answer)

    # --- brokers that stop ------------------------------------------------------------------------

    def shutdown_asked(self, event: ShutdownAsked) -> None:
        """Is answered by the duty of `Look.SHUTDOWNS`, or when the rule ends."""
        known = self.picture.brokers.get(event.broker)
        if known is None:
            error = ErrorCode.BROKER_NOT_AVAILABLE if self.is_loaded else ErrorCode.STALE_CONTROLLER_EPOCH
            self.core.emit(ShutdownAnswered(event.request_id, error))
            return
        self.shutdowns.append(Stopping(event.request_id, event.broker, known.epoch))
        self.look(Look.SHUTDOWNS)
