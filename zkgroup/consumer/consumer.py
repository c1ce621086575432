"""`Consumer`: a member that delivers the records of its partitions and commits what was processed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Self

from zkgroup.consumer.arguments import check_count, check_offset, checked_timeout
from zkgroup.consumer.consumer_face import ConsumerFace
from zkgroup.consumer.consuming import grouped
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.facing import BlockingFace, answer_timeout_s, result_of
from zkgroup.consumer.listener import RebalanceListener
from zkgroup.consumer.opening import MemberOptions, Topics, subscription_of
from zkgroup.consumer.records import Record
from zkgroup.consumer.sources.port import RecordSource
from zkgroup.consumer.worker import CallbackWorker
from zkgroup.errors import CommitResult, MemberClosedError, OutcomeUnknownError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, Store
from zkgroup.model.waiting import after, seconds_until, wait_for
from zkgroup.settings import GroupSettings
from zkgroup.zookeeper import ClientSettings


class Consumer(ConsumerFace, BlockingFace):
    """A member of a group that reads its partitions' records from a source.

    ```python
    with Consumer("host:2181", group="billing", topics=["orders"], source=FileSource("data/")) as consumer:
        for record in consumer:
            handle(record)
    ```

    With `ack_mode="auto"` (default) asking for the next record says that the one before is processed,
    and `poll` says it of the former batch; `ack` says it earlier. With `"explicit"` only `ack` does.
    What is processed is committed by timer (`auto_commit_interval_ms`), before a partition is given
    up, at `close()`, and by `commit()`. Nothing is ever committed that was not acknowledged.

    `poll` and iteration are for one thread at a time; every other method may be called from any.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        group: str,
        topics: Topics,
        source: RecordSource,
        settings: GroupSettings | None = None,
        listener: RebalanceListener | None = None,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        history: HistorySink | None = None,
        metrics: MetricsSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Checks everything that needs no network; raises `ConfigError`.

        `source` is where the records come from, see `RecordSource`; it is closed with the consumer.
        The other arguments are those of `GroupMember`.
        """
        super().__init__(
            MemberOptions(
                address=address,
                client=client,
                group=group,
                subscription=subscription_of(topics),
                settings=GroupSettings() if settings is None else settings,
                listener=listener,
                history=history,
                metrics=metrics,
                clock=clock,
                connection=connection,
            ),
            source,
        )
        self._ready = threading.Condition()
        self._news = 0

    def _build(self) -> MemberEngine:
        return self._put_together(CallbackWorker(f"zkgroup-{self._options.group}", self._options.clock_used))

    def _join(self, deadline_ms: int) -> None:
        if self._consuming is not None:
            clock = self._consuming.engine.clock
            self._consuming.fetcher.close(max(0.5, seconds_until(clock, deadline_ms)))

    def _wake(self) -> None:
        with self._ready:
            self._news += 1
            self._ready.notify_all()

    # --- records ----------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        """The next record; ends after `stop()`, `close()` or `consumer_timeout_ms` without one.

        Raises what made the consumer fail.
        """
        timeout_ms = self._options.settings.consumer_timeout_ms
        try:
            records = self._take(1, None if timeout_ms < 0 else timeout_ms / 1000)
        except MemberClosedError:
            raise StopIteration from None
        if not records:
            raise StopIteration
        return records[0]

    def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> dict[TopicPartition, list[Record]]:
        """Up to so many records by partition, in order; empty when none came in time or after `stop()`.

        Raises `MemberClosedError`, or what made the consumer fail.
        """
        return grouped(self._take(max_records, checked_timeout(timeout_s)))

    def _take(self, max_records: int, timeout_s: float | None) -> list[Record]:
        member = self._member
        check_count(max_records)
        clock = member.engine.clock
        deadline_ms = None if timeout_s is None else after(clock, timeout_s)
        member.begin_poll()
        try:
            while not self._stopped:
                seen = self._news
                member.engine.check_usable()
                if records := member.delivery.take(max_records):
                    return records
                if deadline_ms is not None and clock.now_ms() >= deadline_ms:
                    return []
                self._wait(clock, seen, deadline_ms)
            return []
        finally:
            member.end_poll()

    def _wait(self, clock: Clock, seen: int, deadline_ms: int | None) -> None:
        """Waits until there may be something new, or the time is over."""

        def is_new() -> bool:
            return self._news != seen

        def wait(left_s: float) -> None:
            with self._ready:
                self._ready.wait_for(is_new, left_s)

        wait_for(clock, is_new, deadline_ms, wait)

    # --- positions --------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> CommitResult:
        """Commits what is processed, or the offsets given; see `GroupMember.commit` for the errors."""
        member = self._member
        try:
            result = result_of(member.engine, member.commit(offsets), answer_timeout_s(self._settings))
        except FutureTimeoutError:
            raise OutcomeUnknownError("the commit got no answer in time; it may have been applied") from None
        result.raise_if_refused()
        return result

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Goes on from this offset; the only way by which a later commit may go back.

        Raises `NotOwnerError`; `ConfigError` for a negative offset.
        """
        member = self._member
        check_offset(topic_partition, offset)
        member.delivery.seek(topic_partition, offset)
