"""A group at rest, as the value that is stored, and the group that a coordinator makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata, MemberMetadata
from zkgroup.coordinator.history import assignments_by_name, rebalance_of
from zkgroup.znodes.coordinated_groups import StoredMember
from zkgroup.znodes.group_history import RebalanceRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A group as it is stored: Empty, or Stable with the assignments of its generation."""

    group_id: str
    generation: int
    reserved_generation: int
    """Generations up to this one may have been given to members."""
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]
    is_frozen: bool = False
    """True if an operator has frozen it: its coordinator keeps the generation."""
    rebalance: RebalanceRecord | None = field(default=None, compare=False)
    """The one that ends with this generation, its time by the machine's clock; None where it is not known."""

    @property
    def state(self) -> ConsumerGroupState:
        """The state in which a coordinator that loads the group begins."""
        return ConsumerGroupState.STABLE if self.members else ConsumerGroupState.EMPTY


def group_record(group: GroupMetadata, assignments: Mapping[str, bytes], now_ms: int) -> GroupRecord:
    """The group as it is to be stored, with more generations reserved if few are left.

    Who has left a frozen group stays in it: it expires when the freeze is over, and that is the rebalance.
    """
    members = [*group.members.values()]
    if group.is_frozen:
        members = [*(each for each in members if not each.is_new), *group.left_frozen]
    return GroupRecord(
        group_id=group.group_id,
        generation=group.generation,
        reserved_generation=group.generation_to_reserve(),
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        state_timestamp_ms=now_ms,
        rebalance=rebalance_of(group, assignments, now_ms),
        members=tuple(
            StoredMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=member.protocols,
                assignment=assignments.get(member.member_id, member.assignment),
            )
            for member in members
        ),
    )


def loaded_group(record: GroupRecord) -> GroupMetadata:
    """The group of a record, in the state Empty or Stable; its timers are not set."""
    group = GroupMetadata(record.group_id)
    for each in record.members:
        assert record.protocol_type is not None
        group.add(
            MemberMetadata(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                session_timeout_ms=each.session_timeout_ms,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                protocols=each.protocols,
                assignment=each.assignment,
            ),
            record.protocol_type,
        )
    group.stored_assignments = assignments_by_name(
        group, {each.member_id: each.assignment for each in record.members}
    )
    group.state = record.state
    group.state_timestamp_ms = record.state_timestamp_ms
    group.generation = record.generation
    group.reserved_generation = group.requested_generation = record.reserved_generation
    group.skipped_generation = record.reserved_generation
    group.protocol_type = record.protocol_type
    group.protocol = record.protocol
    group.leader = record.leader if record.leader in group.members else next(iter(group.members), None)
    group.is_marked = bool(record.members)
    group.is_frozen = record.is_frozen
    return group
