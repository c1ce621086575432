"""One connection to one broker: frames, one question at a time, and what breaks it."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import PATIENCE_S
from tests.wired.controller.scripted_broker import channel_to_a_broker
from tests.worlds import golden_data
from tests.worlds.broker_requests import leader_and_isr, state, stop_replica, update_metadata
from tests.worlds.serving import on_a_loop, until
from tests.worlds.wire_requests import decode_request, encode_response
from zkgroup.controller.channels import ChannelSettings
from zkgroup.controller.machine.events import BrokerRequest
from zkgroup.model import TopicPartition
from zkgroup.wire.client import BrokerConnection
from zkgroup.wire.control import (
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import Api, encode

METADATA = BrokerRequest(1, 5, update_metadata(state()))
LEADS = BrokerRequest(1, 5, leader_and_isr(state()))
STOPS = BrokerRequest(1, 5, stop_replica(TopicPartition("orders", 0)))


def answered(correlation: int) -> bytes:
    """To UpdateMetadata: taken in."""
    return encode_response(UpdateMetadataResponse(0), correlation)


@on_a_loop
async def test_requests_and_answers_are_those_of_kafka_controllers_and_brokers() -> None:
    """Every recorded one, byte for byte but for the correlation id."""
    recorded = [
        frame
        for frame in golden_data.frames("kafka-0.8.2.2/wire")
        if frame.api in (Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA)
        and "23-" not in frame.file
    ]
    answers = {
        (each.file, each.broker, each.api, each.correlation_id): each
        for each in recorded
        if each.direction == "response"
    }
    compared = 0
    async with channel_to_a_broker() as scene:
        line = await scene.line()
        for request in (each for each in recorded if each.direction == "request"):
            reply = answers.get((request.file, request.broker, request.api, request.correlation_id))
            if reply is None:
                continue
            header, decoded = decode_request(request.data[4:])
            if header.client_id:
                scene.channel._client_id = header.client_id  # each file has a controller of its own
            scene.send(BrokerRequest(1, 5, decoded))  # type: ignore[arg-type]
            frame = await line.frame()
            assert _without_correlation(frame) == _without_correlation(request.data)
            line.say(reply.data[:4] + frame[8:12] + reply.data[8:])
            compared += 1
            await until(lambda wanted=compared: len(scene.received.answers) == wanted)  # type: ignore[misc]
            assert encode_response(scene.received.answers[-1], reply.correlation_id) == reply.data
    assert compared > 150


def _without_correlation(frame: bytes) -> bytes:
    return frame[:8] + frame[12:]


@on_a_loop
async def test_a_body_made_before_is_sent_as_it_is() -> None:
    """What all brokers get is encoded once. StopReplica has an empty client id, as at 0.8.2.2."""
    async with channel_to_a_broker() as scene:
        line = await scene.line()
        body = encode(update_metadata(state(leader=2)), 0)
        scene.send(BrokerRequest(1, 5, METADATA.request, body))
        header, request = decode_request((await line.frame())[4:])
        assert (header.client_id, request) == ("id_7-host_here-port_1", update_metadata(state(leader=2)))
        line.say(answered(header.correlation_id))

        await until(lambda: scene.received.answers)
        scene.send(STOPS)
        header, request = decode_request((await line.frame())[4:])
        assert (header.client_id, request) == ("", STOPS.request)


@on_a_loop
async def test_answers_may_come_in_pieces_and_each_has_its_type() -> None:
    """Byte by byte; the type follows from the question."""
    async with channel_to_a_broker() as scene:
        line = await scene.line()
        replies = {
            LEADS: LeaderAndIsrResponse(0, ()),
            METADATA: UpdateMetadataResponse(11),
            STOPS: StopReplicaResponse(0, ()),
        }
        for order, reply in replies.items():
            scene.send(order)
            for byte in encode_response(reply, await line.correlation()):
                line.say(bytes([byte]))
                await line.writer.drain()
            await until(lambda reply=reply: scene.received.answers[-1:] == [reply])  # type: ignore[misc]
        assert scene.received.kinds == ["up", "answered", "answered", "answered"]
        assert {each[1] for each in scene.received.happened} == {1}


BAD = {
    "another question's": lambda number: answered(number + 1),
    "too short": lambda number: (5).to_bytes(4, "big") + answered(number)[4:9],
    "too long": lambda number: encode_response(LeaderAndIsrResponse(0, ()), number),
    "no size": lambda number: (-1).to_bytes(4, "big", signed=True),
    "far too big": lambda number: (1001).to_bytes(4, "big"),
    "two of them": lambda number: answered(number) * 2,
}


@on_a_loop
@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_answer_breaks_the_connection(bad: str) -> None:
    """And the next one begins clean: what is left of the answer is not read there."""
    async with channel_to_a_broker(settings=ChannelSettings(answer_bytes_max=1000)) as scene:
        line = await scene.line()
        scene.send(METADATA)
        line.say(BAD[bad](await line.correlation()))
        again = await scene.line()
        assert await line.is_closed()
        assert [kind for kind in scene.received.kinds if kind != "answered"] == ["up", "down", "up"]

        scene.send(METADATA)
        again.say(answered(await again.correlation()))
        await until(lambda: scene.received.happened[-1] == ("answered", 2, UpdateMetadataResponse(0)))


@on_a_loop
async def test_a_word_without_a_request_breaks_it() -> None:
    """It can be the answer to no question, so whatever follows cannot be trusted."""
    async with channel_to_a_broker() as scene:
        line = await scene.line()
        line.say(answered(0))
        await scene.line()
        assert await line.is_closed()
        assert "no request is in flight" in scene.received.whys[0]


@on_a_loop
async def test_no_answer_in_time_breaks_it() -> None:
    """`controller.socket.timeout.ms`."""
    async with channel_to_a_broker(settings=ChannelSettings(socket_timeout_ms=50)) as scene:
        line = await scene.line()
        scene.send(METADATA)
        await line.frame()
        assert await line.is_closed()
        await until(lambda: scene.received.whys)
        assert scene.received.whys == ["no answer within 50 ms"]


@on_a_loop
async def test_an_end_of_the_stream_is_seen_while_nothing_is_asked() -> None:
    """Not only at the next request, whose outcome would then be unknown."""
    async with channel_to_a_broker() as scene:
        line = await scene.line()
        await line.close()
        await scene.line()
        assert scene.received.kinds == ["up", "down", "up"]
        assert scene.received.whys == ["the broker has closed the connection"]


@on_a_loop
async def test_what_cannot_be_encoded_breaks_it_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A bug of zkgroup, as an error in the log; the channel lives on."""
    async with channel_to_a_broker() as scene:
        await scene.line()
        scene.send(BrokerRequest(1, 5, StopReplicaRequest(2**40, 1, False, ())))
        await scene.line()
        assert "StopReplicaRequest.controller_id" in scene.received.whys[0]
    assert any(
        record.levelname == "ERROR" and "cannot be sent" in record.message for record in caplog.records
    )


@on_a_loop
async def test_a_mistake_of_its_own_ends_no_channel(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback; the connection is made anew."""
    async with channel_to_a_broker() as scene:
        await scene.line()
        scene.send(BrokerRequest(1, 5, object()))  # type: ignore[arg-type]
        await scene.line()
        assert scene.received.kinds == ["up", "down", "up"]
    assert any(record.exc_info for record in caplog.records)


@on_a_loop
async def test_it_ends_though_the_connection_breaks_in_the_same_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A closed controller leaves no thread that connects to a broker for ever."""
    async with channel_to_a_broker() as scene:
        await scene.line()
        begun = asyncio.Event()

        async def breaks(*_: object) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ConnectionResetError("the broker has gone") from None

        monkeypatch.setattr(BrokerConnection, "wait_ended", breaks)
        running = asyncio.create_task(scene.channel.run())
        await scene.line()
        await begun.wait()
        running.cancel()

        await until(running.done)
        assert running.cancelled()


@on_a_loop
async def test_one_request_is_in_flight() -> None:
    """What is given besides waits for the answer."""
    async with channel_to_a_broker() as scene:
        line = await scene.line()
        scene.send(METADATA)
        scene.send(LEADS)
        first = await line.correlation()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await line.reader.read(1)
        line.say(answered(first))
        assert decode_request((await line.frame())[4:])[1] == LEADS.request


@on_a_loop
async def test_what_was_given_for_a_former_connection_is_not_sent() -> None:
    """Its sender did not know of the disconnect yet; the machine sends the request again itself."""
    async with channel_to_a_broker() as scene:
        line = await scene.line()
        scene.send(LEADS)
        await line.correlation()
        await line.close()
        again = await scene.line()
        scene.channel.send(1, METADATA)
        scene.channel.send(2, STOPS)
        assert decode_request((await again.frame())[4:])[1] == STOPS.request


@on_a_loop
async def test_nothing_is_sent_once_the_lease_is_over() -> None:
    """Recipes 13: the broker receives nothing of it, and the machine is notified that it was not
    answered."""
    async with channel_to_a_broker(lease_ms=1000) as scene:
        line = await scene.line()
        scene.clock.advance(1000)
        scene.send(METADATA)
        assert await line.reader.read() == b""
        again = await scene.line()
        assert scene.received.whys == ["the lease ended before the request was sent"]

        scene.lease.extend(scene.clock.now_ms() + 1000)
        scene.send(METADATA)
        assert await again.correlation()


@on_a_loop
async def test_a_request_that_is_being_sent_is_cut_off_with_the_lease() -> None:
    """The broker does not read; it has only part of a frame, so it never performs the request."""
    async with channel_to_a_broker(lease_ms=100) as scene:
        line = await scene.line()
        line.reader._transport.pause_reading()  # type: ignore[attr-defined]
        big = update_metadata(*(state(TopicPartition("o" * 200, number)) for number in range(60_000)))
        body = encode(big, 0)
        begun, write = asyncio.Event(), scene.channel._write

        async def writes(frame: bytes, connection: BrokerConnection) -> None:
            begun.set()
            await write(frame, connection)

        scene.channel._write = writes  # type: ignore[method-assign]
        scene.send(BrokerRequest(1, 5, big, body))
        await begun.wait()
        scene.clock.advance(100)
        await until(lambda: scene.received.whys)
        assert scene.received.whys == ["the lease ended while the request was sent"]
        line.reader._transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await line.reader.readexactly(4 + len(body))


@on_a_loop
async def test_it_connects_as_long_as_it_takes_with_pauses_that_grow_to_a_bound() -> None:
    """An answer makes the next pause short again."""
    async with channel_to_a_broker(listens=False) as scene:
        await until(lambda: len(scene.pauses.taken) > 8)
        assert scene.received.happened == []
        assert scene.pauses.taken[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 3.0]

        await scene.broker.listen()
        line = await scene.line()
        scene.send(METADATA)
        line.say(answered(await line.correlation()))
        await until(lambda: scene.received.answers)
        taken = len(scene.pauses.taken)
        await line.close()
        await scene.line()
        assert scene.pauses.taken[taken:] == [0.1]


@on_a_loop
async def test_pauses_are_jittered() -> None:
    """So that the channels of all brokers do not try in step."""
    async with channel_to_a_broker(listens=False, jitter=lambda: 0.5) as scene:
        await until(lambda: len(scene.pauses.taken) > 5)
        assert scene.pauses.taken[:6] == pytest.approx([0.075, 0.15, 0.3, 0.6, 1.2, 2.25])
