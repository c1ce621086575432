"""What a machine knows, for people and for the shell's waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.consumer.effects import MemberState
from zkgroup.consumer.machine.core import Core
from zkgroup.consumer.machine.plan import Planned
from zkgroup.consumer.machine.snapshot import Picture
from zkgroup.model import LeaseGrant, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A picture of one member at one moment."""

    member_id: str
    state: MemberState
    reason: str
    session_id: int | None
    generation: int | None
    """pzxid of `ids` of the newest picture."""
    strategy: str | None
    is_assigned: bool
    """The newest plan that this member knows is carried out as far as it concerns it."""
    members: tuple[str, ...]
    """Who takes part in the plan."""
    target: Mapping[TopicPartition, int]
    """What this member should own, with the thread."""
    held: Mapping[TopicPartition, LeaseGrant]
    fences: Mapping[TopicPartition, int]
    """Data version of the offset znode that the next commit of each held partition expects."""
    blocked: Mapping[TopicPartition, str]
    """What it waits for, with the thread id that holds it."""
    owners: Mapping[TopicPartition, str]
    """The whole group's plan: partition to thread id."""


def describe(
    core: Core, picture: Picture | None, planned: Planned | None, is_assigned: bool
) -> MemberDescription:
    """The description of this moment; its mappings are copies where they could change."""
    return MemberDescription(
        member_id=core.config.member_id,
        state=core.state,
        reason=core.reason,
        session_id=core.session.session_id if core.session is not None else None,
        generation=picture.generation if picture is not None else None,
        strategy=planned.strategy if planned is not None else None,
        is_assigned=is_assigned,
        members=tuple(m.member for m in picture.members) if picture is not None else (),
        target=dict(core.owned.target),
        held={tp: held.grant() for tp, held in core.owned.held.items()},
        fences={tp: held.fence for tp, held in core.owned.held.items()},
        blocked=dict(core.owned.blocked),
        owners=planned.owners if planned is not None else {},
    )
