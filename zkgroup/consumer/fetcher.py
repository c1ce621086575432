"""The one thread that talks to the source, so that neither delivery nor a rebalance waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext

from zkgroup.consumer.delivery import FETCH_RECORDS
from zkgroup.consumer.feeding import Feeding, FetchOrder
from zkgroup.consumer.sources.port import Bounds, Cluster, RecordSource
from zkgroup.consumer.starts import UNAVAILABLE_PAUSE_MAX_S, UNAVAILABLE_PAUSE_S, Starts
from zkgroup.errors import (
    NoOffsetError,
    OffsetOutOfRangeError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.model.waiting import Sleeper, after, wait_for

log = logging.getLogger("zkgroup.consumer")

POLL_S = 1.0
"""Longest wait inside the source; `wake` ends it early."""
RECORDS_MAX = 10_000
"""About so many records are taken from the source at once, over all partitions."""


class Fetcher:
    """Keeps the buffers of a consumer filled from a `RecordSource`."""

    def __init__(
        self,
        source: RecordSource,
        feeding: Feeding,
        cluster: Cluster,
        *,
        reset: str,
        clock: Clock,
        on_error: Callable[[BaseException], None],
        name: str,
    ) -> None:
        """`reset` is `earliest`, `latest` or `error`."""
        self._source = source
        self._feeding = feeding
        self._cluster = cluster
        self._reset = reset
        self._on_error = on_error
        self._clock = clock
        self._starts = Starts()
        self._rests_until_ms = 0
        self._pause_s = UNAVAILABLE_PAUSE_S
        self._work = threading.Event()
        self._sleeper = Sleeper(clock, f"{name}-fetcher", self._work.is_set)
        self._ended = threading.Event()
        self.over: Future[None] = Future()
        """Done when the thread has nothing left to do."""
        self._thread = threading.Thread(target=self._run, name=f"{name}-fetcher", daemon=True)

    def start(self) -> None:
        self._sleeper.join()
        self._thread.start()

    def wake(self) -> None:
        """There is something new to do; from any thread."""
        self._work.set()
        self._source.wake()

    def end(self) -> None:
        """The thread shall end; returns at once."""
        self._ended.set()
        self.wake()

    def close(self, timeout_s: float) -> bool:
        """Ends the thread, which closes the source; False when the source keeps it longer than that."""
        self.end()
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        until_ms = after(self._clock, timeout_s)
        return wait_for(self._clock, lambda: not self._thread.is_alive(), until_ms, self._thread.join)

    def _run(self) -> None:
        self._sleeper.worker = threading.get_ident()
        try:
            self.open()
            while not self._ended.is_set():
                until_ms = self.run_pending()
                if until_ms is None or until_ms > self._clock.now_ms():
                    self._sleeper.sleep(until_ms, self._work.wait, self._work.set)
        except BaseException as error:  # noqa: BLE001 - the source's; it ends the member and is raised there
            if not self._ended.is_set():
                self._on_error(error)
        finally:
            self._close_source()
            self._sleeper.leave()
            self.over.set_result(None)

    # --- the fetcher's thread, or whoever runs it without one -------------------------------------

    @property
    def is_woken(self) -> bool:
        """There was a `wake` since the last `run_pending` began."""
        return self._work.is_set()

    def open(self) -> None:
        """Before the first `run_pending`."""
        self._source.wait_with(self._sleeper)
        self._source.open(self._cluster)

    def run_pending(self) -> int | None:
        """One round; waits nowhere but in the source. Returns when the next one is due, unless there is a
        `wake` before: a time of the clock, which may have come; None for no time. Raises what the source
        does for good."""
        self._work.clear()
        if self._clock.now_ms() < self._rests_until_ms:  # what is new meanwhile is seen after it
            return self._rests_until_ms
        try:
            again_ms = self._fetch(self._feeding.order())
        except (SourceUnavailableError, StoreUnavailableError) as error:  # which `Cluster` raises
            log.warning("%s; trying again in %g s", error, self._pause_s)
            self._rests_until_ms = after(self._clock, self._pause_s)
            self._pause_s = min(2 * self._pause_s, UNAVAILABLE_PAUSE_MAX_S)
            return self._rests_until_ms
        self._pause_s = UNAVAILABLE_PAUSE_S
        return again_ms

    def _close_source(self) -> None:
        try:
            self._source.close()
        except Exception:
            log.exception("closing the record source")

    def _fetch(self, order: FetchOrder) -> int | None:
        due = self._starts.due(order.unresolved, self._clock.now_ms())
        if due:
            self._resolve(order, due)
            order = self._feeding.order()
        if order.positions:
            self._poll(order)
            return self._clock.now_ms()
        if self._starts.due(order.unresolved, self._clock.now_ms()):
            return self._clock.now_ms()
        return self._starts.again_ms if order.unresolved else None

    def _elsewhere(self) -> AbstractContextManager[None]:
        """Sources that wait by means of their own wait for what is outside, in real time."""
        if type(self._source).poll is RecordSource.poll:
            return nullcontext()
        return self._sleeper.resting()

    def _resolve(self, order: FetchOrder, due: Sequence[TopicPartition]) -> None:
        """Asks for all at once; those without an answer are asked for again later, the others go on.

        Those that the source has not come to are the first next time.
        """
        if self._reset == "error":
            raise NoOffsetError(due[0])
        timeout_s = self._starts.limit_s(due, others_wait=bool(order.positions))
        starts: dict[TopicPartition, int] = {}
        reasons: dict[TopicPartition, object] = {}
        found: Mapping[TopicPartition, Bounds | SourceUnavailableError] = {}
        try:
            found = self._source.bounds_of(due, timeout_s)
        except (SourceUnavailableError, StoreUnavailableError) as error:
            reasons = dict.fromkeys(due, error)
        asked = [tp for tp in due if tp in found] or due
        for topic_partition in asked:
            bounds = found.get(topic_partition)
            if isinstance(bounds, Bounds):
                starts[topic_partition] = bounds.earliest if self._reset == "earliest" else bounds.end
            else:
                reasons.setdefault(topic_partition, bounds or "no answer in time")
        self._feeding.resolved(order, starts)
        pause_s = self._starts.tried(asked, reasons, self._clock.now_ms())
        if reasons:
            topic_partition, reason = next(iter(reasons.items()))
            more = f", and of {len(reasons) - 1} more" if len(reasons) > 1 else ""
            told = "the start of %s%s is not known: %s; trying again in %g s"
            log.warning(told, topic_partition, more, reason, pause_s)

    def _poll(self, order: FetchOrder) -> None:
        each = max(1, min(FETCH_RECORDS, RECORDS_MAX // len(order.positions)))
        try:
            with self._elsewhere():
                records = self._source.poll(order.positions, each, POLL_S)
        except OffsetOutOfRangeError as error:
            log.warning("%s: the reset policy %r decides", error, self._reset)
            self._feeding.out_of_range(error.topic_partition, order)
            return
        self._feeding.accept(order, records)
