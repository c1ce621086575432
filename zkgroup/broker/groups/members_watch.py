"""Notices ZooKeeper consumers in groups that have members of the coordinator.

zkgroup's consumers ask for the marker and do not register; those of Kafka 0.8 know no marker. Nothing
prevents them, so they are reported.

The marker may also be deleted by another program, and zkgroup's consumers register then. So it is read when
consumers are there, and without it the members of the coordinator give way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, StoreCore, StoredGroup
from zkgroup.broker.groups.store_events import ZooKeeperMembersNoticed
from zkgroup.coordinator.events import MarkerLost
from zkgroup.model.requests import Exists, ExistsDone, ListChildren, Outcome, Refused
from zkgroup.runtime.events import Watch
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import PipelinedStep, Procedure, Query, list_done, run_pipelined
from zkgroup.znodes.consumers import ids_path
from zkgroup.znodes.coordinated_groups import ProtocolMarker

REPEATED_MS: Final = 60_000
"""Pause between two reports of the same members, while clients try to join again and again."""


class MembersWatch:
    """Watches `ids` of the groups that have members of the coordinator."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._reported: dict[str, tuple[str, ...]] = {}
        self._reported_ms: dict[str, int] = {}

    def watch_slot(self, slot: LedSlot) -> None:
        """Watches the groups of a slot: it is loaded, or the connection is new."""
        for group in slot.groups.values():
            group.watches_members = group.has_members  # those of an earlier connection are gone
        self._start(slot, [group for group in slot.groups.values() if group.watches_members], slot)

    def watch(self, slot: LedSlot, group: StoredGroup) -> None:
        """Watches a group that has got the marker, and is not watched."""
        group.watches_members = True
        self._start(slot, [group], group)

    def report(self, slot: LedSlot, group: StoredGroup) -> None:
        """Reads who the members are, because a write was refused for them.

        They are reported if they are others than before, or a minute has passed.
        """
        last_ms = self._reported_ms.get(group.group_id)
        if last_ms is not None and self._core.context.now.ms - last_ms >= REPEATED_MS:
            self._reported.pop(group.group_id, None)
        self._start(slot, [group], group)

    def _start(self, slot: LedSlot, groups: Iterable[StoredGroup], key: object) -> None:
        groups = list(groups)
        if groups:
            self._core.procedures.cancel(("members", key))
            job = Job("read ZooKeeper members", partial(self._list, slot, groups), lambda error: None)
            self._core.run(("members", key), job)

    def _list(self, slot: LedSlot, groups: Iterable[StoredGroup]) -> Procedure[None]:
        yield from run_pipelined([self._step(slot, group) for group in groups], allows_denials=True)

    def _step(self, slot: LedSlot, group: StoredGroup) -> PipelinedStep:
        watches = group.watches_members
        request = ListChildren(ids_path(group.group_id), watch=watches)
        watch = Watch(partial(self._changed, slot, group)) if watches else None
        return PipelinedStep(Query(request, watch), partial(self._listed, slot, group))

    def _listed(self, slot: LedSlot, group: StoredGroup, outcome: Outcome) -> Iterator[PipelinedStep]:
        if isinstance(outcome, Refused):  # an ACL hides the consumers of this group, not of the others
            group.watches_members = False
            self._core.context.note("group.unreadable", path=outcome.path)
            return
        listed = list_done(outcome)
        members = tuple(sorted(listed.children))
        if listed.stat is None and group.watches_members:
            # Another program has deleted the group's znode, and a watch of children needs one.
            request = Exists(ids_path(group.group_id), watch=True)
            watch = Watch(partial(self._changed, slot, group))
            yield PipelinedStep(Query(request, watch), partial(self._is_missing, slot, group))
        if members and group.has_members:
            request = Exists(ProtocolMarker.path(group.group_id))
            yield PipelinedStep(Query(request), partial(self._marker_read, slot, group, members))
        else:
            self._notice(group, members)

    def _is_missing(self, slot: LedSlot, group: StoredGroup, outcome: Outcome) -> Iterator[PipelinedStep]:
        assert isinstance(outcome, ExistsDone), outcome
        if outcome.stat is not None:
            yield self._step(slot, group)

    def _marker_read(
        self, slot: LedSlot, group: StoredGroup, members: tuple[str, ...], outcome: Outcome
    ) -> Iterator[PipelinedStep]:
        """Consumers are registered: without the marker the coordinator's members have to go.

        What was written before this read has its outcome, so the group is as ZooKeeper has it.
        """
        assert isinstance(outcome, ExistsDone), outcome
        if outcome.stat is None and group.has_members and not slot.is_closed:
            if group.is_marked:
                group.is_marked = False
                self._core.context.note("group.unmarked", group=group.group_id)
            self._core.context.emit(MarkerLost(group.group_id))
        self._notice(group, members)
        return iter(())

    def _notice(self, group: StoredGroup, members: tuple[str, ...]) -> None:
        if members != self._reported.get(group.group_id, ()):
            self._reported[group.group_id] = members
            self._reported_ms[group.group_id] = self._core.context.now.ms
            self._core.context.emit(ZooKeeperMembersNoticed(group.group_id, members))
            self._core.context.note("group.zookeeper_members", group=group.group_id, members=len(members))

    def _changed(self, slot: LedSlot, group: StoredGroup) -> None:
        group.watches_members = False
        if not slot.is_closed and group.has_members:
            self.watch(slot, group)
