"""Reassignments carried out: one round of all open moves at a look. Source: controller.md 4; recipes 16, 17.

Theory of operation
-------------------
A round reads what is asked for and where its partitions stand, decides the next step of every move
(`moving.decide`) and takes all steps of a kind together: replica lists a write for each topic, states packed
into transactions, then one batch to the brokers, then all ends in one write. What was refused is read again
and decided anew in the next round, which follows at once as long as something goes on; other work of the
controller comes in between.

    steps of 4.4   here
    0              `OpenReassignments.follow`: what cannot be carried out is dropped, with a record
    1              `_lists`
    2, 7, 8        `_states`, and LeaderAndIsr to those that the step names
    3-6            nothing is asked: watches on the states of moves that wait for replicas to be in sync
    9              StopReplica, held until it is answered (`PendingDeletes`)
    10, 11, 12     `move_ends`

A write without an answer leaves its moves at `Stage.PLAN`, and everything is read again (`EventKind.LOAD`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.context import Brokers, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.deletion import deletion, stray_replicas
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.failover import topics
from zkgroup.controller.machine.fenced_writes import Write, set_state
from zkgroup.controller.machine.leadership.leader_election import elect
from zkgroup.controller.machine.leadership.selectors import Choice, NoChoice, overruled, started_again
from zkgroup.controller.machine.reassignment import completion, steps, transactions
from zkgroup.controller.machine.reassignment.open_reassignments import Request
from zkgroup.controller.machine.reassignment.steps import (
    Announce,
    DeleteReplicas,
    Finish,
    Lead,
    Shrink,
    Stage,
    Wait,
    WriteUnion,
)
from zkgroup.controller.machine.reassignment.transactions import Ending
from zkgroup.controller.machine.state_machines import Replica
from zkgroup.controller.machine.state_writes import commit, read_states, write_all
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Exists, ExistsDone, Read, SetData
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    NoAuthError,
    Procedure,
    UnexpectedReplyError,
    ask,
    read_done,
)
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
    states: dict[TopicPartition, tuple[StateStep, LeaderIsrAndControllerEpoch, Stage]] = field(
        default_factory=dict
    )
    deletes: dict[TopicPartition, Brokers] = field(default_factory=dict)
    endings: list[Ending] = field(default_factory=list)
    unwritable: dict[str | TopicPartition, str] = field(default_factory=dict)
    """Topics whose lists, and partitions whose states, cannot be written, and why."""
    syncing: list[TopicPartition] = field(default_factory=list)
    """Moves that wait for replicas to be in sync."""

    @property
    def written(self) -> Iterator[TopicPartition]:
        """All that something is written of."""
        for name, lists in self.unions.items():
            yield from (TopicPartition(name, number) for number in lists)
        yield from self.states
        yield from (ending.topic_partition for ending in self.endings)


def run_round(active: ActiveController, _: str = "") -> Procedure[None]:
    """One round of all moves: the duty of `EventKind.REASSIGNMENT`, which looks again while something goes
    on.
    """
    if not (yield from _read_request(active)):
        return
    moves, context = active.reassignments, active.context
    before = set(context.moves)
    begun = [topic for topic in context.deletions if deletion.has_begun(active, topic)]
    dropped, gone = moves.follow(context, begun)
    if any(each.topic in context.deletions for each in context.moves - before):
        active.enqueue(EventKind.ELECTIONS)  # while they were going, nobody was elected
    completion.forgotten(active, gone)
    yield from topics.host_topics(active)
    yield from _made_whole(active)
    fresh, moves.fresh = moves.fresh, set()
    yield from read_states(active, [each for each in moves if each not in fresh])
    todo = _decided(active)
    todo.endings[:0] = dropped
    try:
        goes_on = yield from _carried_out(active, todo)
    except (ConnectionLossError, NoAuthError, UnexpectedReplyError):
        moves.plan_again(todo.written)
        active.enqueue(EventKind.LOAD)
        raise
    changed = yield from _await(active, todo.syncing)
    if goes_on or changed:
        active.enqueue(EventKind.REASSIGNMENT)


# --- reading --------------------------------------------------------------------------------------


def _read_request(active: ActiveController) -> Procedure[bool]:
    """Whether there is a request that can be read, or none. Its data is read once, not in every round."""
    path, moves = Reassignment.path(), active.reassignments
    (outcome,) = yield from ask(active.watched(Exists(path), EventKind.REASSIGNMENT))
    assert isinstance(outcome, ExistsDone), outcome
    stat, known = outcome.stat, moves.request
    if stat is None:
        moves.request = None
        active.context.unreadable.pop(path, None)
        return True
    if known is not None and (stat.czxid, stat.version) == (known.czxid, known.version):
        return path not in active.context.unreadable
    found = yield from active.read_many([path])
    znode = found.get(path)
    if znode is None:  # gone again, or hidden: the watch or the status tells
        return False
    request = active.decoded(znode, Reassignment.decode)
    if request is None:
        return False
    version = znode.stat.version
    if not version:
        if not (yield from _adopted(active, znode)):
            return False
        version += 1
    moves.request = Request(request.targets, version, znode.stat.czxid)
    return True


def _adopted(active: ActiveController, znode: Znode) -> Procedure[bool]:
    """Sets a request that nobody has set yet to what it is; whether it still was that one.

    One that is deleted by hand and made again begins with version 0, so no write that rests on this one
    passes on that one (docs/adr/0025).
    """
    write = Write("the request", (SetData(znode.path, znode.data or b"", 0),))
    refusal = yield from commit(active, write)
    if refusal is None:
        return True
    if refusal.is_conflict:
        active.enqueue(EventKind.REASSIGNMENT)
    else:
        active.back_off(str(refusal), ["the request to move replicas"])
    return False


def _await(active: ActiveController, partitions: list[TopicPartition]) -> Procedure[bool]:
    """Watches the states of moves that wait for replicas; whether one has changed since it was read.

    Brokers from 0.9 on also tell of changed ISRs, those of 0.8.2.2 do not.
    """
    asked = []
    for each in partitions[:WATCHED_MAX]:
        query = active.watched(Read(PartitionState.path(each)), EventKind.REASSIGNMENT)
        if query.on_watch is not None:
            asked.append((each, query))
    if len(partitions) > WATCHED_MAX:
        active.enqueue_later(EventKind.REASSIGNMENT, REREAD_MS)
    outcomes = (yield from ask(*(query for _, query in asked))) if asked else ()
    return any(
        _version(read_done(outcome)) != _version(active.context.standing(each))
        for (each, _), outcome in zip(asked, outcomes, strict=True)
    )


def _version(found: Znode | LeaderIsrAndControllerEpoch | None) -> int | None:
    if found is None:
        return None
    return found.version if isinstance(found, LeaderIsrAndControllerEpoch) else found.stat.version


# --- what was left behind -------------------------------------------------------------------------


def _made_whole(active: ActiveController) -> Procedure[None]:
    """Of a move that nobody asks for any more the leader may know a part of the replicas: it leads on in a
    new term, in which it hears of all. Whom a deletion may still meet is waited for (recipes 17)."""
    context, pending_deletes = active.context, active.pending_deletes
    cut = [
        each
        for each in active.reassignments.cut(context)
        if not context.is_going(each) and pending_deletes.of(context, each).isdisjoint(context.replicas(each))
    ]
    if not cut:
        return
    batch = active.requests.batch()

    def select(topic_partition: TopicPartition, standing: LeaderIsrAndControllerEpoch) -> Choice | NoChoice:
        able = context.candidates(topic_partition, context.live)
        return started_again(context.replicas(topic_partition), standing, able)

    led = yield from elect(active, cut, select, batch)
    active.requests.send(batch)
    if led.chosen:
        active.core.note("reassignment.taken_back", partitions=tuple(map(str, sorted(led.chosen))))


# --- deciding -------------------------------------------------------------------------------------


def _decided(active: ActiveController) -> _Round:
    """The next step of every move; those that wait are named in the status."""
    todo = _Round()
    moves, context, left = active.reassignments, active.context, stray_replicas.by_partition(active)
    for each, move in moves.items():
        standing = context.standing(each)
        if standing is None:
            if not context.is_unhosted(each):  # that one waits for its brokers, which has told why
                active.wait(f"move of {each}", "waits for a state that can be read")
            continue
        drop = move.drop
        now = move.situation(
            context, active.pending_deletes, each, standing, left_out=moves.was_left_out(each)
        )
        decision = steps.decide(now)
        moves.reached(each, decision.stage, drop)
        step = decision.step
        active.wait(f"move of {each}", step.reason if isinstance(step, Wait) else None)
        match step:
            case Wait(_, brokers):
                if decision.stage in _SYNCING and context.live.issuperset(brokers):
                    todo.syncing.append(each)
            case WriteUnion():
                todo.unions.setdefault(each.topic, {})[each.partition] = _with_origin(step, move.origin)
            case Announce() | Lead() | Shrink():
                todo.states[each] = (step, standing, decision.then)
            case DeleteReplicas(brokers):
                todo.deletes[each] = brokers
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


def _carried_out(active: ActiveController, todo: _Round) -> Procedure[bool]:
    """All steps of a round. Returns whether there is more to do at once."""
    moves = active.reassignments
    writes = _Writes(active, todo)
    items: list[str | TopicPartition] = [*todo.unions, *todo.states]
    if items:
        doubt = completion.ListsSent(active, writes.lists())
        refused = yield from write_all(active, items, writes.make, writes.read_again)
        doubt.answered()
        _written(active, todo, refused)
    _delete(active, todo)
    goes_on = len(items) > len(todo.unwritable) or bool(todo.deletes)
    if writes.is_overtaken:  # the ends were decided on another request than the one that they would check
        return True
    if todo.endings or (moves.request is not None and not moves.request.targets):
        goes_on |= yield from completion.finish(active, todo.endings)
    return goes_on


class _Writes:
    """The writes of one round: a topic's name stands for the lists of its partitions.

    After a conflict what rests on nothing that has changed is written as it was decided; the rest is left
    for the next round.
    """

    def __init__(self, active: ActiveController, todo: _Round) -> None:
        self._active = active
        self._todo = todo
        self._request = active.reassignments.request
        self._changed: set[str] = set()
        """Topics that were changed by others."""

    @property
    def is_overtaken(self) -> bool:
        """After a conflict the request was read again, and the round was decided on another one."""
        return self._request != self._active.reassignments.request

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
        active = self._active
        yield from _read_request(active)
        yield from read_states(active, [each for each in items if isinstance(each, TopicPartition)])
        paths = {Topic.path(each): each for each in items if isinstance(each, str)}
        found = yield from active.read_many(paths)
        for path, name in paths.items():
            znode, seen = found.get(path), active.context.topic(name)
            if znode is None or seen is None or znode.stat.version != seen.version:
                self._changed.add(name)
                active.enqueue(EventKind.TOPICS)
                active.enqueue(EventKind.TOPIC, name)

    def _list(self, name: str) -> Write | str:
        """Step 1, of all partitions of the topic."""
        active, lists = self._active, self._todo.unions[name]
        if name in self._changed or self._request is None:
            return "the topic has changed"
        keys = transactions.tells_moves_in_topics(active.context.brokers.values())
        try:
            return transactions.write_unions(active.context, name, lists, self._request.version, keys=keys)
        except ConfigError as error:
            self._active.report(Topic.path(name), str(error))
            self._todo.unwritable[name] = str(error)
            return str(error)

    def _state(self, each: TopicPartition) -> Write | str:
        """Steps 2, 7 and 8."""
        step, now, _ = self._todo.states[each]
        epoch, request = self._active.epoch, self._request
        if _version(self._active.context.standing(each)) != now.version:
            return "the state has changed"
        if overruled(now, epoch):
            return f"a later controller has decided it, in epoch {now.controller_epoch}"
        leader, isr = (step.leader, step.isr) if isinstance(step, Lead) else (now.leader, now.isr)
        try:
            if isinstance(step, Shrink):
                version = None if request is None else request.version
                return transactions.shrink(each, now, step, version, epoch)
            return set_state(each, now, now.decided(leader, isr, epoch))
        except ConfigError as error:  # what others have put into it cannot be written again
            self._active.report(PartitionState.path(each), str(error))
            self._todo.unwritable[each] = str(error)
            return str(error)


def _written(active: ActiveController, todo: _Round, refused: dict[str | TopicPartition, str]) -> None:
    """The stages follow what was written, and the brokers are told in one batch."""
    batch, moves = active.requests.batch(), active.reassignments
    for item, why in {**refused, **todo.unwritable}.items():
        stuck = (
            [TopicPartition(item, number) for number in todo.unions[item]]
            if isinstance(item, str)
            else [item]
        )
        for each in stuck:
            active.wait(f"move of {each}", why)
    for each, (step, _, then) in todo.states.items():
        if each in refused:
            moves.plan_again([each])
            continue
        moves.reached(each, then, step.drop if isinstance(step, Shrink) else ())
        if isinstance(step, Shrink) and not step.needed:
            continue
        moves.fresh.add(each)
        batch.leader_and_isr(step.replicas if isinstance(step, Announce) else moves[each].target, each)
    active.requests.send(batch)


def _delete(active: ActiveController, todo: _Round) -> None:
    """Step 9. It is not waited for: what a broker keeps that is down or dies is a stray until it is back."""
    batch = active.requests.batch()
    for each, brokers in todo.deletes.items():
        active.strays.update((Replica(each, broker), None) for broker in brokers)
        batch.stop_replica(brokers, each, delete=False)
        batch.stop_replica(brokers, each, delete=True)
        active.reassignments.reached(each, Stage.FINISH)
    active.requests.send(batch)
