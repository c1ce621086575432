"""What an incident is: its cause, its damage, and the findings in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from zkgroup.audit.rules import Finding, Severity
from zkgroup.znodes.controller import ControllerRegistration

CONTROLLER = ControllerRegistration.path()
"""What a foreign write was to, where it was no group's."""

CauseKind = Literal[
    "foreign write",
    "session end",
    "expiry",
    "unreadable registration",
    "restart",
    "membership change",
    "rebalance storm",
    "orphaned claim",
    "operator reset",
    "lost broker",
    "broker shutdown",
    "controller change",
    "controller storm",
    "slow follower",
    "reassignment",
    "state",
    "note",
]
"""`state` is what the log shows no cause of; `note` brings findings of severity info together by name."""


class Cause(NamedTuple):
    """What made an incident; findings with equal causes are one incident."""

    kind: CauseKind
    group: str | None = None
    what: str = ""
    """The member, brokers, znode or finding that it is about."""
    session: int | None = None
    zxid: int | None = None
    """Where it begins; None where the log does not show it."""
    time_ms: int | None = None


class PartitionDamage(NamedTuple):
    """What an incident cost one partition."""

    group: str | None
    topic: str
    partition: int
    delivered_again: int = 0
    """Records at least: how far offsets were set back."""
    unowned_ms: int = 0
    """How long no member owned it."""
    leaderless_ms: int = 0
    """How long it had no leader that was registered."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Findings with one cause. Times as of a finding: `to_*` is None for what lasts to the end."""

    title: str
    """A sentence that begins with its time, where it has one."""
    severity: Severity
    cause: Cause
    group: str | None
    from_zxid: int | None
    to_zxid: int | None
    from_ms: int | None
    to_ms: int | None
    damage: tuple[PartitionDamage, ...]
    act: str
    """What to do."""
    findings: tuple[Finding, ...]
    """In the order of the audit."""
