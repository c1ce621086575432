"""The freeze of a group, as operators see it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.groups.descriptions import FreezeDescription, Problem, ProblemKind
from zkgroup.groups.snapshot import DecodedZnode, GroupSnapshot
from zkgroup.model.text import iso_time, typed
from zkgroup.znodes.consumers import FREEZE
from zkgroup.znodes.group_records import Freeze


def describe_freeze(marker: DecodedZnode[Freeze] | None) -> FreezeDescription | None:
    """The freeze of a group, from its marker."""
    if marker is None:
        return None
    if marker.value is None:
        return FreezeDescription(reason="", until_ms=None, by="")
    return FreezeDescription(
        reason=marker.value.reason, until_ms=marker.value.until_ms(marker.stat), by=marker.value.by
    )


def stands(marker: DecodedZnode[Freeze] | None, now_ms: int) -> bool:
    """Returns whether a freeze stands. Without members nobody deletes its marker when its time is over."""
    return marker is not None and (marker.value is None or marker.value.until_ms(marker.stat) > now_ms)


def freeze_text(marker: DecodedZnode[Freeze]) -> str:
    """Says until when a group is frozen, by whom and why."""
    if marker.value is None:
        return f"the group is frozen by a marker that cannot be read: {marker.error}"
    until = iso_time(marker.value.until_ms(marker.stat))
    return f"the group is frozen until {until} by {marker.value.by}: {marker.value.reason}"


def freeze_problems(snapshot: GroupSnapshot) -> Iterator[Problem]:
    """Members that do not obey the freeze of their group, and a marker that cannot be read."""
    marker = snapshot.frozen
    if marker is None:
        return
    if marker.error is not None:
        unfreeze = typed("group unfreeze", snapshot.group, options="--execute")
        detail = f"{marker.error}; nothing moves until `{unfreeze}` deletes it"
        yield Problem(kind=ProblemKind.FROZEN, since_ms=marker.stat.ctime, detail=detail)
    for member in disobeying(snapshot):
        entry = snapshot.registrations[member]
        yield Problem(
            kind=ProblemKind.FROZEN,
            found=member,
            since_ms=entry.stat.ctime,
            detail=f"{entry.znode.path}: does not know freezes (a JVM consumer, or zkgroup of an earlier "
            "version): it claims and releases as if there were none",
        )


def disobeying(snapshot: GroupSnapshot) -> tuple[str, ...]:
    """The registered members that know no freeze, sorted."""
    entries = sorted(snapshot.registrations.items())
    return tuple(name for name, one in entries if one.value and FREEZE not in one.value.features)
