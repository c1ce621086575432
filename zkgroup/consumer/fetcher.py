"""The fetcher: only its thread calls the source, so that neither delivery nor a rebalance waits for it.

`ZooKeeperCluster` gives a source the brokers and partitions in ZooKeeper. `StartPositions` decides when the
source is asked for the bounds of partitions without a position.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from zkgroup.consumer.delivery import FETCH_RECORDS, FetchBuffer, FetchOrder
from zkgroup.errors import (
    MemberClosedError,
    NoOffsetError,
    OffsetOutOfRangeError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from zkgroup.groups.snapshot import decode_ephemeral
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, Sleeper, Store, after, wait_for
from zkgroup.model.requests import Code
from zkgroup.sources.port import Bounds, Cluster, RecordSource
from zkgroup.znodes.brokers import BrokerRegistration, Topic, broker_ids_path
from zkgroup.znodes.ids import number_of
from zkgroup.zookeeper.blocking import Blocking

log = logging.getLogger("zkgroup.consumer")

T = TypeVar("T")

POLL_S = 1.0
"""Longest wait inside the source, in seconds; `wake` ends it early."""
RECORDS_MAX = 10_000
"""Approximate number of records in one fetch from the source, over all partitions."""
CLUSTER_TIMEOUT_S = 10.0
"""Seconds for each read of ZooKeeper."""


class ZooKeeperCluster:
    """`Cluster` of the record sources, read from ZooKeeper. Blocking; used on the fetcher's thread."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._blocking = Blocking(store, timeout_s=CLUSTER_TIMEOUT_S, clock=clock)

    def close(self) -> None:
        self._blocking.close()

    def brokers(self) -> Mapping[int, BrokerRegistration]:
        names = self._blocking.list_many([broker_ids_path()])[broker_ids_path()] or ()
        numbers = [number for name in names if (number := number_of(name)) is not None]
        paths = {number: BrokerRegistration.path(number) for number in numbers}
        znodes = self._blocking.read_each(list(paths.values()))
        found: dict[int, BrokerRegistration] = {}
        for broker, path in sorted(paths.items()):
            znode = znodes[path]
            if isinstance(znode, Code):
                log.warning("%s: cannot be read (%s); the other brokers are asked", path, znode.value)
            elif znode is not None:
                entry = decode_ephemeral(znode, BrokerRegistration.decode)
                if entry.value is not None:
                    found[broker] = entry.value
                else:
                    log.warning("%s; the other brokers are asked", entry.error)
        return found

    def partitions(self, topic: str) -> tuple[int, ...]:
        znode = self._blocking.find(Topic.path(topic))
        return tuple(sorted(Topic.decode(znode.path, znode.data).partitions)) if znode else ()


class Fetcher:
    """Keeps the buffers of a consumer filled from a `RecordSource`."""

    def __init__(
        self,
        source: RecordSource,
        fetch_buffer: FetchBuffer,
        cluster: Cluster,
        *,
        reset: str,
        clock: Clock,
        on_error: Callable[[BaseException], None],
        name: str,
    ) -> None:
        """`reset` is `earliest`, `latest` or `error`."""
        self._source = source
        self._fetch_buffer = fetch_buffer
        self._cluster = cluster
        self._reset = reset
        self._on_error = on_error
        self._clock = clock
        self._starts = StartPositions()
        self._backoff_until_ms = 0
        self._pause_s = UNAVAILABLE_PAUSE_S
        self._work = threading.Event()
        self._sleeper = Sleeper(clock, f"{name}-fetcher", self._work.is_set)
        self._ended = threading.Event()
        self._failure: Exception | None = None
        """The error of the source with which the thread has ended."""
        self._questions: deque[Callable[[], None]] = deque()
        """Calls of the source on behalf of the application; each sets a future."""
        self.over: Future[None] = Future()
        """Done when the thread has ended its work."""
        self._thread = threading.Thread(target=self._run, name=f"{name}-fetcher", daemon=True)

    def start(self) -> None:
        self._sleeper.join()
        self._thread.start()

    def wake(self) -> None:
        """Wakes the thread for new work; from any thread."""
        self._work.set()
        self._source.wake()

    def ask(self, question: Callable[[RecordSource], T]) -> Future[T]:
        """Calls the source on the fetcher's thread; from any thread, returns at once.

        The future gets the result or error of the call. If the fetcher has ended, it gets the error of the
        source that ended it, else `MemberClosedError`.
        """
        future: Future[T] = Future()

        def reply() -> None:
            try:
                result = self._asked(question)
            except Exception as error:  # noqa: BLE001 - the source's; raised in the call that waits for it
                outcome = functools.partial(future.set_exception, error)
            else:
                outcome = functools.partial(future.set_result, result)
            with contextlib.suppress(InvalidStateError):  # the waiting call has cancelled it
                outcome()

        self._questions.append(reply)
        self.wake()
        if self.over.done():
            self._answer_questions()
        return future

    def _asked(self, question: Callable[[RecordSource], T]) -> T:
        if self._failure is not None:
            raise self._failure
        if self._ended.is_set():
            raise MemberClosedError("the consumer is closed, and its source with it")
        return question(self._source)

    def _answer_questions(self) -> None:
        while self._questions:
            with contextlib.suppress(IndexError):  # taken by another thread, after the end
                self._questions.popleft()()

    def end(self) -> None:
        """Makes the thread end; returns at once."""
        self._ended.set()
        self.wake()

    def close(self, timeout_s: float) -> bool:
        """Ends the thread, which closes the source; whether it ended within the timeout."""
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
        except BaseException as error:  # noqa: BLE001 - the source's; it ends the member, which raises it
            if not self._ended.is_set():
                self._failure = error if isinstance(error, Exception) else None
                self._on_error(error)
        finally:
            self._ended.set()  # a source that is closed is asked nothing: it would be opened again
            self._close_source()
            self._sleeper.leave()
            self.over.set_result(None)
            self._answer_questions()  # those that came after the last round: the consumer is closed

    def open(self) -> None:
        """Opens the source, before the first `run_pending`."""
        self._source.wait_with(self._sleeper)
        self._source.open(self._cluster)

    def run_pending(self) -> int | None:
        """Runs one round, which waits only in the source, and returns the time of the next one.

        The time is one of the clock and may have passed; None without one. A `wake` makes the next round due
        at once. Raises errors of the source except those for which it is retried.
        """
        self._work.clear()
        self._answer_questions()
        if self._clock.now_ms() < self._backoff_until_ms:  # new work waits until then
            return self._backoff_until_ms
        try:
            again_ms = self._fetch(self._fetch_buffer.order())
        except (SourceUnavailableError, StoreUnavailableError) as error:  # which `Cluster` raises
            if self._fetch_buffer.order().positions:
                log.warning("%s; trying again in %g s", error, self._pause_s)
            self._backoff_until_ms = after(self._clock, self._pause_s)
            self._pause_s = min(2 * self._pause_s, UNAVAILABLE_PAUSE_MAX_S)
            return self._backoff_until_ms
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
            order = self._fetch_buffer.order()
        if order.positions:
            self._poll(order)
            return self._clock.now_ms()
        if self._starts.due(order.unresolved, self._clock.now_ms()):
            return self._clock.now_ms()
        return self._starts.again_ms if order.unresolved else None

    def _elsewhere(self) -> AbstractContextManager[None]:
        """A context for sources that wait by their own means, in real time."""
        if type(self._source).poll is RecordSource.poll:
            return nullcontext()
        return self._sleeper.blocking()

    def _resolve(self, order: FetchOrder, due: Sequence[TopicPartition]) -> None:
        """Asks the source for the bounds of all at once; those without a reply are the first of a later
        call."""
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
                reasons.setdefault(topic_partition, bounds or "no reply in time")
        self._fetch_buffer.resolved(order, starts)
        pause_s = self._starts.tried(asked, reasons, self._clock.now_ms())
        waiting = self._fetch_buffer.order().unresolved  # what has been revoked meanwhile is no loss
        if reasons := {tp: reason for tp, reason in reasons.items() if tp in waiting}:
            topic_partition, reason = next(iter(reasons.items()))
            more = f", and of {len(reasons) - 1} more" if len(reasons) > 1 else ""
            message = "the start offset of %s%s is unknown: %s; trying again in %g s"
            log.warning(message, topic_partition, more, reason, pause_s)

    def _poll(self, order: FetchOrder) -> None:
        each = max(1, min(FETCH_RECORDS, RECORDS_MAX // len(order.positions)))
        try:
            with self._elsewhere():
                records = self._source.poll(order.positions, each, POLL_S)
        except OffsetOutOfRangeError as error:
            if self._reset == "error":
                todo = "set one with `zkgroup offsets reset`, or auto_offset_reset to 'earliest' or 'latest'"
                found = "; ".join(filter(None, (error.found, todo)))
                raise OffsetOutOfRangeError(error.topic_partition, error.offset, found) from error
            log.warning("%s: the reset policy %r decides", error, self._reset)
            self._fetch_buffer.out_of_range(error.topic_partition, order)
            return
        self._fetch_buffer.accept(order, records)


UNAVAILABLE_PAUSE_S = 0.2
UNAVAILABLE_PAUSE_MAX_S = 5.0
RESOLVE_S = 1.0
"""Seconds for the bounds of all partitions without a position, while the others wait for records."""
RESOLVE_AGAIN_S = 0.1
"""Seconds for bounds that the source could not give before."""
SHORT_ATTEMPTS_MAX = 4
"""Number of short attempts before a long one, for sources that reply slowly."""
RESOLVE_MAX_S = 10.0
"""Seconds of an attempt if no other partition waits, after some failed attempts."""


class StartPositions:
    """The partitions whose bounds the source could not give, and when it is asked again."""

    def __init__(self) -> None:
        self._unavailable: dict[TopicPartition, None] = {}
        """In the order of the last attempt."""
        self._pause_s = UNAVAILABLE_PAUSE_S
        self._in_vain = 0
        """Number of failed attempts in a row."""
        self.again_ms = 0

    def due(self, unresolved: Collection[TopicPartition], now_ms: int) -> list[TopicPartition]:
        """The partitions to ask for now: new ones at once, the others after a pause, the oldest first."""
        self._unavailable = dict.fromkeys(tp for tp in self._unavailable if tp in unresolved)
        new = [tp for tp in unresolved if tp not in self._unavailable]
        return [*new, *self._unavailable] if now_ms >= self.again_ms else new

    def limit_s(self, due: Collection[TopicPartition], *, others_wait: bool) -> float:
        """Seconds that the source may take for them, while the others wait for their records."""
        if not others_wait:
            return min(RESOLVE_MAX_S, RESOLVE_S * 2.0 ** min(self._in_vain, SHORT_ATTEMPTS_MAX))
        is_again = self._unavailable.keys() >= set(due)
        return RESOLVE_AGAIN_S if is_again and self._in_vain % (SHORT_ATTEMPTS_MAX + 1) else RESOLVE_S

    def tried(
        self, asked: Collection[TopicPartition], unavailable: Collection[TopicPartition], now_ms: int
    ) -> float:
        """Takes the result of an attempt; returns the seconds until the next one."""
        self._in_vain = self._in_vain + 1 if len(unavailable) == len(asked) else 0
        if not self._unavailable:
            self._pause_s = UNAVAILABLE_PAUSE_S
        for tp in asked:
            self._unavailable.pop(tp, None)
        self._unavailable.update(dict.fromkeys(unavailable))
        pause_s = self._pause_s
        if unavailable:
            self.again_ms = now_ms + int(pause_s * 1000)
            self._pause_s = min(2 * pause_s, UNAVAILABLE_PAUSE_MAX_S)
        return pause_s
