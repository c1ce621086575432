"""Groups and offsets in ZooKeeper, as a pure machine of a broker.

    led_slots          the slots, and what ZooKeeper has of their groups
    slot_loading       how many slots there are; fence a slot, then read its groups
    group_writes       changes of a group, in order; `deletions` those that delete
    offset_commits     commits, many in one transaction; `offset_batch` has its operations
    offset_reads       OffsetFetch; `legacy_commits` OffsetCommit 0; `retention_reads` what may expire
    members_watch      ZooKeeper consumers in groups of the coordinator
    freezes            when those of its groups are over

A write that is acknowledged extends the lease, as for members: until then the broker's session cannot have
ended, so no controller can have moved its slots because of that. Where no write is acknowledged, a
transaction of the checks of all slots goes out every T/6. A slot that is moved while the broker lives is
noticed by its watch; a commit meanwhile is refused by the slot's check.

Every slot, every group and every request has its own procedure; their requests share one connection, on which
they are executed in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from zkgroup.broker.groups.deletions import Deletions
from zkgroup.broker.groups.freezes import FREEZES_TIMER, GroupFreezes
from zkgroup.broker.groups.group_writes import GroupWrites
from zkgroup.broker.groups.led_slots import LedSlot, SlotPhase, StoreCore
from zkgroup.broker.groups.legacy_commits import LegacyCommits
from zkgroup.broker.groups.members_watch import MembersWatch
from zkgroup.broker.groups.offset_commits import OffsetCommits
from zkgroup.broker.groups.offset_reads import OffsetReads
from zkgroup.broker.groups.retention_reads import RETENTION_TIMER, RetentionReads
from zkgroup.broker.groups.slot_loading import SlotCountReader, SlotLoader
from zkgroup.broker.groups.slot_usage import SlotUsage
from zkgroup.broker.groups.store_events import (
    Effect,
    ExpireOffsets,
    GroupStoreConfig,
    GroupStoreContext,
    ReadLegacyOffsets,
    ReadMembers,
    SlotLed,
    SlotResigned,
    StoreEffect,
    StoreEvent,
    TopicsDeleted,
    WriteLegacyOffsets,
    WriteManyOffsets,
)
from zkgroup.coordinator.effects import (
    DeleteGroup,
    DeleteOffsets,
    ReadOffsets,
    ReserveGenerations,
    WriteGroup,
    WriteOffsets,
)
from zkgroup.coordinator.events import LeaseExtended, SlotUnloaded
from zkgroup.model.ports import Instant
from zkgroup.model.requests import MultiRefused
from zkgroup.runtime.events import Submit
from zkgroup.runtime.machine import Job, SessionMachine
from zkgroup.runtime.procedures import Procedure, heartbeat_period_ms, lease_ms, write

HEARTBEAT_TIMER: Final = "slots heartbeat"
STEPS_PER_TIMEOUT: Final = 60
"""The lease is extended in steps of at least so small a part of the session timeout."""


class StoreLease:
    """Extends the lease, and writes where nothing else is written."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._until_ms: int | None = None
        self._last_sent_ms = 0
        core.context.on_write_acknowledged = self._acknowledged

    def connected(self) -> None:
        """A new connection: the next heartbeat is due within its period."""
        self._arm(self._core.context.now.ms)

    def session_over(self) -> None:
        self._core.context.cancel_timer(HEARTBEAT_TIMER)

    def timer_fired(self) -> None:
        """Writes a heartbeat, unless another write was acknowledged meanwhile, or no slot is led."""
        context = self._core.context
        if not context.connected or context.session is None:
            return
        slots = [slot for slot in self._core.slots.values() if slot.phase is SlotPhase.OWNED]
        shortest_ms = heartbeat_period_ms(context.session.timeout_ms, lambda: 0.0)
        if not slots or context.now.ms < self._last_sent_ms + shortest_ms:
            self._arm(self._last_sent_ms if slots else context.now.ms)
            return
        self._arm(context.now.ms)
        if "heartbeat" not in self._core.procedures:
            job = Job("extend the lease", partial(self._write, slots), lambda error: None)
            self._core.run("heartbeat", job)

    def _write(self, slots: list[LedSlot]) -> Procedure[None]:
        slots = [slot for slot in slots if not slot.is_closed]
        while slots:
            outcome = yield from write([slot.check for slot in slots], ())
            if not isinstance(outcome, MultiRefused):
                return
            lost = slots.pop(outcome.index)
            self._core.lost(lost, "a heartbeat was refused")

    def _acknowledged(self, sent_ms: int) -> None:
        context = self._core.context
        session = context.session
        if session is None:
            return
        self._last_sent_ms = max(self._last_sent_ms, sent_ms)
        span_ms = lease_ms(session.timeout_ms, context.config.lease_fraction, context.config.server_tick_ms)
        until_ms = self._last_sent_ms + span_ms
        step_ms = session.timeout_ms // STEPS_PER_TIMEOUT
        if until_ms > context.now.ms and (self._until_ms is None or until_ms >= self._until_ms + step_ms):
            self._until_ms = until_ms
            context.emit(LeaseExtended(until_ms))

    def _arm(self, from_ms: int) -> None:
        """Sets the timer of the next heartbeat, one period after this time."""
        context = self._core.context
        assert context.session is not None
        period_ms = heartbeat_period_ms(context.session.timeout_ms, context.jitter)
        context.set_timer(HEARTBEAT_TIMER, max(from_ms + period_ms, context.now.ms + 1))


class GroupStore(SessionMachine[Effect]):
    """The store of one broker's groups. Not thread-safe: one thread steps it."""

    def __init__(self, config: GroupStoreConfig, jitter: Callable[[], float]) -> None:
        """jitter: random numbers in [0, 1)."""
        self._context: GroupStoreContext = GroupStoreContext(config, jitter)
        self._core = core = StoreCore(self._context)
        core.on_lost = self._load_again
        self._lease = StoreLease(core)
        self._slot_count = SlotCountReader(core, self._counted)
        members = MembersWatch(core)
        self._members = members
        self._freezes = GroupFreezes(core)
        self._loading = SlotLoader(core, self._loaded)
        self._groups = GroupWrites(
            core, members, Deletions(core), lambda slot: self._commits.changes_done(slot)
        )
        self._commits = OffsetCommits(core, members, self._groups.commits_done)
        self._reads = OffsetReads(core)
        self._legacy = LegacyCommits(core)
        self._retention = RetentionReads(core)
        self._epochs: dict[int, int] = {}
        """The highest leader epoch of each slot, also of those that others lead."""

    def step(self, event: StoreEvent, now: Instant) -> tuple[StoreEffect, ...]:
        """The effects of one event, to be performed in this order. Events are given in their order.

        Requests to ZooKeeper come first: it executes the next commits while the former ones are answered.
        """
        self._context.begin(now)
        self._take(event)
        effects = self._context.take_effects()
        if len(effects) < 2:
            return effects
        return tuple(sorted(effects, key=lambda each: not isinstance(each, Submit)))

    def _take(self, event: StoreEvent) -> None:
        match event:  # the most frequent events first: each case costs a test
            case WriteManyOffsets(writes):
                self._commits.add(writes)
            case WriteOffsets():
                self._commits.add([event])
            case SlotLed(slot, epoch):
                self._led(slot, epoch)
            case SlotResigned(slot, epoch):
                self._resigned(slot, epoch)
            case WriteGroup() | ReserveGenerations() | DeleteGroup() | DeleteOffsets() | ExpireOffsets():
                self._groups.add(event)
            case TopicsDeleted(topics):
                self._retention.topics_deleted(topics)
            case ReadOffsets() | ReadMembers() | ReadLegacyOffsets():
                self._reads.add(event)
            case WriteLegacyOffsets():
                self._legacy.add(event)
            case _:
                self._take_shared(event)

    def _led(self, number: int, epoch: int) -> None:
        if epoch < self._epochs.get(number, -1):
            return
        self._epochs[number] = epoch
        slot = self._core.slots.get(number)
        if slot is not None and slot.phase is SlotPhase.OWNED:
            if epoch > slot.epoch:
                slot.epoch = epoch
                self._loading.keep(slot)
        elif slot is None or slot.phase is SlotPhase.NOT_LED or epoch > slot.epoch:
            self._load(number)

    def _resigned(self, number: int, epoch: int) -> None:
        if epoch < self._epochs.get(number, -1):
            return
        self._epochs[number] = epoch
        slot = self._core.slots.pop(number, None)
        if slot is not None:
            self._context.emit(SlotUnloaded(number, epoch))
            self._close(slot)

    def _loaded(self, slot: LedSlot) -> None:
        self._members.watch_slot(slot)
        self._freezes.slot_loaded(slot)
        self._retention.slot_loaded(slot)

    def _load_again(self, slot: LedSlot, reason: str) -> None:
        self._context.note("slot.lost", slot=slot.number, leader_epoch=slot.epoch, reason=reason)
        self._load(slot.number)

    def _slot(self, number: int) -> LedSlot:
        return LedSlot(number, self._epochs[number], SlotUsage(self._context.config.bounds))

    def loading(self) -> list[int]:
        """Returns the slots that the controller made this broker lead, and that are not loaded."""
        return [number for number, slot in self._core.slots.items() if slot.phase is SlotPhase.LOADING]

    def usage(self) -> Mapping[int, SlotUsage]:
        """Returns the usage by the offsets of each slot that is led."""
        return {number: slot.usage for number, slot in self._core.slots.items()}

    def _load(self, number: int) -> None:
        """Loads a slot, or loads it again: what was known of it is forgotten."""
        former = self._core.slots.get(number)
        slot = self._core.slots[number] = self._slot(number)
        if self._core.count is not None and number < self._core.count:
            self._core.announce(slot)
            self._loading.load(slot)
        if former is not None:
            self._close(former)

    def _close(self, slot: LedSlot) -> None:
        slot.is_closed = True
        if self._core.slots.get(slot.number) is None:
            self._core.procedures.cancel(("slot", slot.number))
        self._retention.close(slot)
        self._reads.close(slot)
        self._groups.close(slot)  # before the commits, whose ends start changes that wait for them
        self._commits.close(slot)

    def _counted(self) -> None:
        """The number of slots is known: those that this broker leads are loaded."""
        self._retention.start()
        for number in sorted(self._core.slots):
            self._load(number)

    def _timer_fired(self, name: str) -> None:
        if name == HEARTBEAT_TIMER:
            self._lease.timer_fired()
        elif name == FREEZES_TIMER:
            self._freezes.timer_fired()
        else:
            assert name == RETENTION_TIMER, name
            self._retention.timer_fired()

    def _connected(self) -> None:
        self._slot_count.connected()
        self._lease.connected()
        for slot in list(self._core.slots.values()):
            if slot.phase is SlotPhase.OWNED:
                self._loading.keep(slot)
                self._members.watch_slot(slot)
                self._retention.connected(slot)
            elif slot.phase is SlotPhase.LOADING and ("slot", slot.number) not in self._core.procedures:
                self._load(slot.number)

    def end_backoff(self) -> None:
        """Ends the pause: its timer has fired, or the connection is new."""
        self._core.procedures.resume()

    def _stop_procedures(self) -> None:
        self._core.procedures.stop()

    def _session_over(self, reason: str) -> None:
        """Another broker may lead every slot now: nothing is known, and nothing is answered."""
        self._context.note("groups.session_over", reason=reason)
        self._lease.session_over()
        slots, self._core.slots = self._core.slots, {}
        for slot in slots.values():
            slot.is_closed = True
            if slot.is_announced:
                self._context.emit(SlotUnloaded(slot.number))
        self._groups.session_over()
        for slot in slots.values():
            self._close(slot)
        self._commits.session_over()
        self._legacy.session_over()
        self._reads.session_over()
        for number in slots:
            self._core.slots[number] = self._slot(number)
