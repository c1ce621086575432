"""Orders of controllers: one at a time, and none of a registration that is over."""

from __future__ import annotations

import asyncio

from tests.worlds.broker_requests import ORDERS, leader_and_isr, state
from tests.worlds.serving import ScriptedHost, on_a_loop, served, until
from zkgroup.broker.server.control_queue import CONTROL_QUEUE_MAX, ControlQueue, ControlRequest
from zkgroup.wire.control import LeaderAndIsrResponse, StopReplicaRequest, StopReplicaResponse
from zkgroup.wire.messages import Response

DONE = StopReplicaResponse(0, ())


def _order(number: int) -> StopReplicaRequest:
    return StopReplicaRequest(1, number, False, ())


@on_a_loop
async def test_what_waits_is_refused_when_orders_are_dropped_and_what_is_under_way_ends() -> None:
    """Also requests that wait for a place in the queue; later requests are performed."""
    gate, handled, told = asyncio.Event(), [], []

    async def handle(request: ControlRequest) -> Response:
        handled.append(request.controller_epoch)
        await gate.wait()
        return DONE

    orders = ControlQueue(1, handle)
    many = CONTROL_QUEUE_MAX + 5
    asked = [asyncio.create_task(orders.submit(_order(number))) for number in range(many)]
    await until(lambda: handled)
    orders.drop(lambda: told.append(list(handled)))
    later = asyncio.create_task(orders.submit(_order(many)))
    assert told == []
    gate.set()

    assert await asyncio.gather(*asked) == [DONE] + [None] * (many - 1)
    assert await later == DONE
    assert handled == [0, many]
    assert told == [[0]]
    orders.drop(lambda: told.append([]))
    assert told == [[0], []], "at once, where nothing is under way"
    await orders.close()
    assert await orders.submit(_order(0)) is None


@on_a_loop
async def test_an_order_under_way_when_the_session_ends_is_no_word_of_the_next() -> None:
    """Its partitions may be of a topic that is deleted meanwhile."""
    host = ScriptedHost()
    async with served(host) as one:
        client = await one.client()
        host.gate.clear()
        client.send(leader_and_isr(state(leader=2)))
        await until(lambda: host.at_gate)
        ended: list[bool] = []
        one.service.drop_control_requests(lambda: ended.append(True))
        host.gate.set()
        assert (await client.receive(LeaderAndIsrResponse)).error == 0
        await until(lambda: ended)
        assert one.noted.orders == []
        again = leader_and_isr(state(leader=2))
        await client.ask(again, LeaderAndIsrResponse)

        assert one.noted.orders == [again]
        assert host.views[ORDERS].leader_epoch == state(leader=2).leader_epoch
        await client.close()
