"""The JSON documents, from values. Pure.

Their shapes are a contract: `schemas/` holds them as JSON Schema, tests compare. Keys are never
missing, unknown is null, times are ISO-8601 UTC with milliseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zkgroup.admin.ensemble import AsOf
from zkgroup.admin.offset_plans import OffsetChange
from zkgroup.admin.pending_deletions import PendingDeletion
from zkgroup.admin.status import CLEAR_THROTTLE, Finding, Status
from zkgroup.admin.topic_deletion import TopicDeletionPlan
from zkgroup.admin.topic_waiting import DeletionSeen, LeadersSeen
from zkgroup.admin.topics import PartitionDescription as TopicPartitionDescription
from zkgroup.admin.topics import TopicDescription, TopicSummary
from zkgroup.admin.values import (
    GroupDescription,
    GroupSummary,
    MemberDescription,
    OffsetDescription,
    PartitionDescription,
    Preview,
    Problem,
    Verification,
)
from zkgroup.admin.verify import hex_session
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.stat import STAT_NAMES

from .units import iso_time

if TYPE_CHECKING:
    from zkgroup.lines.log_ends import LogEnd, LogEnds

Json = dict[str, Any]


def document(name: str, as_of: AsOf, **fields: Any) -> Json:
    """A whole document: schema and moment, then the fields in the order given."""
    return {"schema": f"zkgroup.{name}/1", "as_of": moment(as_of), **fields}


def moment(as_of: AsOf) -> Json:
    """How old the picture is."""
    return {"zxid": as_of.zxid, "time": iso_time(as_of.time_ms)}


def groups(as_of: AsOf, rows: Iterable[GroupSummary]) -> Json:
    """`group list`."""
    return document("groups", as_of, groups=[_summary(row) for row in rows])


def described_groups(described: Sequence[GroupDescription]) -> Json:
    """Several groups described at once: each a whole document of its own."""
    return document("groups", described[-1].as_of, groups=[group(one) for one in described])


def group(described: GroupDescription) -> Json:
    """`group describe` of one group."""
    return document(
        "group",
        described.as_of,
        group=described.group,
        state=described.state.value,
        assignor=described.assignor,
        generation=described.generation,
        members=[_member(member) for member in described.members],
        partitions=[_partition(row) for row in described.partitions],
    )


def verification(found: Verification) -> Json:
    """`group verify`."""
    return document(
        "verify",
        found.as_of,
        group=found.group,
        converged=found.converged,
        problems=[_problem(problem) for problem in found.problems],
    )


def preview(preview: Preview) -> Json:
    """`group preview`."""
    rows = [
        {
            "topic": row.topic_partition.topic,
            "partition": row.topic_partition.partition,
            "now": row.now,
            "then": row.then,
        }
        for row in preview.partitions
    ]
    return document(
        "preview",
        preview.as_of,
        group=preview.group,
        assignor=preview.assignor,
        partitions=rows,
        moves=preview.moves,
    )


def offsets(as_of: AsOf, group_name: str, rows: Iterable[OffsetDescription]) -> Json:
    """`offsets show`."""
    return document("offsets", as_of, group=group_name, offsets=[_offset(row) for row in rows])


def offset_changes(
    as_of: AsOf, group_name: str, changes: Iterable[OffsetChange], *, executed: bool, undo: str | None
) -> Json:
    """`offsets set`, `reset`, `import` and `undo`, for one group; shown or done."""
    rows = [
        {
            "topic": change.topic_partition.topic,
            "partition": change.topic_partition.partition,
            "before": change.before,
            "after": change.after if change.after >= 0 else None,
            "changed": change.changes,
        }
        for change in changes
    ]
    return document("offset_changes", as_of, group=group_name, executed=executed, undo=undo, changes=rows)


def topics(as_of: AsOf, described: Iterable[TopicDescription], ends: LogEnds | None = None) -> Json:
    """`topic describe`; another document, with `logs`, where replicas were asked how far they are."""
    rows = [
        {
            "topic": topic.topic,
            "partitions": [
                _topic_partition(row) | ({} if ends is None else {"logs": _logs(topic.topic, row, ends)})
                for row in topic.partitions
            ],
            "configs": None if topic.configs is None else dict(topic.configs),
            "deletion": _deletion(topic.deletion),
            "unhosted": topic.unhosted,
        }
        for topic in described
    ]
    return document("topics" if ends is None else "topic_replicas", as_of, topics=rows)


def _deletion(pending: PendingDeletion | None) -> Json | None:
    if pending is None:
        return None
    return {
        "asked_at": iso_time(pending.asked_ms),
        "detail": pending.detail,
        "without_brokers": list(pending.without_brokers),
    }


def leaderless(seen: LeadersSeen | None) -> Json:
    """How a wait for leaders ended: keys of the documents of `topic create` and `topic alter`."""
    if seen is None:
        return {"converged": None, "leaderless": None}
    rows = [{"partition": tp.partition, "detail": why} for tp, why in sorted(seen.leaderless.items())]
    return {"converged": not rows, "leaderless": rows}


def topic_creation(
    as_of: AsOf,
    topic: TopicDescription,
    *,
    created: bool,
    undo: str | None = None,
    seen: LeadersSeen | None = None,
) -> Json:
    """`topic create`; `seen` where it was waited for leaders."""
    rows = [{"partition": row.partition, "replicas": list(row.replicas)} for row in topic.partitions]
    return document(
        "topic_creation",
        seen.as_of if seen else as_of,
        topic=topic.topic,
        created=created,
        undo=undo,
        partitions=rows,
        configs=None if topic.configs is None else dict(topic.configs),
        **leaderless(seen),
    )


def topic_deletion(plan: TopicDeletionPlan, *, undo: str | None, seen: DeletionSeen | None = None) -> Json:
    """`topic delete`, executed where there is an undo; `seen` where it was waited for the end."""
    return document(
        "topic_deletion",
        seen.as_of if seen else plan.as_of,
        topic=plan.topic,
        executed=undo is not None,
        undo=undo,
        controller=plan.controller,
        znodes=len(plan.znodes),
        without_brokers=list(plan.without),
        converged=seen.gone if seen else None,
        detail=seen.detail if seen else None,
    )


def status(found: Status, zookeeper: str) -> Json:
    """`status`."""
    brokers = {
        "data": list(found.brokers.data),
        "controller_only": list(found.brokers.controllers_only),
        "unreadable": list(found.brokers.unreadable),
    }
    return document(
        "status",
        found.as_of,
        zookeeper=zookeeper,
        session_timeout_ms=found.session_timeout_ms,
        brokers=brokers,
        controller=found.controller,
        controller_epoch=found.controller_epoch,
        controller_kind=found.ruling.kind,
        controller_hung=found.ruling.hung,
        last_processed_zxid=found.ruling.last_processed_zxid,
        unreadable=[{"path": path, "detail": text} for path, text in found.unreadable.items()],
        refetching=[
            {"broker": broker, "partitions": list(names)} for broker, names in found.ruling.refetching.items()
        ],
        restart=[{"broker": broker, "why": why} for broker, why in found.ruling.restart.items()],
        waiting=[{"what": what, "why": why} for what, why in found.ruling.waiting.items()],
        left_off=found.ruling.left_off,
        topics=len(found.topics),
        partitions=sum(topic.partitions or 0 for topic in found.topics),
        offline_partitions=found.offline,
        under_replicated_partitions=found.under_replicated,
        reassigning=found.moving,
        plans=list(found.plans),
        throttle_left=_throttle_left(found),
        groups=[_summary(row) for row in found.groups],
    )


def _throttle_left(found: Status) -> Json | None:
    if not found.throttle_left:
        return None
    left = found.throttle_left
    return {"brokers": list(left.brokers), "topics": list(left.topics), "next": CLEAR_THROTTLE}


def findings(as_of: AsOf, found: Iterable[Finding]) -> Json:
    """`doctor`."""
    rows = [
        {"severity": one.severity, "subject": one.subject, "detail": one.detail, "next": one.next}
        for one in found
    ]
    return document("doctor", as_of, findings=rows)


def topic_list(as_of: AsOf, rows: Iterable[TopicSummary]) -> Json:
    """`topic list`."""
    listed = [
        {
            "topic": row.topic,
            "partitions": row.partitions,
            "replication_factor": row.replication_factor,
            "internal": row.internal,
            "marked_for_deletion": row.marked_for_deletion,
        }
        for row in rows
    ]
    return document("topic_list", as_of, topics=listed)


def znode(one: Znode) -> Json:
    """A znode: `data` where it is text, else `data_base64`; both null where the server stores null."""
    text, encoded = None, None
    if one.data is not None:
        try:
            text = one.data.decode("utf-8")
        except UnicodeDecodeError:
            encoded = base64.b64encode(one.data).decode("ascii")
    return {"path": one.path, "data": text, "data_base64": encoded, "stat": stat(one.stat)}


def stat(values: ZnodeStat) -> Json:
    """A Stat with ZooKeeper's own names."""
    return dict(zip(STAT_NAMES, values, strict=True))


def _summary(row: GroupSummary) -> Json:
    return {
        "group": row.group,
        "state": row.state.value,
        "members": row.members,
        "topics": list(row.topics),
        "partitions": row.partitions,
        "unowned": row.unowned,
        "lag": row.lag,
    }


def _member(member: MemberDescription) -> Json:
    return {
        "member": member.member,
        "session": hex_session(member.session_id),
        "threads": dict(member.threads),
        "pattern": member.pattern,
        "subscription": dict(member.subscription),
        "registered_at": iso_time(member.registered_at_ms),
        "kind": member.kind,
        "host": member.host,
        "agrees": member.agrees,
    }


def _partition(row: PartitionDescription) -> Json:
    return {
        "topic": row.topic_partition.topic,
        "partition": row.topic_partition.partition,
        "owner": row.owner,
        "member": row.member,
        "expected_owner": row.expected_owner,
        "owned_since": iso_time(row.owned_since_ms),
        "token": row.token,
        "offset": row.offset,
        "committed_at": iso_time(row.committed_at_ms),
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "problem": row.problem.value if row.problem else None,
    }


def _problem(problem: Problem) -> Json:
    return {
        "kind": problem.kind.value,
        "topic": problem.topic,
        "partition": problem.partition,
        "expected": problem.expected,
        "found": problem.found,
        "since": iso_time(problem.since_ms),
        "detail": problem.detail,
    }


def _offset(row: OffsetDescription) -> Json:
    return {
        "topic": row.topic_partition.topic,
        "partition": row.topic_partition.partition,
        "offset": row.offset,
        "version": row.version,
        "committed_at": iso_time(row.committed_at_ms),
        "owner": row.owner,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
    }


def _topic_partition(row: TopicPartitionDescription) -> Json:
    return {
        "partition": row.partition,
        "replicas": list(row.replicas),
        "leader": row.leader,
        "leader_epoch": row.leader_epoch,
        "isr": None if row.isr is None else list(row.isr),
        "controller_epoch": row.controller_epoch,
        "adding": list(row.adding),
        "removing": list(row.removing),
    }


def _logs(topic: str, row: TopicPartitionDescription, ends: LogEnds) -> list[Json]:
    tp = TopicPartition(topic, row.partition)
    return [{"broker": broker, **log_end(ends[tp, broker])} for broker in row.replicas]


def log_end(end: LogEnd) -> Json:
    """How far a replica is."""
    return {
        "log_end_offset": end.log_end_offset,
        "high_watermark": end.high_watermark,
        "reason": end.reason,
    }


def threads_text(threads: Mapping[str, int]) -> str:
    """`orders, clicks×2`."""
    return ", ".join(f"{topic}×{count}" if count != 1 else topic for topic, count in sorted(threads.items()))
