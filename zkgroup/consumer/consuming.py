"""What both faces of a consumer share: a member's engine, its delivery, its fetcher and its timers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace

from zkgroup.consumer.arguments import check_record, checked_offsets, checked_partition, checked_partitions
from zkgroup.consumer.delivery import Delivery
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.events import Polled, PollOverdue
from zkgroup.consumer.fetcher import Fetcher
from zkgroup.consumer.opening import MemberOptions, open_engine
from zkgroup.consumer.polls import Polls
from zkgroup.consumer.reads import ZooKeeperCluster
from zkgroup.consumer.records import Record
from zkgroup.consumer.share import Share
from zkgroup.consumer.sources.port import RecordSource
from zkgroup.consumer.worker import CallbackRunner
from zkgroup.errors import CommitResult, MemberClosedError, ZkGroupError
from zkgroup.model import TopicPartition

log = logging.getLogger("zkgroup.consumer")

RESETS = {"smallest": "earliest", "largest": "latest"}
"""Kafka 0.8's words for the reset policies."""


class ConsumingMember:
    """A member that delivers records. Not started until `start()`; thread-safe as its parts are."""

    def __init__(
        self,
        options: MemberOptions,
        source: RecordSource,
        runner: CallbackRunner,
        wake_application: Callable[[], None],
        engine_of: Callable[[MemberOptions, CallbackRunner, Share], MemberEngine] = open_engine,
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
            source.close()  # it will not be opened: another consumer may have it
            raise
        self.delivery.attach(self.engine)
        self._cluster = ZooKeeperCluster(self.engine.store, self.engine.clock)
        self.fetcher = Fetcher(
            source,
            self.delivery.feeding,
            self._cluster,
            reset=RESETS.get(reset, reset),
            clock=self.engine.clock,
            on_error=self.engine.fail,
            name=f"zkgroup-{self.engine.member}",
        )
        self._polls = Polls()
        self._wake_application = wake_application
        self.engine.at_end(self.fetcher.end)
        self.engine.at_end(self._cluster.close)
        self.engine.at_end(wake_application)  # whoever waits for records finds out now

    def start(self) -> None:
        """Joins the group and starts the fetcher."""
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

    # --- timers: the member's thread --------------------------------------------------------------

    def _start_timers(self) -> None:
        if self.settings.auto_commit_enable:
            self._schedule_auto_commit()
        if self.settings.max_poll_interval_ms is not None:
            self._watch_polls(self.settings.max_poll_interval_ms)

    def _schedule_auto_commit(self) -> None:
        at_ms = self.engine.clock.now_ms() + self.settings.auto_commit_interval_ms
        self.engine.call_at("auto-commit", at_ms, self._auto_commit)

    def _auto_commit(self) -> None:
        """Commits what is processed. A refusal is logged; the next one comes an interval later."""
        self._schedule_auto_commit()
        processed = self.delivery.to_commit()
        if processed.positions:
            future: Future[CommitResult] = Future()
            future.add_done_callback(_log_refusals)
            self.engine.begin_commit(processed, future)

    def _watch_polls(self, interval_ms: int) -> None:
        now_ms = self.engine.clock.now_ms()
        if self._polls.look(now_ms, interval_ms):
            self.delivery.stop_draining()
            self.engine.step(PollOverdue())
        since_ms = now_ms if self._polls.is_overdue else self._polls.since_ms(now_ms)
        due_ms = since_ms + interval_ms
        self.engine.call_at("poll-interval", due_ms, lambda: self._watch_polls(interval_ms))

    def _polled(self) -> None:
        if self._polls.back():
            self.delivery.resume_draining()
            self.engine.step(Polled())

    # --- the application --------------------------------------------------------------------------

    def begin_poll(self) -> None:
        """The application asks for records: acknowledges the former ones in automatic mode."""
        if self._polls.begin():
            self.engine.call_soon(self._polled)
        self.delivery.begin_poll()

    def end_poll(self) -> None:
        """The application has its records, or gave up waiting."""
        self._polls.end(self.engine.clock.now_ms())

    def begin_close(self, timeout_s: float) -> None:
        """Begins to leave: commits what is acknowledged, does not wait for what the application holds."""

        def leave() -> None:
            self.delivery.stop_draining()
            self._wake_application()

        self.engine.call_soon(leave)
        self.engine.begin_close(timeout_s)

    def commit(self, offsets: Mapping[TopicPartition, int] | None) -> Future[CommitResult]:
        """Orders a commit of the processed positions, or of the offsets given; raises `ConfigError`."""
        if offsets is not None:
            return self.engine.commit(self.delivery.as_given(checked_offsets(offsets)))
        processed = self.delivery.to_commit()
        if not processed.positions:
            nothing: Future[CommitResult] = Future()
            nothing.set_result(CommitResult({}))
            return nothing
        return self.engine.commit(processed)

    def position(self, topic_partition: TopicPartition) -> int | None:
        return self.delivery.position(checked_partition(topic_partition))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.delivery.pause(checked_partitions(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.delivery.resume(checked_partitions(partitions))

    def ack(self, record: Record) -> bool:
        check_record(record)
        acked = self.delivery.ack(record)
        if not acked:
            self.engine.telemetry.ack_ignored()
        return acked


def _log_refusals(done: Future[CommitResult]) -> None:
    try:
        result = done.result()
    except ZkGroupError as error:
        if not isinstance(error, MemberClosedError):
            log.warning("auto-commit: %s", error)
        return
    for topic_partition, refusal in sorted(result.refused.items()):
        log.warning("auto-commit of %s refused: %s", topic_partition, refusal)


def grouped(records: Iterable[Record]) -> dict[TopicPartition, list[Record]]:
    """Records by partition, each in order."""
    found: dict[TopicPartition, list[Record]] = {}
    for record in records:
        found.setdefault(record.topic_partition, []).append(record)
    return found
