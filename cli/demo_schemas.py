"""The schemas of the demos' reports."""

from __future__ import annotations

from collections.abc import Mapping

from .schema_parts import (
    BOOLEAN,
    COUNT,
    INTEGER,
    SESSION,
    STRING,
    TIME,
    Schema,
    document,
    list_of,
    nullable,
    object_of,
    word,
)

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
