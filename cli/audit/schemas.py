"""Schemas of what `zkgroup audit` says."""

from __future__ import annotations

from collections.abc import Mapping

from ..schema_parts import (
    BOOLEAN,
    COUNT,
    SESSION,
    STRING,
    TIME,
    ZNODE,
    Schema,
    list_of,
    nullable,
    object_of,
    word,
)

_MOMENT = object_of(zxid=COUNT, time=nullable(TIME))


def document(name: str, **properties: Schema) -> Schema:
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
    "zkgroup.audit_files/1": document(
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
    "zkgroup.audit_tree/1": document(
        "audit_tree", path=STRING, exact=BOOLEAN, znodes=list_of(object_of(**ZNODE))
    ),
    "zkgroup.audit_diff/1": document(
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
    "zkgroup.audit_owners/1": document(
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
    "zkgroup.audit_offsets/1": document(
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
    "zkgroup.audit_sessions/1": document(
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
    "zkgroup.audit_findings/1": document(
        "audit_findings",
        findings=list_of(object_of(**_FINDING)),
        skipped=list_of(object_of(finding=STRING, reason=STRING)),
    ),
    "zkgroup.audit_report/1": document(
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
    "zkgroup.audit_export/1": document(
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
