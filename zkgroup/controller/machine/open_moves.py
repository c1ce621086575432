"""The moves that are open, and what one controller remembers of each. Source: controller.md 4; recipes.md 17.

Written down are the request, the replica lists and, from 2.4 on, the topics' own keys. `Moves.follow` makes
of them what there is to do; stages, and where a move began, are remembered here between its steps and are
lost with the controller, which costs a bump of the leader epoch and no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from zkgroup.controller.machine import moving
from zkgroup.controller.machine.holding import Holding
from zkgroup.controller.machine.move_writes import Ending
from zkgroup.controller.machine.moving import LATE, Situation, Stage
from zkgroup.controller.machine.picture import Brokers, Picture, Standing
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic


class Request(NamedTuple):
    """`/admin/reassign_partitions` as it was read, or as this controller has written it since."""

    targets: Mapping[TopicPartition, Brokers]
    version: int
    """Data version: what a write that rests on it checks."""
    czxid: int
    """Tells a request from another one that was made after it was gone."""


@dataclass(slots=True)
class OpenMove:
    """The move of one partition."""

    target: Brokers
    before: Brokers
    """The replicas when it began, as far as is known; for the record of its end."""
    origin: Brokers | None
    """The same where it is known for certain."""
    asked: bool
    """It stands in the request. False: the topic's own keys alone tell of it."""
    former: Brokers | None = None
    """The target before the request was changed."""
    stage: Stage = Stage.PLAN
    drop: Brokers = ()
    """Who is to be deleted, once step 8 was accepted."""
    changed: bool = False
    """The request is another one than the stage was reached with."""
    waits: str = ""
    """What it waits for, for people; empty while it goes on."""

    @property
    def is_cancelled(self) -> bool:
        """It goes back to where it began."""
        return moving.is_cancellation(self.target, self.origin, self.former)

    def situation(self, picture: Picture, holding: Holding, each: TopicPartition, now: Standing) -> Situation:
        """What the next step is decided on."""
        origin = self.origin
        return Situation(
            target=self.target,
            replicas=picture.replicas(each),
            leader=now.leader,
            isr=now.isr,
            stage=self.stage,
            live=picture.candidates(each, picture.live),
            held=holding.of(picture, each),
            changed=self.changed,
            drop=self.drop,
            cancelled=self.is_cancelled,
            growing=origin is not None and not set(self.target) <= set(origin),
        )


class Moves:
    """All open moves of the cluster."""

    def __init__(self) -> None:
        self.request: Request | None = None
        self._open: dict[TopicPartition, OpenMove] = {}
        self._late: dict[TopicPartition, Brokers] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._open

    def __getitem__(self, topic_partition: TopicPartition) -> OpenMove:
        return self._open[topic_partition]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those that are being moved, in the order of the request."""
        return tuple(self._open)

    @property
    def late(self) -> Mapping[TopicPartition, Brokers]:
        """Targets of the moves past step 7: the replica list of every LeaderAndIsr from there on."""
        return self._late

    @property
    def waiting(self) -> Mapping[TopicPartition, str]:
        """What each move that does not go on waits for."""
        return {each: move.waits for each, move in self._open.items() if move.waits}

    def reached(self, topic_partition: TopicPartition, stage: Stage, drop: Brokers = ()) -> None:
        """A step is done, or has to be planned again."""
        move = self._open[topic_partition]
        move.stage, move.drop, move.changed = stage, drop, False
        if stage in LATE:
            self._late[topic_partition] = move.target
        else:
            self._late.pop(topic_partition, None)

    def plan_again(self, partitions: Iterable[TopicPartition]) -> None:
        """A write of theirs was refused, or its outcome is not known."""
        for each in partitions:
            if each in self._open:
                self.reached(each, Stage.PLAN)

    def interrupted(
        self, partitions: Iterable[TopicPartition], picture: Picture, holding: Holding
    ) -> tuple[TopicPartition, ...]:
        """Elections, or a LeaderAndIsr to a new incarnation, came between the steps of these.

        To be called with the states and holds under which they were told. Returns those that plan again.
        """
        again = []
        for each in partitions:
            if (move := self._open.get(each)) is None or move.stage is Stage.PLAN:
                continue
            stage = moving.interrupted(move.stage, move.target, holding.of(picture, each))
            if stage is not move.stage:
                self.reached(each, stage)
                again.append(each)
        return tuple(again)

    def ended(self, partitions: Iterable[TopicPartition], picture: Picture) -> None:
        """Their ends are written."""
        for each in partitions:
            self._open.pop(each, None)
            self._late.pop(each, None)
            picture.moves.discard(each)

    # --- what there is to do ----------------------------------------------------------------------

    def follow(self, request: Request | None, picture: Picture) -> tuple[Ending, ...]:
        """Takes what was read for what is asked. Returns the entries that are to be dropped.

        The picture's `moves` follow. A move that is under way already outlives a request to delete its
        topic; one that is not is dropped for it.
        """
        replaced = self.request is not None and (request is None or request.czxid != self.request.czxid)
        self.request = request
        targets = dict(request.targets) if request else {}
        dropped = tuple(self._dropped(targets, picture))
        for ending in dropped:
            targets.pop(ending.topic_partition)
        wanted = {each: (target, True) for each, target in targets.items() if each in picture}
        for each, target in _told_by_topics(picture):
            wanted.setdefault(each, (target, False))
        for each in [each for each in self._open if each not in wanted]:
            self.ended([each], picture)
        for each, (target, asked) in wanted.items():
            if (move := self._open.get(each)) is None:
                self._open[each] = _begin(picture, each, target, asked)
                picture.moves.add(each)
            else:
                self._follow_one(each, move, target, asked, replaced)
        return dropped

    def _follow_one(
        self, each: TopicPartition, move: OpenMove, target: Brokers, asked: bool, replaced: bool
    ) -> None:
        if target != move.target:
            move.former, move.target = move.target, target
        elif move.asked == asked and not replaced:
            return
        move.asked, move.changed, move.drop = asked, True, ()
        self._late.pop(each, None)

    def _dropped(self, targets: Mapping[TopicPartition, Brokers], picture: Picture) -> Iterable[Ending]:
        controllers = [id_ for id_, broker in picture.brokers.items() if broker.registration.role != "data"]
        for each, target in targets.items():
            replicas = picture.replicas(each) if each in picture else None
            if replicas is None and Topic.path(each.topic) in picture.unreadable:
                continue
            going = picture.is_going(each) and not self._is_under_way(each, target, picture)
            reason = moving.unacceptable(target, replicas, going=going, controllers=controllers)
            if reason is not None:
                yield Ending(each, target, self._before(each, picture), "dropped", reason)

    def _before(self, each: TopicPartition, picture: Picture) -> Brokers:
        return self._open[each].before if each in self._open else picture.replicas(each)

    def _is_under_way(self, each: TopicPartition, target: Brokers, picture: Picture) -> bool:
        if each in self._open:
            return True
        now = picture.replicas(each)
        return _keys(picture, each) is not None or (set(target) <= set(now) and len(target) < len(now))


class _Keys(NamedTuple):
    """What a topic says of the move of one of its partitions (2.4)."""

    adding: Collection[int]
    removing: Collection[int]


def _keys(picture: Picture, each: TopicPartition) -> _Keys | None:
    seen = picture.topic(each.topic)
    if seen is None:
        return None
    adding, removing = seen.topic.adding.get(each.partition), seen.topic.removing.get(each.partition)
    return _Keys(adding or (), removing or ()) if adding or removing else None


def _told_by_topics(picture: Picture) -> Iterable[tuple[TopicPartition, Brokers]]:
    """Moves that a topic's own keys tell of, whether or not the request names them."""
    for name in sorted(picture.topics):
        seen = picture.topic(name)
        if seen is None or not (seen.topic.adding or seen.topic.removing):
            continue
        for number in seen.topic.moving:
            each = TopicPartition(name, number)
            target = moving.target_told(picture.replicas(each), seen.topic.removing.get(number, ()))
            if target:
                yield each, target


def _begin(picture: Picture, each: TopicPartition, target: Brokers, asked: bool) -> OpenMove:
    """A move at first sight; another controller may have begun it."""
    replicas = picture.replicas(each)
    if (keys := _keys(picture, each)) is not None:
        origin = moving.origin(replicas, keys.adding)
        told = moving.target_told(replicas, keys.removing)
        return OpenMove(target, origin, origin, asked, former=told if told != target else None)
    known = None if set(target) <= set(replicas) else replicas
    return OpenMove(target, replicas, known, asked)
