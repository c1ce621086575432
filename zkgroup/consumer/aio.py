"""The asyncio twins: the same names, the same member, awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Self

from zkgroup.consumer.aio_facing import AsyncFace
from zkgroup.consumer.aio_runner import AsyncRunner
from zkgroup.consumer.aio_waiting import wait_for_event
from zkgroup.consumer.arguments import check_count, check_offset, checked_timeout
from zkgroup.consumer.consumer_face import ConsumerFace
from zkgroup.consumer.consuming import grouped
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.listener import AsyncRebalanceListener
from zkgroup.consumer.opening import MemberOptions, Topics, open_engine, subscription_of
from zkgroup.consumer.records import Record
from zkgroup.consumer.sources.port import RecordSource
from zkgroup.errors import CommitResult, MemberClosedError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, Store
from zkgroup.model.waiting import after
from zkgroup.settings import GroupSettings
from zkgroup.zookeeper import ClientSettings

TAKEN_AT_ONCE_MAX = 100
"""Records that come without waiting after which other tasks get a turn."""


class AsyncGroupMember(AsyncFace):
    """`GroupMember` for asyncio.

    ```python
    async with AsyncGroupMember("host:2181", group="billing", topics=["orders"]) as member:
        await member.wait_until_assigned(timeout_s=30)
        for lease in member.leases():
            await work_on(lease.partition, lease.token)
    ```
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        group: str,
        topics: Topics,
        settings: GroupSettings | None = None,
        listener: AsyncRebalanceListener | None = None,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        history: HistorySink | None = None,
        metrics: MetricsSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        """The arguments of `GroupMember`; the listener's methods are coroutines. Raises `ConfigError`."""
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
            )
        )

    def _build(self, runner: AsyncRunner) -> MemberEngine:
        return open_engine(self._options, runner)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> CommitResult:
        """See `GroupMember.commit`. Cancelling ends the wait, not the commit (`cancelled_commits`)."""
        return await self._await_commit(self._engine.commit_now(offsets))


class AsyncConsumer(ConsumerFace, AsyncFace):
    """`Consumer` for asyncio.

    ```python
    async with AsyncConsumer("host:2181", group="billing", topics=["orders"], source=source) as consumer:
        async for record in consumer:
            await handle(record)
    ```
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        group: str,
        topics: Topics,
        source: RecordSource,
        settings: GroupSettings | None = None,
        listener: AsyncRebalanceListener | None = None,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        history: HistorySink | None = None,
        metrics: MetricsSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        """The arguments of `Consumer`; the listener's methods are coroutines. Raises `ConfigError`."""
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
        self._ready = asyncio.Event()
        self._news = 0
        self._events: asyncio.AbstractEventLoop | None = None
        self._taken_at_once = 0

    def _build(self, runner: AsyncRunner) -> MemberEngine:
        self._events = asyncio.get_running_loop()
        return self._put_together(runner)

    def _ends(self, engine: MemberEngine) -> list[Future[None]]:
        assert self._consuming is not None
        return [engine.loop.over, self._consuming.fetcher.over]

    def _wake(self) -> None:
        self._news += 1
        if self._events is not None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits
                self._events.call_soon_threadsafe(self._ready.set)

    # --- records ----------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """See `Consumer.__next__`."""
        timeout_ms = self._options.settings.consumer_timeout_ms
        try:
            records = await self._take(1, None if timeout_ms < 0 else timeout_ms / 1000)
        except MemberClosedError:
            raise StopAsyncIteration from None
        if not records:
            raise StopAsyncIteration
        return records[0]

    async def poll(
        self, timeout_s: float = 1.0, max_records: int = 500
    ) -> dict[TopicPartition, list[Record]]:
        """See `Consumer.poll`. A cancelled poll has taken no record."""
        return grouped(await self._take(max_records, checked_timeout(timeout_s)))

    async def _take(self, max_records: int, timeout_s: float | None) -> list[Record]:
        member = self._member
        check_count(max_records)
        clock = member.engine.clock
        deadline_ms = None if timeout_s is None else after(clock, timeout_s)
        self._taken_at_once = (self._taken_at_once + 1) % TAKEN_AT_ONCE_MAX
        if self._taken_at_once == 0:
            await asyncio.sleep(0)
        member.begin_poll()
        try:
            while not self._stopped:
                self._ready.clear()
                seen = self._news
                member.engine.check_usable()
                if records := member.delivery.take(max_records):
                    return records
                if deadline_ms is not None and clock.now_ms() >= deadline_ms:
                    return []
                await self._wait(clock, seen, deadline_ms)
            return []
        finally:
            member.end_poll()

    async def _wait(self, clock: Clock, seen: int, deadline_ms: int | None) -> None:
        """Waits until there may be something new, or the time is over."""
        await wait_for_event(clock, self._ready, lambda: self._news != seen, deadline_ms)

    # --- positions --------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> CommitResult:
        """See `Consumer.commit`. Cancelling ends the wait, not the commit (`cancelled_commits`)."""
        return await self._await_commit(self._member.commit(offsets))

    async def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """See `Consumer.seek`."""
        member = self._member
        check_offset(topic_partition, offset)
        member.delivery.seek(topic_partition, offset)
