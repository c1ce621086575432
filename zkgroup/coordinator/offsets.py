"""OffsetCommit, OffsetFetch and OffsetDelete: who may commit, which commits are in flight, what is in use.

Source: kafka/coordinator/group/GroupCoordinator.scala@2.8.2 (doCommitOffsets, handleFetchOffsets,
handleDeleteOffsets), GroupMetadataManager.scala (storeOffsets).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zkgroup.assignment.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from zkgroup.coordinator.context import CoordinatorContext
from zkgroup.coordinator.effects import (
    CommitOffsetsResult,
    DeleteOffsets,
    ReadOffsets,
    RemoveOffsetsResult,
)
from zkgroup.coordinator.events import COMMIT_ERRORS, CommitOffsets, FetchOffsets, RemoveOffsets, WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata
from zkgroup.coordinator.rebalance import restart_session
from zkgroup.coordinator.retention import subscribed_topics
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode

_MAY_BE_STORED: Final = frozenset({WriteOutcome.STORED, WriteOutcome.UNKNOWN})


def refuse_commit(context: CoordinatorContext, commit: CommitOffsets, error: ErrorCode) -> None:
    """Answers a commit with an error for each partition that the broker knows."""
    context.reply(
        commit.request_id,
        CommitOffsetsResult(
            {
                each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each in commit.unknown_partitions else error
                for each in commit.offsets
            }
        ),
    )


def commit_offsets(
    context: CoordinatorContext,
    group: GroupMetadata,
    commit: CommitOffsets,
    on_nothing_stored: Callable[[], None] = lambda: None,
) -> None:
    """Writes the offsets of a commit that is allowed; partitions with an error of their own are left out.

    `on_nothing_stored`: called when all of them were refused, and no other commit of the group is under way.
    """
    error = _commit_error(context, group, commit)
    if error is not ErrorCode.NONE:
        refuse_commit(context, commit, error)
        return
    longest = context.settings.offset_metadata_max_bytes
    errors: dict[TopicPartition, ErrorCode] = {}
    for each, offset in commit.offsets.items():
        if each in commit.unknown_partitions:
            errors[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif len(offset.metadata) > longest:
            errors[each] = ErrorCode.OFFSET_METADATA_TOO_LARGE
    offsets = commit.offsets
    if errors:
        offsets = {each: offset for each, offset in offsets.items() if each not in errors}
    if not offsets:
        context.reply(commit.request_id, CommitOffsetsResult(errors))
        on_nothing_stored()
        return
    pending = group.pending_commits
    for each in offsets:
        pending[each] = pending.get(each, 0) + 1

    def written(outcomes: Mapping[TopicPartition, WriteOutcome]) -> None:
        for each in offsets:
            pending[each] -= 1
            if not pending[each]:
                del pending[each]
        results = {
            each: errors[each] if each in errors else COMMIT_ERRORS[outcomes[each]] for each in commit.offsets
        }
        context.reply(commit.request_id, CommitOffsetsResult(results))
        if not pending and not _MAY_BE_STORED.intersection(outcomes.values()):
            on_nothing_stored()

    context.write_offsets(group.group_id, offsets, written, refuse_zookeeper_members=commit.generation < 0)


def _commit_error(context: CoordinatorContext, group: GroupMetadata, commit: CommitOffsets) -> ErrorCode:
    if group.state is ConsumerGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if commit.generation < 0 and group.state is ConsumerGroupState.EMPTY:
        return ErrorCode.NONE  # the group only stores offsets here
    error = group.error_of(commit.member_id, commit.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if commit.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is ConsumerGroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    restart_session(context, group.members[commit.member_id])
    return ErrorCode.NONE


def fetch_offsets(context: CoordinatorContext, group: GroupMetadata | None, fetch: FetchOffsets) -> None:
    """Reads offsets, also of a group that is unknown: there may be offsets of ZooKeeper consumers."""
    pending = group.pending_commits if group is not None and fetch.require_stable else ()
    context.pass_on(
        ReadOffsets(
            request_id=fetch.request_id,
            group_id=fetch.group_id,
            partitions=fetch.partitions,
            unstable=frozenset(pending),
        )
    )


def remove_offsets(
    context: CoordinatorContext, group: GroupMetadata | None, remove: RemoveOffsets, error: ErrorCode
) -> None:
    """Deletes the offsets of topics that no member subscribes to; all of them where there is no member.

    Where the members' subscriptions cannot be read, all topics count as subscribed. `error`: of the checks
    that all requests have in common.
    """
    topics: frozenset[str] | None = frozenset()
    if error is ErrorCode.NONE:
        if group is None or group.state is ConsumerGroupState.DEAD:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not ConsumerGroupState.EMPTY:
            topics = subscribed_topics(group)
            if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
                error = ErrorCode.NON_EMPTY_GROUP
    if error is not ErrorCode.NONE:
        context.reply(remove.request_id, RemoveOffsetsResult(error))
        return
    kept = tuple(each for each in remove.partitions if topics is None or each.topic in topics)
    context.pass_on(
        DeleteOffsets(
            request_id=remove.request_id,
            group_id=remove.group_id,
            partitions=tuple(each for each in remove.partitions if each not in kept),
            subscribed=kept,
        )
    )
