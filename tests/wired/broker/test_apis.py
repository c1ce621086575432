"""The answers of a broker over its port, and the calls of its replica manager."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worlds import golden_data
from tests.worlds.broker_requests import (
    ORDERS,
    broker,
    consume_request,
    leader_and_isr,
    produce_request,
    state,
    stop_replica,
    update_metadata,
)
from tests.worlds.serving import ScriptedHost, context_of, on_a_loop, served, until
from zkgroup.broker.replica_view import (
    BecomeFollower,
    BecomeLeader,
    DeleteReplica,
    ReplicaView,
    Role,
    StopReplica,
)
from zkgroup.broker.server.apis import BrokerApis
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.server.metadata_requests import cached
from zkgroup.model import TopicPartition
from zkgroup.testing import FakeClock
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import Api, decode_response, encode_request
from zkgroup.wire.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from zkgroup.wire.records import FetchRequest, ProduceRequest

ONE = TopicPartition("orders", 1)
TWO = TopicPartition("orders", 2)


@on_a_loop
async def test_the_host_does_what_the_controller_says_in_order_on_one_thread() -> None:
    """Leaders first; the observer is notified of each action before the answer is sent."""
    host = ScriptedHost()
    async with served(host) as one:
        client = await one.client()
        follow, lead = state(ORDERS, leader=2, epoch=4), state(ONE, leader=1, isr=(2,), epoch=1)

        roles = await client.ask(leader_and_isr(follow, lead), LeaderAndIsrResponse)
        stopped = await client.ask(stop_replica(ORDERS), StopReplicaResponse)
        deleted = await client.ask(stop_replica(ONE, delete=True), StopReplicaResponse)

        assert roles.partitions == (PartitionError("orders", 0, 0), PartitionError("orders", 1, 0))
        assert (stopped.error, deleted.error) == (0, 0)
        assert host.asked == [
            ("leader", ONE, 1, (1, 2), {1, 2}),
            ("follower", ORDERS, 4),
            ("stop", ORDERS),
            ("delete", ONE),
        ]
        assert host.threads.isdisjoint({threading.main_thread()})
        assert len(host.threads) == 1
        assert one.noted.actions == [
            (BecomeLeader(lead), 0),
            (BecomeFollower(follow, broker(2)), 0),
            (StopReplica(ORDERS), 0),
            (DeleteReplica(ONE), 0),
        ]
        await client.close()
    assert host.closed == 1


@on_a_loop
async def test_control_requests_are_refused_before_the_broker_is_registered() -> None:
    """A controller that knows the former start by its registration reaches the new one on the same port (K8).

    Its requests close the connection. Those of a client for brokers and topics do so until the first update:
    past bug, librdkafka took an answer without brokers for the cluster, and connected to none any more.
    """
    registered: list[int] = []
    cache = MetadataCache()
    service = BrokerApis(
        broker=2,
        control_requests=ControlRequestHandler(2, cache),
        metadata=cached(cache),
        clock=FakeClock(),
        accepts_control=lambda: bool(registered),
    )
    update, asked, versions = update_metadata(), MetadataRequest.of(), ApiVersionsRequest()
    assert await service.respond(context_of(update), update) is None
    assert cache.controller_epoch is None
    assert await service.respond(context_of(asked), asked) is None
    assert isinstance(await service.respond(context_of(versions), versions), ApiVersionsResponse)

    registered.append(1)
    assert await service.respond(context_of(update), update) == UpdateMetadataResponse(0)
    assert isinstance(await service.respond(context_of(asked), asked), MetadataResponse)
    await service.close()


@on_a_loop
async def test_what_the_host_cannot_do_is_answered_for_that_partition() -> None:
    """56; and -1 where it raises, which no host may: the others are done, and it is in the log."""
    host = ScriptedHost(broken={ORDERS}, full={ONE})
    async with served(host) as one:
        client = await one.client()

        response = await client.ask(leader_and_isr(state(), state(ONE), state(TWO)), LeaderAndIsrResponse)

        assert [entry.error for entry in response.partitions] == [-1, 56, 0]
        assert [error for _, error in one.noted.actions] == [-1, 56, 0]
        assert [tp for tp, replica in one.receiver.replicas.items() if replica.leads] == [TWO]
        await client.close()


@on_a_loop
async def test_what_has_failed_is_not_left_over() -> None:
    """It has no role although the controller has placed it here, and its failure has been reported."""
    broken = ReplicaView(Role.NONE, -1, 3, 0, -1, failure="no space")
    host = ScriptedHost(full={ORDERS}, views={ORDERS: broken, TWO: replace(broken, failure=None)})
    async with served(host) as one:
        client = await one.client()
        await client.ask(leader_and_isr(state()), LeaderAndIsrResponse)

        assert one.noted.strays == [(TWO,)]
        await client.close()


@on_a_loop
async def test_requests_of_two_controllers_are_handled_one_after_the_other() -> None:
    """The receiver's half: each is completed, on whichever connection it came.

    The earlier request is completed before the epoch of the later one fences it.
    """
    host = ScriptedHost()
    async with served(host) as one:
        earlier, later = await one.client(), await one.client()
        host.gate.clear()
        earlier.send(leader_and_isr(state(epoch=4), state(ONE, epoch=4), epoch=1))
        await until(lambda: one.receiver.controller_epoch == 1)
        later.send(update_metadata(epoch=2))
        later.send(leader_and_isr(state(leader=2, epoch=5), epoch=2))
        await until(lambda: one.server.held == earlier.sent_bytes + later.sent_bytes)
        assert one.receiver.controller_epoch == 1
        host.gate.set()

        assert (await earlier.receive(LeaderAndIsrResponse)).error == 0
        assert (await later.receive(UpdateMetadataResponse, 1)).error == 0
        assert (await later.receive(LeaderAndIsrResponse, 2)).error == 0
        assert (await earlier.ask(stop_replica(ORDERS, epoch=1), StopReplicaResponse)).error == 11
        assert [what[:3] for what in host.asked] == [
            ("leader", ORDERS, 4),
            ("leader", ONE, 4),
            ("follower", ORDERS, 5),
        ]
        await earlier.close()
        await later.close()


@on_a_loop
async def test_a_request_whose_connection_is_gone_before_its_turn_is_dropped() -> None:
    """Its sender sends it again; this copy must not be handled after later requests."""
    host = ScriptedHost()
    async with served(host) as one:
        first, gone, last = await one.client(), await one.client(), await one.client()
        host.gate.clear()
        first.send(leader_and_isr(state()))
        await until(lambda: one.receiver.controller_epoch == 1)
        gone.send(stop_replica(ONE, delete=True))
        await until(lambda: one.server.held == first.sent_bytes + gone.sent_bytes)
        await gone.close()
        await until(lambda: one.server.held == first.sent_bytes)
        host.gate.set()

        assert (await first.receive(LeaderAndIsrResponse)).error == 0
        assert (await last.ask(stop_replica(TWO), StopReplicaResponse)).error == 0
        assert [what[0] for what in host.asked] == ["leader", "stop"]
        await first.close()
        await last.close()


@on_a_loop
async def test_clients_are_answered_while_the_host_is_busy() -> None:
    """The metadata cache needs no host."""
    host = ScriptedHost()
    async with served(host) as one:
        controller, client = await one.client(), await one.client()
        await controller.ask(update_metadata(state()), UpdateMetadataResponse)
        host.gate.clear()
        controller.send(leader_and_isr(state()))

        assert (await client.ask(MetadataRequest.of("orders"), MetadataResponse)).topics[0].error == 0
        assert await client.ask(FindCoordinatorRequest("g"), FindCoordinatorResponse) == (
            FindCoordinatorResponse(15, -1, "", -1)
        )
        host.gate.set()
        assert (await controller.receive(LeaderAndIsrResponse)).error == 0
        await controller.close()
        await client.close()


@on_a_loop
async def test_recorded_requests_are_answered_over_the_port() -> None:
    """Recorded bytes of Kafka controllers to broker 1, answered by correlation id."""
    frames = [
        frame
        for frame in golden_data.frames("kafka-0.8.2.2/wire")
        if frame.broker == 1
        and frame.api in (Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA)
        and frame.direction == "request"
        and not (frame.number == 618 and Path(frame.file).name.startswith("23-"))
    ]
    kinds = {
        Api.LEADER_AND_ISR: LeaderAndIsrResponse,
        Api.STOP_REPLICA: StopReplicaResponse,
        Api.UPDATE_METADATA: UpdateMetadataResponse,
    }
    async with served(ScriptedHost()) as one:
        client = await one.client()
        client.writer.write(b"".join(frame.data for frame in frames))
        errors = []
        for frame in frames:
            correlation_id, response = decode_response(kinds[Api(frame.api)], await client.frame())
            assert correlation_id == frame.correlation_id
            errors.append(response.error)
        await client.close()

    assert errors.count(11) == 3
    assert len(errors) > 60
    assert set(errors) == {0, 11}


@on_a_loop
async def test_a_broker_that_hosts_nothing_can_be_given_no_role() -> None:
    """Control requests are fenced as elsewhere; a controller takes its replica for offline (recipes 14)."""
    async with served() as one:
        client = await one.client()

        roles = await client.ask(leader_and_isr(state(), state(ONE, leader=2)), LeaderAndIsrResponse)
        stopped = await client.ask(stop_replica(ORDERS, delete=True), StopReplicaResponse)
        stale = await client.ask(update_metadata(epoch=0), UpdateMetadataResponse)

        assert [entry.error for entry in roles.partitions] == [56, 56]
        assert [entry.error for entry in stopped.partitions] == [0]
        assert stale.error == 11
        await client.close()


@on_a_loop
@pytest.mark.parametrize(
    "request_", [produce_request(ORDERS, 1, b"a"), consume_request(ORDERS, 0)], ids=["produce", "fetch"]
)
async def test_a_broker_that_hosts_nothing_closes_on_requests_for_records(
    request_: ProduceRequest | FetchRequest,
) -> None:
    """Anything else closes the connection (recipes 14)."""
    async with served() as one:
        client = await one.client()
        client.send(request_, request_.VERSIONS[-1])

        assert await client.is_closed()
        await client.close()


@on_a_loop
async def test_controlled_shutdown_is_asked_of_the_controller_in_this_process() -> None:
    """It has no client id on the wire; where no controller runs the answer is 11."""
    asked: list[int] = []

    async def controller(number: int) -> ControlledShutdownResponse:
        asked.append(number)
        return ControlledShutdownResponse(0, (ORDERS,))

    for hook, expected in (
        (None, ControlledShutdownResponse(11)),
        (controller, ControlledShutdownResponse(0, (ORDERS,))),
    ):
        async with served(controlled_shutdown=hook) as one:
            client = await one.client()
            client.writer.write(encode_request(ControlledShutdownRequest(3), 0, None))

            assert await client.receive(ControlledShutdownResponse, 0) == expected
            await client.close()
    assert asked == [3]
