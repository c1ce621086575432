"""`AsyncBroker`: the same broker on an event loop."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.waiting import PATIENCE_S
from zkgroup.broker import AsyncBroker, Broker
from zkgroup.errors import BrokerIdInUseError, ConfigError, StoreUnavailableError
from zkgroup.testing import MemoryZooKeeper
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.client import SystemClock


def test_it_has_the_methods_of_the_blocking_class() -> None:
    """With the same parameters, but for those of tests."""

    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(Broker) - {"registered"} == public(AsyncBroker) - {"settings"}
    for name in public(AsyncBroker) - {"settings"}:
        ours, theirs = getattr(AsyncBroker, name), getattr(Broker, name)
        if callable(theirs):
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters), (
                name
            )
    assert list(inspect.signature(Broker).parameters) == list(inspect.signature(AsyncBroker).parameters)


def test_a_broker_on_an_event_loop() -> None:
    """It joins, answers, and leaves; `async with` starts and closes it."""
    server = MemoryZooKeeper(SystemClock())

    async def main() -> None:
        async with AsyncBroker(client=server.client("b1"), broker=1) as broker:
            await broker.wait_registered()
            assert broker.broker == 1
            assert broker.serving is not None
            assert server.find(BrokerRegistration.path(1)) is not None
            assert (await broker.health()).following == 0
            assert await broker.replicas() == {}
        await broker.close()
        with pytest.raises(StoreUnavailableError, match="does not serve"):
            await broker.health()

    asyncio.run(main())
    assert server.find(BrokerRegistration.path(1)) is None


def test_on_a_clock_of_the_test() -> None:
    """The wait ends at a time of that clock."""
    server = MemoryZooKeeper()
    client = server.client("b1")
    server.suspend("b1")

    async def main() -> None:
        async with AsyncBroker(client=client, broker=1, clock=server.clock) as broker:
            with pytest.raises(StoreUnavailableError, match="not registered within 60 s"):
                await broker.wait_registered(60)
            server.resume("b1")
            await broker.wait_registered(PATIENCE_S)

    asyncio.run(main())


def test_its_errors_are_those_of_the_blocking_class() -> None:
    """At once for its arguments, in `wait_registered` for what stops it later."""
    server = MemoryZooKeeper(SystemClock())
    with pytest.raises(ConfigError, match="exactly one of an address and a client"):
        AsyncBroker()
    with pytest.raises(ConfigError, match="connection: expected none with `client`"):
        AsyncBroker(client=server.client("b0"), connection=ClientSettings())

    async def main() -> None:
        async with AsyncBroker(client=server.client("b1"), broker=1) as first:
            await first.wait_registered()
            second = AsyncBroker(client=server.client("b2"), broker=1)
            with pytest.raises(BrokerIdInUseError):
                async with second:
                    await second.wait_registered()
            with pytest.raises(BrokerIdInUseError):
                second.check()

    asyncio.run(main())
