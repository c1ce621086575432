"""The JSON documents and events as JSON Schema (draft 2020-12): plain data, for the docs and the tests.

`SCHEMAS` holds one for each `schema` value that a document carries, `EVENTS` one for each `event`.
Additions are possible within a version (a new key, a new word of an enumeration); removing or
changing anything makes a new version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
SESSION: Schema = {"type": "string", "pattern": "^0x[0-9a-f]+$"}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _word(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def _object(**properties: Schema) -> Schema:
    """Every key is there, and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _document(name: str, **properties: Schema) -> Schema:
    moment = _object(zxid=COUNT, time=TIME)
    return _object(schema={"const": f"zkgroup.{name}/1"}, as_of=moment, **properties)


_STATE = _word("empty", "stable", "rebalancing", "inconsistent", "frozen")
_PROBLEM = _word(
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

_SUMMARY = _object(
    group=STRING,
    state=_STATE,
    members=COUNT,
    topics=_list(STRING),
    partitions=COUNT,
    unowned=COUNT,
    lag=_nullable(COUNT),
)

_MEMBER = _object(
    member=STRING,
    session=SESSION,
    threads=_map(COUNT),
    pattern=_nullable(STRING),
    subscription=_map(COUNT),
    registered_at=TIME,
    kind=_word("zkgroup", "jvm", "unknown"),
    host=_nullable(STRING),
    agrees=_nullable(BOOLEAN),
)

_PARTITION = _object(
    topic=STRING,
    partition=COUNT,
    owner=_nullable(STRING),
    member=_nullable(STRING),
    expected_owner=_nullable(STRING),
    owned_since=_nullable(TIME),
    token=_nullable(COUNT),
    offset=_nullable(COUNT),
    committed_at=_nullable(TIME),
    log_end_offset=_nullable(COUNT),
    lag=_nullable(COUNT),
    problem=_nullable(_PROBLEM),
)

_GROUP = _document(
    "group",
    group=STRING,
    state=_STATE,
    assignor=_nullable(STRING),
    generation=_nullable(COUNT),
    members=_list(_MEMBER),
    partitions=_list(_PARTITION),
)

_STAT = _object(
    **dict.fromkeys(
        (
            "czxid",
            "mzxid",
            "ctime",
            "mtime",
            "version",
            "cversion",
            "aversion",
            "ephemeralOwner",
            "dataLength",
            "numChildren",
            "pzxid",
        ),
        INTEGER,
    )
)

_ZNODE = {"path": STRING, "data": _nullable(STRING), "data_base64": _nullable(STRING), "stat": _STAT}

_CHANGES = _document(
    "offset_changes",
    group=STRING,
    executed=BOOLEAN,
    undo=_nullable(STRING),
    changes=_list(
        _object(
            topic=STRING,
            partition=COUNT,
            before=_nullable(COUNT),
            after=_nullable(COUNT),
            changed=BOOLEAN,
        )
    ),
)

_BROKERS = _list(INTEGER)

SCHEMAS: Mapping[str, Schema] = {
    "zkgroup.demo/1": _document(
        "demo",
        group=STRING,
        zookeeper=STRING,
        kept=_nullable(STRING),
        passed=BOOLEAN,
        checks=_list(_object(statement=STRING, holds=BOOLEAN, evidence=STRING)),
        history=_object(
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
        airports=_list(_object(airport=STRING, flights=COUNT, delay_minutes=INTEGER)),
    ),
    "zkgroup.groups/1": _document("groups", groups={"type": "array", "items": {"anyOf": [_SUMMARY, _GROUP]}}),
    "zkgroup.group/1": _GROUP,
    "zkgroup.verify/1": _document(
        "verify",
        group=STRING,
        converged=BOOLEAN,
        problems=_list(
            _object(
                kind=_PROBLEM,
                topic=_nullable(STRING),
                partition=_nullable(COUNT),
                expected=_nullable(STRING),
                found=_nullable(STRING),
                since=_nullable(TIME),
                detail=STRING,
            )
        ),
    ),
    "zkgroup.preview/1": _document(
        "preview",
        group=STRING,
        assignor=STRING,
        partitions=_list(
            _object(topic=STRING, partition=COUNT, now=_nullable(STRING), then=_nullable(STRING))
        ),
        moves=COUNT,
    ),
    "zkgroup.nudge/1": _document("nudge", group=STRING, executed=BOOLEAN, members=_list(STRING)),
    "zkgroup.group_deletion/1": _document(
        "group_deletion",
        group=STRING,
        executed=BOOLEAN,
        undo=_nullable(STRING),
        members=_list(STRING),
        offsets=COUNT,
        znodes=COUNT,
    ),
    "zkgroup.offsets/1": _document(
        "offsets",
        group=STRING,
        offsets=_list(
            _object(
                topic=STRING,
                partition=COUNT,
                offset=_nullable(COUNT),
                version=COUNT,
                committed_at=_nullable(TIME),
                owner=_nullable(STRING),
                log_end_offset=_nullable(COUNT),
                lag=_nullable(COUNT),
            )
        ),
    ),
    "zkgroup.offset_export/1": _document(
        "offset_export",
        offsets=_list(_object(group=STRING, topic=STRING, partition=COUNT, offset=COUNT)),
    ),
    "zkgroup.offset_changes/1": _CHANGES,
    "zkgroup.offset_changes_list/1": _document("offset_changes_list", groups=_list(_CHANGES)),
    "zkgroup.chroot/1": _document("chroot", chroot=STRING, executed=BOOLEAN, znodes=_list(STRING)),
    "zkgroup.restoration/1": _document("restoration", undone=STRING, executed=BOOLEAN, znodes=_list(STRING)),
    "zkgroup.topics/1": _document(
        "topics",
        topics=_list(
            _object(
                topic=STRING,
                partitions=_list(
                    _object(
                        partition=COUNT,
                        replicas=_BROKERS,
                        leader=_nullable(INTEGER),
                        leader_epoch=_nullable(INTEGER),
                        isr=_nullable(_BROKERS),
                        controller_epoch=_nullable(INTEGER),
                        adding=_BROKERS,
                        removing=_BROKERS,
                    )
                ),
                configs=_map(STRING),
            )
        ),
    ),
    "zkgroup.topic_list/1": _document(
        "topic_list",
        topics=_list(
            _object(
                topic=STRING,
                partitions=_nullable(COUNT),
                replication_factor=_nullable(COUNT),
                internal=BOOLEAN,
                marked_for_deletion=BOOLEAN,
            )
        ),
    ),
    "zkgroup.topic_creation/1": _document(
        "topic_creation",
        topic=STRING,
        created=BOOLEAN,
        partitions=_list(_object(partition=COUNT, replicas=_BROKERS)),
        configs=_map(STRING),
    ),
    "zkgroup.topic_deletion/1": _document(
        "topic_deletion",
        topic=STRING,
        executed=BOOLEAN,
        undo=_nullable(STRING),
        controller=_nullable(INTEGER),
        znodes=COUNT,
    ),
    "zkgroup.znode/1": _document("znode", **_ZNODE),
    "zkgroup.znode_list/1": _document(
        "znode_list", path=STRING, children=_list(_object(name=STRING, path=STRING))
    ),
    "zkgroup.znodes/1": _document("znodes", path=STRING, znodes=_list(_object(**_ZNODE))),
    "zkgroup.status/1": _document(
        "status",
        zookeeper=STRING,
        session_timeout_ms=COUNT,
        brokers=_object(data=_BROKERS, controller_only=_BROKERS, unreadable=_list(STRING)),
        controller=_nullable(INTEGER),
        controller_epoch=_nullable(INTEGER),
        topics=COUNT,
        partitions=COUNT,
        groups=_list(_SUMMARY),
    ),
    "zkgroup.doctor/1": _document(
        "doctor",
        findings=_list(
            _object(
                severity=_word("error", "warning", "info"),
                subject=STRING,
                detail=STRING,
                next=_nullable(STRING),
            )
        ),
    ),
}

_MEMBER_STATE = _word(
    "new", "joining", "stable", "rebalancing", "suspended", "lost", "closing", "closed", "failed"
)
_PLACES = _list(_object(topic=STRING, partition=COUNT))


def _event(name: str, **properties: Schema) -> Schema:
    return _object(event={"const": name}, time=TIME, **properties)


def _record() -> Schema:
    """`key_base64` and `value_base64` are there only where the bytes are no UTF-8."""
    record = _event(
        "record",
        topic=STRING,
        partition=COUNT,
        offset=COUNT,
        key=_nullable(STRING),
        value=_nullable(STRING),
        token=COUNT,
    )
    record["properties"] |= {"key_base64": STRING, "value_base64": STRING}
    return record


EVENTS: Mapping[str, Schema] = {
    "state": _event("state", member=STRING, before=_MEMBER_STATE, after=_MEMBER_STATE, reason=STRING),
    "assigned": _event(
        "assigned",
        leases=_list(
            _object(topic=STRING, partition=COUNT, thread=COUNT, token=COUNT, offset=_nullable(COUNT))
        ),
    ),
    "revoked": _event("revoked", partitions=_PLACES),
    "lost": _event("lost", partitions=_PLACES),
    "record": _record(),
    "commit": _event(
        "commit",
        outcome=_word("ok", "refused", "unknown"),
        offsets=_list(_object(topic=STRING, partition=COUNT, offset=COUNT)),
    ),
    "ready": _object(event={"const": "ready"}, zookeeper=STRING, pids=_list(COUNT)),
}
