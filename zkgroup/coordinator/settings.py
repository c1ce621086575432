"""Settings of a group coordinator, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INT32_MAX: Final = 2**31 - 1
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""A new member whose join is parked for so long is removed: its client may be gone (Kafka's constant)."""
GENERATIONS_RESERVED: Final = 100
"""Generations that one write reserves."""
GENERATIONS_LEFT: Final = 50
"""Lower bound of reserved generations; below it the next write of the group reserves more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Settings of all groups of a coordinator."""

    group_min_session_timeout_ms: int = 6_000
    """Shortest session timeout of a member, itself included."""
    group_max_session_timeout_ms: int = 1_800_000
    """Longest session timeout of a member, itself included."""
    group_initial_rebalance_delay_ms: int = 3_000
    """Wait for members in the first rebalance of an empty group; each one that joins extends it."""
    group_max_size: int = INT32_MAX
    """Most members of a group."""
    slot_max_groups: int = 500
    """Most groups of a slot."""
    offset_metadata_max_bytes: int = 4_096
    """Longest metadata of a commit, in characters, as Kafka counts."""
