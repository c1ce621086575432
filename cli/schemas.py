"""The JSON documents and events as JSON Schema (draft 2020-12): plain data, for the docs and the tests.

`SCHEMAS` holds one for each `schema` value that a document carries, `EVENTS` one for each `event`.
Additions are possible within a version (a new key, a new word of an enumeration); removing or
changing anything makes a new version.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import cluster_documents, documents, reassign_documents
from .schema import (
    BOOLEAN,
    BROKERS,
    COUNT,
    INTEGER,
    LOG_END,
    SESSION,
    STRING,
    TIME,
    ZNODE,
    Schema,
    document,
    list_of,
    map_of,
    nullable,
    object_of,
    word,
)


def _topic_with_logs() -> Schema:
    """A topic whose partitions say how far each replica is."""
    logs = list_of(object_of(broker=COUNT, **LOG_END))
    partition = object_of(**documents.TOPIC_PARTITION.schemas, logs=logs)
    return object_of(**{**documents.TOPIC.schemas, "partitions": list_of(partition)})


_PLACE = object_of(topic=STRING, partition=COUNT)
_KAFKA_FILE = object_of(
    version=COUNT, partitions=list_of(object_of(topic=STRING, partition=COUNT, replicas=BROKERS))
)

CLUSTER_SCHEMAS: Mapping[str, Schema] = {
    "zkgroup.topic_alteration/1": cluster_documents.TOPIC_ALTERATION.schema,
    "zkgroup.brokers/1": cluster_documents.BROKERS_DOCUMENT.schema,
    "zkgroup.broker/1": document(
        "broker",
        **cluster_documents.BROKER.schemas,
        session=SESSION,
        rack=nullable(STRING),
        jmx_port=INTEGER,
        endpoints=list_of(STRING),
        replicas=COUNT,
        leaders=COUNT,
        preferred=COUNT,
        out_of_sync=list_of(_PLACE),
        logs=nullable(list_of(object_of(topic=STRING, partition=COUNT, **LOG_END))),
        failed=nullable(list_of(object_of(topic=STRING, partition=COUNT, since=TIME, reason=STRING))),
    ),
    "zkgroup.controller/1": cluster_documents.CONTROLLER.schema,
    "zkgroup.controller_history/1": cluster_documents.CONTROLLER_HISTORY.schema,
    "zkgroup.broker_forgetting/1": cluster_documents.FORGETTING.schema,
    "zkgroup.controller_resignation/1": cluster_documents.RESIGNATION.schema,
    "zkgroup.cluster_usage/1": cluster_documents.CLUSTER_USAGE.schema,
    "zkgroup.configs/1": cluster_documents.CONFIGS.schema,
    "zkgroup.config_alteration/1": cluster_documents.CONFIG_ALTERATION.schema,
    "zkgroup.election/1": cluster_documents.ELECTION.schema,
    "zkgroup.unclean_election/1": document(
        "unclean_election",
        executed=BOOLEAN,
        converged=nullable(BOOLEAN),
        epoch=nullable(COUNT),
        partitions=list_of(
            object_of(
                topic=STRING,
                partition=COUNT,
                replicas=BROKERS,
                leader=nullable(INTEGER),
                isr=nullable(BROKERS),
                live=BROKERS,
                outcome=word(
                    "unclean",
                    "clean",
                    "led",
                    "not_live",
                    "no_state",
                    "unreadable",
                    "being_deleted",
                    "unhosted",
                ),
                verdict=nullable(word("unclean", "elected", "not_needed", "refused")),
                elected=nullable(COUNT),
                reason=nullable(STRING),
            )
        ),
    ),
    "zkgroup.reassignment_proposal/1": document(
        "reassignment_proposal", current=_KAFKA_FILE, proposed=_KAFKA_FILE, moves=COUNT
    ),
    "zkgroup.reassignment/1": reassign_documents.REASSIGNMENT.schema,
    "zkgroup.reassignments/1": reassign_documents.REASSIGNMENTS.schema,
    "zkgroup.plans/1": reassign_documents.PLANS.schema,
    "zkgroup.stored_plan/1": document(
        "stored_plan",
        executed=BOOLEAN,
        **reassign_documents.STORED_PLAN.schemas,
        moves=list_of(list_of(object_of(topic=STRING, partition=COUNT, to=BROKERS))),
    ),
    "zkgroup.reassignment_cancellation/1": reassign_documents.CANCELLATION.schema,
    "zkgroup.reassignment_plan/1": reassign_documents.PLAN.schema,
}

_CHECKS = list_of(object_of(statement=STRING, holds=BOOLEAN, evidence=STRING))

DEMOS: Mapping[str, Schema] = {
    "zkgroup.demo/1": document(
        "demo",
        group=STRING,
        zookeeper=STRING,
        kept=nullable(STRING),
        passed=BOOLEAN,
        checks=_CHECKS,
        history=object_of(
            records=COUNT,
            deliveries=COUNT,
            claims=COUNT,
            ownership_changes=COUNT,
            commits=COUNT,
            refused_commits=COUNT,
            refused_stale_commits=COUNT,
            unknown_outcomes=COUNT,
        ),
        records=COUNT,
        twice=COUNT,
        took_ms=COUNT,
        takeover_ms=COUNT,
        airports=list_of(object_of(airport=STRING, flights=COUNT, delay_minutes=INTEGER)),
    ),
    "zkgroup.demo_brokers/1": document(
        "demo_brokers",
        zookeeper=STRING,
        kept=nullable(STRING),
        passed=BOOLEAN,
        checks=_CHECKS,
        history=object_of(
            transactions=COUNT,
            elections=COUNT,
            governed_writes=COUNT,
            isr_writes=COUNT,
            refused_writes=COUNT,
            leader_changes=COUNT,
            moves_begun=COUNT,
            moves_ended=COUNT,
        ),
        acknowledged=COUNT,
        may_be_repeated=COUNT,
        consumed=COUNT,
        controller_epochs=COUNT,
        replicas_moved=COUNT,
        failovers_ms=list_of(COUNT),
        took_ms=COUNT,
    ),
    "zkgroup.demo_audit/1": document(
        "demo_audit",
        group=STRING,
        zookeeper=STRING,
        kept=nullable(STRING),
        passed=BOOLEAN,
        checks=_CHECKS,
        planted=list_of(
            object_of(
                findings=list_of(STRING),
                partition=COUNT,
                owner=STRING,
                session=SESSION,
                zxid=COUNT,
                before=COUNT,
                after=COUNT,
            )
        ),
        findings=object_of(error=COUNT, warning=COUNT, info=COUNT),
        partition=COUNT,
        owners=list_of(
            object_of(
                owner=STRING,
                session=nullable(SESSION),
                from_zxid=nullable(COUNT),
                to_zxid=nullable(COUNT),
                **{"from": nullable(TIME), "to": nullable(TIME)},
                ended_by=word("release", "session_end", "deleted_by_other", "open"),
            )
        ),
        report=list_of(STRING),
        took_ms=COUNT,
    ),
}

_MOMENT = object_of(zxid=COUNT, time=nullable(TIME))


def _audit_document(name: str, **properties: Schema) -> Schema:
    """A whole document. `as_of` is the last transaction that was looked at; the time is null without one."""
    return object_of(schema={"const": f"zkgroup.{name}/1"}, as_of=_MOMENT, **properties)


_SPAN: dict[str, Schema] = {
    "from_zxid": nullable(COUNT),
    "to_zxid": nullable(COUNT),
    "from": nullable(TIME),
    "to": nullable(TIME),
}

_FINDING: dict[str, Schema] = {
    "finding": STRING,
    "severity": word("error", "warning", "info"),
    "group": nullable(STRING),
    "topic": nullable(STRING),
    "partition": nullable(COUNT),
    "session": nullable(SESSION),
    **_SPAN,
    "detail": STRING,
}

AUDIT_SCHEMAS: Mapping[str, Schema] = {
    "zkgroup.audit_files/1": _audit_document(
        "audit_files",
        files=list_of(
            object_of(
                path=STRING,
                kind=word("snapshot", "log", "export"),
                first_zxid=nullable(COUNT),
                last_zxid=nullable(COUNT),
                records=COUNT,
                healthy=BOOLEAN,
                good_until_zxid=nullable(COUNT),
                exact=BOOLEAN,
                detail=nullable(STRING),
            )
        ),
    ),
    "zkgroup.audit_tree/1": _audit_document(
        "audit_tree", path=STRING, exact=BOOLEAN, znodes=list_of(object_of(**ZNODE))
    ),
    "zkgroup.audit_diff/1": _audit_document(
        "audit_diff",
        path=STRING,
        from_zxid=COUNT,
        to_zxid=COUNT,
        exact=BOOLEAN,
        changes=list_of(
            object_of(
                path=STRING,
                change=word("added", "removed", "changed"),
                before=nullable(object_of(**ZNODE)),
                after=nullable(object_of(**ZNODE)),
                fields=list_of(STRING),
            )
        ),
    ),
    "zkgroup.audit_owners/1": _audit_document(
        "audit_owners",
        group=STRING,
        topic=STRING,
        partition=COUNT,
        intervals=list_of(
            object_of(
                owner=STRING,
                session=nullable(SESSION),
                **_SPAN,
                ended_by=word("release", "session_end", "deleted_by_other", "open"),
            )
        ),
    ),
    "zkgroup.audit_offsets/1": _audit_document(
        "audit_offsets",
        group=nullable(STRING),
        offsets=list_of(
            object_of(
                group=STRING,
                topic=STRING,
                partition=COUNT,
                zxid=COUNT,
                time=TIME,
                session=nullable(SESSION),
                members=list_of(STRING),
                kind=word("commit", "claim", "reset", "deletion", "snapshot"),
                offset=nullable(COUNT),
                previous=nullable(COUNT),
                owned=nullable(BOOLEAN),
                owner=nullable(STRING),
                rewind=BOOLEAN,
            )
        ),
    ),
    "zkgroup.audit_sessions/1": _audit_document(
        "audit_sessions",
        sessions=list_of(
            object_of(
                session=SESSION,
                server=COUNT,
                timeout_ms=nullable(COUNT),
                **_SPAN,
                ended=word("closed", "expired", "open"),
                writes=COUNT,
                silence_ms=nullable(COUNT),
                ephemerals=COUNT,
                created=COUNT,
                members=list_of(object_of(group=STRING, member=STRING)),
                brokers=list_of(STRING),
                controller=BOOLEAN,
            )
        ),
    ),
    "zkgroup.audit_findings/1": _audit_document(
        "audit_findings",
        findings=list_of(object_of(**_FINDING)),
        skipped=list_of(object_of(finding=STRING, reason=STRING)),
    ),
    "zkgroup.audit_report/1": _audit_document(
        "audit_report",
        files=list_of(object_of(path=STRING, bytes=COUNT)),
        errors=COUNT,
        warnings=COUNT,
        notes=COUNT,
    ),
    "zkgroup.audit_run/1": object_of(
        schema={"const": "zkgroup.audit_run/1"},
        ensembles=list_of(
            object_of(
                ensemble=STRING,
                as_of=_MOMENT,
                skipped=list_of(object_of(finding=STRING, reason=STRING)),
                damages=list_of(STRING),
            )
        ),
        findings=list_of(object_of(ensemble=STRING, **_FINDING)),
    ),
    "zkgroup.audit_export/1": _audit_document(
        "audit_export",
        file=STRING,
        znodes=COUNT,
        bytes=COUNT,
        zxid_before=COUNT,
        zxid_after=COUNT,
        exact=BOOLEAN,
        changed=list_of(STRING),
        unreadable=list_of(STRING),
    ),
}

SCHEMAS: Mapping[str, Schema] = {
    **DEMOS,
    "zkgroup.groups/1": document(
        "groups",
        groups={
            "type": "array",
            "items": {"anyOf": [documents.GROUP_SUMMARY.schema, documents.GROUP.schema]},
        },
    ),
    "zkgroup.group/1": documents.GROUP.schema,
    "zkgroup.verify/1": documents.VERIFICATION.schema,
    "zkgroup.preview/1": documents.PREVIEW.schema,
    "zkgroup.nudge/1": documents.NUDGE.schema,
    "zkgroup.group_deletion/1": documents.GROUP_DELETION.schema,
    "zkgroup.offsets/1": documents.OFFSETS.schema,
    "zkgroup.offset_export/1": documents.OFFSET_EXPORT.schema,
    "zkgroup.offset_changes/1": documents.OFFSET_CHANGES.schema,
    "zkgroup.offset_changes_list/1": document(
        "offset_changes_list", groups=list_of(documents.OFFSET_CHANGES.schema)
    ),
    "zkgroup.chroot/1": documents.CHROOT.schema,
    "zkgroup.restoration/1": documents.RESTORATION.schema,
    "zkgroup.undo_list/1": object_of(
        schema={"const": "zkgroup.undo_list/1"},
        as_of=object_of(zxid=nullable(COUNT), time=TIME),
        undos=list_of(
            object_of(
                undo=STRING, time=TIME, command=STRING, zookeeper=STRING, undoable=BOOLEAN, detail=STRING
            )
        ),
    ),
    "zkgroup.topics/1": documents.TOPICS.schema,
    "zkgroup.topic_replicas/1": document("topic_replicas", topics=list_of(_topic_with_logs())),
    "zkgroup.topic_list/1": documents.TOPIC_LIST.schema,
    "zkgroup.produce/1": document(
        "produce",
        topic=STRING,
        acks=word("0", "1", "all"),
        lines=COUNT,
        acknowledged=COUNT,
        may_be_repeated=COUNT,
        sent=COUNT,
        failed=COUNT,
        unknown=COUNT,
        first_failed_line=nullable(COUNT),
        error=nullable(STRING),
        partitions=list_of(
            object_of(partition=COUNT, lines=COUNT, first_offset=nullable(COUNT), last_offset=nullable(COUNT))
        ),
    ),
    "zkgroup.topic_creation/1": documents.TOPIC_CREATION.schema,
    "zkgroup.topic_deletion/1": documents.TOPIC_DELETION.schema,
    **CLUSTER_SCHEMAS,
    **AUDIT_SCHEMAS,
    "zkgroup.znode/1": document("znode", **ZNODE),
    "zkgroup.znode_list/1": document(
        "znode_list", path=STRING, children=list_of(object_of(name=STRING, path=STRING))
    ),
    "zkgroup.znodes/1": document("znodes", path=STRING, znodes=list_of(object_of(**ZNODE))),
    "zkgroup.status/1": document(
        "status",
        zookeeper=STRING,
        session_timeout_ms=COUNT,
        brokers=object_of(data=BROKERS, controller_only=BROKERS, unreadable=list_of(STRING)),
        controller=nullable(INTEGER),
        controller_epoch=nullable(INTEGER),
        controller_kind=nullable(word("zkgroup", "kafka")),
        controller_hung=nullable(BOOLEAN),
        last_processed_zxid=nullable(COUNT),
        unreadable=list_of(object_of(path=STRING, detail=STRING)),
        refetching=list_of(object_of(broker=COUNT, partitions=list_of(STRING))),
        restart=list_of(object_of(broker=COUNT, why=STRING)),
        waiting=list_of(object_of(what=STRING, why=STRING)),
        left_off=COUNT,
        topics=COUNT,
        partitions=COUNT,
        offline_partitions=COUNT,
        under_replicated_partitions=COUNT,
        reassigning=COUNT,
        plans=list_of(STRING),
        throttle_left=nullable(object_of(brokers=BROKERS, topics=list_of(STRING), next=STRING)),
        groups=list_of(documents.GROUP_SUMMARY.schema),
    ),
    "zkgroup.doctor/1": documents.FINDINGS.schema,
}

_MEMBER_STATE = word(
    "new", "joining", "stable", "rebalancing", "suspended", "lost", "closing", "closed", "failed"
)
_PLACES = list_of(object_of(topic=STRING, partition=COUNT))


def _event(name: str, **properties: Schema) -> Schema:
    return object_of(event={"const": name}, time=TIME, **properties)


def _record() -> Schema:
    """`key_base64` and `value_base64` are there only where the bytes are no UTF-8."""
    record = _event(
        "record",
        topic=STRING,
        partition=COUNT,
        offset=COUNT,
        key=nullable(STRING),
        value=nullable(STRING),
        token=COUNT,
    )
    record["properties"] |= {"key_base64": STRING, "value_base64": STRING}
    return record


_REPLICA = {"topic": STRING, "partition": COUNT, "leader_epoch": nullable(COUNT)}

EVENTS: Mapping[str, Schema] = {
    "state": _event("state", member=STRING, before=_MEMBER_STATE, after=_MEMBER_STATE, reason=STRING),
    "assigned": _event(
        "assigned",
        leases=list_of(
            object_of(topic=STRING, partition=COUNT, thread=COUNT, token=COUNT, offset=nullable(COUNT))
        ),
    ),
    "revoked": _event("revoked", partitions=_PLACES),
    "lost": _event("lost", partitions=_PLACES),
    "record": _record(),
    "commit": _event(
        "commit",
        outcome=word("ok", "refused", "unknown"),
        offsets=list_of(object_of(topic=STRING, partition=COUNT, offset=COUNT)),
    ),
    "waiting": _event("waiting", broker=COUNT, host=STRING, port=COUNT),
    "registered": _event("registered", broker=COUNT, host=STRING, port=COUNT, epoch=COUNT),
    "disconnected": _event("disconnected", metadata_age_ms=nullable(COUNT), controller_epoch=nullable(COUNT)),
    "controller": _event("controller", epoch=COUNT, partitions=COUNT, load_ms=COUNT),
    "resigned": _event("resigned", reason=STRING),
    "failed": _event("failed", reason=STRING),
    "leader": _event("leader", **_REPLICA),
    "follower": _event("follower", **_REPLICA),
    "stopped": _event("stopped", **_REPLICA),
    "isr": _event("isr", **_REPLICA, isr=list_of(COUNT)),
    "config": _event("config", entity=STRING, overrides=map_of(STRING)),
    "ready": object_of(event={"const": "ready"}, zookeeper=STRING, pids=list_of(COUNT)),
}
