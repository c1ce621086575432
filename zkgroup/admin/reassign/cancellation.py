"""Sends running reassignments back to their former replicas, and removes a request that cannot be read.

A cancelled move is the same request with the old list as target: only a zkgroup controller reads a request
that changes (reassignment, recipes 17).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zkgroup.admin.change import AdminChange, ChangePlan, as_they_are, nothing, undo_record
from zkgroup.admin.cluster.brokers import readable_topics, topic_names
from zkgroup.admin.cluster.controller import (
    ZKGROUP_VERSION,
    ControllerInfo,
    controller_to_ask,
    read_controller_info,
    refuse_kraft,
)
from zkgroup.admin.guards import write
from zkgroup.admin.reassign.execution import ReassignmentOutcome, end_of_moves, is_still
from zkgroup.admin.reassign.progress import ReassignmentProgress
from zkgroup.admin.reassign.submission import former_replicas, order_is_known, topics_named
from zkgroup.admin.reassign.throttles import read_throttles
from zkgroup.errors import ConflictError, CorruptZnodeError, NotFoundError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Delete, Operation, SetData
from zkgroup.model.text import counted, named
from zkgroup.placement import PlannedMove
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import ControllerRegistration


@dataclass(frozen=True, slots=True)
class Execution:
    """A reassignment that was asked for from this machine: its rollback file has the lists as they were."""

    file: str
    before: Mapping[TopicPartition, tuple[int, ...]]
    targets: Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelPlan(ChangePlan):
    """A running request as it would be changed. Nothing has been."""

    version: int
    """Data version of `/admin/reassign_partitions` as read; the write is conditional on it."""
    before: Reassignment
    """The request as it is."""
    after: Reassignment
    """The request as it would become."""
    rows: tuple[PlannedMove, ...]
    """Of what is cancelled: where it is and where it goes back to."""
    files: Mapping[TopicPartition, str] = field(default_factory=dict)
    """The rollback file of an execution that has the old list, of those where one was needed and found."""
    throttled: bool = False
    """True if the moves that run have a throttle, as far as the znodes show."""
    unordered: tuple[TopicPartition, ...] = ()
    """Those that go back to the replicas of before in an order that may be another one."""


def plan_cancel(
    ensemble: Ensemble,
    partitions: Collection[TopicPartition] = (),
    rollback: Sequence[Move] = (),
    executions: Iterable[Execution] = (),
) -> CancelPlan:
    """Plans what sends running moves back to their former replicas; only a zkgroup controller does that.

    Args:
        partitions: which ones; none means all that run.
        rollback: where they were, from the rollback file; what it names is not taken from elsewhere.
        executions: earlier ones, the latest first. The first that asked for this very move has the old
            list where the topic does not, or not its order. Taken one by one, and only where it is needed.

    Raises:
        RefusedError: a controller of Kafka is active, or none, a former list is not known, or what moves
            was requested through the brokers' own API.
        NotFoundError: none runs, or one of the partitions is not being moved.
        CorruptZnodeError: the request cannot be read; `plan_removal` is for that.
    """
    info = controller_to_ask(ensemble)
    znode = ensemble.zk.find(Reassignment.path())
    if znode is None:
        _refuse_others(ensemble, partitions)
        raise NotFoundError(f"{Reassignment.path()}: no reassignment runs")
    _check_cancellable(info)
    request = Reassignment.decode(znode.path, znode.data)
    if unknown := sorted(set(partitions) - set(request.targets)):
        raise NotFoundError(f"{znode.path}: {named(unknown)} is not being moved")
    chosen = sorted(set(partitions) or request.targets)
    topics = _topics_of(ensemble, chosen)
    back, files, unordered = _command_back(request, topics, chosen, rollback, executions)
    rows = [
        PlannedMove(
            topic_partition=tp,
            before=topics[tp.topic].partitions[tp.partition],
            after=back[tp],
        )
        for tp in chosen
    ]
    after = Reassignment(
        tuple(
            Move(move.topic_partition, back.get(move.topic_partition, move.replicas))
            for move in request.moves
        )
    )
    after.encode()
    return CancelPlan(
        as_of=ensemble.as_of(),
        version=znode.stat.version,
        before=request,
        after=after,
        rows=tuple(rows),
        files=files,
        throttled=read_throttles(ensemble, {tp.topic for tp in request.targets}).is_of_moves,
        unordered=tuple(unordered),
    )


def cancel(ensemble: Ensemble, plan: CancelPlan) -> None:
    """Changes the request, if it still asks for what was shown and a controller of zkgroup is still active.

    Raises ConflictError otherwise, RefusedError where another controller has taken over.
    """
    _check_cancellable(read_controller_info(ensemble))
    path, data = Reassignment.path(), plan.after.encode()
    version = plan.version
    while True:
        operations: list[Operation] = [
            Check(ControllerRegistration.path(), ZKGROUP_VERSION),
            SetData(path, data, version),
        ]
        try:
            return write(ensemble, operations, path, data)
        except ConflictError:
            # The controller sets a new request once to what it is (docs/adr/0025): it asks for the same.
            znode = ensemble.zk.find(path)
            if znode is None or znode.stat.version == version:
                raise
            if decode_or_error(znode, Reassignment.decode).value != plan.before:
                raise
            version = znode.stat.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal(ChangePlan):
    """A request that cannot be read, and that would be removed. Nothing has been."""

    znode: Znode
    """`/admin/reassign_partitions` as read; its deletion is conditional on the version."""
    error: CorruptZnodeError
    """The reason why the request cannot be read."""
    note: str | None
    """The note about a move that the controller had begun before the request was written over."""


def plan_removal(ensemble: Ensemble) -> Removal | None:
    """The removal of a request that cannot be read; None where there is none, or it can be read.

    Raises RefusedError on a migrated cluster.
    """
    ensemble.zk.sync("/")
    znode = ensemble.zk.find(Reassignment.path())
    error = decode_or_error(znode, Reassignment.decode).error if znode else None
    if znode is None or error is None:
        return None
    info = read_controller_info(ensemble)
    refuse_kraft(info)
    return Removal(as_of=ensemble.as_of(), znode=znode, error=error, note=_meaning(info))


def remove(ensemble: Ensemble, plan: Removal) -> None:
    """Deletes the request, if it is still the one that was shown. Raises ConflictError otherwise."""
    path = plan.znode.path
    write(ensemble, [Delete(path, plan.znode.stat.version)], path, None)


def _meaning(info: ControllerInfo) -> str | None:
    if info.controller_znode is None:
        return None
    if info.is_zkgroup:
        return (
            "a move that the controller had begun by an earlier request stops where it is: "
            "`zkgroup reassign verify` with its file shows that"
        )
    active = info.controller.broker if info.controller else "?"
    return (
        f"broker {active} is a Kafka controller: it continues a move of an earlier request from memory, and "
        "the next controller leaves that move with old and new replicas together; it cannot be cancelled"
    )


def _command_back(
    request: Reassignment,
    topics: Mapping[str, Topic],
    chosen: Sequence[TopicPartition],
    rollback: Sequence[Move],
    executions: Iterable[Execution],
) -> tuple[dict[TopicPartition, tuple[int, ...]], dict[TopicPartition, str], list[TopicPartition]]:
    """The lists to go back to, the rollback files that had some, and those whose order is not known."""
    back = {move.topic_partition: move.replicas for move in rollback}
    open_: dict[TopicPartition, tuple[int, ...] | None] = {}
    for tp in chosen:
        if tp in back:
            continue
        former = former_replicas(topics[tp.topic], tp.partition, request.targets[tp])
        if former is not None and order_is_known(topics[tp.topic], tp.partition, former):
            back[tp] = former
        else:
            open_[tp] = former
    files = {}
    for one in executions if open_ else ():
        for tp, former in list(open_.items()):
            now = topics[tp.topic].partitions[tp.partition]
            if one.targets.get(tp) == request.targets[tp] and _fits(one, tp, now, former):
                back[tp], files[tp] = one.before[tp], one.file
                del open_[tp]
        if not open_:
            break
    for tp, former in open_.items():
        if former is None:
            both = list(topics[tp.topic].partitions[tp.partition])
            raise RefusedError(
                f"{Topic.path(tp.topic)}: {tp} is on {both}, old and new together; give the rollback file of "
                "the execution (--reassignment-json-file)"
            )
        back[tp] = former
    return back, files, sorted(open_)


def _fits(one: Execution, tp: TopicPartition, now: tuple[int, ...], former: tuple[int, ...] | None) -> bool:
    """True if the list can be the old one: the same replicas, or, where the topic does not show them, those
    that make up the present list together with the target.
    """
    before = one.before.get(tp)
    if before is None:
        return False
    if former is not None:
        return sorted(before) == sorted(former)
    return {*before, *one.targets[tp]} == set(now)


def _topics_of(ensemble: Ensemble, partitions: Sequence[TopicPartition]) -> dict[str, Topic]:
    topics = topics_named(ensemble, sorted({tp.topic for tp in partitions}))
    for tp in partitions:
        if tp.topic not in topics or tp.partition not in topics[tp.topic].partitions:
            raise NotFoundError(f"{Topic.path(tp.topic)}: there is no partition {tp.partition}")
    return topics


def _refuse_others(ensemble: Ensemble, partitions: Collection[TopicPartition]) -> None:
    """Moves that no request in ZooKeeper has asked for show in their topics only."""
    names = sorted({tp.topic for tp in partitions}) or topic_names(ensemble)
    topics = readable_topics(ensemble, names)
    moving = [TopicPartition(name, each) for name, topic in topics.items() for each in topic.moving]
    if found := sorted(set(moving) & set(partitions or moving)):
        raise RefusedError(
            f"{Topic.path(found[0].topic)}: the move of {named(found)} was asked for through the brokers' "
            "own API, which alone cancels it: `kafka-reassign-partitions --bootstrap-server ... --cancel`"
        )


def _check_cancellable(info: ControllerInfo) -> None:
    if info.is_zkgroup:
        return
    if info.controller_znode is None:
        why = (
            "there is no active controller; the next one may be a Kafka controller, which does not read a "
            "changed request"
        )
    else:
        active = info.controller.broker if info.controller else "?"
        why = (
            f"broker {active} is a Kafka controller, which does not read a changed request; from Kafka 2.4 "
            "on its brokers cancel (`kafka-reassign-partitions --bootstrap-server ... --cancel`), before, "
            "wait for the end and move back with the rollback file"
        )
    raise RefusedError(f"{Reassignment.path()}: {why}")


def cancel_reassignments_change(
    ensemble: Ensemble,
    plan: CancelPlan,
    progress: Callable[[ReassignmentProgress], object] = nothing,
) -> AdminChange[CancelPlan, None, ReassignmentOutcome]:
    """Sends running moves back to their former replicas."""
    back = [Move(row.topic_partition, row.after) for row in plan.rows]

    def wait(_: None, longest_s: float) -> ReassignmentOutcome:
        return end_of_moves(ensemble, back, longest_s, progress, throttled=plan.throttled, is_over=is_still)

    return AdminChange(
        ensemble=ensemble,
        subject="reassign cancel",
        question=f"Cancel {counted(len(plan.rows), 'move')}?",
        plan=plan,
        notes=tuple(_notes_on_cancel(plan)),
        undo=undo_record(),
        rollback=plan.before.targets,
        write=lambda by: cancel(ensemble, plan),
        wait=wait,
    )


def _notes_on_cancel(plan: CancelPlan) -> Iterable[str]:
    """Says which file gave the old lists, and whose order may differ."""
    for file in dict.fromkeys(plan.files.values()):
        yield f"the old replicas of {named(tp for tp, one in plan.files.items() if one == file)}: {file}"
    if plan.unordered:
        yield (
            f"the order that the replicas of {named(plan.unordered)} had is not known: another one may come "
            "first, and lead; --reassignment-json-file gives the rollback file of the execution"
        )


def remove_unreadable_request_change(ensemble: Ensemble) -> AdminChange[Removal, None, None] | None:
    """Removes a reassignment request that cannot be read; None where there is no such request."""
    plan = plan_removal(ensemble)
    if plan is None:
        return None
    return AdminChange(
        ensemble=ensemble,
        subject="reassign cancel",
        question=f"Remove {plan.znode.path}?",
        plan=plan,
        notes=(str(plan.error), *([plan.note] if plan.note else [])),
        undo=undo_record(znodes=as_they_are(plan.znode)),
        write=lambda by: remove(ensemble, plan),
    )
