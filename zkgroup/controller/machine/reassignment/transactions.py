"""The transactions of a move. Source: steps of a move (controller.md 4.4), reassignment (recipes 17).

Each checks the request's version, so none is based on a request that was changed or cancelled meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from zkgroup.controller.machine.context import (
    Brokers,
    ControllerContext,
    LeaderIsrAndControllerEpoch,
    LiveBroker,
)
from zkgroup.controller.machine.fenced_writes import Write, size_of
from zkgroup.controller.machine.open_reassignments import Completion
from zkgroup.controller.machine.pending_deletes import RecordChange
from zkgroup.controller.machine.reassignment.steps import Shrink, WriteUnion
from zkgroup.controller.machine.state_machines import PartitionAndReplica
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.json_fields import DATA_BYTES_MAX
from zkgroup.znodes.reassignment_records import FinishedReassignment

MOVES_IN_TOPIC_SINCE: Final = 4
"""Version of a registration of brokers that can live with `adding_replicas` in a topic (2.4)."""

_ROOM: Final = 1_000
"""Bytes for what stands before the operations of a write."""


def can_read_moves_in_topics(brokers: Iterable[LiveBroker]) -> bool:
    """Returns whether every broker can read what 2.4 keeps of a move in the topic's znode; a controller-only
    process can, whatever version it is registered with."""
    registrations = [broker.registration for broker in brokers]
    found = [each.version for each in registrations if each.role == "data"]
    return bool(found) and min(found) >= MOVES_IN_TOPIC_SINCE


def write_unions(
    context: ControllerContext,
    name: str,
    steps: Mapping[int, WriteUnion],
    request_version: int,
    *,
    keys: bool,
) -> Write:
    """Step 1 of these partitions of one topic, whose lists share a znode. It is about all of them.

    With `keys` the topic also says what is added and removed, so that the moves need no request.
    Raises ConfigError where the topic becomes too big for one znode.
    """
    seen = context.topic(name)
    assert seen is not None
    topic = dataclasses.replace(seen.topic, version=2) if keys and seen.topic.version == 1 else seen.topic
    topic = topic.with_all_replicas(
        {number: (step.replicas, step.adding, step.removing) for number, step in steps.items()}
    )
    return Write(
        tuple(TopicPartition(name, number) for number in steps),
        (
            Check(Reassignment.path(), request_version),
            SetData(Topic.path(name), topic.encode(), seen.version),
        ),
    )


def shrink(
    topic_partition: TopicPartition,
    before: LeaderIsrAndControllerEpoch,
    step: Shrink,
    request_version: int | None,
    epoch: int,
) -> Write:
    """Step 8: the ISR without those that leave, or the check that none has to. `request_version` is None for
    a reassignment that is in the topic's own keys alone."""
    path = PartitionState.path(topic_partition)
    state: Operation = Check(path, before.version)
    if step.needed:
        state = SetData(path, before.decided(before.leader, step.isr, epoch).encode(), before.version)
    request = [] if request_version is None else [Check(Reassignment.path(), request_version)]
    return Write(topic_partition, (*request, state))


class Finishing(NamedTuple):
    """The ends that fit into one write."""

    write: Write
    strays: RecordChange
    """The records that it makes of replicas that are left behind."""
    left: tuple[Completion, ...]
    """The others: to be decided again once this is written."""


def finish(
    context: ControllerContext,
    completions: Sequence[Completion],
    request: Mapping[TopicPartition, Brokers],
    request_version: int | None,
    epoch: int,
    record: Callable[[Iterable[PartitionAndReplica]], RecordChange],
    bytes_max: int = DATA_BYTES_MAX - _ROOM,
) -> Finishing:
    """Steps 10 and 11 of the moves that end now: replica lists, request and records, together or not at all.

    `request` are all its entries, `request_version` is None where there is no request. Without completions it
    removes a request that names nothing (empty requests, K17). Entries that are dropped go first.
    `record` makes the records of replicas that are left behind.
    """
    completions = sorted(completions, key=lambda completion: completion.outcome != "dropped")
    count = len(completions)
    while True:
        now = completions[:count]
        left = record(
            PartitionAndReplica(each.topic_partition, broker) for each in now for broker in each.behind
        )
        operations = (
            *_states(context, now),
            *_topics(context, now),
            *_request(request, now, request_version),
            *left.operations.values(),
            *(
                Create(FinishedReassignment.prefix(), _record(each, epoch, context), sequential=True)
                for each in now
            ),
        )
        if count <= 1 or size_of(operations) <= bytes_max:
            about = tuple(completion.topic_partition for completion in now)
            return Finishing(Write(about, operations), left, tuple(completions[count:]))
        count //= 2


def _states(context: ControllerContext, completions: Sequence[Completion]) -> Iterator[Operation]:
    """Makes sure that what is said of the ISR is true when it is written."""
    for completion in completions:
        leadership = context.leadership(completion.topic_partition)
        if completion.outcome != "dropped" and leadership is not None:
            yield Check(PartitionState.path(completion.topic_partition), leadership.version)


def _topics(context: ControllerContext, completions: Sequence[Completion]) -> Iterator[Operation]:
    """Makes sure that what is said of the lists is true then too, also where they are so already."""
    lists: dict[str, dict[int, tuple[Brokers, Brokers, Brokers]]] = {}
    for completion in completions:
        if completion.outcome != "dropped":
            name, number = completion.topic_partition
            lists.setdefault(name, {})[number] = (completion.target, (), ())
    for name, partitions in lists.items():
        seen = context.topic(name)
        if seen is None:
            continue
        topic = seen.topic.with_all_replicas(partitions)
        if topic != seen.topic:
            yield SetData(Topic.path(name), topic.encode(), seen.version)
        else:
            yield Check(Topic.path(name), seen.version)


def _request(
    request: Mapping[TopicPartition, Brokers], now: Sequence[Completion], version: int | None
) -> Iterator[Operation]:
    """The request without what ends now, and without what cannot be carried out or written again."""
    if version is None:
        return
    ended = {completion.topic_partition for completion in now}
    moves = (Move(each, target) for each, target in request.items() if each not in ended)
    if left := tuple(move for move in moves if _can_be_written(move)):
        yield SetData(Reassignment.path(), Reassignment(left).encode(), version)
    else:
        yield Delete(Reassignment.path(), version)


def _can_be_written(move: Move) -> bool:
    try:
        move.entry()
    except ConfigError:
        return False
    return True


def _record(completion: Completion, epoch: int, context: ControllerContext) -> bytes:
    """A request can name a topic that UTF-8 cannot hold; its end is recorded all the same."""
    topic = completion.topic_partition.topic.encode("utf-8", "replace").decode("utf-8")
    return FinishedReassignment(
        completion.topic_partition._replace(topic=topic),
        completion.before,
        completion.target,
        completion.outcome,
        completion.reason,
        epoch,
        tuple(each for each in completion.left if each not in (*completion.before, *completion.target)),
        context.topic_czxids.get(completion.topic_partition.topic, 0),
    ).encode()
