"""Group coordinators in `status` and `doctor`: slots without a leader, groups that wait or are stuck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from zkgroup.admin.coordinator import CoordinatedGroupDescription, CoordinatedMember, describe_coordinator
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import NotFoundError
from zkgroup.groups.descriptions import GroupState, GroupSummary
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.membership import EMPTY, STABLE
from zkgroup.groups.slots import read_slot_count, read_slots
from zkgroup.model.text import named, typed

STUCK_MS: Final = 10_000
"""A rebalance that takes longer is a warning; a client notices it within its heartbeat interval, 3 s."""
NAMED_MAX: Final = 3
"""Members that a finding names."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Something that an operator should know, and the command to run next."""

    severity: Literal["error", "warning", "info"]
    """`error`, `warning` or `info`."""
    subject: str
    """The subject of the finding: `brokers`, `controller`, `orders`, ..."""
    detail: str
    """The fault, in one sentence."""
    next: str | None = None
    """The command to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStatus:
    """The group coordinator in `status`."""

    slots: int
    """The number of slots."""
    slots_without_leader: tuple[int, ...]
    """Slots that no live broker of zkgroup leads: no broker coordinates their groups."""
    unanswered: tuple[str, ...]
    """Everything that coordinators have not answered, each with the reason."""


def read_coordinator(ensemble: Ensemble, unanswered: Sequence[str]) -> CoordinatorStatus | None:
    """The slots; None where no coordinator has ever started, or their number cannot be read."""
    count = read_slot_count(ensemble)
    if count is None:
        return None
    slots = read_slots(ensemble, range(count))
    return CoordinatorStatus(
        slots=count,
        slots_without_leader=tuple(number for number, slot in slots.items() if not slot.is_led),
        unanswered=tuple(unanswered),
    )


def read_rebalances(
    ensemble: Ensemble, groups: Sequence[GroupSummary]
) -> dict[str, CoordinatedGroupDescription]:
    """The groups of Kafka's protocol that are rebalancing, as their coordinators describe them."""
    found: dict[str, CoordinatedGroupDescription] = {}
    for group in groups:
        if group.protocol == "coordinator" and group.state is GroupState.REBALANCING:
            try:
                described = describe_coordinator(ensemble, group.group)
            except NotFoundError:  # it has gone meanwhile
                continue
            found[group.group] = described.groups[0]
    return found


def diagnose_coordinated(
    group: GroupSummary,
    coordinator: CoordinatorStatus,
    rebalances: Mapping[str, CoordinatedGroupDescription],
) -> DoctorFinding | None:
    """The faults of a group of Kafka's protocol; None for nothing, or for what any group may have."""
    if group.protocol != "coordinator" or not group.members:
        return None
    slot = slot_of(group.group, coordinator.slots)
    subject = f"group {group.group}"
    if slot in coordinator.slots_without_leader:
        return DoctorFinding(
            "error",
            subject,
            f"no live broker leads its slot, {slot}: its clients have no coordinator, and ZooKeeper "
            "consumers cannot join; start a broker, or release the group once its clients have stopped",
            typed("coordinator release", group.group),
        )
    if group.protocol_state is None:
        detail = "its coordinator does not answer, so its state is not known"
        return DoctorFinding("warning", subject, detail, typed("coordinator describe", group.group))
    if group.state is GroupState.REBALANCING:
        return _rebalancing(group, rebalances.get(group.group))
    if group.state is GroupState.INCONSISTENT:
        detail = "its coordinator, its members and ZooKeeper do not agree, and nothing changes"
        return DoctorFinding("error", subject, detail, typed("group verify", group.group))
    return None


def _rebalancing(group: GroupSummary, found: CoordinatedGroupDescription | None) -> DoctorFinding:
    """Names the members that it waits for; a warning where it has taken long."""
    subject, describe = f"group {group.group}", typed("coordinator describe", group.group)
    if group.protocol_state in (STABLE, EMPTY):
        detail = "has changed within the last 10 s, and does not agree with ZooKeeper yet"
        return DoctorFinding("info", subject, detail, typed("group verify", group.group, options="--wait"))
    phase = (found.phase or found.state) if found else None
    if found is None or phase is None:
        return DoctorFinding("info", subject, "is rebalancing", describe)
    detail = f"is rebalancing, {phase}"
    waited_for = _waited_for(found)
    if waited_for:
        detail += f": waits for {named(waited_for, NAMED_MAX)}"
    taken_ms = rebalancing_ms(found)
    if taken_ms is None or taken_ms < STUCK_MS:
        return DoctorFinding("info", subject, detail, describe)
    assert found.phase_ends_in_ms is not None
    ends = f"those that have not come are removed in {found.phase_ends_in_ms / 1000:.0f} s"
    return DoctorFinding("warning", subject, f"{detail}, for {taken_ms / 1000:.0f} s; {ends}", describe)


def _waited_for(found: CoordinatedGroupDescription) -> list[str]:
    """Client ids of the members that have not joined again, or have not synced."""

    def is_late(member: CoordinatedMember) -> bool:
        if found.state == "PreparingRebalance":
            return member.has_joined is False
        return member.is_awaiting_sync is True

    return [f"{member.client_id} ({member.host})" for member in found.members if is_late(member)]


def rebalancing_ms(found: CoordinatedGroupDescription) -> int | None:
    """Returns how long a phase has lasted; None where it has no end, or members are not stored yet.

    It ends after the longest rebalance timeout of the members.
    """
    if found.phase not in ("PreparingRebalance", "CompletingRebalance") or found.phase_ends_in_ms is None:
        return None
    timeouts = [member.rebalance_timeout_ms for member in found.members]
    known = [timeout for timeout in timeouts if timeout is not None]
    if not known or len(known) < len(timeouts):
        return None
    return max(max(known) - found.phase_ends_in_ms, 0)
