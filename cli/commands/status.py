"""`zkgroup status` shows the ensemble on one screen, `zkgroup doctor` its problems."""

from __future__ import annotations

import click

from zkgroup.admin.cluster.controller import ControllerHealth, blocked_by_topic
from zkgroup.admin.coordinator_status import CoordinatorStatus
from zkgroup.admin.status import CLEAR_THROTTLE, Status, read_findings, read_status

from .. import documents, group_tables
from ..app import EXIT_CHECK_FAILED, command, output, shared
from ..context import SESSION_TIMEOUT_MS, connected, target
from ..render import Output
from ..units import counted

_ALL_LED = {False: "all led", True: "all led by their states"}
"""The second where the controller does not list all that it waits for."""
_STYLES = {"error": "bad", "warning": "warn", "info": "dim"}


@command("status")
def status() -> None:
    """Show brokers, controller, topics and groups on one screen.

    \b
    Example:
      zkgroup -z localhost:2181 status
    """
    out = output()
    with connected() as ensemble:
        found = read_status(ensemble)
    whole = documents.StatusDocument(status=found, zookeeper=target(shared()).zookeeper)
    document = documents.STATUS.json(found.as_of, whole)
    if not out.document(document):
        _show(out, found)


@command("doctor")
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Find problems and name the command that fixes each.

    Exit code 3 when there is an error among the findings.

    \b
    Example:
      zkgroup doctor --format json
    """
    out = output()
    with connected() as ensemble:
        as_of, findings = read_findings(ensemble, wanted_timeout_ms=SESSION_TIMEOUT_MS)
    document = documents.FINDINGS.json(as_of, documents.Findings(findings=findings))
    if not out.document(document, "findings", documents.FINDING.keys):
        for finding in findings:
            label = out.paint(f"{finding.severity:<8}", _STYLES[finding.severity])
            out.line(f"{label} {out.paint(finding.subject, 'bold')}: {finding.detail}")
            if finding.next:
                out.line(f"         next: {finding.next}")
        if not any(finding.severity != "info" for finding in findings):
            out.line(out.paint("nothing is wrong", "good"))
    if any(finding.severity == "error" for finding in findings):
        ctx.exit(EXIT_CHECK_FAILED)


def _show(out: Output, found: Status) -> None:
    brokers = ", ".join(map(str, found.brokers.data)) or "none"
    if found.brokers.controllers_only:
        brokers += f"; {', '.join(map(str, found.brokers.controllers_only))} hosting nothing"
    partitions = sum(topic.partitions or 0 for topic in found.topics)
    rows = [
        ("zookeeper", target(shared()).zookeeper),
        ("brokers", brokers),
        ("controller", _controller(out, found.health)),
        ("topics", f"{len(found.topics)} with {counted(partitions, 'partition')}"),
        ("groups", str(len(found.groups))),
    ]
    if found.brokers.data:
        rows.insert(-1, ("partitions", _partitions(out, found)))
    if found.moving or found.plans:
        plans = f"; plan {', '.join(found.plans)} runs" if found.plans else ""
        rows.insert(-1, ("moving", f"{counted(found.moving, 'partition')}{plans}"))
    if found.throttle_left:
        left = out.paint(f"{found.throttle_left.named}, and nothing moves", "warn")
        rows.insert(-1, ("throttled", f"{left}: {CLEAR_THROTTLE}"))
    if found.coordinator is not None:
        rows.append(("coordinator", _coordinator(out, found, found.coordinator)))
    for name, value in rows:
        out.line(f"{out.paint(f'{name:<11}', 'dim')} {value}")
    _show_health(out, found)
    if found.groups:
        out.line()
        group_tables.groups(out, found.groups)


def _controller(out: Output, health: ControllerHealth) -> str:
    if health.kind is None:
        return "none"
    who = "unreadable" if health.controller is None else f"broker {health.controller}, epoch {health.epoch}"
    hung = out.paint(f", hangs since zxid {health.last_processed_zxid}", "bad") if health.hung else ""
    return f"{who}, {'zkgroup' if health.kind == 'zkgroup' else 'Kafka'}{hung}"


def _coordinator(out: Output, found: Status, coordinator: CoordinatorStatus) -> str:
    slots = counted(coordinator.slots, "slot")
    parts = _without_leader(out, len(coordinator.slots_without_leader), found.slot_leaders_awaited)
    return ", ".join([slots, *(parts or [_ALL_LED[found.health.left_off > 0]])])


def _without_leader(out: Output, offline: int, awaited: int) -> list[str]:
    """Partitions that no live broker leads, by their state, and those whose leader refuses to."""
    parts = []
    if offline:
        parts.append(out.paint(f"{offline} without a live leader", "bad"))
    if awaited:
        parts.append(out.paint(f"{awaited} whose leader refuses to lead", "bad"))
    return parts


def _partitions(out: Output, found: Status) -> str:
    parts = _without_leader(out, found.offline, found.leaders_awaited)
    if found.under_replicated:
        parts.append(out.paint(f"{found.under_replicated} not fully in sync", "warn"))
    return ", ".join(parts) or f"{_ALL_LED[found.health.left_off > 0]}, all in sync"


def _show_health(out: Output, found: Status) -> None:
    """What cannot be read, and what the controller reports that it cannot do, or waits for."""
    health = found.health
    rows = [("unreadable", f"{path}: {detail}") for path, detail in found.unreadable.items()]
    rows += [
        (f"broker {broker}", f"may fetch {', '.join(names)} again from the start: repair their states")
        for broker, names in health.refetching.items()
    ]
    rows += [(f"broker {broker}", why) for broker, why in health.restart.items()]
    rows += [("waits", f"{what}: {why}") for what, why in blocked_by_topic(health.waiting)]
    rows += [("coordinator", text) for text in (found.coordinator.unanswered if found.coordinator else ())]
    if health.left_off:
        rows.append(("and", f"{health.left_off} more"))
    for name, value in rows:
        out.line(f"{out.paint(f'{name:<11}', 'warn')} {value}")
