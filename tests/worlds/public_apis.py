"""Runs one test against both public APIs, the blocking one and the asyncio one, with the same calls.

`Api.member(...)` and `Api.consumer(...)` return the real objects. Those of the asyncio API are wrapped in
`View`, which awaits them on an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import pytest

from tests.waiting import happened, joined, next_of, outcome
from tests.worlds.stores import WrappedStore
from zkgroup.consumer.aio import AsyncConsumer, AsyncGroupMember
from zkgroup.consumer.callbacks import AsyncRebalanceListener, RebalanceListener
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.sync import Consumer, GroupMember
from zkgroup.errors import ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.settings import GroupSettings
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.testing.memory_zookeeper.client import MemoryClient

FAST: dict[str, Any] = {"settle_ms": 5, "initial_rebalance_delay_ms": 0, "rebalance_backoff_ms": 100}
"""Settings that only make a test shorter."""


def settings(**named: Any) -> GroupSettings:
    return GroupSettings(**{**FAST, **named})


def orders(*partitions: int) -> list[TopicPartition]:
    return [TopicPartition("orders", partition) for partition in partitions]


@dataclass
class Application:
    """Records every callback; `on[name]` is called in the callback of that name."""

    on: dict[str, Callable[..., object]] = field(default_factory=dict)
    seen: queue.Queue[tuple[str, Any]] = field(default_factory=queue.Queue)
    threads: dict[str, list[str]] = field(default_factory=dict)
    clock: FakeClock | None = None
    """Of the member that has these callbacks, where it is on none of its own."""
    held: dict[str, threading.Event] = field(default_factory=dict)

    def call(self, name: str, argument: Any) -> None:
        self.threads.setdefault(name, []).append(threading.current_thread().name)
        self.seen.put((name, argument))
        if name in self.on:
            self.on[name](argument)
        if name in self.held:
            with self.aside(name):
                happened(self.held[name], what=f"{name} let go")

    def hold(self, name: str) -> threading.Event:
        """Blocks the callback of this name until the future has a result; time passes meanwhile."""
        return self.held.setdefault(name, threading.Event())

    def aside(self, name: str) -> AbstractContextManager[None]:
        return self.clock.aside() if self.clock is not None and name in self.held else nullcontext()

    def next(self, *names: str) -> Any:
        """The argument of the next callback with one of these names; drops other callbacks before it."""
        while True:
            if self.clock is not None:
                self.clock.advance_until(lambda: not self.seen.empty(), f"a callback of {names}")
            name, argument = next_of(self.seen, what=f"a callback of {names}")
            if name in names:
                return argument


class Listener(RebalanceListener):
    """A listener that passes every callback to an `Application`."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        self._application.call("assigned", list(leases))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._application.call("revoked", list(partitions))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._application.call("lost", list(partitions))

    def on_failed(self, error: ZkGroupError) -> None:
        self._application.call("failed", error)


class AsyncListener(AsyncRebalanceListener):
    """The same for the asyncio API; `on` may block, so it runs in a thread off the event loop."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def on_assigned(self, leases: Sequence[Lease]) -> None:
        await self._call("assigned", list(leases))

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("revoked", list(partitions))

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("lost", list(partitions))

    async def on_failed(self, error: ZkGroupError) -> None:
        await self._call("failed", error)

    async def _call(self, name: str, argument: Any) -> None:
        with self._application.aside(name):
            await asyncio.to_thread(self._application.call, name, argument)


class EventLoop:
    """An asyncio loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="test-event-loop", daemon=True)
        self._thread.start()
        self._moving = ExitStack()

    def move(self, clock: FakeClock) -> None:
        """Advances this clock while the loop awaits, as a blocking call does on the test's thread."""
        self.run(lambda: self._moving.enter_context(clock.moving_here()) and None)

    def run(self, call: Callable[[], Any]) -> Any:
        """Calls a function on the loop and awaits its result if it is awaitable."""

        async def awaited() -> Any:
            result = call()
            return await result if inspect.isawaitable(result) else result

        return outcome(asyncio.run_coroutine_threadsafe(awaited(), self.loop))

    def close(self) -> None:
        self.run(self._moving.close)
        self.run(self.loop.shutdown_default_executor)
        self.loop.call_soon_threadsafe(self.loop.stop)
        joined(self._thread)
        self.loop.close()


class View:
    """Wraps an object of the asyncio API: calls of its coroutines block until they are done."""

    def __init__(self, loop: EventLoop, target: Any) -> None:
        self._loop = loop
        self._target = target

    def __enter__(self) -> Self:
        self._loop.run(self._target.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(lambda: self._target.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Any]:
        async def following() -> tuple[Any, ...]:
            try:
                return (await anext(self._target),)
            except StopAsyncIteration:
                return ()

        while found := self._loop.run(following):
            yield found[0]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        return lambda *args, **named: self._loop.run(lambda: value(*args, **named))


@dataclass
class Api:
    """One of the two APIs, and the objects to close at the end of a test."""

    name: str
    loop: EventLoop | None = None
    opened: list[Any] = field(default_factory=list)
    moved: list[FakeClock] = field(default_factory=list)

    def member(self, address: str | None = None, *, app: Application | None = None, **named: Any) -> Any:
        """A `GroupMember` or `AsyncGroupMember`."""
        return self._make(GroupMember, AsyncGroupMember, address, app, named)

    def consumer(self, address: str | None = None, *, app: Application | None = None, **named: Any) -> Any:
        """A `Consumer` or `AsyncConsumer`."""
        return self._make(Consumer, AsyncConsumer, address, app, named)

    def _make(
        self, blocking: Any, awaited: Any, address: str | None, app: Application | None, named: dict[str, Any]
    ) -> Any:
        named.setdefault("group", "g")
        named.setdefault("topics", ["orders"])
        named.setdefault("settings", settings())
        store = named.get("client")
        while isinstance(store, WrappedStore):
            store = store.store
        if isinstance(store, MemoryClient):
            clock = store.server.clock
            named.setdefault("clock", clock)
            if app is not None:
                app.clock = clock
            if self.loop is not None and clock not in self.moved:
                self.moved.append(clock)
                self.loop.move(clock)
        if self.loop is None:
            made = blocking(address, listener=Listener(app) if app else None, **named)
        else:
            listener = AsyncListener(app) if app else None
            made = View(self.loop, awaited(address, listener=listener, **named))
        self.opened.append(made)
        return made

    def close(self) -> None:
        """Closes what a failed test left open, so that the test reports its own error only."""
        for made in self.opened:
            try:
                made.close(timeout_s=1.0)
            except Exception:  # noqa: BLE001 - the test has reported its own error
                continue
        if self.loop is not None:
            self.loop.close()


@pytest.fixture(params=["blocking", "asyncio"])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    name: str = request.param
    api = Api(name, EventLoop() if name == "asyncio" else None)
    yield api
    api.close()


class MemberWorld:
    """A ZooKeeper in memory with one topic; the clients have names and are closed with the test."""

    def __init__(self, partitions: int = 4) -> None:
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock)
        self.server.put("/consumers")
        self.topic("orders", partitions)

    def topic(self, name: str, partitions: int) -> None:
        self.server.topic(name, partitions)

    def client(self, name: str, session_timeout_ms: int = 6000) -> Any:
        return self.server.client(name, session_timeout_ms)

    def until(self, predicate: Callable[[], object], message: str | Callable[[], str] = "") -> None:
        """Advances time until the predicate is true."""
        self.clock.advance_until(predicate, message, max_ms=60_000)

    def join(self, thread: threading.Thread) -> None:
        """Advances time until the thread has ended."""
        self.until(lambda: not thread.is_alive(), f"the end of {thread.name}")

    def owners(self) -> Mapping[int, str]:
        """Partition of `orders` to the text of its owner znode."""
        prefix = "/consumers/g/owners/orders/"
        return {
            int(path.removeprefix(prefix)): (znode.data or b"").decode()
            for path, znode in self.server.tree().items()
            if path.startswith(prefix)
        }

    def offsets(self) -> Mapping[int, int]:
        """Partition of `orders` to its committed offset."""
        prefix = "/consumers/g/offsets/orders/"
        return {
            int(path.removeprefix(prefix)): int(znode.data or b"")
            for path, znode in self.server.tree().items()
            if path.startswith(prefix)
        }
