"""`zkgroup status` shows the ensemble on one screen, `zkgroup doctor` its problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import click

from zkgroup.admin.change import ChangeResult
from zkgroup.admin.cluster.brokers import Brokers
from zkgroup.admin.cluster.controller import ControllerHealth, blocked_by_topic
from zkgroup.admin.coordinator_status import CoordinatorStatus, DoctorFinding
from zkgroup.admin.persistent import (
    FIX_PERSISTENT,
    PersistentZnode,
    RemovalPlan,
    by_parent,
    plan_removal,
    remove_persistent_change,
)
from zkgroup.admin.reassign.throttles import Throttled
from zkgroup.admin.status import (
    CLEAR_THROTTLE,
    Status,
    missing_replicas,
    read_diagnosis,
    read_findings,
    read_status,
)
from zkgroup.admin.topics.listing import MissingBroker
from zkgroup.errors import PartlyDoneError
from zkgroup.model.text import counted

from ..app import command, fail_check, note_refusals, output, shared
from ..confirm import print_result, run_change
from ..context import SESSION_TIMEOUT_MS, connected, target
from ..groups import GROUP_SUMMARY
from ..params import Consent, broker_options, confirm_options, source_option
from ..render import Output
from ..schema import (
    BROKERS,
    COUNT,
    INTEGER,
    STRING,
    Document,
    Entries,
    JsonKey,
    NamedKeys,
    Shape,
    given,
    list_of,
    nullable,
    word,
)
from ..sources import log_ends
from ..watching import watch_option

Severity = Literal["error", "warning"]

_ALL_LED = {False: "all led", True: "all led by their states"}
"""The second where the controller does not list all that it waits for."""
_STYLES = {"error": "bad", "warning": "warn", "info": "dim"}


class StatusAt(NamedTuple):
    """The status, and the ensemble that it is of."""

    status: Status
    zookeeper: str


FINDING = Shape(DoctorFinding)
FINDINGS = Document("doctor", NamedKeys(findings=Sequence[DoctorFinding]), rows="findings")
PERSISTENT_ZNODE = Shape(PersistentZnode)
Fix = ChangeResult[RemovalPlan, int, None]
FIX = Document("doctor_fix", Shape(Fix, "executed", "undo=undo_id", "znodes=plan.rows"), rows="znodes")
MISSING_BROKER = Shape(MissingBroker, given("broker", INTEGER), "partitions", "out_of_sync_since_ms")
STATUS_BROKERS = Shape(
    Brokers,
    *(given("data", BROKERS), given("controller_only", BROKERS, "controllers_only"), "unreadable"),
)
THROTTLE_LEFT = Shape(
    Throttled,
    JsonKey("brokers", BROKERS, lambda left: list(left.brokers)),
    JsonKey("topics", list_of(STRING), lambda left: list(left.topics)),
    JsonKey("next", STRING, lambda _: CLEAR_THROTTLE),
)
COORDINATOR_STATUS = Shape(CoordinatorStatus)
STATUS = Document(
    "status",
    Shape(
        StatusAt,
        *("zookeeper", "status.session_timeout_ms", "status.brokers"),
        given("controller", nullable(INTEGER), "status.controller"),
        given("controller_epoch", nullable(INTEGER), "status.controller_epoch"),
        given("controller_kind", nullable(word("zkgroup", "kafka")), "status.health.kind"),
        *("controller_hung=status.health.hung", "status.health.last_processed_zxid"),
        Entries("status.unreadable", "path", "detail"),
        Entries("status.health.refetching", "broker", "partitions"),
        Entries("status.health.restart", "broker", "why"),
        Entries("status.health.waiting", "what", "why"),
        "status.health.left_off",
        JsonKey("topics", COUNT, lambda one: len(one.status.topics)),
        JsonKey("partitions", COUNT, lambda one: sum(topic.partitions or 0 for topic in one.status.topics)),
        *("offline_partitions=status.offline", "under_replicated_partitions=status.under_replicated"),
        *("reassigning=status.moving", "status.plans", "status.missing", "status.persistent"),
        JsonKey(
            "throttle_left",
            nullable(THROTTLE_LEFT.schema),
            lambda one: THROTTLE_LEFT.json(one.status.throttle_left) if one.status.throttle_left else None,
        ),
        *("status.coordinator", "status.groups"),
    ),
)


@command("status")
@watch_option
@click.option(
    "--exit-code", "checks", is_flag=True, help="Exit with 3 where `doctor --fail-on warning` does."
)
@source_option
@broker_options
def status(checks: bool, source: str | None) -> None:
    """Show brokers, controller, topics and groups on one screen.

    Groups have their lag with --source only.

    \b
    Example:
      zkgroup -z localhost:2181 status
    """
    out = output()
    with connected() as ensemble, log_ends(source or "none", ensemble) as ends:
        found = read_status(ensemble, ends)
        findings = read_diagnosis(ensemble, found, wanted_timeout_ms=SESSION_TIMEOUT_MS) if checks else ()
    if not STATUS.print(out, found.as_of, StatusAt(found, target(shared()).zookeeper)):
        _show(out, found)
    note_refusals(found.coordinator.unanswered if found.coordinator else ())
    _exit_if_found(findings, "warning")


@command("doctor")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    help="Exit with 3 where a finding is this bad or worse.  [default: error]",
)
@click.option("--fix", is_flag=True, help="Remove persistent znodes that belong to sessions.")
@confirm_options
@broker_options
def doctor(fail_on: Severity | None, fix: bool, consent: Consent) -> None:
    """Find problems and name the command that fixes each.

    Exit code 3 when there is an error among the findings.

    A tree that was restored from a backup has persistent znodes where sessions belong: brokers and members
    that nothing ends. --fix shows these, and removes them with --execute; nothing else is changed, and what a
    session holds by then stays.

    \b
    Example:
      zkgroup doctor --format json
    """
    if not fix and consent.execute:
        raise click.UsageError("--execute is for --fix: give both or none")
    if fix and fail_on:
        raise click.UsageError("--fail-on is for findings, which --fix does not show")
    if fix:
        _fix(consent)
        return
    out = output()
    with connected() as ensemble:
        as_of, findings = read_findings(ensemble, wanted_timeout_ms=SESSION_TIMEOUT_MS)
    if not FINDINGS.print(out, as_of, findings=findings):
        for finding in findings:
            label = out.paint(f"{finding.severity:<8}", _STYLES[finding.severity])
            out.line(f"{label} {out.paint(finding.subject, 'bold')}: {finding.detail}")
            if finding.next:
                out.line(f"         next: {finding.next}")
        if not any(finding.severity != "info" for finding in findings):
            out.line(out.paint("nothing is wrong", "good"))
    _exit_if_found(findings, fail_on or "error")


def _exit_if_found(findings: Sequence[DoctorFinding], least: Severity) -> None:
    """Exits with 3 where one of the findings is this bad or worse."""
    if any(finding.severity in ("error", least) for finding in findings):
        fail_check()


def _fix(consent: Consent) -> None:
    with connected() as ensemble:
        change = remove_persistent_change(ensemble, plan_removal(ensemble))
        result = run_change(change, _show_persistent, consent)
    print_result(FIX, result, _show_persistent)
    if hidden := result.plan.hidden:
        raise PartlyDoneError(f"not read, as an ACL hides them: {', '.join(hidden)}")


def _show_persistent(out: Output, result: Fix) -> None:
    for row in result.plan.rows:
        out.line(f"{row.path}: {row.effect}")
    if not result.plan.znodes:
        out.line("every znode of a session is ephemeral: nothing to remove")
        return
    verb = "removed" if result.executed else "would remove"
    out.line(f"{verb} {counted(len(result.plan.znodes), 'persistent znode')}")


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
        GROUP_SUMMARY.table(out, found.groups)


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
    """Prints the faults: missing brokers, unreadable znodes, the controller's work that fails or waits."""
    health = found.health
    missing = {one.broker: missing_replicas(one) for one in found.missing}
    rows = [(f"broker {broker}", f"not registered, with {replicas}") for broker, replicas in missing.items()]
    unheld = by_parent(found.persistent)
    rows += [("persistent", f"{paths}: {effect}: {FIX_PERSISTENT}") for paths, effect in unheld]
    rows += [("unreadable", f"{path}: {detail}") for path, detail in found.unreadable.items()]
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
