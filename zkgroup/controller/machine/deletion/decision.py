"""The next step in the deletion of a topic. Source: topic deletion (controller.md 5.5, 5.6);
kafka/controller/TopicDeletionManager.scala@0.8.2.2, mended as in 2.0."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from zkgroup.controller.machine.fenced_writes import Write, size_of
from zkgroup.controller.machine.requests.sender import BrokerResponse
from zkgroup.controller.machine.state_machines import PartitionAndReplica, ReplicaPhase
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, Operation
from zkgroup.model.text import typed
from zkgroup.wire.control import StopReplicaRequest, StopReplicaResponse
from zkgroup.wire.messages import ErrorCode, describe
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.json_fields import DATA_BYTES_MAX
from zkgroup.znodes.stray_replicas import UnhostedTopic


class DeletionState(NamedTuple):
    """A topic that is queued for deletion."""

    topic: str
    phases: Mapping[PartitionAndReplica, ReplicaPhase]
    """Every replica of its replica lists."""
    live_or_shutting_down: Collection[int]
    moving: Collection[TopicPartition] = ()
    """Partitions of it with an open reassignment."""
    refused: str | None = None
    """The reason why a replica could not be deleted, until a broker starts or a reassignment ends."""
    without: Collection[int] = ()
    """Brokers that an operator does not wait for. Those that are registered are asked all the same."""
    strays: Collection[PartitionAndReplica] = ()
    """Stray replicas of reassignments on registered brokers that were sent StopReplica with deletion."""


class DeletionWait(NamedTuple):
    """Nothing can be done until something changes. Clients do not see the topic meanwhile."""

    reason: str


class GiveUp(NamedTuple):
    """These replicas are no longer being deleted: their brokers are gone and will not answer."""

    replicas: tuple[PartitionAndReplica, ...]


class DeletionStart(NamedTuple):
    """Hides the topic, then stops and deletes what is there.

    UpdateMetadata with leader -2 to every broker; `blocked` become ineligible; `replicas` go offline (stop,
    ISR shrink, no LeaderAndIsr to the others), then are deleted.
    """

    replicas: tuple[PartitionAndReplica, ...]
    blocked: tuple[PartitionAndReplica, ...]


class DeletionFinish(NamedTuple):
    """All replicas that are waited for are deleted: the znodes go, then what is remembered."""

    left_behind: tuple[PartitionAndReplica, ...] = ()
    """Replicas that brokers that are gone may still have. The last write records them."""


Step = DeletionWait | GiveUp | DeletionStart | DeletionFinish

_Phase = ReplicaPhase


def decide(now: DeletionState) -> Step:
    """The next step of a deletion; it is asked again after each step and whenever something changes."""
    if now.moving:
        names = ", ".join(map(str, sorted(now.moving)))
        return DeletionWait(f"waits for the reassignment of {names}")
    left = {
        replica: phase for replica, phase in now.phases.items() if phase is not _Phase.DELETION_SUCCESSFUL
    }
    if not left:
        return _finish(now, ())
    started = [replica for replica, phase in left.items() if phase is _Phase.DELETION_STARTED]
    if dead := [replica for replica in started if replica.broker not in now.live_or_shutting_down]:
        return GiveUp(tuple(sorted(dead)))
    if started:
        return DeletionWait(f"waits for the answer of {_named(started)}")
    left_behind = [
        each for each in left if each.broker in now.without and each.broker not in now.live_or_shutting_down
    ]
    if len(left_behind) == len(left):
        return _finish(now, tuple(sorted(left_behind)))
    if now.refused is not None:
        return DeletionWait(now.refused)
    able = sorted(replica for replica in left if replica.broker in now.live_or_shutting_down)
    blocked = sorted(replica for replica in left if replica.broker not in now.live_or_shutting_down)
    if able:
        fresh = tuple(replica for replica in blocked if left[replica] is not _Phase.DELETION_INELIGIBLE)
        return DeletionStart(tuple(able), fresh)
    awaited = [each for each in blocked if each.broker not in now.without]
    return DeletionWait(
        f"waits for {_named(awaited)} to be back; if lost: {forced_deletion_hint(now.topic, awaited)}"
    )


def _finish(
    now: DeletionState, left_behind: tuple[PartitionAndReplica, ...]
) -> DeletionFinish | DeletionWait:
    """A broker that was sent StopReplica may have got an earlier LeaderAndIsr after it."""
    return (
        DeletionWait(f"waits for the answer of {_named(now.strays)}")
        if now.strays
        else DeletionFinish(left_behind)
    )


def forced_deletion_hint(topic: str, awaited: Iterable[PartitionAndReplica]) -> str:
    """The command of an operator who knows that these brokers never come back."""
    brokers = " ".join(f"--without-broker {id_}" for id_ in sorted({each.broker for each in awaited}))
    return typed("topic delete", topic, options=f"{brokers} --execute")


class StopReplicaResults(NamedTuple):
    """The result of a StopReplica with deletion on one broker."""

    deleted: tuple[PartitionAndReplica, ...]
    failed: tuple[PartitionAndReplica, ...]
    reason: str | None
    """The reason why the first one failed."""


def deletion_results(
    answer: BrokerResponse, is_meant: Callable[[TopicPartition], bool] = lambda each: True
) -> StopReplicaResults | None:
    """The results of a StopReplica with deletion, for the partitions that are meant; None of other requests.

    An error of the whole request fails all; a partition that the answer does not name has failed too.
    """
    request, response = answer.request.request, answer.response
    if not (isinstance(request, StopReplicaRequest) and request.delete):
        return None
    assert isinstance(response, StopReplicaResponse)
    codes = {each.topic_partition: each.error for each in response.partitions}
    deleted, failed = [], []
    reason = None
    for topic_partition in filter(is_meant, request.partitions):
        code = response.error or codes.get(topic_partition, ErrorCode.UNKNOWN)
        replica = PartitionAndReplica(topic_partition, answer.broker)
        if code == ErrorCode.NONE:
            deleted.append(replica)
            continue
        failed.append(replica)
        reason = reason or f"{replica} could not be deleted: error {describe(code)}"
    return StopReplicaResults(tuple(deleted), tuple(failed), reason)


def remove_topic(
    topic: str,
    partitions: Sequence[int],
    found: Mapping[str, int],
    bytes_max: int = DATA_BYTES_MAX // 2,
) -> tuple[Write, ...]:
    """The transactions of `DeletionFinish`, to be sent one after the other.

    `found` are the data versions of those znodes of the topic that exist, with what others have made below
    it. A big topic goes in several writes, with the topic and what has its name in the last: until then the
    topic cannot be created again, and a later controller finds the marker (topics created again, K21).
    """
    last = (
        Topic.partitions_path(topic),
        Topic.path(topic),
        TopicConfig.path(topic),
        TopicDeletion.path(topic),
        UnhostedTopic.path(topic),
    )
    groups = [
        (PartitionState.path(topic_partition), Topic.partition_path(topic_partition))
        for topic_partition in (TopicPartition(topic, partition) for partition in partitions)
    ]
    known = {path for group in groups for path in group}.union(last)
    foreign = sorted((path for path in found if path not in known), key=lambda path: -path.count("/"))
    writes: list[Write] = []
    operations: list[Operation] = []
    parts: list[list[Operation]] = [
        _deletes(paths, found) for paths in (*((path,) for path in foreign), *groups)
    ]
    for added in parts:
        if operations and size_of([*operations, *added]) > bytes_max:
            writes.append(Write(topic, tuple(operations)))
            operations = []
        operations += added
    ending = _deletes(last, found)
    if operations and size_of([*operations, *ending]) > bytes_max:
        writes.append(Write(topic, tuple(operations)))
        operations = []
    return (*writes, Write(topic, (*operations, *ending)))


def _deletes(paths: Iterable[str], found: Mapping[str, int]) -> list[Operation]:
    return [Delete(path, found[path]) for path in paths if path in found]


def _named(replicas: Iterable[PartitionAndReplica]) -> str:
    brokers = sorted({replica.broker for replica in replicas})
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {', '.join(map(str, brokers))}"
