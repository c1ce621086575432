"""ElectLeaders and the reassignments of KIP-455, as requests to the controller in ZooKeeper; blocking.

A request for reassignments in ZooKeeper is one at a time (`/admin/reassign_partitions`): while one runs, it
gets further moves and other targets. Error 60 comes only where that cannot be: a Kafka controller is active,
which reads a request once; or its partitions move without one.

Sources: KIP-183, KIP-455, KIP-460, kafka/controller/KafkaController.scala@2.8.2
(`electLeaders`, `alterPartitionReassignments`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from zkgroup.admin.cluster.brokers import topic_names
from zkgroup.admin.elections import (
    BEING_DELETED,
    ELECTS,
    LEADS,
    LED,
    UNHOSTED,
    elect_preferred_change,
    elect_unclean_change,
    plan_preferred,
    plan_unclean,
)
from zkgroup.admin.reassign.cancellation import cancel_reassignments_change, plan_cancel
from zkgroup.admin.reassign.execution import reassign_change
from zkgroup.admin.reassign.submission import plan_reassignment, topics_named
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.broker.admin.failures import Failure, RequestPartError, failure_of, refused_as
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.wire.admin_apis import OngoingReassignment, TopicPartitions
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic, broker_ids_path

PREFERRED: Final = 0
"""Election type: the first replica of each partition."""
UNCLEAN: Final = 1
"""Election type: any live replica of a partition that has no leader."""

TRIES: Final = 10
"""Most attempts to add to a request that changes at the same time."""

Results = dict[TopicPartition, Failure | None]
"""Partition to why nothing was done; None where it was."""


def elect_leaders(
    ensemble: Ensemble,
    election_type: int,
    partitions: Sequence[TopicPartition] | None,
    timeout_s: float,
    by: ChangeRecord,
) -> Results:
    """Elects leaders, and waits until the controller has; None elects for all partitions.

    Without named partitions those that need no election are left out of the results, as in Kafka.
    """
    if election_type not in (PREFERRED, UNCLEAN):
        raise RequestPartError(ErrorCode.INVALID_REQUEST, f"there is no election of type {election_type}")
    known, found = _known_partitions(ensemble, partitions)
    if not known:
        return found
    elect = _elect_preferred if election_type == PREFERRED else _elect_unclean
    try:
        with refused_as(ErrorCode.REQUEST_TIMED_OUT, ConflictError):  # another election runs: try again
            found |= elect(ensemble, known, timeout_s, by)
    except ZkGroupError as error:
        found |= dict.fromkeys(known, failure_of(error))
    if partitions is None:
        needless = ErrorCode.ELECTION_NOT_NEEDED
        found = {tp: why for tp, why in found.items() if why is None or why.error != needless}
    return found


def _known_partitions(
    ensemble: Ensemble, partitions: Sequence[TopicPartition] | None
) -> tuple[list[TopicPartition], Results]:
    """The partitions that exist; the others with their error."""
    names = topic_names(ensemble) if partitions is None else sorted({tp.topic for tp in partitions})
    topics = topics_named(ensemble, names)
    existing = {TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions}
    if partitions is None:
        return sorted(existing), {}
    wanted = set(partitions)
    return sorted(wanted & existing), {tp: _no_partition(tp) for tp in sorted(wanted - existing)}


def _no_partition(tp: TopicPartition) -> Failure:
    return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {tp}")


def _elect_preferred(
    ensemble: Ensemble, partitions: Sequence[TopicPartition], timeout_s: float, by: ChangeRecord
) -> Results:
    change = elect_preferred_change(ensemble, plan_preferred(ensemble, partitions))
    found: Results = {}
    for row in change.plan.rows:
        if row.outcome == LEADS:
            text = "the preferred replica leads already"
            found[row.topic_partition] = Failure(ErrorCode.ELECTION_NOT_NEEDED, text)
        elif row.outcome != ELECTS:
            found[row.topic_partition] = _not_elected(
                row.outcome, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"replica {row.preferred}"
            )
    preferred = {row.topic_partition: row.preferred for row in change.plan.rows if row.outcome == ELECTS}
    if not preferred:
        return found
    change.write(by)
    assert change.wait is not None
    change.wait(None, timeout_s)
    for tp, leader in _leaders(ensemble, list(preferred)).items():
        text = f"broker {leader} still leads"
        found[tp] = None if leader == preferred[tp] else Failure(ErrorCode.REQUEST_TIMED_OUT, text)
    return found


def _elect_unclean(
    ensemble: Ensemble, partitions: Sequence[TopicPartition], timeout_s: float, by: ChangeRecord
) -> Results:
    change = elect_unclean_change(ensemble, plan_unclean(ensemble, partitions))
    found: Results = {}
    for row in change.plan.rows:
        if row.outcome == LED:
            found[row.topic_partition] = Failure(ErrorCode.ELECTION_NOT_NEEDED, f"broker {row.leader} leads")
        elif row.topic_partition not in change.plan.wanted:
            code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            found[row.topic_partition] = _not_elected(row.outcome, code, "any of its replicas")
    wanted = change.plan.wanted
    if not wanted:
        return found
    czxid = change.write(by)
    assert change.wait is not None
    done = change.wait(czxid, timeout_s)
    if done is None:
        text = "the controller has not answered in time"
        return found | dict.fromkeys(wanted, Failure(ErrorCode.REQUEST_TIMED_OUT, text))
    for verdict in done.partitions:
        refusal = Failure(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, verdict.reason)
        found[verdict.topic_partition] = refusal if verdict.leader is None else None
    return found


def _not_elected(outcome: str, code: ErrorCode, candidate: str) -> Failure:
    """The failure for an outcome of the plan other than an election."""
    if outcome in (BEING_DELETED, UNHOSTED, "no_state"):
        return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, outcome.replace("_", " "))
    return Failure(code, f"{candidate}: {outcome.replace('_', ' ')}")


def _leaders(ensemble: Ensemble, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
    ensemble.zk.sync("/")
    znodes = ensemble.zk.read_many([PartitionState.path(tp) for tp in partitions])
    return {
        tp: None
        if (znode := znodes[PartitionState.path(tp)]) is None
        else PartitionState.decode(znode.path, znode.data).leader
        for tp in partitions
    }


def alter_reassignments(
    ensemble: Ensemble, wanted: Mapping[TopicPartition, Sequence[int] | None], by: ChangeRecord
) -> Results:
    """Begins and cancels (None) reassignments; the controller goes on with them after the answer.

    As in Kafka, a partition that does not exist gets 39 for invalid replicas, and 85 where it is cancelled.
    """
    found: Results = {}
    targets: dict[TopicPartition, Sequence[int]] = {}
    cancelled = [tp for tp, replicas in wanted.items() if replicas is None]
    try:
        topics = topics_named(ensemble, sorted({tp.topic for tp in wanted}))
        names, _ = ensemble.zk.children(broker_ids_path())
        for tp, replicas in wanted.items():
            if replicas is None:
                continue
            topic = topics.get(tp.topic)
            present = topic.partitions.get(tp.partition) if topic is not None else None
            if (why := _why_invalid(replicas, present or (), names)) is not None:
                found[tp] = Failure(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
            elif present is None:
                found[tp] = _no_partition(tp)
            else:
                targets[tp] = replicas
        if cancelled:
            found |= _cancel(ensemble, cancelled, by)
        if targets:
            found |= _begin(ensemble, targets, by)
    except ZkGroupError as error:
        failed = failure_of(error)
        found |= {tp: failed for tp in wanted if tp not in found}
    return found


def _why_invalid(replicas: Sequence[int], present: Sequence[int], registered: Collection[str]) -> str | None:
    """`present`: the replicas now, which may be down; `registered`: names of the znodes of brokers."""
    if not replicas:
        return "the replica list is empty"
    if len(set(replicas)) != len(replicas):
        return f"a broker is named twice: {', '.join(map(str, replicas))}"
    down = [broker for broker in replicas if broker not in present and str(broker) not in registered]
    return f"broker {', '.join(map(str, down))} is not registered" if down else None


def _begin(ensemble: Ensemble, targets: Mapping[TopicPartition, Sequence[int]], by: ChangeRecord) -> Results:
    moves = [Move(tp, tuple(replicas)) for tp, replicas in targets.items()]
    with (
        refused_as(ErrorCode.REASSIGNMENT_IN_PROGRESS, ConflictError),
        refused_as(ErrorCode.INVALID_REPLICA_ASSIGNMENT, ConfigError),
    ):
        for tries_left in reversed(range(TRIES)):
            change = reassign_change(ensemble, plan_reassignment(ensemble, moves, beside_running=True))
            try:
                if change.is_effective:
                    change.write(by)
                break
            except ConflictError:  # as when the controller ends a move meanwhile
                if not tries_left:
                    raise
    return dict.fromkeys(targets)


def _cancel(ensemble: Ensemble, partitions: Sequence[TopicPartition], by: ChangeRecord) -> Results:
    """Sends moves back to their former replicas."""
    moving = {one for one in running_reassignments(ensemble, partitions) if one in set(partitions)}
    text = "no reassignment of it runs"
    idle = Failure(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, text)
    found: Results = {tp: idle for tp in partitions if tp not in moving}
    if moving:
        with refused_as(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, NotFoundError):
            cancel_reassignments_change(ensemble, plan_cancel(ensemble, sorted(moving))).write(by)
    return found | dict.fromkeys(moving)


def running_reassignments(
    ensemble: Ensemble, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, OngoingReassignment]:
    """The partitions, of these or of all, that gain or lose replicas now."""
    ensemble.zk.sync("/")
    names = topic_names(ensemble) if partitions is None else sorted({tp.topic for tp in partitions})
    znode = ensemble.zk.find(Reassignment.path())
    targets = Reassignment.decode(znode.path, znode.data).targets if znode else {}
    wanted = None if partitions is None else set(partitions)
    found = {}
    for name, topic in topics_named(ensemble, names).items():
        for number in sorted(topic.partitions):
            tp = TopicPartition(name, number)
            if wanted is None or tp in wanted:
                ongoing = _ongoing(topic, number, targets.get(tp))
                if ongoing is not None:
                    found[tp] = ongoing
    return found


def _ongoing(topic: Topic, partition: int, target: tuple[int, ...] | None) -> OngoingReassignment | None:
    """A reassignment that the topic shows, or the request in ZooKeeper; None if there is none."""
    now = topic.partitions[partition]
    adding, removing = topic.adding.get(partition, ()), topic.removing.get(partition, ())
    if not adding and not removing:
        if target is None:
            return None
        adding = tuple(broker for broker in target if broker not in now)
        removing = tuple(broker for broker in now if broker not in target)
    replicas = tuple(dict.fromkeys((*(target or now), *now)))
    return OngoingReassignment(partition=partition, replicas=replicas, adding=adding, removing=removing)


def by_topic(partitions: Sequence[TopicPartitions]) -> list[TopicPartition]:
    """The partitions that a request names topic by topic."""
    return [TopicPartition(one.topic, number) for one in partitions for number in one.partitions]
