"""One partition of one group through time: what its offset held, who wrote it, and who owned it then.

What the findings about commits and the view of offsets share. A claim by zkgroup writes the offset too, in
the transaction that creates the owner and after it: that is no commit (recipes 11).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from zkgroup.audit.answers.owner_lives import OwnerLife, OwnerLives
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import Key
from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.consumers import Offset, owners_path

_SAFE_DIGITS: Final = 18
"""So many are below 2**63 whatever they are; almost every offset is so, and there are many."""


class OffsetWrite(NamedTuple):
    """One write of the offset, on the state just before it."""

    event: Event
    offset: int | None
    """None where it is no number; negative means "none"."""
    previous: int | None
    """Holds what the znode held before, in the same life; None where it held nothing, or that is not
    known."""
    holder: OwnerLife | None
    holder_known: bool
    """False as long as no row of the owner was seen: it may have no owner, or one from before the history."""
    is_claim: bool

    @property
    def is_commit(self) -> bool:
        return not self.is_claim and not self.event.seed

    @property
    def falls(self) -> bool:
        return self.offset is not None and self.previous is not None and self.offset < self.previous >= 0

    @property
    def repeats(self) -> bool:
        return self.offset is not None and self.offset == self.previous


class PartitionStep(NamedTuple):
    """One row of a partition, with what it did."""

    event: Event
    is_owner: bool
    """True if the row is of the owner znode; it is of the offset otherwise."""
    write: OffsetWrite | None
    ended: OwnerLife | None
    """The ownership that the row ended."""
    holder: OwnerLife | None
    """Names who owns the partition behind the row."""
    value: int | None
    """The offset behind the row."""
    exists: bool
    """True if there is an offset znode behind the row."""


class PartitionOffsets:
    """Sees the owner and offset rows of one partition, in order."""

    def __init__(self, group: str, facts: Facts) -> None:
        self._owners = f"{owners_path(group)}/"
        self._lives = OwnerLives(facts)
        self._holder_known = False
        self.value: int | None = None
        self.exists = False
        """True if there is an offset znode."""

    @property
    def holder(self) -> OwnerLife | None:
        """Returns who owns the partition, by its owner znode."""
        return self._lives.current

    def is_owner(self, event: Event) -> bool:
        """Returns whether a row is of the owner znode; it is of the offset otherwise."""
        return event.path.startswith(self._owners)

    def see_owner(self, event: Event) -> OwnerLife | None:
        """Takes a row of the owner in; the ownership that it ended, if it ended one."""
        self._holder_known = True
        return self._lives.see(event)

    def see(self, event: Event) -> OffsetWrite | None:
        """Takes a row in; what was written, where it was a write of the offset."""
        if self.is_owner(event):
            self.see_owner(event)
            return None
        if event.op == "delete":
            self.exists, self.value = False, None
            return None
        if event.op not in ("create", "set"):
            return None
        offset, holder = _number(event), self._lives.current
        previous = self.value if event.op == "set" else None
        # Behind its owner's create, and only what was there, or "none": one that moves the offset with its
        # claim has committed.
        is_claim = (
            holder is not None
            and holder.from_zxid == event.zxid
            and not event.seed
            and (previous is None or offset == previous)
        )
        self.exists, self.value = True, previous if offset is None else offset
        return OffsetWrite(event, offset, previous, holder, self._holder_known, is_claim)


def partition_steps(rows: Iterable[Event], key: Key, facts: Facts) -> Iterator[PartitionStep]:
    """Every row of a partition with what it did to owner and offset. Several rules share it."""
    offsets = PartitionOffsets(key[0], facts)
    for event in rows:
        is_owner = offsets.is_owner(event)
        ended = offsets.see_owner(event) if is_owner else None
        write = None if is_owner else offsets.see(event)
        yield PartitionStep(event, is_owner, write, ended, offsets.holder, offsets.value, offsets.exists)


def _number(event: Event) -> int | None:
    data = event.data
    if data is not None and data.isdigit() and len(data) <= _SAFE_DIGITS:
        return int(data)
    try:
        return Offset.decode(event.path, event.data).value
    except CorruptZnodeError:
        return None
