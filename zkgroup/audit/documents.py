"""Findings as JSON documents have them: the schema `zkgroup.audit_findings/1`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from zkgroup.audit.engine import Found
from zkgroup.audit.facts import Facts
from zkgroup.audit.rules import Finding
from zkgroup.audit.texts import session_text

SCHEMA = "zkgroup.audit_findings/1"


def findings_document(found: Found) -> dict[str, Any]:
    """The whole document; `as_of` is the last transaction that was looked at."""
    return {
        "schema": SCHEMA,
        "as_of": as_of(found.facts),
        "findings": [finding_fields(one) for one in found.findings],
        "skipped": [{"finding": one.rule.name, "reason": one.reason} for one in found.skipped],
    }


def as_of(facts: Facts) -> dict[str, Any]:
    """The last transaction that was looked at."""
    return {"zxid": max(facts.end_zxid, 0), "time": iso_time(facts.end_ms)}


def finding_fields(one: Finding) -> dict[str, Any]:
    """One of them."""
    return {
        "finding": one.finding,
        "severity": one.severity,
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "session": session_text(one.session) if one.session else None,
        "from_zxid": one.from_zxid,
        "to_zxid": one.to_zxid,
        "from": iso_time(one.from_ms),
        "to": iso_time(one.to_ms),
        "detail": one.detail,
    }


def iso_time(epoch_ms: int | None) -> str | None:
    """ISO-8601 UTC with milliseconds; None for a time that no calendar has."""
    if epoch_ms is None:
        return None
    try:
        moment = datetime.fromtimestamp(epoch_ms // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_ms % 1000:03d}Z"
