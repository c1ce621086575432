"""The open reassignments, and what one controller remembers of each (controller.md 4, recipes 17: moves).

Written down are the request, the replica lists and, from 2.4 on, the topics' own keys.
`OpenReassignments.follow` makes of them what there is to do; stages, and where a move began, are remembered
here between its steps and are lost with the controller, which costs a move at most one bump of the leader
epoch more than its steps need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from zkgroup.controller.machine.context import Brokers, ControllerContext
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.model import TopicPartition
from zkgroup.placement.model import brokers_named
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.reassignment_records import Outcome


class Stage(Enum):
    """The progress of a move under this controller; the numbers are the steps of controller.md 4.4."""

    PLAN = "0"
    """Nothing is remembered: what was read decides."""
    ANNOUNCE = "2"
    """The replica list holds the target; LeaderAndIsr has to be sent with a new leader epoch."""
    CATCH_UP = "3"
    """Sent; the target is to come into the ISR."""
    LEAD = "7"
    """The target is in sync; one of it is to lead, with the target as replica list."""
    SHRINK = "8"
    """The others leave the ISR."""
    DELETE = "9"
    """The others are out of the ISR and are to be deleted."""
    FINISH = "10"
    """The replica list, the request and the record of the end are to be written."""


LATE: Final = frozenset({Stage.SHRINK, Stage.DELETE, Stage.FINISH})
"""Past step 7: every LeaderAndIsr, of elections and for new incarnations too, carries the target."""


class ReassignmentRequest(NamedTuple):
    """`/admin/reassign_partitions` as it was read, or as this controller has written it since."""

    targets: Mapping[TopicPartition, Brokers]
    version: int
    """Data version: the check of a write that is based on it."""
    czxid: int
    """Distinguishes a request from another one that was created after it was gone."""


@dataclass(slots=True)
class OpenReassignment:
    """The move of one partition."""

    target: Brokers
    before: Brokers
    """The replicas when it began, as far as is known; for the record of its end."""
    origin: Brokers | None
    """The same where it is known for certain."""
    asked: bool
    """It is in the request. False: it is in the topic's own keys alone."""
    former: Brokers | None = None
    """The target before the request was changed."""
    stage: Stage = Stage.PLAN
    drop: Brokers = ()
    """Brokers whose replica is to be deleted, once step 8 was accepted."""

    @property
    def is_cancelled(self) -> bool:
        """It goes back to where it began."""
        return is_cancellation(self.target, self.origin, self.former)


class Completion(NamedTuple):
    """One move that ends."""

    topic_partition: TopicPartition
    target: Brokers
    """As the request had it."""
    before: Brokers
    """Replicas when the move began, as far as is known."""
    outcome: Outcome
    reason: str
    left: Brokers = ()
    """Brokers that have not deleted their replica yet."""

    @property
    def behind(self) -> Brokers:
        """Those of them that have no place when it has ended."""
        return tuple(each for each in self.left if each not in self.target)


class _SentList(NamedTuple):
    """The replica list that brokers were sent last, where it is shorter than the partition's."""

    replicas: frozenset[int]
    """As far as is known."""
    leader_epoch: int | None
    """None where the state could not be read then."""


class OpenReassignments(Mapping[TopicPartition, OpenReassignment]):
    """All open reassignments, in the order of the request, and the state of carrying them out."""

    def __init__(self) -> None:
        self.request: ReassignmentRequest | None = None
        self.fresh: set[TopicPartition] = set()
        """Their states were written by this controller a moment ago, so they need not be read."""
        self.has_parents = False
        """The parent of the records of ends exists."""
        self.records: int | None = None
        """Records of ends that are kept, once they were counted."""
        self.unconfirmed_lists: dict[str, list[Topic]] = {}
        """Topic to replica lists that were sent and not answered: found, they are this controller's own."""
        self._open: dict[TopicPartition, OpenReassignment] = {}
        self._left_out: dict[TopicPartition, _SentList] = {}
        """Partitions of which a shorter list was sent, as a broker was left out or it was the target alone. A
        whole list undoes it with another leader epoch only: a leader passes over the same."""
        self._unread: frozenset[str] | None = None
        """Paths that could not be read when the request was followed for the first time; None before that."""
        self._followed: ReassignmentRequest | None = None
        """The request as it was when it was last followed."""

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._open)

    def __getitem__(self, topic_partition: TopicPartition) -> OpenReassignment:
        return self._open[topic_partition]

    @property
    def late(self) -> Mapping[TopicPartition, Brokers]:
        """Partition to its target, past step 7: every LeaderAndIsr carries the target then."""
        return {each: move.target for each, move in self._open.items() if move.stage in LATE}

    def reached(self, topic_partition: TopicPartition, stage: Stage, drop: Brokers = ()) -> None:
        """A step is done, or has to be planned again."""
        move = self._open[topic_partition]
        move.stage, move.drop = stage, drop

    def plan_again(self, partitions: Iterable[TopicPartition]) -> None:
        """A write of theirs was refused, or its outcome is not known."""
        for each in partitions:
            if each in self._open:
                self.reached(each, Stage.PLAN)

    def was_left_out(self, topic_partition: TopicPartition) -> bool:
        """Returns whether a broker was left out of the list that was sent last, or may have been."""
        return topic_partition in self._left_out

    def interrupted(
        self,
        partitions: Iterable[TopicPartition],
        context: ControllerContext,
        pending_deletes: PendingDeletes,
    ) -> tuple[TopicPartition, ...]:
        """Elections, or a LeaderAndIsr to a new incarnation, came between the steps of these.

        To be called with the states and pending deletes under which they were sent. Returns those that plan
        again.
        """
        if not self._open and not self._left_out and pending_deletes.is_empty(context):
            return ()
        again = []
        for each in partitions:
            deleting, listed = pending_deletes.of(context, each), context.replicas(each)
            if (move := self._open.get(each)) is not None:
                listed = sent_replicas(move.stage, move.target, listed)
            leadership = context.leadership(each)
            left_out = pending_deletes.left_out(context, each)
            sent = _SentList(frozenset(listed) - left_out, leadership.leader_epoch if leadership else None)
            known = self._left_out.get(each)
            if sent.replicas != set(context.replicas(each)):
                self._left_out[each] = sent
            elif known is not None and known.leader_epoch is None:
                self._left_out[each] = known._replace(leader_epoch=sent.leader_epoch)  # perhaps the same
            elif known is not None and known.leader_epoch != sent.leader_epoch:
                del self._left_out[each]
            if move is None:
                continue
            stage = interrupted(move.stage, union(move.target, listed), deleting)
            if stage is not move.stage:
                self.reached(each, stage)
                again.append(each)
        return tuple(again)

    def ended(self, partitions: Iterable[TopicPartition], context: ControllerContext) -> None:
        """Their ends are written and in the context, or they are no longer requested."""
        for each in partitions:
            self._open.pop(each, None)
            context.moves.discard(each)
        self._forget_whole(context)

    def cut(self, context: ControllerContext) -> tuple[TopicPartition, ...]:
        """Partitions that are not moved any more, and of whose replicas brokers know some only.

        A move is taken back by hand after step 7, or dropped: its leader adds no broker but those of the
        target to the ISR. A later controller has no way to know of it.
        """
        self._forget_whole(context)
        return tuple(each for each in self._left_out if each not in self._open)

    def _forget_whole(self, context: ControllerContext) -> None:
        """Forgets lists that may be whole by now: nothing is moved, so they are the target (step 10)."""
        for each in self._left_out.keys() - self._open.keys():
            if each not in context or self._left_out[each].replicas.issuperset(context.replicas(each)):
                del self._left_out[each]

    def follow(
        self, context: ControllerContext, begun: Collection[str] = ()
    ) -> tuple[tuple[Completion, ...], tuple[TopicPartition, ...]]:
        """Takes the request as it was read, and the topics, for what is asked; `context.moves` follow.

        A move that is under way already outlives a request to delete its topic, as long as a broker can lead;
        one that is not is dropped for it. `begun` are topics whose replicas are being deleted: no more moves.
        Returns the ends of entries that cannot be carried out, and the moves that are no longer requested.
        """
        request, before = self.request, self._followed
        replaced = before is not None and (request is None or request.czxid != before.czxid)
        self._followed = request
        targets = dict(request.targets) if request else {}
        dropped = tuple(self._dropped(targets, context, begun))
        for completion in dropped:
            targets.pop(completion.topic_partition)
        wanted = {each: (target, True) for each, target in targets.items() if each in context}
        for each, target in _moves_in_topics(context):
            if each.topic not in begun:
                wanted.setdefault(each, (target, False))
        wanted = {each: entry for each, entry in wanted.items() if not _is_hopeless(context, each, entry[0])}
        gone = tuple(each for each in self._open if each not in wanted)
        self.ended(gone, context)
        for each, (target, asked) in wanted.items():
            if (move := self._open.get(each)) is None:
                self._open[each] = _opened(context, each, target, asked)
                if self._unread is None or Topic.path(each.topic) in self._unread:
                    self._found(each, context)
            else:
                self._follow_one(move, target, asked=asked, replaced=replaced)
        if self._unread is None:
            self._unread = frozenset(context.unreadable)
            for completion in dropped:
                self._found(completion.topic_partition, context)
        context.moves = set(self._open)
        return dropped, gone

    def _found(self, each: TopicPartition, context: ControllerContext) -> None:
        """A move found at a take-over: the former controller may have sent the target alone (step 7), which
        nothing in ZooKeeper says. Where there is no state nothing was sent."""
        if (leadership := context.leadership(each)) is not None:
            self._left_out.setdefault(each, _SentList(frozenset(), leadership.leader_epoch))
        elif PartitionState.path(each) in context.unreadable:
            self._left_out.setdefault(each, _SentList(frozenset(), None))

    def _follow_one(self, move: OpenReassignment, target: Brokers, *, asked: bool, replaced: bool) -> None:
        if target != move.target:
            move.former, move.target = move.target, target
        elif move.asked == asked and not replaced:
            return
        move.asked, move.stage, move.drop = asked, Stage.PLAN, ()

    def _dropped(
        self, targets: Mapping[TopicPartition, Brokers], context: ControllerContext, begun: Collection[str]
    ) -> Iterable[Completion]:
        controllers = [id_ for id_, broker in context.brokers.items() if broker.registration.role != "data"]
        for each, target in targets.items():
            replicas = context.replicas(each) if each in context else None
            if replicas is None and Topic.path(each.topic) in context.unreadable:
                if (why := malformed(target)) is not None:  # it cannot be written again with the others
                    yield Completion(each, target, self._before(each, context), "dropped", why)
                continue
            is_queued = each.topic in context.deletions
            going = is_queued and not self._is_under_way(each, target, context)
            going |= each.topic in begun or _is_hopeless(context, each, target)
            reason = unacceptable(target, replicas, going=going, controllers=controllers)
            if reason is not None:
                yield Completion(each, target, self._before(each, context), "dropped", reason)

    def _before(self, each: TopicPartition, context: ControllerContext) -> Brokers:
        return self._open[each].before if each in self._open else context.replicas(each)

    def _is_under_way(self, each: TopicPartition, target: Brokers, context: ControllerContext) -> bool:
        """Returns whether the move has begun: the replica list holds the target then, as the union. So does
        that of a move that only drops or orders replicas, and copies nothing."""
        if each in self._open:
            return True
        return _keys(context, each) is not None or set(target) <= set(context.replicas(each))


def _is_hopeless(context: ControllerContext, each: TopicPartition, target: Brokers) -> bool:
    """Its topic is to be deleted, and the move has no end: no live broker can lead, which the deletion does
    not need; or the target has a lost broker; or the topic is unhosted; or no state is created any more."""
    leadership = context.leadership(each)
    if each.topic not in context.deletions:
        return False
    if context.is_unhosted(each):
        return True
    if leadership is None:
        return PartitionState.path(each) not in context.unreadable
    if set(target) & set(context.given_up.get(each.topic, ())) - context.live_or_shutting_down:
        return True
    return context.with_online_replica(each, context.live).isdisjoint(leadership.isr)


def _keys(context: ControllerContext, each: TopicPartition) -> tuple[Brokers, Brokers] | None:
    """The brokers that a topic of 2.4 says are added to and removed from the partition, if any are."""
    seen = context.topic(each.topic)
    if seen is None:
        return None
    adding, removing = seen.topic.adding.get(each.partition), seen.topic.removing.get(each.partition)
    return (adding or (), removing or ()) if adding or removing else None


def _moves_in_topics(context: ControllerContext) -> Iterable[tuple[TopicPartition, Brokers]]:
    """Reassignments in the topics' own keys, whether or not the request names them."""
    for name in sorted(context.topics):
        seen = context.topic(name)
        if seen is None or not (seen.topic.adding or seen.topic.removing):
            continue
        for number in seen.topic.moving:
            each = TopicPartition(name, number)
            target = target_in_topic(context.replicas(each), seen.topic.removing.get(number, ()))
            if target:
                yield each, target


def _opened(
    context: ControllerContext, each: TopicPartition, target: Brokers, asked: bool
) -> OpenReassignment:
    """A reassignment that is read for the first time; another controller may have begun it."""
    replicas = context.replicas(each)
    if (keys := _keys(context, each)) is not None:
        origin = origin_in_topic(replicas, keys[0])
        former = target_in_topic(replicas, keys[1])
        return OpenReassignment(target, origin, origin, asked, former=former if former != target else None)
    known = None if set(target) <= set(replicas) else replicas
    return OpenReassignment(target, replicas, known, asked)


def interrupted(stage: Stage, target: Brokers, deleting: Collection[int]) -> Stage:
    """Returns where a move stands after an election in its middle, or a LeaderAndIsr to a new incarnation.

    A target that may still be deleted was left out of the list that was sent. The list has to be sent again,
    with a new leader epoch, once it is free.
    """
    return Stage.PLAN if stage is not Stage.ANNOUNCE and set(target) & set(deleting) else stage


def sent_replicas(stage: Stage, target: Brokers, replicas: Brokers) -> Brokers:
    """The replica list that brokers are sent at this stage."""
    return target if stage in LATE else replicas


def malformed(target: Brokers) -> str | None:
    """Returns why no partition at all can have these replicas, or None."""
    if not target:
        return "the replica list is empty"
    if len(set(target)) < len(target):
        return f"a broker is listed twice in {_list(target)}"
    if min(target) < 0:
        return f"{min(target)} is no broker"
    return None


def unacceptable(
    target: Brokers, replicas: Brokers | None, *, going: bool, controllers: Collection[int] = ()
) -> str | None:
    """Returns why an entry of a request is dropped, or None. Brokers that are down are waited for.

    `replicas` is None for an unknown partition; `going` says that the topic is being deleted; `controllers`
    are brokers that host nothing.
    """
    if (why := malformed(target)) is not None:
        return why
    if replicas is None:
        return "there is no such partition"
    if going:
        return "the topic is being deleted"
    if nothing := [broker for broker in target if broker in controllers]:
        return f"{brokers_named(nothing, 'hosts', 'host')} no partitions"
    return None


def union(target: Brokers, replicas: Brokers) -> Brokers:
    """The target, then the others in their order."""
    return target + tuple(each for each in replicas if each not in target)


def origin_in_topic(replicas: Brokers, adding: Collection[int]) -> Brokers:
    """The replicas before a move that is in the topic's own keys (2.4), in the order of the union."""
    return tuple(each for each in replicas if each not in adding)


def target_in_topic(replicas: Brokers, removing: Collection[int]) -> Brokers:
    """The target of such a move: where no request is left, it is finished from these keys alone."""
    return tuple(each for each in replicas if each not in removing)


def is_cancellation(target: Brokers, origin: Collection[int] | None, former: Brokers | None) -> bool:
    """Returns whether a request goes back: its target is where the move began, and it once was another one.

    `origin` is known from the topic's keys or from having seen the beginning, `former` is the target before
    the request was changed; None where it is not known.
    """
    return origin is not None and former is not None and former != target and set(origin) == set(target)


def _list(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))
