"""What findings say that an incident cost, by partition."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from zkgroup.audit.facts import Facts
from zkgroup.audit.incidents.incident import PartitionDamage
from zkgroup.audit.rules import Finding

_WRITTEN = re.compile(r"(?P<before>\d+) -> (?P<after>\d+) by ")
_Where = tuple[str | None, str, int]


class Rewind(NamedTuple):
    """An offset that a commit set back."""

    before: int
    after: int


def rewind_of(one: Finding) -> Rewind | None:
    """The offsets of an `offset_regression`, from its detail; None for other findings."""
    written = _WRITTEN.match(one.detail) if one.finding == "offset_regression" else None
    return None if written is None else Rewind(int(written["before"]), int(written["after"]))


def length_ms(one: Finding, facts: Facts) -> int:
    """How long a finding lasted, up to the end of the history; never below 0."""
    if one.from_ms is None:
        return 0
    return max((facts.end_ms if one.to_ms is None else one.to_ms) - one.from_ms, 0)


def damage_of(findings: Iterable[Finding], facts: Facts) -> tuple[PartitionDamage, ...]:
    """The damage of each partition that has some, in the order of group, topic and partition."""
    again, unowned, leaderless = Counter[_Where](), Counter[_Where](), Counter[_Where]()
    for one in findings:
        if one.topic is None or one.partition is None or one.severity == "info":
            continue
        where = (one.group, one.topic, one.partition)
        rewind = rewind_of(one)
        if rewind is not None:
            again[where] += rewind.before - rewind.after
        elif one.finding == "unowned_interval":
            unowned[where] += length_ms(one, facts)
        elif one.finding == "offline_partition":
            leaderless[where] += length_ms(one, facts)
    places = sorted({*again, *unowned, *leaderless}, key=lambda place: (place[0] or "", *place[1:]))
    return tuple(PartitionDamage(*where, again[where], unowned[where], leaderless[where]) for where in places)
