"""The thread of the replicas: what waits for a change is attempted there, and the loop is woken once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.worlds.batches import records_of
from tests.worlds.replica_managers import TP, in_memory, log_end_offset
from tests.worlds.serving import on_a_loop, until
from zkgroup.broker.replicas.executor import ExecutorClosedError, PartitionWatch, ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.model import TopicPartition

OTHER = TopicPartition("orders", 1)
BATCH = records_of([b"x"], timestamp_ms=1)
FAR_S = 60.0


def append(host: ReplicaManager) -> None:
    assert host.append(TP, BATCH).error == 0


class Ends:
    """An attempt that is complete once the log of `TP` has so many records."""

    def __init__(self, executor: ReplicaExecutor, records: int, *partitions: TopicPartition) -> None:
        self.watch = PartitionWatch(executor)
        self.seen: list[int] = []
        self._partitions = partitions or (TP,)
        self._records = records

    def attempt(self, host: ReplicaManager) -> bool:
        for tp in self._partitions:
            self.watch.add(tp)
        self.seen.append(log_end_offset(host, TP) or 0)
        return self.seen[-1] >= self._records


@asynccontextmanager
async def executing() -> AsyncIterator[ReplicaExecutor]:
    host = in_memory(1)
    for tp in (TP, OTHER):
        host.become_leader(tp, 0, (1,), {1})
    executor = ReplicaExecutor(host)
    yield executor
    assert await executor.close()


def far() -> float:
    return asyncio.get_running_loop().time() + FAR_S


@on_a_loop
async def test_an_attempt_is_repeated_at_each_change_until_it_is_complete() -> None:
    """And not at changes of other partitions, nor once it is complete."""
    async with executing() as executor:
        ends = Ends(executor, 2)
        waiting = asyncio.ensure_future(executor.complete(ends.watch, ends.attempt, far()))
        await until(lambda: ends.seen)
        await executor.call(lambda host: host.append(OTHER, BATCH))
        for _ in range(3):
            await executor.call(append)

        assert await waiting
        assert ends.seen == [0, 1, 2]


@on_a_loop
async def test_an_attempt_ends_with_its_time() -> None:
    """Also if the time is over before: it is called once then."""
    async with executing() as executor:
        for until_s in (0.0, asyncio.get_running_loop().time() + 0.01):
            ends = Ends(executor, 1)
            assert not await executor.complete(ends.watch, ends.attempt, until_s)
            assert ends.seen == [0]

        await executor.call(append)
        assert ends.seen == [0]


@on_a_loop
async def test_a_caller_that_gives_up_ends_its_attempt_and_no_later_one() -> None:
    """A session has one watch, and its next request may come while the one before still waits."""
    async with executing() as executor:
        ends, later = Ends(executor, 1), Ends(executor, 1)
        first = asyncio.ensure_future(executor.complete(ends.watch, ends.attempt, far()))
        await until(lambda: ends.seen)
        second = asyncio.ensure_future(executor.complete(ends.watch, later.attempt, far()))
        await until(lambda: later.seen)

        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await executor.call(append)

        assert await asyncio.wait_for(second, FAR_S)
        assert (ends.seen, later.seen) == ([0], [0, 1])


@on_a_loop
async def test_an_error_of_an_attempt_is_raised_where_it_is_waited_for() -> None:
    """In the first attempt, and in a later one; other calls go on."""
    async with executing() as executor:
        watch = PartitionWatch(executor)
        attempts: list[int] = []

        def fails(host: ReplicaManager) -> bool:
            watch.add(TP)
            attempts.append(1)
            if len(attempts) == 2:
                raise ValueError("second")
            return False

        waiting = asyncio.ensure_future(executor.complete(watch, fails, far()))
        await until(lambda: attempts)
        await executor.call(append)
        with pytest.raises(ValueError, match="second"):
            await waiting
        assert await executor.call(lambda host: log_end_offset(host, TP)) == 1

    with pytest.raises(ExecutorClosedError):
        await executor.complete(watch, fails, far())


@on_a_loop
async def test_the_loop_is_woken_once_for_a_change_and_all_that_waited_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each wake-up is a system call, and a turn of the loop in another thread."""
    async with executing() as executor:
        all_ends = [Ends(executor, 1) for _ in range(5)]
        waiting = [
            asyncio.ensure_future(executor.complete(one.watch, one.attempt, far())) for one in all_ends
        ]
        await until(lambda: all(one.seen for one in all_ends))
        await executor.call(lambda host: None)  # what was before has called back
        loop, woken = asyncio.get_running_loop(), list[object]()
        call_soon_threadsafe = loop.call_soon_threadsafe

        def counted(callback: object, *arguments: object) -> object:
            woken.append(callback)
            return call_soon_threadsafe(callback, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        executor.post(append)

        assert await asyncio.gather(*waiting) == [True] * 5
        assert len(woken) == 1
