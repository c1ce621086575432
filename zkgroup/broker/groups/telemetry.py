"""The log and metrics of the group coordinator of a broker, from its log events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from zkgroup.broker.groups.stored_coordinator import COMMITS
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.wire.groups import SlotUse

log = get_logger("zkgroup.broker")
state_log = get_logger("zkgroup.state_change")

REMOVED: Final[Mapping[str, str]] = {
    "member_expired": "session",
    "member_did_not_join": "join",
    "member_did_not_sync": "sync",
    "pending_member_expired": "pending",
    "member_gave_way": "zookeeper",
}
"""Kind of an event of a member that was removed, to the label `reason`."""
REBALANCES: Final[tuple[tuple[str, str], ...]] = (
    (" joins again", "rejoin"),
    (" joins", "join"),
    (" leaves", "leave"),
    (" expired", "session"),
    (" did not sync", "sync"),
    (" has a new id", "static_member"),
    ("group.max.size", "max_size"),
    ("assignments not stored", "not_stored"),
    ("ZooKeeper consumers", "zookeeper"),
)
"""Words in the reason of a rebalance, to the label `reason`; the first one that is in it counts."""
WARNINGS: Final = frozenset(
    {"group.corrupt", "group.unmarked", "zookeeper_members", "group_not_stored", "offset.refused"}
)
STATE_CHANGES: Final = frozenset(
    {"group_state", "slot.loaded", "slot.lost", "static_member_replaced", *REMOVED}
)


class Meter(Protocol):
    """Receives metrics, with names below `zkgroup_broker_`."""

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None: ...

    def observe(self, name: str, value: float) -> None: ...

    def gauge(self, name: str, value: float, **labels: str) -> None: ...


class GroupTelemetry:
    """Logs and counts the events of one coordinator. Used on one event loop."""

    def __init__(self, meter: Meter | None) -> None:
        """`meter`: None without metrics."""
        self._meter = meter

    def note(self, event: LogEvent) -> None:
        """Logs an event: changes to `zkgroup.state_change`, warnings, the rest at level DEBUG."""
        if self._meter is not None:
            self._measure(event, self._meter)
        if event.kind == COMMITS:
            return
        is_bad = event.kind in WARNINGS or event.kind.endswith(".unreadable")
        if is_bad or event.fields.get("is_repeated"):  # two living processes have one group.instance.id
            log.warning("%s", event, extra=limited(event.kind))
        elif event.kind in STATE_CHANGES:
            state_log.info("%s", event)
        else:
            log.debug("%s", event)

    def _measure(self, event: LogEvent, meter: Meter) -> None:
        fields = event.fields
        match event.kind:
            case "group_state":
                if fields["after"] == ConsumerGroupState.PREPARING_REBALANCE.value:
                    meter.count("group_rebalances_total", reason=rebalance_reason(str(fields["reason"])))
            case "join_completed":
                meter.observe("group_join_seconds", _seconds(fields["ms"]))
            case "sync_completed":
                meter.observe("group_sync_seconds", _seconds(fields["ms"]))
            case "slot.loaded":
                meter.observe("group_load_seconds", _seconds(fields["ms"]))
            case "offsets_expired":
                meter.count("group_offsets_expired_total", _number(fields["count"]))
            case kind if kind == COMMITS:
                for outcome, count in _outcomes(fields["outcomes"]).items():
                    meter.count("group_commits_total", count, outcome=outcome.value)
            case kind if kind in REMOVED:
                meter.count("group_members_removed_total", reason=REMOVED[kind])

    def report(self, groups: Iterable[GroupMetadata], slots: Iterable[SlotUse] = ()) -> None:
        """Sets the gauges of groups and members, and of the use of slots."""
        if self._meter is None:
            return
        states, members = Counter[ConsumerGroupState](), 0
        for group in groups:
            states[group.state] += 1
            members += len(group.members)
        for state in ConsumerGroupState:
            if state is not ConsumerGroupState.DEAD:
                self._meter.gauge("group_count", states[state], state=state.value)
        self._meter.gauge("group_member_count", members)
        used = tuple(slots)
        self._meter.gauge("group_offset_count", sum(one.offsets for one in used))
        self._meter.gauge("group_offset_metadata_bytes", sum(one.metadata_bytes for one in used))
        self._meter.gauge("group_slot_used_ratio_max", max(map(used_ratio, used), default=0.0))


def used_ratio(slot: SlotUse) -> float:
    """Returns the used part of a slot's bounds, by the bound that is nearest; 1 is full."""
    return max(
        slot.groups / slot.groups_max,
        slot.offsets / slot.offsets_max,
        slot.metadata_bytes / max(1, slot.metadata_bytes_max),
    )


def rebalance_reason(reason: str) -> str:
    """The label of a rebalance's reason, which may name a member."""
    return next((label for part, label in REBALANCES if part in reason), "other")


def _outcomes(of_writes: Any) -> Counter[WriteOutcome]:
    """Returns the number of partitions with each outcome, of some commits."""
    return Counter(each for of_write in of_writes.values() for each in of_write.values())


def _seconds(ms: object) -> float:
    return _number(ms) / 1000


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value
