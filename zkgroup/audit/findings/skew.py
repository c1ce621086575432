"""Members of a group with very different shares, at the end of the history.

A warning where the plan means something else, after expanding wildcards and threads, and nothing has
changed for `grace_ms`; info where the plan itself is uneven among members that want the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zkgroup.audit.events import Event
from zkgroup.audit.expected_owners import ExpectedOwners
from zkgroup.audit.facts import Facts
from zkgroup.audit.group_picture import GroupPicture
from zkgroup.audit.keys import BY_MEMBERSHIP, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Severity, folded
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Owner
from zkgroup.znodes.paths import path_kind

NAME = "skew"
_NAMED_MAX = 3


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group = key[0]
        self._facts = facts
        self._grace_ms = bounds["grace_ms"]
        self._picture = GroupPicture(self._group, facts)
        self._changed = (0, 0)
        """Zxid and time of the last change of members or owners."""

    def see(self, event: Event) -> Iterator[Finding]:
        self._picture.apply(event)
        if event.op in ("create", "delete") and path_kind(event.path).kind in ("member", "owner"):
            self._changed = max(self._changed, (event.zxid, event.time_ms))
        yield from ()

    def end(self) -> Iterator[Finding]:
        zxid, time_ms = self._changed
        plan = self._picture.expected_owners(self._facts.end_zxid)
        if plan is None or self._facts.end_ms - time_ms <= self._grace_ms:
            return
        owned = _shares(plan, self._picture.threads())
        meant = _shares(plan, plan.owners)
        found = _judge(plan, owned, meant)
        if found is not None:
            severity, detail = found
            yield Finding(NAME, severity, self._group, from_zxid=zxid, from_ms=time_ms, detail=detail)


def _judge(
    plan: ExpectedOwners, owned: Mapping[str, int], meant: Mapping[str, int]
) -> tuple[Severity, str] | None:
    """A warning for what the plan did not mean, info for a plan that is uneven by itself."""
    idle = [member for member, count in owned.items() if not count and meant[member]]
    if idle:
        more = f" and {len(idle) - _NAMED_MAX} more" if len(idle) > _NAMED_MAX else ""
        return (
            "warning",
            f"idle, though the plan has partitions for them: {', '.join(idle[:_NAMED_MAX])}{more}",
        )
    if _spread(owned) > max(_spread(meant), 1):
        return "warning", f"{_extremes(owned)}; by the plan they would differ by {_spread(meant)}"
    same = len({tuple(sorted(member.threads.items())) for member in plan.members}) == 1
    if same and _spread(meant) > 1 and owned == meant:
        return (
            "info",
            f"{_extremes(owned)}, which is the plan of {plan.strategy}: it cuts each topic by itself",
        )
    return None


def _shares(plan: ExpectedOwners, owners: Mapping[TopicPartition, str]) -> dict[str, int]:
    """Partitions by member, of those who want any."""
    counts = {member.member: 0 for member in plan.members if member.threads}
    for thread in owners.values():
        member = Owner(thread).member
        if member in counts:
            counts[member] += 1
    return counts


def _spread(counts: Mapping[str, int]) -> int:
    return max(counts.values(), default=0) - min(counts.values(), default=0)


def _extremes(counts: Mapping[str, int]) -> str:
    most, least = max(counts, key=lambda name: counts[name]), min(counts, key=lambda name: counts[name])
    return f"{most} owns {counts[most]}, {least} owns {counts[least]}"


RULE = Rule(
    name=NAME,
    severity="warning",
    question="Do members own what they are assigned, and is that even?",
    needs=("snapshot",),
    act=(
        "Warning: `group verify` names the members that disagree; a JVM member that gave up needs a restart."
        " Info: with many small topics `roundrobin` or `sticky` share more evenly than `range`."
    ),
    keys=BY_MEMBERSHIP,
    find=folded(_Fold),
    bounds={"grace_ms": 10_000},
)
