"""How a broker's service and its host come to an end, busy or not."""

from __future__ import annotations

import asyncio

import pytest

from tests.worlds.broker_requests import (
    ORDERS,
    leader_and_isr,
    state,
)
from tests.worlds.serving import ScriptedHost, context_of, on_a_loop, served, until
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.model import TopicPartition

ONE = TopicPartition("orders", 1)


@on_a_loop
async def test_close_returns_while_the_host_is_busy_and_requests_wait() -> None:
    """The replica manager completes its call, and no further call begins."""
    host = ScriptedHost()
    async with served(host) as one:
        clients = [await one.client() for _ in range(3)]
        host.gate.clear()
        for client in clients:
            client.send(leader_and_isr(state(), state(ONE)))
        await until(lambda: one.receiver.controller_epoch == 1)

        await one.server.close()
        await one.service.close()
        await one.service.close()
        late = leader_and_isr()
        assert await one.service.respond(context_of(late), late) is None
        host.gate.set()
        for client in clients:
            assert await client.is_closed()
            await client.close()
    assert host.asked == [
        ("leader", ORDERS, 0, (1, 2), {1, 2}),
        ("leader", ONE, 0, (1, 2), {1, 2}),
        ("close",),
    ]


@on_a_loop
async def test_a_host_that_hangs_does_not_keep_its_owner() -> None:
    """`close` returns False; the thread ends with the call that hangs."""
    host = ScriptedHost()
    thread = ReplicaExecutor(host)  # type: ignore[arg-type]
    host.gate.clear()
    asking = asyncio.create_task(thread.call(lambda one: one.stop(ORDERS)))
    await until(lambda: host.at_gate)

    assert not await thread.close(timeout_s=0.01)
    with pytest.raises(RuntimeError, match="closed"):
        await thread.call(lambda one: one.partitions())
    host.gate.set()
    assert await thread.close()
    await asking
    assert host.asked == [("stop", ORDERS), ("close",)]


@on_a_loop
async def test_what_the_host_raises_reaches_who_asked() -> None:
    """And the thread continues."""
    host = ScriptedHost(broken={ORDERS})
    thread = ReplicaExecutor(host)  # type: ignore[arg-type]

    with pytest.raises(OSError, match="broken"):
        await thread.call(lambda one: one.stop(ORDERS))
    assert await thread.call(lambda one: one.closed) == 0
    assert await thread.close()
    assert await thread.close()


def test_a_loop_that_ends_without_closing_leaves_no_thread() -> None:
    """The thread notices the closed loop when it has a result to return."""
    host = ScriptedHost()

    async def careless() -> None:
        thread = ReplicaExecutor(host)  # type: ignore[arg-type]
        host.gate.clear()
        asking = asyncio.create_task(thread.call(lambda one: one.stop(ORDERS)))
        await until(lambda: host.at_gate)
        asking.cancel()

    asyncio.run(careless())
    host.gate.set()
