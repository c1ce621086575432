"""A group in words and numbers. Pure: one picture in, values out."""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.admin.expectation import Expectation
from zkgroup.admin.picture import GroupPicture
from zkgroup.admin.values import (
    GroupDescription,
    GroupState,
    GroupSummary,
    MemberDescription,
    OffsetDescription,
    PartitionDescription,
    ProblemKind,
)
from zkgroup.admin.verify import agreement, find_problems
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import kind
from zkgroup.znodes.ids import member_host

LogEnds = Mapping[TopicPartition, int]
"""Offset of the next record of each partition, as far as the record source told."""


def describe_group(
    picture: GroupPicture, expected: Expectation, state: GroupState, log_ends: LogEnds | None = None
) -> GroupDescription:
    """The whole of `group describe`: members by id, partitions by topic and number."""
    problems = find_problems(picture, expected)
    first: dict[tuple[str | None, int | None], ProblemKind] = {}
    for problem in problems:
        first.setdefault((problem.topic, problem.partition), problem.kind)
    return GroupDescription(
        as_of=picture.as_of,
        group=picture.group,
        state=state,
        assignor=expected.assignor if picture.registrations else None,
        generation=picture.generation,
        members=tuple(_member(picture, expected, member) for member in sorted(picture.registrations)),
        partitions=tuple(
            _partition(picture, expected, tp, first.get((tp.topic, tp.partition)), log_ends or {})
            for tp in known_partitions(picture, expected)
        ),
        problems=problems,
    )


def summarise_group(
    picture: GroupPicture, expected: Expectation, state: GroupState, log_ends: LogEnds | None = None
) -> GroupSummary:
    """One row of `group list`: its partitions are the rows of `describe_group`, its topics theirs."""
    known = known_partitions(picture, expected)
    wanted = [
        TopicPartition(topic, number) for topic in expected.topics for number in picture.partitions(topic)
    ]
    lags = [lag for tp in known if (lag := _lag(picture, tp, log_ends or {})) is not None]
    return GroupSummary(
        group=picture.group,
        state=state,
        members=len(picture.registrations),
        topics=tuple(sorted({tp.topic for tp in known} | set(expected.topics))),
        partitions=len(known),
        unowned=sum(1 for tp in wanted if tp not in picture.owners),
        lag=sum(lags) if lags else None,
    )


def describe_offsets(picture: GroupPicture, log_ends: LogEnds | None = None) -> tuple[OffsetDescription, ...]:
    """Every offset znode of the group; unreadable ones are left to `group verify`."""
    rows = []
    for tp, entry in sorted(picture.offsets.items()):
        owner = picture.owners.get(tp)
        rows.append(
            OffsetDescription(
                topic_partition=tp,
                offset=offset_of(picture, tp),
                version=entry.stat.version,
                committed_at_ms=committed_at_ms(picture, tp),
                owner=owner.text if owner else None,
                log_end_offset=(log_ends or {}).get(tp),
                lag=_lag(picture, tp, log_ends or {}),
            )
        )
    return tuple(rows)


def unreadable_offsets(picture: GroupPicture) -> tuple[CorruptZnodeError, ...]:
    """What is wrong with each offset znode that cannot be read; in order."""
    return tuple(entry.error for _, entry in sorted(picture.offsets.items()) if entry.error)


def known_partitions(picture: GroupPicture, expected: Expectation) -> list[TopicPartition]:
    """Partitions of subscribed topics, and all that have an owner or an offset; in order."""
    subscribed = {
        TopicPartition(topic, number) for topic in expected.topics for number in picture.partitions(topic)
    }
    return sorted(subscribed | set(picture.owners) | set(picture.offsets))


def offset_of(picture: GroupPicture, tp: TopicPartition) -> int | None:
    """The committed offset; None where there is none (also a stored -1) or it cannot be read."""
    entry = picture.offsets.get(tp)
    return entry.value.position if entry and entry.value else None


def committed_at_ms(picture: GroupPicture, tp: TopicPartition) -> int | None:
    """When the offset was last committed; None where its last write was a claim (recipes 11)."""
    entry, owner = picture.offsets.get(tp), picture.owners.get(tp)
    if entry is None or offset_of(picture, tp) is None:
        return None
    if owner is not None and owner.stat.czxid == entry.stat.mzxid:
        return None
    return entry.stat.mtime


def _member(picture: GroupPicture, expected: Expectation, member: str) -> MemberDescription:
    entry = picture.registrations[member]
    registration = entry.value
    return MemberDescription(
        member=member,
        session_id=entry.stat.ephemeral_owner,
        threads=dict(expected.threads(member)),
        pattern=registration.pattern if registration else None,
        subscription=dict(registration.subscription) if registration else {},
        registered_at_ms=entry.stat.ctime,
        kind=kind(entry.znode.data),
        host=member_host(picture.group, member) or (registration.host if registration else None),
        agrees=agreement(picture, expected, member),
    )


def _partition(
    picture: GroupPicture,
    expected: Expectation,
    tp: TopicPartition,
    problem: ProblemKind | None,
    log_ends: LogEnds,
) -> PartitionDescription:
    owner = picture.owners.get(tp)
    return PartitionDescription(
        topic_partition=tp,
        owner=owner.text if owner else None,
        member=owner.value.member if owner and owner.value else None,
        expected_owner=(expected.owners or {}).get(tp),
        owned_since_ms=owner.stat.ctime if owner else None,
        token=owner.stat.czxid if owner else None,
        offset=offset_of(picture, tp),
        committed_at_ms=committed_at_ms(picture, tp),
        log_end_offset=log_ends.get(tp),
        lag=_lag(picture, tp, log_ends),
        problem=problem,
    )


def _lag(picture: GroupPicture, tp: TopicPartition, log_ends: LogEnds) -> int | None:
    offset, end = offset_of(picture, tp), log_ends.get(tp)
    return max(0, end - offset) if offset is not None and end is not None else None
