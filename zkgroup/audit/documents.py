"""Findings as JSON documents have them: the schema `zkgroup.audit_findings/1`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from zkgroup.audit.findings.engine import Found
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.incidents.incident import Cause, FoundIncidents, Incident
from zkgroup.audit.inputs.facts import Facts
from zkgroup.model.text import hex_session, iso_time

SCHEMA = "zkgroup.audit_findings/1"


def findings_document(found: Found, incidents: FoundIncidents) -> dict[str, Any]:
    """The whole document, with the incidents of `found`; `as_of` is the last transaction that was read."""
    return {
        "schema": SCHEMA,
        "as_of": as_of(found.facts),
        "incidents": [incident_fields(one) for one in incidents.incidents],
        "findings": [{**finding_fields(one.finding), "incident": one.incident} for one in incidents.findings],
        "skipped": [{"finding": one.rule.name, "reason": one.reason} for one in incidents.skipped],
    }


def incident_fields(one: Incident) -> dict[str, Any]:
    """One incident."""
    return {
        "number": one.number,
        "title": one.title,
        "severity": one.severity,
        "group": one.group,
        **_times(one),
        "cause": cause_fields(one.cause),
        "damage": [each._asdict() for each in one.damage],
        "act": one.act,
        "counts": counts_of(one.findings),
    }


def finding_fields(one: Finding) -> dict[str, Any]:
    """One finding."""
    return {
        "finding": one.finding,
        "severity": one.severity,
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "session": hex_session(one.session) if one.session else None,
        **_times(one),
        "detail": one.detail,
    }


def _times(one: Finding | Incident) -> dict[str, Any]:
    zxids = {"from_zxid": one.from_zxid, "to_zxid": one.to_zxid}
    return {**zxids, "from": iso_time(one.from_ms), "to": iso_time(one.to_ms)}


def counts_of(findings: Iterable[Finding]) -> dict[str, int]:
    """The number of findings of each name, the most first."""
    return dict(Counter(one.finding for one in findings).most_common())


def cause_fields(cause: Cause) -> dict[str, Any] | None:
    """A cause, as far as the log shows it; None where it shows none."""
    if cause.kind in ("state", "note"):
        return None
    return {
        "kind": cause.kind,
        "what": cause.what,
        "session": hex_session(cause.session) if cause.session else None,
        "zxid": cause.zxid,
        "time": iso_time(cause.time_ms),
    }


def as_of(facts: Facts) -> dict[str, Any]:
    """The last transaction that was read."""
    return {"zxid": max(facts.end_zxid, 0), "time": iso_time(facts.end_ms)}
