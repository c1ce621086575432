"""`ConsumerEngine`: a member's engine with a delivery, a fetcher, and the timers of commits and polls.

`ConsumerBase` is the base class of the blocking and the asyncio consumer.

`PollMonitor` checks whether the application still polls (`max_poll_interval_ms`). The application's threads
begin and end polls, the member's thread checks. Each side writes its own state first and then reads the
other's, so of a poll and a check at the same time at least one notices the other.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from zkgroup.consumer._base import (
    ListenerT,
    MemberBase,
    MemberOptions,
    Topics,
    check_record,
    checked_offsets,
    checked_partition,
    checked_partitions,
    open_engine,
)
from zkgroup.consumer.callbacks import CallbackRunner
from zkgroup.consumer.delivery import Delivery
from zkgroup.consumer.fetcher import Fetcher, ZooKeeperCluster
from zkgroup.consumer.lease import DeliveryPort
from zkgroup.consumer.machine.events import Polled, PollOverdue
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.errors import (
    CommitResult,
    MemberClosedError,
    NotOwnerError,
    SourceUnavailableError,
    ZkGroupError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, Store
from zkgroup.settings import GroupSettings
from zkgroup.sources.port import Bounds, Record, RecordSource, checked_source
from zkgroup.zookeeper import ClientSettings

SOURCE_TIMEOUT_S = 30.0
SOURCE_GRACE_S = 1.0


class PollMonitor:
    """The running polls, and the time since the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._last_ms = 0
        self.is_overdue = False
        """True if the member has left the group because the application does not poll."""

    def start(self, now_ms: int) -> None:
        """Starts the interval of the first poll: the member joins."""
        self._last_ms = now_ms

    def begin(self) -> bool:
        """Begins a poll; whether the member must be notified that the application polls again."""
        with self._lock:
            self._under_way += 1
        return self.is_overdue

    def end(self, now_ms: int) -> None:
        with self._lock:
            self._last_ms = now_ms  # first: a check between the two must not find an older end
            self._under_way -= 1

    def since_ms(self, now_ms: int) -> int:
        """Time of the last poll in milliseconds; `now_ms` during a poll."""
        return now_ms if self._under_way else self._last_ms

    def check(self, now_ms: int, interval_ms: int) -> bool:
        """Returns whether no poll came for `interval_ms`; true once."""
        if self.is_overdue or now_ms - self.since_ms(now_ms) < interval_ms:
            return False
        self.is_overdue = True
        if self._under_way:  # a poll began meanwhile, and was not notified
            self.is_overdue = False
        return self.is_overdue

    def back(self) -> bool:
        """Returns whether the application polls again; true once."""
        was_overdue, self.is_overdue = self.is_overdue, False
        return was_overdue


log = logging.getLogger("zkgroup.consumer")

RESETS = {"smallest": "earliest", "largest": "latest"}
"""Kafka 0.8's names of the reset policies."""


BoundsFound = Mapping[TopicPartition, Bounds | SourceUnavailableError]
"""Partition to its bounds, or to the error of the source; absent without a reply in time."""


class ConsumerEngine:
    """The engine of a consumer. Not started until `start()`; thread-safe as its components are."""

    def __init__(
        self,
        options: MemberOptions,
        source: RecordSource,
        runner: CallbackRunner,
        wake_application: Callable[[], None],
        engine_of: Callable[[MemberOptions, CallbackRunner, DeliveryPort], MemberEngine] = open_engine,
    ) -> None:
        settings = options.settings
        if settings.require_brokers is None:
            settings = replace(settings, require_brokers=source.requires_brokers)
            options = replace(options, settings=settings)
        source.configure(settings, options.group)
        reset = settings.auto_offset_reset or source.default_reset
        self.settings = settings
        self.delivery = Delivery(
            auto_ack=settings.ack_mode == "auto",
            auto_commit=settings.auto_commit_enable,
            unacked_max=settings.max_unacked,
            chunks_max=settings.queued_max_message_chunks,
            records_noted=options.history is not None,
            wake_fetcher=self._wake_fetcher,
            wake_application=wake_application,
        )
        try:
            self.engine: MemberEngine = engine_of(options, runner, self.delivery)
        except ZkGroupError:
            source.close()  # it will not be opened: another consumer may use it
            raise
        self.delivery.attach(self.engine)
        self._cluster = ZooKeeperCluster(self.engine.store, self.engine.clock)
        self.fetcher = Fetcher(
            source,
            self.delivery.fetch_buffer,
            self._cluster,
            reset=RESETS.get(reset, reset),
            clock=self.engine.clock,
            on_error=self.engine.fail,
            name=f"zkgroup-{self.engine.member}",
        )
        self._polls = PollMonitor()
        self._wake_application = wake_application
        self.engine.at_end(self.fetcher.end)
        self.engine.at_end(self._cluster.close)
        self.engine.at_end(wake_application)  # calls that wait for records end now

    def start(self) -> None:
        self._polls.start(self.engine.clock.now_ms())
        self.engine.start()
        self.engine.call_soon(self._start_timers)
        self.fetcher.start()

    def open(self) -> None:
        """Joins without a thread: the caller runs `run_pending` of the engine's loop and of the fetcher."""
        self._polls.start(self.engine.clock.now_ms())
        self.engine.open()
        self.engine.call_soon(self._start_timers)
        self.fetcher.open()

    def _wake_fetcher(self) -> None:
        self.fetcher.wake()

    def _start_timers(self) -> None:
        if self.settings.auto_commit_enable:
            self._schedule_auto_commit()
        if self.settings.max_poll_interval_ms is not None:
            self._watch_polls(self.settings.max_poll_interval_ms)

    def _schedule_auto_commit(self) -> None:
        at_ms = self.engine.clock.now_ms() + self.settings.auto_commit_interval_ms
        self.engine.call_at("auto-commit", at_ms, self._auto_commit)

    def _auto_commit(self) -> None:
        """Commits the processed positions. A refusal is logged; the next commit comes an interval later."""
        self._schedule_auto_commit()
        processed = self.delivery.to_commit()
        positions = {
            tp: offset for tp, offset in processed.positions.items() if not self.delivery.is_given_up(tp)
        }
        if positions:
            future: Future[CommitResult] = Future()
            future.add_done_callback(self._log_refusals)
            self.engine.begin_commit(replace(processed, positions=positions), future)

    def _log_refusals(self, done: Future[CommitResult]) -> None:
        """Logs the refusals of a commit; at debug level if the partition's release has committed it."""
        try:
            result = done.result()
        except ZkGroupError as error:
            if not isinstance(error, MemberClosedError):
                log.warning("auto-commit: %s", error)
            return
        for topic_partition, refusal in sorted(result.refused.items()):
            is_handover = isinstance(refusal, NotOwnerError) and self.delivery.is_given_up(topic_partition)
            level = logging.DEBUG if is_handover else logging.WARNING
            log.log(level, "auto-commit of %s refused: %s", topic_partition, refusal)

    def _watch_polls(self, interval_ms: int) -> None:
        now_ms = self.engine.clock.now_ms()
        if self._polls.check(now_ms, interval_ms):
            self.delivery.stop_draining()
            self.engine.step(PollOverdue())
        since_ms = now_ms if self._polls.is_overdue else self._polls.since_ms(now_ms)
        due_ms = since_ms + interval_ms
        self.engine.call_at("poll-interval", due_ms, lambda: self._watch_polls(interval_ms))

    def _polled(self) -> None:
        if self._polls.back():
            self.delivery.resume_draining()
            self.engine.step(Polled())

    def begin_poll(self) -> None:
        """Begins a poll of the application; in automatic mode this acknowledges the previous records."""
        if self._polls.begin():
            self.engine.call_soon(self._polled)
        self.delivery.begin_poll()

    def end_poll(self) -> None:
        self._polls.end(self.engine.clock.now_ms())

    def begin_close(self, timeout_s: float, *, leave: bool = True) -> None:
        """Starts to leave: commits acknowledged records and does not wait for the others."""

        def wake() -> None:
            self.delivery.stop_draining()
            self._wake_application()

        self.engine.call_soon(wake)
        self.engine.begin_close(timeout_s, leave=leave)

    def commit(self, offsets: Mapping[TopicPartition, int] | None) -> Future[CommitResult]:
        """Requests a commit of the processed positions, or of the offsets given; raises `ConfigError`."""
        if offsets is not None:
            return self.engine.commit(self.delivery.as_given(checked_offsets(offsets)))
        processed = self.delivery.to_commit()
        if not processed.positions:
            nothing: Future[CommitResult] = Future()
            nothing.set_result(CommitResult({}))
            return nothing
        return self.engine.commit(processed)

    def bounds(self, partitions: Sequence[TopicPartition], timeout_s: float) -> Future[BoundsFound]:
        """The bounds of partitions, owned or not, from the source."""
        return self.fetcher.ask(lambda source: source.bounds_of(partitions, timeout_s))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float
    ) -> Future[dict[TopicPartition, int | None]]:
        """The first offset at or after a time, for each partition, from the source."""
        return self.fetcher.ask(lambda source: _offsets_for_times(source, times, timeout_s))

    def owned(self, partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        """These partitions, or all owned ones if none is given; raises `NotOwnerError`, `ConfigError`."""
        wanted = checked_partitions(partitions) or self.delivery.owned()
        for topic_partition in wanted:
            self.delivery.position(topic_partition)
        return wanted

    def lag(
        self, partitions: Iterable[TopicPartition], found: BoundsFound
    ) -> dict[TopicPartition, int | None]:
        """Log end minus position of each partition; None if one of the two is unknown."""
        lag: dict[TopicPartition, int | None] = {}
        for topic_partition in partitions:
            bounds, position = found.get(topic_partition), self.delivery.position(topic_partition)
            lag[topic_partition] = None
            if isinstance(bounds, Bounds) and position is not None:
                lag[topic_partition] = max(0, bounds.end - position)
        return lag

    def ack(self, record: Record) -> bool:
        check_record(record)
        acked = self.delivery.ack(record)
        if not acked:
            self.engine.telemetry.ack_ignored()
        return acked


def known_bounds(found: BoundsFound, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
    """The bounds of each partition. Raises `SourceUnavailableError` naming one whose bounds are unknown."""
    known: dict[TopicPartition, Bounds] = {}
    for topic_partition in partitions:
        bounds = found.get(topic_partition)
        if not isinstance(bounds, Bounds):
            reason = bounds or "no reply in time"
            raise SourceUnavailableError(f"the offsets of {topic_partition} are unknown: {reason}")
        known[topic_partition] = bounds
    return known


def _offsets_for_times(
    source: RecordSource, times: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, int | None]:
    """The offsets by one call of the source for each time; None for its reply "none", the log end."""
    by_time: dict[int, list[TopicPartition]] = {}
    for topic_partition, time_ms in times.items():
        by_time.setdefault(time_ms, []).append(topic_partition)
    found: dict[TopicPartition, int] = {}
    for time_ms, partitions in by_time.items():
        found.update(source.offsets_at(partitions, time_ms))
    bounds = known_bounds(source.bounds_of(list(times), timeout_s), times)
    if missing := [tp for tp in times if tp not in found]:
        raise SourceUnavailableError(f"the offsets of {missing[0]} are unknown: no reply in time")
    return {tp: found[tp] if found[tp] < bounds[tp].end else None for tp in times}


def grouped(records: Iterable[Record]) -> dict[TopicPartition, list[Record]]:
    """Records by partition, each in order."""
    found: dict[TopicPartition, list[Record]] = {}
    for record in records:
        found.setdefault(record.topic_partition, []).append(record)
    return found


class ConsumerBase(MemberBase[ListenerT]):
    """Arguments and plain methods of both consumers; each may be called from any thread."""

    def __init__(
        self,
        address: str | None = None,
        *,
        group: str,
        topics: Topics,
        source: RecordSource,
        settings: GroupSettings | None = None,
        listener: ListenerT | None = None,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        history: HistorySink | None = None,
        metrics: MetricsSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Checks everything that needs no network; raises `ConfigError`.

        The arguments other than `source` are those of `GroupMember`.

        Args:
            source: gives the records, see `RecordSource`; it is closed with the consumer.
        """
        super().__init__(
            address,
            group=group,
            topics=topics,
            settings=settings,
            listener=listener,
            client=client,
            connection=connection,
            history=history,
            metrics=metrics,
            clock=clock,
        )
        self._source = checked_source(source)
        self._consuming: ConsumerEngine | None = None

    @abstractmethod
    def _wake(self) -> None:
        """Wakes calls that wait for records; from any thread."""

    def _put_together(self, runner: CallbackRunner) -> MemberEngine:
        self._consuming = ConsumerEngine(self._options, self._source, runner, self._wake)
        return self._consuming.engine

    def _launch(self, engine: MemberEngine) -> None:
        assert self._consuming is not None
        self._consuming.start()

    def _begin_close(self, engine: MemberEngine, timeout_s: float, *, leave: bool = True) -> None:
        if self._consuming is not None:
            self._consuming.begin_close(timeout_s, leave=leave)

    @property
    def _member(self) -> ConsumerEngine:
        """The consumer's engine. Raises the error of a consumer that is not started, closed or failed."""
        engine = self._engine
        assert self._consuming is not None, engine
        return self._consuming

    def _no_reply(self, timeout_s: float) -> SourceUnavailableError:
        return SourceUnavailableError(f"{type(self._source).__name__} gave no reply within {timeout_s:g} s")

    def ack(self, record: Record) -> None:
        """Acknowledges a record as processed. Ignored and counted if its partition was lost meanwhile."""
        self._member.ack(record)

    @property
    def acks_ignored(self) -> int:
        """Number of acknowledgements that came after their partition was lost."""
        return self._consuming.delivery.acks_ignored if self._consuming is not None else 0

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Offset of the next record to be delivered; None until the reset policy has given one.

        Raises `NotOwnerError`.
        """
        return self._member.delivery.position(checked_partition(topic_partition))

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops delivery of these partitions until `resume`, also if they come back after a rebalance."""
        self._member.delivery.pause(checked_partitions(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Delivers these partitions again."""
        self._member.delivery.resume(checked_partitions(partitions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that `pause` stopped."""
        return self._member.delivery.paused
