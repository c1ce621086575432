"""`AsyncBroker`: `Broker` for asyncio, with the same method names."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from zkgroup.broker.broker import ANSWER_S, HOST_DEFAULT, Broker
from zkgroup.broker.network import BrokerHealth
from zkgroup.broker.replica_view import ReplicaView
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, MetricsSink, Store, after, is_driven
from zkgroup.zookeeper import ClientSettings


class AsyncBroker:
    """The methods of `Broker` as coroutines, with the same arguments, results and errors.

    The broker works on threads of its own, as `Broker` does, and its listener is called on them. Plain
    methods may be called from any thread, coroutines on any event loop. A coroutine that is cancelled stops
    waiting; what it began goes on to its end, on a thread of the event loop's executor.

    Example:
        >>> async def serve() -> None:
        ...     async with AsyncBroker("localhost:2181", broker=1, data="/srv/broker-1") as broker:
        ...         await broker.wait_registered(timeout_s=30)
        ...         print(broker.serving)
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        client: Store | None = None,
        broker: int | None = None,
        host: str = HOST_DEFAULT,
        port: int = 0,
        data: str | Path | None = None,
        settings: BrokerSettings | None = None,
        listener: BrokerListener | None = None,
        connection: ClientSettings | None = None,
        clock: Clock | None = None,
        metrics: MetricsSink | None = None,
    ) -> None:
        """As `Broker`."""
        self._broker = Broker(
            address,
            client=client,
            broker=broker,
            host=host,
            port=port,
            data=data,
            settings=settings,
            listener=listener,
            connection=connection,
            clock=clock,
            metrics=metrics,
        )
        self._clock = clock

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close(controlled_shutdown=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """See `Broker.start`."""
        await asyncio.to_thread(self._broker.start)

    async def wait_connected(self, timeout_s: float | None = None) -> None:
        """See `Broker.wait_connected`."""
        await asyncio.to_thread(self._broker.wait_connected, timeout_s)

    async def wait_registered(self, timeout_s: float | None = None) -> None:
        """See `Broker.wait_registered`. It needs no thread, so it can be cancelled."""
        registered = self._broker.registered
        if is_driven(self._clock):
            until_ms = None if timeout_s is None else after(self._clock, timeout_s)
            await self._clock.await_for(registered.done, until_ms)
        else:
            await asyncio.wait([asyncio.wrap_future(registered)], timeout=timeout_s)
        self._broker.check()
        if not registered.done():
            raise self._broker._unregistered(timeout_s or 0)

    def check(self) -> None:
        """See `Broker.check`."""
        self._broker.check()

    def hurry(self) -> None:
        """See `Broker.hurry`."""
        self._broker.hurry()

    async def close(self, *, controlled_shutdown: bool = True) -> None:
        """See `Broker.close`."""
        await asyncio.to_thread(self._broker.close, controlled_shutdown=controlled_shutdown)

    @property
    def broker(self) -> int | None:
        """See `Broker.broker`."""
        return self._broker.broker

    @property
    def epoch(self) -> int | None:
        """See `Broker.epoch`."""
        return self._broker.epoch

    @property
    def serving(self) -> tuple[str, int] | None:
        """See `Broker.serving`."""
        return self._broker.serving

    @property
    def settings(self) -> BrokerSettings:
        """The settings that it was given."""
        return self._broker.settings

    async def health(self, timeout_s: float = ANSWER_S) -> BrokerHealth:
        """See `Broker.health`."""
        return await asyncio.to_thread(self._broker.health, timeout_s)

    async def replicas(self, timeout_s: float = ANSWER_S) -> dict[TopicPartition, ReplicaView]:
        """See `Broker.replicas`."""
        return await asyncio.to_thread(self._broker.replicas, timeout_s)

    async def leaders(
        self, partitions: Collection[TopicPartition], timeout_s: float = ANSWER_S
    ) -> dict[TopicPartition, int]:
        """See `Broker.leaders`."""
        return await asyncio.to_thread(self._broker.leaders, partitions, timeout_s)
