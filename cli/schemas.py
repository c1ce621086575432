"""The JSON documents and events as JSON Schema (draft 2020-12): plain data, for the docs and the tests.

`SCHEMAS` holds one for each `schema` value that a document carries, `EVENTS` one for each `event`.
Additions are possible within a version (a new key, a new word of an enumeration); removing or
changing anything makes a new version.
"""

from __future__ import annotations

from collections.abc import Mapping

from .audit.schemas import AUDIT_SCHEMAS
from .cluster_schemas import BROKERS, CLUSTER_SCHEMAS
from .demo_schemas import DEMOS
from .schema_parts import (
    BOOLEAN,
    COUNT,
    INTEGER,
    LEADERLESS,
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

_STATE = word("empty", "stable", "rebalancing", "inconsistent")
_PROBLEM = word(
    "unowned",
    "wrong_owner",
    "owner_not_member",
    "owner_of_unknown_partition",
    "owner_of_unsubscribed_topic",
    "member_disagrees",
    "unreadable_registration",
    "unreadable_owner",
    "unreadable_offset",
    "unreadable_topic",
    "assignors_differ",
    "unsupported_subscription",
)

_SUMMARY = object_of(
    group=STRING,
    state=_STATE,
    members=COUNT,
    topics=list_of(STRING),
    partitions=COUNT,
    unowned=COUNT,
    lag=nullable(COUNT),
)

_MEMBER = object_of(
    member=STRING,
    session=SESSION,
    threads=map_of(COUNT),
    pattern=nullable(STRING),
    subscription=map_of(COUNT),
    registered_at=TIME,
    kind=word("zkgroup", "jvm", "unknown"),
    host=nullable(STRING),
    agrees=nullable(BOOLEAN),
)

_PARTITION = object_of(
    topic=STRING,
    partition=COUNT,
    owner=nullable(STRING),
    member=nullable(STRING),
    expected_owner=nullable(STRING),
    owned_since=nullable(TIME),
    token=nullable(COUNT),
    offset=nullable(COUNT),
    committed_at=nullable(TIME),
    log_end_offset=nullable(COUNT),
    lag=nullable(COUNT),
    problem=nullable(_PROBLEM),
)

_GROUP = document(
    "group",
    group=STRING,
    state=_STATE,
    assignor=nullable(STRING),
    generation=nullable(COUNT),
    members=list_of(_MEMBER),
    partitions=list_of(_PARTITION),
)

_CHANGES = document(
    "offset_changes",
    group=STRING,
    executed=BOOLEAN,
    undo=nullable(STRING),
    changes=list_of(
        object_of(
            topic=STRING,
            partition=COUNT,
            before=nullable(COUNT),
            after=nullable(COUNT),
            changed=BOOLEAN,
        )
    ),
)


def _topics(**more: Schema) -> Schema:
    """`topic describe`; `more` of each partition."""
    partition = object_of(
        partition=COUNT,
        replicas=BROKERS,
        leader=nullable(INTEGER),
        leader_epoch=nullable(INTEGER),
        isr=nullable(BROKERS),
        controller_epoch=nullable(INTEGER),
        adding=BROKERS,
        removing=BROKERS,
        **more,
    )
    deletion = object_of(asked_at=TIME, detail=nullable(STRING), without_brokers=BROKERS)
    return list_of(
        object_of(
            topic=STRING,
            partitions=list_of(partition),
            configs=nullable(map_of(STRING)),
            deletion=nullable(deletion),
            unhosted=BOOLEAN,
        )
    )


SCHEMAS: Mapping[str, Schema] = {
    **DEMOS,
    "zkgroup.groups/1": document("groups", groups={"type": "array", "items": {"anyOf": [_SUMMARY, _GROUP]}}),
    "zkgroup.group/1": _GROUP,
    "zkgroup.verify/1": document(
        "verify",
        group=STRING,
        converged=BOOLEAN,
        problems=list_of(
            object_of(
                kind=_PROBLEM,
                topic=nullable(STRING),
                partition=nullable(COUNT),
                expected=nullable(STRING),
                found=nullable(STRING),
                since=nullable(TIME),
                detail=STRING,
            )
        ),
    ),
    "zkgroup.preview/1": document(
        "preview",
        group=STRING,
        assignor=STRING,
        partitions=list_of(
            object_of(topic=STRING, partition=COUNT, now=nullable(STRING), then=nullable(STRING))
        ),
        moves=COUNT,
    ),
    "zkgroup.nudge/1": document("nudge", group=STRING, executed=BOOLEAN, members=list_of(STRING)),
    "zkgroup.group_deletion/1": document(
        "group_deletion",
        group=STRING,
        executed=BOOLEAN,
        undo=nullable(STRING),
        members=list_of(STRING),
        offsets=COUNT,
        znodes=COUNT,
    ),
    "zkgroup.offsets/1": document(
        "offsets",
        group=STRING,
        offsets=list_of(
            object_of(
                topic=STRING,
                partition=COUNT,
                offset=nullable(COUNT),
                version=COUNT,
                committed_at=nullable(TIME),
                owner=nullable(STRING),
                log_end_offset=nullable(COUNT),
                lag=nullable(COUNT),
            )
        ),
    ),
    "zkgroup.offset_export/1": document(
        "offset_export",
        offsets=list_of(object_of(group=STRING, topic=STRING, partition=COUNT, offset=COUNT)),
    ),
    "zkgroup.offset_changes/1": _CHANGES,
    "zkgroup.offset_changes_list/1": document("offset_changes_list", groups=list_of(_CHANGES)),
    "zkgroup.chroot/1": document("chroot", chroot=STRING, executed=BOOLEAN, znodes=list_of(STRING)),
    "zkgroup.restoration/1": document("restoration", undone=STRING, executed=BOOLEAN, znodes=list_of(STRING)),
    "zkgroup.undo_list/1": object_of(
        schema={"const": "zkgroup.undo_list/1"},
        as_of=object_of(zxid=nullable(COUNT), time=TIME),
        undos=list_of(
            object_of(
                undo=STRING, time=TIME, command=STRING, zookeeper=STRING, undoable=BOOLEAN, detail=STRING
            )
        ),
    ),
    "zkgroup.topics/1": document("topics", topics=_topics()),
    "zkgroup.topic_replicas/1": document(
        "topic_replicas", topics=_topics(logs=list_of(object_of(broker=COUNT, **LOG_END)))
    ),
    "zkgroup.topic_list/1": document(
        "topic_list",
        topics=list_of(
            object_of(
                topic=STRING,
                partitions=nullable(COUNT),
                replication_factor=nullable(COUNT),
                internal=BOOLEAN,
                marked_for_deletion=BOOLEAN,
            )
        ),
    ),
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
    "zkgroup.topic_creation/1": document(
        "topic_creation",
        topic=STRING,
        created=BOOLEAN,
        undo=nullable(STRING),
        partitions=list_of(object_of(partition=COUNT, replicas=BROKERS)),
        configs=nullable(map_of(STRING)),
        **LEADERLESS,
    ),
    "zkgroup.topic_deletion/1": document(
        "topic_deletion",
        topic=STRING,
        executed=BOOLEAN,
        undo=nullable(STRING),
        controller=nullable(INTEGER),
        znodes=COUNT,
        without_brokers=BROKERS,
        converged=nullable(BOOLEAN),
        detail=nullable(STRING),
    ),
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
        groups=list_of(_SUMMARY),
    ),
    "zkgroup.doctor/1": document(
        "doctor",
        findings=list_of(
            object_of(
                severity=word("error", "warning", "info"),
                subject=STRING,
                detail=STRING,
                next=nullable(STRING),
            )
        ),
    ),
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
