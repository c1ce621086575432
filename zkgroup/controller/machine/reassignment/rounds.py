"""Carries out reassignments: every run of the handler is one round of all that are open. Source: Kafka's
moves (controller.md 4); batches and reassignment (recipes 16, 17).

Theory of operation
-------------------
A round reads what is asked for and where its partitions stand, decides the next step of every move
(`steps.decide`) and takes all steps of a kind together: replica lists a write for each topic, states packed
into transactions, then one batch to the brokers, then all ends in one write. What was refused is read again
and decided anew in the next round, which follows at once as long as something goes on; other work of the
controller comes in between.

    steps of 4.4   here
    0              `OpenReassignments.follow`: what cannot be carried out is dropped, with a record
    1              `_Writes._list`
    2, 7, 8        `_Writes._state`, and LeaderAndIsr to those that the step names
    3-6            nothing is asked: watches on the states of moves that wait for replicas to be in sync
    9              StopReplica, not eligible until it is answered (`PendingDeletes`)
    10, 11, 12     `ReassignmentCompletion`

A write without an answer leaves its moves at `Stage.PLAN`, and everything is read again (`LOAD`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import Brokers, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.deletion.deletion import TopicDeletions
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.failover.topics import TopicChanges
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.fenced_writes import Write, set_state
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.leadership.selectors import (
    started_again,
)
from zkgroup.controller.machine.open_reassignments import (
    Completion,
    ReassignmentRequest,
    Stage,
)
from zkgroup.controller.machine.reassignment import steps, transactions
from zkgroup.controller.machine.reassignment.completion import ListsSent, ReassignmentCompletion
from zkgroup.controller.machine.reassignment.steps import (
    Announce,
    Complete,
    DeleteReplicas,
    Lead,
    Shrink,
    Situation,
    Wait,
    WriteUnion,
)
from zkgroup.controller.machine.state_machines import PartitionAndReplica
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
"""Interval between reads of the states that wait beyond `WATCHED_MAX`."""

_SYNCING: Final = frozenset({Stage.CATCH_UP, Stage.FINISH})

StateStep = Announce | Lead | Shrink


@dataclass(slots=True)
class _Round:
    unions: dict[str, dict[int, WriteUnion]] = field(default_factory=dict)
    states: dict[TopicPartition, tuple[StateStep, LeaderIsrAndControllerEpoch, Stage]] = field(
        default_factory=dict
    )
    deletes: dict[TopicPartition, Brokers] = field(default_factory=dict)
    completions: list[Completion] = field(default_factory=list)
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
        yield from (completion.topic_partition for completion in self.completions)


class Reassignments(Feature):
    """Carries out all open reassignments, one step of each in a round."""

    def __init__(
        self,
        parts: SharedParts,
        completion: ReassignmentCompletion,
        elections: LeaderElections,
        topics: TopicChanges,
        deletions: TopicDeletions,
        strays: StrayReplicaDeletion,
    ) -> None:
        super().__init__(parts)
        self._completion = completion
        self._elections = elections
        self._topics = topics
        self._deletions = deletions
        self._strays = strays

    def loaded(self) -> None:
        self._events.enqueue(event_manager.REASSIGNMENT)

    def run_round(self) -> Procedure[None]:
        """One round of all reassignments, which runs again while something goes on."""
        if not (yield from self._read_request()):
            return
        moves, context = self._reassignments, self._context
        before = set(context.moves)
        begun = [topic for topic in context.deletions if self._deletions.has_begun(topic)]
        dropped, gone = moves.follow(context, begun)
        if any(each.topic in context.deletions for each in context.moves - before):
            self._events.enqueue(
                event_manager.ELECTIONS
            )  # while they were being deleted, no leader was elected
        self._completion.forgotten(gone)
        yield from self._topics.host_topics()
        yield from self._made_whole()
        fresh, moves.fresh = moves.fresh, set()
        yield from self._states.read_states([each for each in moves if each not in fresh])
        todo = self._decided()
        todo.completions[:0] = dropped
        try:
            goes_on = yield from self._carried_out(todo)
        except (ConnectionLossError, NoAuthError, UnexpectedReplyError):
            moves.plan_again(todo.written)
            self._events.enqueue(event_manager.LOAD)
            raise
        changed = yield from self._await(todo.syncing)
        if goes_on or changed:
            self._events.enqueue(event_manager.REASSIGNMENT)

    def _read_request(self) -> Procedure[bool]:
        """Reads the request, its data once only. Returns whether it can be read, or there is none."""
        path, moves = Reassignment.path(), self._reassignments
        (outcome,) = yield from ask(self._reader.watched(Exists(path), event_manager.REASSIGNMENT))
        assert isinstance(outcome, ExistsDone), outcome
        stat, known = outcome.stat, moves.request
        if stat is None:
            moves.request = None
            self._context.unreadable.pop(path, None)
            return True
        if known is not None and (stat.czxid, stat.version) == (known.czxid, known.version):
            return path not in self._context.unreadable
        found = yield from self._reader.read_many([path])
        znode = found.get(path)
        if znode is None:  # gone again, or hidden: the watch or the status shows it
            return False
        request = self._reader.decoded(znode, Reassignment.decode)
        if request is None:
            return False
        version = znode.stat.version
        if not version:
            if not (yield from self._adopted(znode)):
                return False
            version += 1
        moves.request = ReassignmentRequest(request.targets, version, znode.stat.czxid)
        return True

    def _adopted(self, znode: Znode) -> Procedure[bool]:
        """Sets a new request to its own data: one that is made again by hand has version 0, so no write that
        is based on this one passes on it (docs/adr/0025). Returns whether it still was that one."""
        write = Write("the request", (SetData(znode.path, znode.data or b"", 0),))
        refusal = yield from self._states.commit(write)
        if refusal is None:
            return True
        if refusal.is_conflict:
            self._events.enqueue(event_manager.REASSIGNMENT)
        else:
            self._events.back_off(str(refusal), ["the request to move replicas"])
        return False

    def _await(self, partitions: list[TopicPartition]) -> Procedure[bool]:
        """Watches the states of moves that wait for replicas: brokers of 0.8.2.2 do not notify. Returns
        whether one has changed since it was read."""
        asked = []
        for each in partitions[:WATCHED_MAX]:
            query = self._reader.watched(Read(PartitionState.path(each)), event_manager.REASSIGNMENT)
            if query.on_watch is not None:
                asked.append((each, query))
        if len(partitions) > WATCHED_MAX:
            self._events.enqueue_later(event_manager.REASSIGNMENT, REREAD_MS)
        outcomes = (yield from ask(*(query for _, query in asked))) if asked else ()
        return any(
            _version(read_done(outcome)) != _version(self._context.leadership(each))
            for (each, _), outcome in zip(asked, outcomes, strict=True)
        )

    def _made_whole(self) -> Procedure[None]:
        """The leader of a reassignment that is no longer requested may know a part of the replicas: it gets
        all of them with a new leader epoch. Brokers that may still delete theirs are waited for
        (reassignment, recipes 17)."""
        context, pending_deletes = self._context, self._pending_deletes
        cut = [
            each
            for each in self._reassignments.cut(context)
            if not context.is_going(each)
            and pending_deletes.of(context, each).isdisjoint(context.replicas(each))
        ]
        if not cut:
            return
        batch = self._requests.batch()
        led = yield from self._elections.elect(cut, lambda _, now: started_again(now), batch)
        self._requests.send(batch)
        if led.chosen:
            self._core.note("reassignment.taken_back", partitions=tuple(map(str, sorted(led.chosen))))

    def _decided(self) -> _Round:
        """The next step of every move; those that wait are named in the status."""
        todo = _Round()
        moves, context, left = self._reassignments, self._context, self._strays.by_partition()
        for each, move in moves.items():
            leadership = context.leadership(each)
            if leadership is None:
                if not context.is_unhosted(
                    each
                ):  # that one waits for its brokers, and `host_topics` has said why
                    self._events.set_blocked(f"move of {each}", "waits for a state that can be read")
                continue
            drop = move.drop
            left_out = moves.was_left_out(each)
            now = Situation.of(move, context, self._pending_deletes, each, leadership, left_out=left_out)
            decision = steps.decide(now)
            moves.reached(each, decision.stage, drop)
            step = decision.step
            self._events.set_blocked(f"move of {each}", step.reason if isinstance(step, Wait) else None)
            match step:
                case Wait(_, brokers):
                    if decision.stage in _SYNCING and context.live.issuperset(brokers):
                        todo.syncing.append(each)
                case WriteUnion():
                    todo.unions.setdefault(each.topic, {})[each.partition] = _with_origin(step, move.origin)
                case Announce() | Lead() | Shrink():
                    todo.states[each] = (step, leadership, decision.then)
                case DeleteReplicas(brokers):
                    todo.deletes[each] = brokers
                case Complete(outcome, reason):
                    completion = Completion(
                        each, move.target, move.before, outcome, reason, left.get(each, ())
                    )
                    todo.completions.append(completion)
        return todo

    def _carried_out(self, todo: _Round) -> Procedure[bool]:
        """All steps of a round. Returns whether there is more to do at once."""
        moves = self._reassignments
        writes = _Writes(self._parts, todo, self._read_request)
        items: list[str | TopicPartition] = [*todo.unions, *todo.states]
        if items:
            lists = ListsSent(self._context, self._reassignments, writes.lists())
            refused = yield from self._states.write_all(items, writes.make, writes.read_again)
            lists.answered()
            self._written(todo, refused)
        self._delete(todo)
        goes_on = len(items) > len(todo.unwritable) or bool(todo.deletes)
        if writes.is_overtaken:  # the ends were decided on another request than the one that they would check
            return True
        if todo.completions or (moves.request is not None and not moves.request.targets):
            goes_on |= yield from self._completion.finish(todo.completions)
        return goes_on

    def _written(self, todo: _Round, refused: dict[str | TopicPartition, str]) -> None:
        """The stages follow what was written, and the brokers get one batch."""
        batch, moves = self._requests.batch(), self._reassignments
        for item, why in {**refused, **todo.unwritable}.items():
            stuck = (
                [TopicPartition(item, number) for number in todo.unions[item]]
                if isinstance(item, str)
                else [item]
            )
            for each in stuck:
                self._events.set_blocked(f"move of {each}", why)
        for each, (step, _, then) in todo.states.items():
            if each in refused:
                moves.plan_again([each])
                continue
            moves.reached(each, then, step.drop if isinstance(step, Shrink) else ())
            if isinstance(step, Shrink) and not step.needed:
                continue
            moves.fresh.add(each)
            batch.leader_and_isr(step.replicas if isinstance(step, Announce) else moves[each].target, each)
        self._requests.send(batch)

    def _delete(self, todo: _Round) -> None:
        """Step 9, which is not waited for: a replica that a dead broker keeps is stray until it is back."""
        batch = self._requests.batch()
        for each, brokers in todo.deletes.items():
            self._strays.left_behind(PartitionAndReplica(each, broker) for broker in brokers)
            batch.stop_replica(brokers, each, delete=False)
            batch.stop_replica(brokers, each, delete=True)
            self._reassignments.reached(each, Stage.FINISH)
        self._requests.send(batch)


def _version(found: Znode | LeaderIsrAndControllerEpoch | None) -> int | None:
    if found is None:
        return None
    return found.version if isinstance(found, LeaderIsrAndControllerEpoch) else found.stat.version


def _with_origin(step: WriteUnion, origin: Brokers | None) -> WriteUnion:
    """A topic's keys say where the reassignment began, also after a change of its target."""
    if origin is None:
        return step
    return step._replace(adding=tuple(each for each in step.replicas if each not in origin))


class _Writes:
    """The writes of one round: a topic's name stands for the lists of its partitions.

    After a conflict what is based on nothing that has changed is written as it was decided; the rest is left
    for the next round.
    """

    def __init__(self, parts: SharedParts, todo: _Round, read_request: Callable[[], Procedure[bool]]) -> None:
        self._parts = parts
        self._todo = todo
        self._read_request = read_request
        self._request = parts.reassignments.request
        self._changed: set[str] = set()
        """Topics that were changed by others."""

    @property
    def is_overtaken(self) -> bool:
        """After a conflict the request was read again, and the round was decided on another one."""
        return self._request != self._parts.reassignments.request

    def make(self, item: str | TopicPartition) -> Write | str:
        if self.is_overtaken:
            return "the request has changed"
        return self._list(item) if isinstance(item, str) else self._state(item)

    def lists(self) -> list[Write]:
        """The writes of replica lists, as they are sent first."""
        made = [self._list(name) for name in self._todo.unions]
        return [each for each in made if isinstance(each, Write)]

    def read_again(self, items: list[str | TopicPartition]) -> Procedure[None]:
        """Reads again what the writes of these rest on."""
        yield from self._read_request()
        yield from self._parts.states.read_states(
            [each for each in items if isinstance(each, TopicPartition)]
        )
        paths = {Topic.path(each): each for each in items if isinstance(each, str)}
        found = yield from self._parts.reader.read_many(paths)
        for path, name in paths.items():
            znode, seen = found.get(path), self._parts.context.topic(name)
            if znode is None or seen is None or znode.stat.version != seen.version:
                self._changed.add(name)
                self._parts.events.enqueue(event_manager.TOPICS)
                self._parts.events.enqueue(event_manager.TOPIC, name)

    def _list(self, name: str) -> Write | str:
        """Step 1, of all partitions of the topic."""
        lists = self._todo.unions[name]
        if name in self._changed or self._request is None:
            return "the topic has changed"
        keys = transactions.can_read_moves_in_topics(self._parts.context.brokers.values())
        try:
            return transactions.write_unions(
                self._parts.context, name, lists, self._request.version, keys=keys
            )
        except ConfigError as error:
            self._parts.reader.report(Topic.path(name), str(error))
            self._todo.unwritable[name] = str(error)
            return str(error)

    def _state(self, each: TopicPartition) -> Write | str:
        """Steps 2, 7 and 8."""
        step, now, _ = self._todo.states[each]
        epoch, request = self._parts.identity.epoch, self._request
        if _version(self._parts.context.leadership(each)) != now.version:
            return "the state has changed"
        if now.is_of_later_controller(epoch):
            return f"a later controller has decided it, in epoch {now.controller_epoch}"
        leader, isr = (step.leader, step.isr) if isinstance(step, Lead) else (now.leader, now.isr)
        try:
            if isinstance(step, Shrink):
                version = None if request is None else request.version
                return transactions.shrink(each, now, step, version, epoch)
            return set_state(each, now, now.decided(leader, isr, epoch))
        except ConfigError as error:  # what others have put into it cannot be written again
            self._parts.reader.report(PartitionState.path(each), str(error))
            self._todo.unwritable[each] = str(error)
            return str(error)
