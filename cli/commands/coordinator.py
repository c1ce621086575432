"""`zkgroup coordinator describe|release`."""

from __future__ import annotations

from typing import NamedTuple

import click

from zkgroup.admin.change import ChangeResult
from zkgroup.admin.coordinated_groups import ReleasePlan, plan_release, release_group_change
from zkgroup.admin.coordinator import (
    CoordinatedGroupDescription,
    CoordinatedMember,
    CoordinatorDescription,
    SlotDescription,
    describe_coordinator,
)
from zkgroup.errors import AuthorizationError, PartlyDoneError
from zkgroup.model.text import counted

from ..app import group as make_group
from ..app import note_refusals, output
from ..confirm import print_result, run_change
from ..context import connected
from ..params import Consent, broker_options, confirm_options, group_argument
from ..render import Cell, Output, short_name
from ..schema import COUNT, INTEGER, Document, KeyColumn, Shape, given, nullable
from ..watching import watch_option

coordinator = make_group(
    "coordinator",
    help="""Show the group coordinator; give groups back to ZooKeeper.

    It runs in every zkgroup broker. A group belongs to a slot, a partition of `__consumer_offsets`, and the
    leader of that partition coordinates the group.

    \b
    Example:
      zkgroup coordinator describe billing""",
)


def _seconds(key: str, header: str, rank: int = 0) -> KeyColumn:
    """A duration that is milliseconds in JSON: `2.9 s`."""
    return KeyColumn(key, header, lambda row: _duration(getattr(row, key)), right=True, rank=rank)


def _duration(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds / 1000:.1f} s"


def _waits_cell(row: CoordinatedMember) -> Cell | str | None:
    if row.has_joined is None:
        return None
    return "the others" if row.has_joined else "sync" if row.is_awaiting_sync else Cell("")


def _phase_cell(row: CoordinatedGroupDescription) -> Cell | str:
    phase = row.phase or row.state
    return Cell("no answer", "bad") if phase is None else phase


def _used_cell(row: SlotDescription) -> Cell | str | None:
    """The greatest share that the groups of a slot have used of one of its bounds."""
    uses = (
        (len(row.groups), row.groups_max),
        (row.offsets, row.offsets_max),
        (row.metadata_bytes, row.metadata_bytes_max),
    )
    ratios = [used / most for used, most in uses if used is not None and most]
    if not ratios:
        return None
    return Cell(f"{max(ratios):.0%}", "bad" if max(ratios) >= 1 else None)


MEMBER = Shape(
    CoordinatedMember,
    *("member", "client_id", "host", "instance_id", "topics", "partitions"),
    *(
        given(key, nullable(COUNT))
        for key in ("session_timeout_ms", "rebalance_timeout_ms", "session_expires_in_ms")
    ),
    *("has_joined", "is_awaiting_sync"),
    columns=(
        KeyColumn("member", shorten="middle", least=24),
        KeyColumn("client_id", shorten="end", least=9, rank=3),
        KeyColumn("host", shorten="end", least=6, rank=4),
        KeyColumn("instance_id", shorten="end", least=11, rank=5),
        KeyColumn("leads", at=lambda row, leader: "yes" if row.member == leader else Cell(""), rank=2),
        KeyColumn("waits for", cell=_waits_cell),
        KeyColumn(
            "partitions",
            cell=lambda row: None if row.partitions is None else len(row.partitions),
            right=True,
        ),
        _seconds("session_timeout_ms", "SESSION TIMEOUT", 6),
        _seconds("session_expires_in_ms", "EXPIRES IN"),
    ),
)
"""The table is of the member that leads the group."""
GROUP = Shape(
    CoordinatedGroupDescription,
    *("group", "slot", "leader", "state", "phase", given("phase_ends_in_ms", nullable(COUNT))),
    *("generation", "stored_generation", "reserved_generation", "protocol_type", "protocol"),
    *("group_leader", "marked", "pending_members", "members", "detail"),
    columns=(
        KeyColumn("group", shorten="middle"),
        KeyColumn("slot", rank=1),
        KeyColumn(
            "leader", "COORDINATOR", lambda row: Cell("none", "bad") if row.leader is None else row.leader
        ),
        KeyColumn("phase", cell=_phase_cell),
        _seconds("phase_ends_in_ms", "ENDS IN", 2),
        "generation",
        KeyColumn("members", cell=lambda row: len(row.members), right=True),
        KeyColumn("pending_members", "PENDING", rank=3),
        KeyColumn("protocol", shorten="end", least=8, rank=4),
    ),
)
SLOT = Shape(
    SlotDescription,
    *("slot", "leader", "leader_epoch", given("owner", nullable(INTEGER))),
    *(given("owner_epoch", nullable(INTEGER)), "led", "groups", "detail"),
    columns=(
        *("slot", "leader", KeyColumn("leader_epoch", rank=1)),
        KeyColumn("owner", cell=lambda row: "operator" if row.owner == -1 else row.owner, rank=2),
        KeyColumn("owner_epoch", rank=3),
        KeyColumn("used", cell=_used_cell, right=True),
        KeyColumn("groups", shorten="end", least=10),
        KeyColumn(
            *("detail", "PROBLEM", lambda row: Cell(row.detail or "", "bad")),
            when=lambda rows: any(row.detail for row in rows),
            shorten="end",
            least=20,
        ),
    ),
)
COORDINATOR = Document(
    "coordinator",
    Shape(CoordinatorDescription, "slot_count", "slots", "groups", "unanswered"),
    rows="slots",
)
Release = ChangeResult[ReleasePlan, None, None]
GROUP_RELEASE = Document(
    "group_release",
    Shape(Release, "plan.group", "executed", "plan.slot", "plan.leader", "plan.members"),
)


class _Leader(NamedTuple):
    """A broker that leads slots; None for the slots that none leads."""

    broker: int | None
    slots: int
    groups: int
    members: int


_LEADER = Shape(
    _Leader,
    columns=(
        KeyColumn("broker", cell=lambda row: Cell("none", "bad") if row.broker is None else row.broker),
        *("slots", "groups", "members"),
    ),
)


@coordinator.command()
@click.argument("group", required=False)
@watch_option
@broker_options
def describe(group: str | None) -> None:
    """Show slots and leaders, groups, members and timers.

    Of a group also its phase and generation. With GROUP only this group, with its members. Slots and stored
    members are read from ZooKeeper; phases and timers are asked of the brokers that lead the slots. Exit code
    4 where one does not answer, 5 where no coordinator has ever started, or none has such a group. The csv
    format has a row for each slot, with GROUP one for each member.

    \b
    Example:
      zkgroup coordinator describe billing --format json
    """
    out = output()
    with connected() as ensemble:
        found = describe_coordinator(ensemble, group)
    if group is None:
        if not COORDINATOR.print(out, found.as_of, found):
            _show(out, found)
    elif out.format == "csv":
        out.document(GROUP.json(found.groups[0]), "members", MEMBER.keys)
    elif not out.document(COORDINATOR.json(found.as_of, found)):
        _show_group(out, found.groups[0], found.slots[0])
    note_refusals(found.unanswered)
    if others := [text for text in found.unanswered if AuthorizationError.WORDS not in text]:
        raise PartlyDoneError("; ".join(others))


@coordinator.command()
@group_argument()
@confirm_options
def release(group: str, consent: Consent) -> None:
    """Let ZooKeeper consumers join GROUP if no broker leads its slot.

    Takes the marker of Kafka's group protocol off, and the stored members out of the group. Refused while a
    live broker leads the slot: that takes the marker off itself when the last member has left. Be sure that
    the clients of the group have stopped. It cannot be undone.

    \b
    Example:
      zkgroup coordinator release billing --execute
    """
    with connected() as ensemble:
        change = release_group_change(ensemble, plan_release(ensemble, group))
        result = run_change(change, _show_release, consent)
    print_result(GROUP_RELEASE, result, _show_release)


def _show_release(out: Output, result: Release) -> None:
    plan, verb = result.plan, "released" if result.executed else "would release"
    members = counted(len(plan.members), "stored member")
    out.line(f"{verb} group {plan.group} of slot {plan.slot}: {members}")


def _show(out: Output, found: CoordinatorDescription) -> None:
    """Prints each broker's number of slots, the slots with groups or without a leader, and the groups."""
    parts = [
        out.paint(counted(found.slot_count, "slot"), "bold"),
        counted(len(found.groups), "group"),
        out.paint(f"zxid 0x{found.as_of.zxid:x}", "dim"),
    ]
    out.line("  ".join(parts))
    out.line()
    _LEADER.table(out, _leaders(found))
    shown = [slot for slot in found.slots if slot.groups]
    if shown:
        out.line()
        SLOT.table(out, shown)
    if found.groups:
        out.line()
        GROUP.table(out, found.groups)


def _leaders(found: CoordinatorDescription) -> list[_Leader]:
    brokers = sorted({slot.leader for slot in found.slots if slot.led and slot.leader is not None})
    rows = []
    for broker in [*brokers, *([None] if not all(slot.led for slot in found.slots) else [])]:
        led = [slot for slot in found.slots if (slot.leader if slot.led else None) == broker]
        members = sum(len(group.members) for group in found.groups if group.leader == broker)
        rows.append(_Leader(broker, len(led), sum(len(slot.groups) for slot in led), members))
    return rows


def _show_group(out: Output, one: CoordinatedGroupDescription, slot: SlotDescription) -> None:
    """A headline and the members with their timers."""
    ends = _duration(one.phase_ends_in_ms)
    coordinated = (
        out.paint("no coordinator", "bad")
        if one.leader is None
        else f"broker {one.leader}, leader epoch {slot.leader_epoch}"
    )
    parts = [
        out.paint(one.group, "bold"),
        f"slot {one.slot}",
        coordinated,
        one.phase or one.state or out.paint("no answer", "bad"),
        *([f"ends in {ends}"] if ends else []),
        *([] if one.generation is None else [f"generation {one.generation}"]),
        *([short_name(one.protocol)] if one.protocol else []),
        counted(len(one.members), "member"),
        *([f"{one.pending_members} pending"] if one.pending_members else []),
        "marked" if one.marked else "not marked",
    ]
    out.line("  ".join(parts))
    if slot.detail:
        out.line(out.paint(slot.detail, "bad"))
    if one.members:
        out.line()
        MEMBER.table(out, one.members, one.group_leader)
