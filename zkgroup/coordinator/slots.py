"""The slots of a coordinator: which it leads, at which leader epoch, and the groups of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Final

from zkgroup.assignment.order import java_hash
from zkgroup.coordinator.group import GroupMetadata

OnUnload = Callable[[GroupMetadata], None]
GROUPS_REMEMBERED: Final = 4096
"""Groups whose slot is computed once: the hash walks over the characters of the id."""


@lru_cache(GROUPS_REMEMBERED)
def slot_of(group_id: str, slots: int) -> int:
    """The partition of `__consumer_offsets` that a group belongs to (Java's hash, `Utils.abs`)."""
    value = java_hash(group_id)
    return 0 if value == -(2**31) else abs(value) % slots


class SlotState(Enum):
    """The state of a slot in its coordinator."""

    NOT_OWNED = "not owned"
    LOADING = "loading"
    OWNED = "owned"


class _Slot:
    __slots__ = ("epoch", "groups", "state")

    def __init__(self) -> None:
        self.state = SlotState.NOT_OWNED
        self.epoch = -1
        """The highest leader epoch that was seen."""
        self.groups: dict[str, GroupMetadata] = {}


class SlotTable:
    """All slots. An event with an older leader epoch than the last one of its slot changes nothing."""

    def __init__(self, count: int) -> None:
        self._slots = [_Slot() for _ in range(count)]
        self._numbers: dict[str, int] = {}
        """The slot of each group that is there: most requests are about one of them."""

    def of(self, group_id: str) -> int:
        """The slot of a group."""
        number = self._numbers.get(group_id)
        return slot_of(group_id, len(self._slots)) if number is None else number

    def group(self, group_id: str) -> GroupMetadata | None:
        """A group; those of a slot that is not owned are not there."""
        number = self._numbers.get(group_id)
        return None if number is None else self._slots[number].groups[group_id]

    def groups(self) -> Iterator[GroupMetadata]:
        for slot in self._slots:
            yield from slot.groups.values()

    def size(self, group_id: str) -> int:
        """Number of groups of the slot of a group."""
        return len(self._slots[self.of(group_id)].groups)

    def add(self, group: GroupMetadata) -> None:
        number = self._numbers[group.group_id] = self.of(group.group_id)
        self._slots[number].groups[group.group_id] = group

    def remove(self, group: GroupMetadata) -> None:
        del self._slots[self._numbers.pop(group.group_id)].groups[group.group_id]

    def state(self, slot: int) -> SlotState:
        return self._slots[slot].state

    @property
    def is_any_loading(self) -> bool:
        """True if groups are missing from `groups` that soon will be there."""
        return any(slot.state is SlotState.LOADING for slot in self._slots)

    def loading(self, slot: int, epoch: int, on_unload: OnUnload) -> None:
        """Begins to load a slot; what it had before is unloaded."""
        if epoch >= self._slots[slot].epoch:
            self._unload(slot, on_unload)
            self._slots[slot].state = SlotState.LOADING
            self._slots[slot].epoch = epoch

    def loaded(self, slot: int, epoch: int) -> bool:
        """Ends the load of a slot; False if it is not the one that runs."""
        found = self._slots[slot]
        if found.state is not SlotState.LOADING or found.epoch != epoch:
            return False
        found.state = SlotState.OWNED
        return True

    def kept(self, slot: int, epoch: int) -> None:
        """Raises the epoch of a slot whose version still holds."""
        self._slots[slot].epoch = max(self._slots[slot].epoch, epoch)

    def unloaded(self, slot: int, epoch: int | None, on_unload: OnUnload) -> None:
        """Gives a slot up."""
        found = self._slots[slot]
        if epoch is None or epoch >= found.epoch:
            self._unload(slot, on_unload)
            found.epoch = found.epoch if epoch is None else epoch

    def unload_all(self, on_unload: OnUnload) -> None:
        for slot in range(len(self._slots)):
            self._unload(slot, on_unload)

    def _unload(self, slot: int, on_unload: OnUnload) -> None:
        found = self._slots[slot]
        found.state = SlotState.NOT_OWNED
        groups, found.groups = found.groups, {}
        for group in groups.values():
            del self._numbers[group.group_id]
        for group in groups.values():
            on_unload(group)
