"""Reassignments carried out: one round of all open moves at a look. Source: controller.md 4; recipes 16, 17.

Theory of operation
-------------------
A round reads what is asked for and where its partitions stand, decides the next step of every move
(`moving.decide`) and takes all steps of a kind together: replica lists a write for each topic, states packed
into transactions, then one batch to the brokers, then all ends in one write. What was refused is read again
and decided anew in the next round, which follows at once as long as something goes on; other work of the
controller comes in between.

    steps of 4.4   here
    0              `Moves.follow`: what cannot be carried out is dropped, with a record
    1              `_lists`
    2, 7, 8        `_states`, and LeaderAndIsr to those that the step names
    3-6            nothing is asked: watches on the states of moves that wait for replicas to be in sync
    9              StopReplica, held until it is answered (`Holding`)
    10, 11, 12     `move_ends`

A write without an answer leaves its moves at `Stage.PLAN`, and everything is read again (`Look.LOAD`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from zkgroup.controller.machine import deletions, move_ends, move_writes, moving, strays, unhosted
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write, set_state
from zkgroup.controller.machine.leading import elect
from zkgroup.controller.machine.move_writes import Ending
from zkgroup.controller.machine.moving import (
    Announce,
    DeleteReplicas,
    Finish,
    Lead,
    Shrink,
    Stage,
    Wait,
    WriteUnion,
)
from zkgroup.controller.machine.open_moves import Request
from zkgroup.controller.machine.picture import Brokers, Standing
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.selectors import Choice, NoChoice, overruled, started_again
from zkgroup.controller.machine.states import commit, read_states, write_all
from zkgroup.controller.machine.transitions import Replica
from zkgroup.errors import ConfigError
from zkgroup.machinery.procedures import DeniedError, NoAnswerError, OddAnswerError, Procedure, ask, read_done
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Exists, ExistsDone, Read, SetData
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic

WATCHED_MAX: Final = 1000
"""States watched at a time, as each watch costs a packet; the others are read in bulk with them."""
REREAD_MS: Final = 2000
"""How often states are read that wait beyond `WATCHED_MAX`."""

_SYNCING: Final = frozenset({Stage.CATCH_UP, Stage.FINISH})

StateStep = Announce | Lead | Shrink


@dataclass(slots=True)
class _Round:
    """The steps of one round, by kind."""

    unions: dict[str, dict[int, WriteUnion]] = field(default_factory=dict)
    states: dict[TopicPartition, tuple[StateStep, Standing, Stage]] = field(default_factory=dict)
    deletions: dict[TopicPartition, Brokers] = field(default_factory=dict)
    endings: list[Ending] = field(default_factory=list)
    unwritable: dict[str | TopicPartition, str] = field(default_factory=dict)
    """Topics whose lists, and partitions whose states, cannot be written, and why."""
    syncing: list[TopicPartition] = field(default_factory=list)
    """Moves that wait for replicas to be in sync."""

    @property
    def written(self) -> Iterator[TopicPartition]:
        """All that something is written of."""
        for name, steps in self.unions.items():
            yield from (TopicPartition(name, number) for number in steps)
        yield from self.states
        yield from (ending.topic_partition for ending in self.endings)


def look(reign: Reign, _: str = "") -> Procedure[None]:
    """One round of all moves: the duty of `Look.REASSIGNMENT`, which looks again while something goes on."""
    if not (yield from _read_request(reign)):
        return
    moves, picture = reign.moves, reign.picture
    before = set(picture.moves)
    begun = [topic for topic in picture.deletions if deletions.has_begun(reign, topic)]
    dropped, gone = moves.follow(picture, begun)
    if any(each.topic in picture.deletions for each in picture.moves - before):
        reign.look(Look.ELECTIONS)  # while they were going, nobody was elected
    move_ends.forgotten(reign, gone)
    yield from unhosted.host(reign)
    yield from _made_whole(reign)
    fresh, moves.fresh = moves.fresh, set()
    yield from read_states(reign, [each for each in moves if each not in fresh])
    todo = _decided(reign)
    todo.endings[:0] = dropped
    try:
        goes_on = yield from _carried_out(reign, todo)
    except (NoAnswerError, DeniedError, OddAnswerError):
        moves.plan_again(todo.written)
        reign.look(Look.LOAD)
        raise
    changed = yield from _await(reign, todo.syncing)
    if goes_on or changed:
        reign.look(Look.REASSIGNMENT)


# --- reading --------------------------------------------------------------------------------------


def _read_request(reign: Reign) -> Procedure[bool]:
    """Whether there is a request that can be read, or none. Its data is read once, not in every round."""
    path, moves = Reassignment.path(), reign.moves
    (outcome,) = yield from ask(reign.watched(Exists(path), Look.REASSIGNMENT))
    assert isinstance(outcome, ExistsDone), outcome
    stat, known = outcome.stat, moves.request
    if stat is None:
        moves.request = None
        reign.picture.unreadable.pop(path, None)
        return True
    if known is not None and (stat.czxid, stat.version) == (known.czxid, known.version):
        return path not in reign.picture.unreadable
    found = yield from reign.read_many([path])
    znode = found.get(path)
    if znode is None:  # gone again, or hidden: the watch or the status tells
        return False
    request = reign.decoded(znode, Reassignment.decode)
    if request is None:
        return False
    version = znode.stat.version
    if not version:
        if not (yield from _adopted(reign, znode)):
            return False
        version += 1
    moves.request = Request(request.targets, version, znode.stat.czxid)
    return True


def _adopted(reign: Reign, znode: Znode) -> Procedure[bool]:
    """Sets a request that nobody has set yet to what it is; whether it still was that one.

    One that is deleted by hand and made again begins with version 0, so no write that rests on this one
    passes on that one (docs/adr/0025).
    """
    write = Write("the request", (SetData(znode.path, znode.data or b"", 0),))
    refusal = yield from commit(reign, write)
    if refusal is None:
        return True
    if refusal.is_conflict:
        reign.look(Look.REASSIGNMENT)
    else:
        reign.rest(str(refusal), ["the request to move replicas"])
    return False


def _await(reign: Reign, partitions: list[TopicPartition]) -> Procedure[bool]:
    """Watches the states of moves that wait for replicas; whether one has changed since it was read.

    Brokers from 0.9 on also tell of changed ISRs, those of 0.8.2.2 do not.
    """
    asked = []
    for each in partitions[:WATCHED_MAX]:
        query = reign.watched(Read(PartitionState.path(each)), Look.REASSIGNMENT)
        if query.on_watch is not None:
            asked.append((each, query))
    if len(partitions) > WATCHED_MAX:
        reign.later(Look.REASSIGNMENT, REREAD_MS)
    outcomes = (yield from ask(*(query for _, query in asked))) if asked else ()
    return any(
        _version(read_done(outcome)) != _version(reign.picture.standing(each))
        for (each, _), outcome in zip(asked, outcomes, strict=True)
    )


def _version(found: Znode | Standing | None) -> int | None:
    if found is None:
        return None
    return found.version if isinstance(found, Standing) else found.stat.version


# --- what was left behind -------------------------------------------------------------------------


def _made_whole(reign: Reign) -> Procedure[None]:
    """Of a move that nobody asks for any more the leader may know a part of the replicas: it leads on in a
    new term, in which it hears of all. Whom a deletion may still meet is waited for (recipes 17)."""
    picture, holding = reign.picture, reign.holding
    cut = [
        each
        for each in reign.moves.cut(picture)
        if not picture.is_going(each) and holding.of(picture, each).isdisjoint(picture.replicas(each))
    ]
    if not cut:
        return
    batch = reign.batch()

    def select(topic_partition: TopicPartition, standing: Standing) -> Choice | NoChoice:
        able = picture.candidates(topic_partition, picture.live)
        return started_again(picture.replicas(topic_partition), standing, able)

    led = yield from elect(reign, cut, select, batch)
    reign.tell(batch)
    if led.chosen:
        reign.core.note("reassignment.taken_back", partitions=tuple(map(str, sorted(led.chosen))))


# --- deciding -------------------------------------------------------------------------------------


def _decided(reign: Reign) -> _Round:
    """The next step of every move; those that wait are named in the status."""
    todo = _Round()
    moves, picture, left = reign.moves, reign.picture, strays.by_partition(reign)
    for each, move in moves.items():
        standing = picture.standing(each)
        if standing is None:
            if not picture.is_unhosted(each):  # that one waits for its brokers, which has told why
                reign.wait(f"move of {each}", "waits for a state that can be read")
            continue
        drop = move.drop
        now = move.situation(picture, reign.holding, each, standing, left_out=moves.was_left_out(each))
        decision = moving.decide(now)
        moves.reached(each, decision.stage, drop)
        step = decision.step
        reign.wait(f"move of {each}", step.reason if isinstance(step, Wait) else None)
        match step:
            case Wait(_, brokers):
                if decision.stage in _SYNCING and picture.live.issuperset(brokers):
                    todo.syncing.append(each)
            case WriteUnion():
                todo.unions.setdefault(each.topic, {})[each.partition] = _with_origin(step, move.origin)
            case Announce() | Lead() | Shrink():
                todo.states[each] = (step, standing, decision.then)
            case DeleteReplicas(brokers):
                todo.deletions[each] = brokers
            case Finish(outcome, reason):
                ending = Ending(each, move.target, move.before, outcome, reason, left.get(each, ()))
                todo.endings.append(ending)
    return todo


def _with_origin(step: WriteUnion, origin: Brokers | None) -> WriteUnion:
    """A topic's keys tell where the move began, also after a change of its target."""
    if origin is None:
        return step
    return step._replace(adding=tuple(each for each in step.replicas if each not in origin))


# --- doing ----------------------------------------------------------------------------------------


def _carried_out(reign: Reign, todo: _Round) -> Procedure[bool]:
    """All steps of a round. Returns whether there is more to do at once."""
    moves = reign.moves
    writes = _Writes(reign, todo)
    items: list[str | TopicPartition] = [*todo.unions, *todo.states]
    if items:
        doubt = move_ends.ListsSent(reign, writes.lists())
        refused = yield from write_all(reign, items, writes.make, writes.read_again)
        doubt.answered()
        _written(reign, todo, refused)
    _delete(reign, todo)
    goes_on = len(items) > len(todo.unwritable) or bool(todo.deletions)
    if writes.is_overtaken:  # the ends were decided on another request than the one that they would check
        return True
    if todo.endings or (moves.request is not None and not moves.request.targets):
        goes_on |= yield from move_ends.finish(reign, todo.endings)
    return goes_on


class _Writes:
    """The writes of one round: a topic's name stands for the lists of its partitions.

    After a conflict what rests on nothing that has changed is written as it was decided; the rest is left
    for the next round.
    """

    def __init__(self, reign: Reign, todo: _Round) -> None:
        self._reign = reign
        self._todo = todo
        self._request = reign.moves.request
        self._changed: set[str] = set()
        """Topics that were changed by others."""

    @property
    def is_overtaken(self) -> bool:
        """After a conflict the request was read again, and the round was decided on another one."""
        return self._request != self._reign.moves.request

    def make(self, item: str | TopicPartition) -> Write | str:
        """The write of an item, or why there is none now."""
        if self.is_overtaken:
            return "the request has changed"
        return self._list(item) if isinstance(item, str) else self._state(item)

    def lists(self) -> list[Write]:
        """The writes of replica lists, as they are sent first."""
        made = [self._list(name) for name in self._todo.unions]
        return [each for each in made if isinstance(each, Write)]

    def read_again(self, items: list[str | TopicPartition]) -> Procedure[None]:
        """What the writes of these rest on."""
        reign = self._reign
        yield from _read_request(reign)
        yield from read_states(reign, [each for each in items if isinstance(each, TopicPartition)])
        paths = {Topic.path(each): each for each in items if isinstance(each, str)}
        found = yield from reign.read_many(paths)
        for path, name in paths.items():
            znode, seen = found.get(path), reign.picture.topic(name)
            if znode is None or seen is None or znode.stat.version != seen.version:
                self._changed.add(name)
                reign.look(Look.TOPICS)
                reign.look(Look.TOPIC, name)

    def _list(self, name: str) -> Write | str:
        """Step 1, of all partitions of the topic."""
        reign, steps = self._reign, self._todo.unions[name]
        if name in self._changed or self._request is None:
            return "the topic has changed"
        keys = move_writes.tells_moves_in_topics(reign.picture.brokers.values())
        try:
            return move_writes.write_unions(reign.picture, name, steps, self._request.version, keys=keys)
        except ConfigError as error:
            self._reign.report(Topic.path(name), str(error))
            self._todo.unwritable[name] = str(error)
            return str(error)

    def _state(self, each: TopicPartition) -> Write | str:
        """Steps 2, 7 and 8."""
        step, now, _ = self._todo.states[each]
        epoch, request = self._reign.epoch, self._request
        if _version(self._reign.picture.standing(each)) != now.version:
            return "the state has changed"
        if overruled(now, epoch):
            return f"a later controller has decided it, in epoch {now.controller_epoch}"
        leader, isr = (step.leader, step.isr) if isinstance(step, Lead) else (now.leader, now.isr)
        try:
            if isinstance(step, Shrink):
                version = None if request is None else request.version
                return move_writes.shrink(each, now, step, version, epoch)
            return set_state(each, now, now.decided(leader, isr, epoch))
        except ConfigError as error:  # what others have put into it cannot be written again
            self._reign.report(PartitionState.path(each), str(error))
            self._todo.unwritable[each] = str(error)
            return str(error)


def _written(reign: Reign, todo: _Round, refused: dict[str | TopicPartition, str]) -> None:
    """The stages follow what was written, and the brokers are told in one batch."""
    batch, moves = reign.batch(), reign.moves
    for item, why in {**refused, **todo.unwritable}.items():
        stuck = (
            [TopicPartition(item, number) for number in todo.unions[item]]
            if isinstance(item, str)
            else [item]
        )
        for each in stuck:
            reign.wait(f"move of {each}", why)
    for each, (step, _, then) in todo.states.items():
        if each in refused:
            moves.plan_again([each])
            continue
        moves.reached(each, then, step.drop if isinstance(step, Shrink) else ())
        if isinstance(step, Shrink) and not step.needed:
            continue
        moves.fresh.add(each)
        batch.leader_and_isr(step.replicas if isinstance(step, Announce) else moves[each].target, each)
    reign.tell(batch)


def _delete(reign: Reign, todo: _Round) -> None:
    """Step 9. It is not waited for: what a broker keeps that is down or dies is a stray until it is back."""
    batch = reign.batch()
    for each, brokers in todo.deletions.items():
        reign.strays.update((Replica(each, broker), None) for broker in brokers)
        batch.stop_replica(brokers, each, delete=False)
        batch.stop_replica(brokers, each, delete=True)
        reign.moves.reached(each, Stage.FINISH)
    reign.tell(batch)
