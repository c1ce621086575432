"""`BrokerListener`, which receives the events of a broker; log and metrics of a broker and its groups."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from zkgroup.broker.groups.stored_coordinator import COMMITS
from zkgroup.broker.quotas.levels import QuotaType
from zkgroup.broker.quotas.managers import QuotaUsage
from zkgroup.broker.replica_view import ReplicaView, Role
from zkgroup.broker.server.fetch_requests import bytes_of
from zkgroup.broker.server.handlers import Answer, Later, NoAnswer, RequestContext, Respond
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata
from zkgroup.metrics.sinks import GuardedMetrics
from zkgroup.model import TopicPartition
from zkgroup.model.ports import MetricsSink
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.wire.groups import SlotUse
from zkgroup.wire.messages import Request
from zkgroup.wire.records import FetchResponse, ProduceRequest, ProduceResponse
from zkgroup.znodes.config import ConfigEntity


class BrokerListener:
    """Base class of listeners, with methods that do nothing; override the ones you need.

    The broker calls them on several threads at a time and waits for each call. They must return soon and must
    not raise.
    """

    def on_registered(
        self, broker: int, host: str | None, port: int, epoch: int, listeners: Mapping[str, str]
    ) -> None:
        """The broker is registered in `/brokers/ids`; called again after each lost session.

        Args:
            host: of its first plain listener, with the `port`; None and -1 without one.
            listeners: the advertised `host:port` of each listener by its name.
        """

    def on_disconnected(self, metadata_age_ms: int | None, controller_epoch: int | None) -> None:
        """The connection to ZooKeeper is lost. The broker still serves, with metadata of this age."""

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        """A replica became leader or follower, or lost its role; `leader_epoch` is that of its last role."""

    def on_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """This broker has changed the ISR of a partition that it leads."""

    def on_config(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """The configuration of a topic, broker, client, user or address has changed to `overrides`.

        Those of a user come without its credentials, and passwords and keys as `[hidden]`.
        """

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        """This broker is the active controller and has loaded the cluster in `load_ms`."""

    def on_resigned(self, reason: str) -> None:
        """This broker has stopped being the active controller."""

    def on_failed(self, error: BaseException) -> None:
        """The broker has failed: `check` raises this error from now on. Call `close`."""


log = get_logger("zkgroup.broker")
state_log = get_logger("zkgroup.state_change")

COUNT_EVERY_MS: Final = 5_000
"""Interval at which the replicas are counted for the metrics."""
_STATE_CHANGES: Final = {"isr.shrank": "isr_shrinks_total", "isr.expanded": "isr_expands_total"}
"""Kind of a log event for `zkgroup.state_change`, to the name of its counter."""
_WARNINGS: Final = frozenset(
    {"unexpected_reply", "isr.refused", "isr.unwritable", "isr.deposed", "topic.not_followed"}
)


class BrokerTelemetry:
    """The log and metrics of one broker. Called on the machine's thread and on the event loop."""

    def __init__(self, metrics: MetricsSink | None) -> None:
        """`metrics`: None for a broker without metrics."""
        self._metrics = None if metrics is None else GuardedMetrics(metrics)
        self._labels: dict[str, str] = {}
        self.groups = GroupTelemetry(None if metrics is None else self)
        """The log and metrics of the group coordinator."""
        self._due_ms = 0
        self._shown: set[TopicPartition] = set()
        self._quotas_shown: set[tuple[tuple[str, str], ...]] = set()

    def is_due(self, now_ms: int) -> bool:
        """Returns whether `counted` is due again."""
        is_due = self._metrics is not None and now_ms >= self._due_ms
        if is_due:
            self._due_ms = now_ms + COUNT_EVERY_MS
        return is_due

    def is_broker(self, broker: int) -> None:
        """Sets the broker id, which labels all metrics."""
        self._labels = {"broker": str(broker)}

    def note(self, note: LogEvent) -> None:
        """Logs an event: changes of ISRs to `zkgroup.state_change`, warnings, the rest at level DEBUG."""
        if (counter := _STATE_CHANGES.get(note.kind)) is not None:
            state_log.info("%s", note)
            self.count(counter)
            return
        is_bad = note.kind in _WARNINGS or note.kind.endswith(".unreadable")
        log.log(logging.WARNING if is_bad else logging.DEBUG, "%s", note)

    def metered(self, respond: Respond) -> Respond:
        """Wraps `respond` to count its requests; returns it as it is without metrics."""
        metrics = self._metrics
        if metrics is None:
            return respond

        def count(request: Request, begun_s: float) -> None:
            labels = {**self._labels, "request": type(request).__name__.removesuffix("Request")}
            metrics.count("zkgroup_broker_requests_total", labels)
            metrics.observe("zkgroup_broker_request_seconds", labels, _loop_s() - begun_s)

        async def counted(answer: Awaitable[Answer], request: Request, begun_s: float) -> Answer:
            response = await answer
            count(request, begun_s)
            if size := bytes_in(request, response):
                self.count("bytes_in_total", size)
            elif size := bytes_out(response):
                self.count("bytes_out_total", size)
            return response

        def counting(context: RequestContext, request: Request) -> Awaitable[Answer]:
            begun_s = _loop_s()
            answer = respond(context, request)
            if not isinstance(answer, Later):
                return counted(answer, request, begun_s)
            if answer.is_given:
                count(request, begun_s)
            else:
                answer.first(partial(count, request, begun_s))
            return answer  # as it is: its request needs no coroutine, and has no records

        return counting

    def refused(self, setting: str) -> None:
        """Counts a client that a limit of its address keeps out."""
        self.count("connections_refused_total", setting=setting)

    def used(self, usage: Iterable[QuotaUsage]) -> None:
        """Sets the gauges of what is used of quotas."""
        shown = set()
        for one in usage:
            labels = {"quota": one.quota_type.value, "user": one.user, "client_id": one.client_id}
            self.gauge("quota_usage", one.value, **labels)
            shown.add(tuple(labels.items()))
        for gone in self._quotas_shown - shown:
            self.gauge("quota_usage", float("nan"), **dict(gone))
        self._quotas_shown = shown

    def throttled(self, quota: QuotaType, wait_s: float) -> None:
        """Counts the time that a client has to wait."""
        self.count("throttle_seconds_total", wait_s, quota=quota.value)

    def counted(
        self,
        connections: int,
        replicas: Mapping[TopicPartition, ReplicaView],
        isrs: Mapping[TopicPartition, int],
    ) -> None:
        """Sets the gauges of connections and replicas. `isrs`: the ISR sizes of partitions led here."""
        led = [tp for tp, view in replicas.items() if view.role is Role.LEADER]
        under_replicated = [tp for tp in led if isrs.get(tp, 1) < len(replicas[tp].followers) + 1]
        self.gauge("connection_count", connections)
        self.gauge("partition_count", len(replicas))
        self.gauge("leader_count", len(led))
        self.gauge("under_replicated_partitions", len(under_replicated))
        for tp, view in replicas.items():
            self.gauge("log_end_offset", view.log_end_offset, topic=tp.topic, partition=str(tp.partition))
        for tp in self._shown - replicas.keys():
            self.gauge("log_end_offset", float("nan"), topic=tp.topic, partition=str(tp.partition))
        self._shown = set(replicas)

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Adds to the counter `zkgroup_broker_<name>`."""
        if self._metrics is not None:
            self._metrics.count(f"zkgroup_broker_{name}", {**self._labels, **labels}, amount)

    def observe(self, name: str, value: float) -> None:
        """Adds a value to the histogram `zkgroup_broker_<name>`."""
        if self._metrics is not None:
            self._metrics.observe(f"zkgroup_broker_{name}", self._labels, value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Sets the gauge `zkgroup_broker_<name>`."""
        if self._metrics is not None:
            self._metrics.gauge(f"zkgroup_broker_{name}", {**self._labels, **labels}, value)


def _loop_s() -> float:
    return asyncio.get_running_loop().time()


def bytes_out(response: Answer) -> int:
    """The bytes of records in an answer to a follower or a consumer."""
    if not isinstance(response, FetchResponse):
        return 0
    return bytes_of(response)


def bytes_in(request: Request, response: Answer) -> int:
    """The bytes that a request has appended to logs of this leader."""
    match request, response:
        case ProduceRequest(), ProduceResponse():
            offsets = [each.offset for topic in response.topics for each in topic.partitions]
        case ProduceRequest(), NoAnswer.NO_ANSWER:
            offsets = [0 for topic in request.topics for _ in topic.partitions]
        case _:
            return 0
    records = (each.records for topic in request.topics for each in topic.partitions)
    return sum(len(each or b"") for each, offset in zip(records, offsets, strict=True) if offset >= 0)


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


class GroupTelemetry:
    """Logs and counts the events of one coordinator. Used on one event loop."""

    def __init__(self, meter: BrokerTelemetry | None) -> None:
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

    def _measure(self, event: LogEvent, meter: BrokerTelemetry) -> None:
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
