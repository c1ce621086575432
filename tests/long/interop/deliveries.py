"""What the members of a group were assigned, read and committed.

`Deliveries` takes the lines that `client_members.py` describes in the order of their time, whichever process
printed them, and checks:

- A member reads only partitions that it is assigned, each from its committed offset or later, without a gap.
- No partition is assigned to two members.
- No commit of a member that the group has removed is accepted. One that waited in the client until it was
  assigned partitions again is of its new generation: it may set an offset back, to be read from there.

A test adds the lines `killed` and `stopped` of the signals that it sent. From then on, and from `stalled` on
(no polls), a member's partitions may be assigned to others. What it still reads, until it is assigned
partitions again, are records that it had fetched before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]
ENDS = ("lost", "closing", "closed", "stalled", "killed", "stopped")
"""The events after which a member owns nothing of those partitions, or nothing at all. aiokafka is assigned
partitions while it closes, if a rebalance is under way, and says nothing when it gives them up."""
AWAY = ("stalled", "killed", "stopped")


@dataclass
class _Tenure:
    """A partition of a member, from its assignment to its revocation."""

    committed: int
    """The committed offset at the assignment."""
    next: int | None = None
    """The offset after the last record read."""


class Deliveries:
    """The records read by all members, and what contradicts the promises above."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.read: Counter[tuple[int, int]] = Counter()
        """Partition and offset -> how often it was read."""
        self.committed: dict[int, int] = {}
        """Partition -> the highest offset of an accepted commit."""
        self.breaches: list[str] = []
        self.left_with: dict[str, frozenset[int]] = {}
        """Member -> the partitions that it owned when it was last stalled, stopped or killed."""
        self._owned: dict[str, dict[int, _Tenure]] = {}
        self._uncommitted: dict[str, dict[int, set[int]]] = {}
        self._away: set[str] = set()
        for line in sorted(lines, key=lambda one: int(one["at"])):
            self._take(line)

    def owned(self, member: str) -> frozenset[int]:
        return frozenset(self._owned.get(member, ()))

    def missing(self, ends: Mapping[int, int]) -> set[tuple[int, int]]:
        """The records of partitions with these ends that no member has read."""
        return {(partition, offset) for partition, end in ends.items() for offset in range(end)} - set(
            self.read
        )

    def invented(self, ends: Mapping[int, int]) -> set[tuple[int, int]]:
        """The records read that were never written."""
        return {(partition, offset) for partition, offset in self.read if offset >= ends.get(partition, 0)}

    def repeated(self) -> set[tuple[int, int]]:
        """The records read more than once."""
        return {record for record, count in self.read.items() if count > 1}

    def uncommitted(self, member: str) -> set[tuple[int, int]]:
        """The records of its partitions that a member has read and not committed, also after its end."""
        found = self._uncommitted.get(member, {})
        return {(partition, offset) for partition, offsets in found.items() for offset in offsets}

    def _take(self, line: Line) -> None:
        member, event = line["member"], line["event"]
        if event == "failed":
            self._breach(line, line["error"])
        elif event == "assigned":
            self._assigned(member, line)
        elif event == "revoked" or event in ENDS:
            owned = self._owned.setdefault(member, {})
            if event in AWAY:
                self._away.add(member)
                self.left_with[member] = frozenset(owned)
            for partition in line.get("partitions", list(owned)):
                owned.pop(partition, None)
                if event not in AWAY:
                    self._uncommitted.get(member, {}).pop(partition, None)
        elif event == "read":
            self._read(member, line)
        elif event == "committed":
            self._committed(member, line)

    def _assigned(self, member: str, line: Line) -> None:
        self._away.discard(member)
        owned = self._owned.setdefault(member, {})
        for partition in line["partitions"]:
            others = [one for one, has in self._owned.items() if partition in has and one != member]
            if others:
                self._breach(line, f"{partition} is {others[0]}'s")
            owned.setdefault(partition, _Tenure(self.committed.get(partition, 0)))

    def _read(self, member: str, line: Line) -> None:
        partition, first, last = line["partition"], line["first"], line["last"]
        self.read.update((partition, offset) for offset in range(first, last + 1))
        if member in self._away:
            return
        tenure = self._owned.get(member, {}).get(partition)
        if tenure is None:
            self._breach(line, "it is not assigned")
        elif tenure.next is None and first < tenure.committed:
            self._breach(line, f"{tenure.committed} is committed")
        elif tenure.next is not None and first != tenure.next:
            self._breach(line, f"{tenure.next} is next")
        if tenure is not None:
            tenure.next = last + 1
            self._uncommitted.setdefault(member, {}).setdefault(partition, set()).update(
                range(first, last + 1)
            )

    def _committed(self, member: str, line: Line) -> None:
        if member in self._away:
            self._breach(line, "the group has removed it")
        for partition, offset in line["offsets"].items():
            self.committed[int(partition)] = max(offset, self.committed.get(int(partition), 0))
            tenure = self._owned.get(member, {}).get(int(partition))
            if tenure is not None and tenure.next is None:
                tenure.committed = min(tenure.committed, offset)
            read = self._uncommitted.get(member, {}).get(int(partition), set())
            read.difference_update(range(offset))

    def _breach(self, line: Line, why: str) -> None:
        self.breaches.append(f"{line}: {why}")
