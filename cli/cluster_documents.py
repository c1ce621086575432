"""The JSON documents about brokers, controllers, configurations, elections and usage. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zkgroup.admin.brokers import BrokerDescription, BrokerSummary
from zkgroup.admin.configs import ConfigDescription, ConfigPlan, shown
from zkgroup.admin.elections import ElectionPlan
from zkgroup.admin.ensemble import AsOf
from zkgroup.admin.forgetting import ForgettingPlan
from zkgroup.admin.resigning import Resignation, ResignationPlan
from zkgroup.admin.ruling import ControllerDescription, PastController
from zkgroup.admin.topic_growth import AlterationPlan
from zkgroup.admin.topic_waiting import LeadersSeen
from zkgroup.admin.unclean import UncleanPlan
from zkgroup.admin.usage import ClusterUsage
from zkgroup.admin.verify import hex_session
from zkgroup.admin.words import UncleanElectionDone
from zkgroup.model import TopicPartition

from .documents import Json, document, leaderless, log_end
from .units import iso_time

if TYPE_CHECKING:
    from zkgroup.lines.failed_replicas import FailedReplica
    from zkgroup.lines.log_ends import LogEnds


def brokers(as_of: AsOf, rows: Iterable[BrokerSummary]) -> Json:
    """`broker list`."""
    return document("brokers", as_of, brokers=[_broker(row) for row in rows])


def broker(
    as_of: AsOf,
    one: BrokerDescription,
    ends: LogEnds | None = None,
    failed: Iterable[FailedReplica] | None = None,
) -> Json:
    """`broker describe`; `ends` where the broker was asked how far its replicas are, `failed` where it told
    which cannot go on."""
    me = one.summary.broker
    logs = None if ends is None else [{**place(tp), **log_end(ends[tp, me])} for tp in one.hosted]
    return document(
        "broker",
        as_of,
        **_broker(one.summary),
        session=hex_session(one.session),
        rack=one.rack,
        jmx_port=one.jmx_port,
        endpoints=list(one.endpoints),
        replicas=one.replicas,
        leaders=one.leaders,
        preferred=one.preferred,
        out_of_sync=[place(tp) for tp in one.out_of_sync],
        logs=logs,
        failed=None if failed is None else [_failed(each) for each in failed],
    )


def _failed(each: FailedReplica) -> Json:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "since": iso_time(each.since_ms),
        "reason": each.reason,
    }


def controller(as_of: AsOf, one: ControllerDescription) -> Json:
    """`controller describe`."""
    return document(
        "controller",
        as_of,
        controller=one.controller,
        epoch=one.epoch,
        elected_at=iso_time(one.elected_at_ms),
        session=hex_session(one.session),
        kind=one.kind,
        last_processed_zxid=one.last_processed_zxid,
    )


def controller_history(as_of: AsOf, rows: Iterable[PastController]) -> Json:
    """`controller history`."""
    epochs = [
        {
            "epoch": row.epoch,
            "broker": row.record.broker,
            "session": hex_session(row.record.session),
            "reason": row.record.reason,
            "from": iso_time(row.record.from_ms),
            "until": iso_time(row.record.until_ms),
            "load_ms": row.record.load_ms,
            "ended": row.record.ended,
        }
        for row in rows
    ]
    return document("controller_history", as_of, epochs=epochs)


def forgetting(plan: ForgettingPlan, *, executed: bool) -> Json:
    """`broker forget`."""
    left = [
        {
            "topic": each.topic,
            "czxid": each.czxid,
            "partitions": list(each.partitions),
            "is_there": each.is_there,
        }
        for each in plan.left
    ]
    return document("broker_forgetting", plan.as_of, broker=plan.broker, executed=executed, left=left)


def resignation(plan: ResignationPlan, came: Resignation | None, *, executed: bool) -> Json:
    """`controller resign`."""
    return document(
        "controller_resignation",
        came.as_of if came else plan.as_of,
        controller=plan.controller,
        epoch=plan.epoch,
        czxid=plan.czxid,
        executed=executed,
        resigned=came.resigned if came else None,
        successor=came.successor if came else None,
    )


def configs(as_of: AsOf, rows: Iterable[ConfigDescription]) -> Json:
    """`config describe`."""
    described = [
        {"entity_type": row.entity.kind, "entity": entity_name(row), "configs": dict(row.configs)}
        for row in rows
    ]
    return document("configs", as_of, configs=described)


def entity_name(row: ConfigDescription | ConfigPlan) -> str:
    """The owner of a configuration as below its kind: `orders`, `alice/clients/<default>`."""
    return row.entity.entity_path.partition("/")[2]


def config_alteration(plan: ConfigPlan, *, executed: bool, undo: str | None) -> Json:
    """`config alter`."""
    return document(
        "config_alteration",
        plan.as_of,
        entity_type=plan.entity.kind,
        entity=entity_name(plan),
        executed=executed,
        undo=undo,
        notification=plan.format,
        configs=_changes(plan),
    )


def topic_alteration(
    plan: AlterationPlan, *, executed: bool, undo: str | None, seen: LeadersSeen | None = None
) -> Json:
    """`topic alter`; `seen` where it was waited for leaders."""
    return document(
        "topic_alteration",
        seen.as_of if seen else plan.as_of,
        topic=plan.topic,
        executed=executed,
        undo=undo,
        partitions_before=len(plan.before.partitions),
        partitions_after=len(plan.after.partitions),
        added=[
            {"partition": number, "replicas": list(lists)} for number, lists in sorted(plan.added.items())
        ],
        configs=_changes(plan.config) if plan.config else [],
        **leaderless(seen),
    )


def election(plan: ElectionPlan, *, executed: bool, converged: bool | None) -> Json:
    """`elect preferred`."""
    rows = [
        {
            **place(row.topic_partition),
            "leader": row.leader,
            "preferred": row.preferred,
            "outcome": row.outcome,
        }
        for row in plan.rows
    ]
    return document(
        "election",
        plan.as_of,
        election="preferred",
        executed=executed,
        converged=converged,
        partitions=rows,
    )


def unclean_election(
    plan: UncleanPlan, done: UncleanElectionDone | None, *, executed: bool, converged: bool | None
) -> Json:
    """`elect unclean`."""
    verdicts = {each.topic_partition: each for each in done.partitions} if done else {}
    rows = []
    for row in plan.rows:
        verdict = verdicts.get(row.topic_partition)
        rows.append(
            {
                **place(row.topic_partition),
                "replicas": list(row.replicas),
                "leader": row.leader,
                "isr": None if row.isr is None else list(row.isr),
                "live": list(row.live),
                "outcome": row.outcome,
                "verdict": verdict.verdict if verdict else None,
                "elected": verdict.leader if verdict else None,
                "reason": (verdict.reason or None) if verdict else None,
            }
        )
    return document(
        "unclean_election",
        plan.as_of,
        executed=executed,
        converged=converged,
        epoch=done.epoch if done else None,
        partitions=rows,
    )


def usage(found: ClusterUsage) -> Json:
    """`cluster usage`."""
    counts = {
        "brokers": found.counts.brokers,
        "topics": found.counts.topics,
        "partitions": found.counts.partitions,
        "reassigning": found.counts.reassigning,
        "notifications": found.counts.notifications,
        "requests": found.counts.requests,
    }
    rows = [
        {
            "quantity": row.quantity,
            "early": row.early.value if row.early else None,
            "early_formula": row.early.formula if row.early else None,
            "corrected": row.corrected.value if row.corrected else None,
            "corrected_formula": row.corrected.formula if row.corrected else None,
            "measured": row.measured,
            "measured_by": row.measured_by,
            "reason": row.reason,
        }
        for row in found.rows
    ]
    servers = [
        {
            "server": one.server,
            "by": one.by,
            "mode": one.mode,
            "version": one.version,
            "connections": one.connections,
            "watches": one.watches,
            "znodes": one.znodes,
            "reason": one.reason,
        }
        for one in found.servers
    ]
    return document(
        "cluster_usage",
        found.as_of,
        counts=counts,
        release=found.release,
        usage=rows,
        servers=servers,
        unreadable=list(found.unreadable),
    )


def _broker(row: BrokerSummary) -> Json:
    return {
        "broker": row.broker,
        "host": row.host,
        "port": row.port,
        "registered_at": iso_time(row.registered_at_ms),
        "version": row.version,
        "epoch": row.epoch,
        "kind": row.kind,
        "role": row.role,
        "controller": row.controller,
    }


def place(tp: TopicPartition) -> Json:
    """A partition, as the first keys of a row."""
    return {"topic": tp.topic, "partition": tp.partition}


def _changes(plan: ConfigPlan) -> list[Json]:
    old, new = shown(plan.before.overrides), shown(plan.after.overrides)
    return [{"name": name, "before": old.get(name), "after": new.get(name)} for name, _, _ in plan.changes]
