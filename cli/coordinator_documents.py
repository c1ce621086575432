"""The JSON documents of the group coordinator. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zkgroup.admin.coordinator import (
    CoordinatedGroupDescription,
    CoordinatedMember,
    CoordinatorDescription,
    SlotDescription,
)

from .schema import COUNT, INTEGER, Document, Shape, given, nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRelease:
    """`coordinator release`."""

    group: str
    executed: bool
    slot: int
    leader: int | None
    members: Sequence[str]


COORDINATED_MEMBER = Shape(
    CoordinatedMember,
    *("member", "client_id", "host", "instance_id", "topics", "partitions"),
    *(
        given(key, nullable(COUNT))
        for key in ("session_timeout_ms", "rebalance_timeout_ms", "session_expires_in_ms")
    ),
    *("has_joined", "is_awaiting_sync"),
)
COORDINATED_GROUP = Shape(
    CoordinatedGroupDescription,
    *("group", "slot", "leader", "state", "phase", given("phase_ends_in_ms", nullable(COUNT))),
    *("generation", "stored_generation", "reserved_generation", "protocol_type", "protocol"),
    *("group_leader", "marked", "pending_members", "members", "detail"),
)
SLOT = Shape(
    SlotDescription,
    *("slot", "leader", "leader_epoch", given("owner", nullable(INTEGER))),
    *(given("owner_epoch", nullable(INTEGER)), "led", "groups", "detail"),
)
COORDINATOR = Document(
    "coordinator", Shape(CoordinatorDescription, "slot_count", "slots", "groups", "unanswered")
)
GROUP_RELEASE = Document("group_release", Shape(GroupRelease))
