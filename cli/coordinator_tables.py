"""The group coordinator as text for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zkgroup.admin.coordinator import (
    CoordinatedGroupDescription,
    CoordinatedMember,
    CoordinatorDescription,
    SlotDescription,
)

from .render import Cell, Output, TableColumn, short_name
from .units import counted


def coordinator(out: Output, found: CoordinatorDescription) -> None:
    """How many slots each broker leads, the slots with groups or without a leader, and the groups."""
    parts = [
        out.paint(counted(found.slot_count, "slot"), "bold"),
        counted(len(found.groups), "group"),
        out.paint(f"zxid 0x{found.as_of.zxid:x}", "dim"),
    ]
    out.line("  ".join(parts))
    out.line()
    leaders(out, found)
    shown = [slot for slot in found.slots if slot.groups]
    if shown:
        out.line()
        slots(out, shown)
    if found.groups:
        out.line()
        groups(out, found.groups)


def leaders(out: Output, found: CoordinatorDescription) -> None:
    """One row a broker that leads slots, and one for the slots that none leads."""
    brokers = sorted({slot.leader for slot in found.slots if slot.led and slot.leader is not None})
    rows: list[int | None] = [*brokers, *([None] if not all(slot.led for slot in found.slots) else [])]

    def led(broker: int | None) -> list[SlotDescription]:
        return [slot for slot in found.slots if (slot.leader if slot.led else None) == broker]

    def members(broker: int | None) -> int:
        return sum(len(group.members) for group in found.groups if group.leader == broker)

    columns: list[TableColumn[int | None]] = [
        TableColumn("BROKER", lambda row: Cell("none", "bad") if row is None else row, right=True),
        TableColumn("SLOTS", lambda row: len(led(row)), right=True),
        TableColumn("GROUPS", lambda row: sum(len(slot.groups) for slot in led(row)), right=True),
        TableColumn("MEMBERS", members, right=True),
    ]
    out.table(columns, rows)


def slots(out: Output, rows: Sequence[SlotDescription]) -> None:
    """One row a slot; what is wrong only where something is."""
    details: list[TableColumn[SlotDescription]] = [
        TableColumn("PROBLEM", lambda row: Cell(row.detail or "", "bad"), shorten="end", least=20)
    ]
    columns: list[TableColumn[SlotDescription]] = [
        TableColumn("SLOT", lambda row: row.slot, right=True),
        TableColumn("LEADER", lambda row: row.leader, right=True),
        TableColumn("LEADER EPOCH", lambda row: row.leader_epoch, right=True, rank=1),
        TableColumn("OWNER", _owner_cell, right=True, rank=2),
        TableColumn("OWNER EPOCH", lambda row: row.owner_epoch, right=True, rank=3),
        TableColumn("USED", _used_cell, right=True),
        TableColumn("GROUPS", lambda row: ", ".join(row.groups), shorten="end", least=10),
        *(details if any(row.detail for row in rows) else []),
    ]
    out.table(columns, rows)


def _used_cell(row: SlotDescription) -> Cell | str | None:
    """How much of the bounds of a slot its groups have used, by the one that is nearest."""
    uses = (
        (len(row.groups), row.groups_max),
        (row.offsets, row.offsets_max),
        (row.metadata_bytes, row.metadata_bytes_max),
    )
    ratios = [used / most for used, most in uses if used is not None and most]
    if not ratios:
        return None
    return Cell(f"{max(ratios):.0%}", "bad" if max(ratios) >= 1 else None)


def _owner_cell(row: SlotDescription) -> str | int | None:
    return "operator" if row.owner == -1 else row.owner


def groups(out: Output, rows: Iterable[CoordinatedGroupDescription]) -> None:
    """One row a group."""
    columns: list[TableColumn[CoordinatedGroupDescription]] = [
        TableColumn("GROUP", lambda row: row.group, shorten="middle"),
        TableColumn("SLOT", lambda row: row.slot, right=True, rank=1),
        TableColumn(
            "COORDINATOR", lambda row: Cell("none", "bad") if row.leader is None else row.leader, right=True
        ),
        TableColumn("PHASE", _phase_cell),
        TableColumn("ENDS IN", lambda row: _duration(row.phase_ends_in_ms), right=True, rank=2),
        TableColumn("GENERATION", lambda row: row.generation, right=True),
        TableColumn("MEMBERS", lambda row: len(row.members), right=True),
        TableColumn("PENDING", lambda row: row.pending_members, right=True, rank=3),
        TableColumn("PROTOCOL", lambda row: row.protocol, shorten="end", least=8, rank=4),
    ]
    out.table(columns, rows)


def _phase_cell(row: CoordinatedGroupDescription) -> Cell | str:
    phase = row.phase or row.state
    return Cell("no answer", "bad") if phase is None else phase


def group(out: Output, one: CoordinatedGroupDescription, slot: SlotDescription) -> None:
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
        members(out, one)


def members(out: Output, one: CoordinatedGroupDescription) -> None:
    """One row a member."""
    columns: list[TableColumn[CoordinatedMember]] = [
        TableColumn("MEMBER", lambda row: row.member, shorten="middle", least=24),
        TableColumn("CLIENT ID", lambda row: row.client_id, shorten="end", least=9, rank=3),
        TableColumn("HOST", lambda row: row.host, shorten="end", least=6, rank=4),
        TableColumn("INSTANCE ID", lambda row: row.instance_id, shorten="end", least=11, rank=5),
        TableColumn("LEADS", lambda row: "yes" if row.member == one.group_leader else Cell(""), rank=2),
        TableColumn("WAITS FOR", _waits_cell),
        TableColumn(
            "PARTITIONS", lambda row: None if row.partitions is None else len(row.partitions), right=True
        ),
        TableColumn("SESSION TIMEOUT", lambda row: _duration(row.session_timeout_ms), right=True, rank=6),
        TableColumn("EXPIRES IN", lambda row: _duration(row.session_expires_in_ms), right=True),
    ]
    out.table(columns, one.members)


def _waits_cell(row: CoordinatedMember) -> Cell | str | None:
    if row.has_joined is None:
        return None
    return "the others" if row.has_joined else "sync" if row.is_awaiting_sync else Cell("")


def _duration(milliseconds: int | None) -> str | None:
    """`2.9 s`."""
    return None if milliseconds is None else f"{milliseconds / 1000:.1f} s"
