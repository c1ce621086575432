"""Produce at a broker's port: what each acks gets, in each version, and what is refused."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.pure.broker.log.made_batches import GZIP, batch, headers_of
from tests.worlds.batches import build_batch
from tests.worlds.broker_requests import state, update_metadata
from tests.worlds.replica_managers import TP, fetch, in_memory, log_end_offset, pair, replicate
from tests.worlds.serving import Client, Served, on_a_loop, served, until
from zkgroup.broker.log.client_batches import RECORD_ERRORS_MAX
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.server.handlers import NO_ANSWER
from zkgroup.broker.server.produce_requests import check_records
from zkgroup.broker.telemetry import bytes_in
from zkgroup.model import TopicPartition
from zkgroup.wire.control import UpdateMetadataResponse
from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.messages import encode_request
from zkgroup.wire.record_batch import Record
from zkgroup.wire.records import (
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProduceTopicResult,
)

OTHER = TopicPartition("orders", 1)
LATEST = 8


@dataclass
class Producer:
    """A served broker, its replicas, and a connection of a producer."""

    one: Served
    host: ReplicaManager
    client: Client

    def send(self, request: ProduceRequest, version: int = LATEST) -> None:
        self.client.sent += 1
        self.client.writer.write(encode_request(request, self.client.sent, "test", version=version))

    async def ask(self, request: ProduceRequest, version: int = LATEST) -> tuple[ProduceResult, ...]:
        """The results of all partitions, in their order."""
        self.send(request, version)
        return await self.answer(version)

    async def answer(self, version: int = LATEST) -> tuple[ProduceResult, ...]:
        response = await self.client.receive(ProduceResponse, version=version)
        return tuple(result for topic in response.topics for result in topic.partitions)

    async def replicas(self, call: object) -> object:
        assert self.one.thread is not None
        return await self.one.thread.call(call)  # type: ignore[arg-type]


@asynccontextmanager
async def producing(
    *partitions: TopicPartition,
    host: ReplicaManager | None = None,
    min_insync: MinInsync | None = None,
) -> AsyncIterator[Producer]:
    """Broker 1 leads these partitions alone, or as the given replicas do."""
    if host is None:
        host = in_memory(1)
        for tp in partitions:
            host.become_leader(tp, 0, (1,), {1})
    async with served(host, min_insync=min_insync) as one:
        client = await one.client()
        yield Producer(one, host, client)
        await client.close()


def produce(
    *records: bytes | None,
    acks: int = -1,
    timeout_ms: int = 60_000,
    transactional_id: str | None = None,
    topic: str = "orders",
) -> ProduceRequest:
    """Records for the partitions from 0 on."""
    partitions = tuple(ProducedPartition(number, each) for number, each in enumerate(records))
    topics = (ProducedTopic(topic, partitions),)
    return ProduceRequest(acks, timeout_ms, topics, transactional_id=transactional_id)


@on_a_loop
@pytest.mark.parametrize("version", range(3, 10))
@pytest.mark.parametrize("acks", [1, -1])
async def test_records_are_appended_in_every_version(acks: int, version: int) -> None:
    """The answer has the offset of the first one, from version 5 on the log start offset too."""
    async with producing(TP) as one:
        await one.ask(produce(batch(b"a"), acks=acks), version)
        (result,) = await one.ask(produce(batch(b"b", b"c"), acks=acks), version)

        assert result == ProduceResult(0, 0, 1, -1, 0 if version >= 5 else -1)
        assert log_end_offset(one.host, TP) == 3


@on_a_loop
async def test_a_batch_is_stored_as_it_came() -> None:
    """Compressed, with its producer and CRC; offset and leader epoch alone are the leader's."""
    sent = batch(b"a" * 100, b"b" * 100, compression=GZIP, producer=(7, 0, 0))
    async with producing(TP) as one:
        await one.ask(produce(batch(b"x")))
        await one.ask(produce(sent))

        stored = bytes(fetch(one.host, 1).records)
        assert stored[16:] == sent[16:]
        (header,) = headers_of(stored)
        assert (header.base_offset, header.leader_epoch) == (1, 0)


@on_a_loop
async def test_each_partition_has_its_own_result() -> None:
    """In the order of the request; from version 8 on with a message."""
    damaged = bytearray(batch(b"b"))
    damaged[-1] ^= 1
    async with producing(TP, OTHER) as one:
        request = produce(batch(b"a"), bytes(damaged), batch(b"c"))
        first, second, third = await one.ask(request)
        assert (first.error, first.offset, first.error_message) == (0, 0, None)
        assert (second.error, second.offset) == (2, -1)
        assert second.error_message is not None
        assert "crc" in second.error_message
        assert (third.error, third.offset) == (3, -1)

        results = await one.ask(request, 7)
        assert [(each.error, each.offset, each.error_message) for each in results] == [
            (0, 1, None),
            (2, -1, None),
            (3, -1, None),
        ]


@on_a_loop
async def test_a_partition_of_other_brokers_is_error_6() -> None:
    """By the metadata; the client asks for its leader."""
    async with producing() as one:
        other = await one.one.client()
        elsewhere = update_metadata(state(TP, leader=2, replicas=(2, 3), isr=(2, 3)))
        await other.ask(elsewhere, UpdateMetadataResponse)
        await other.close()

        first, second = await one.ask(produce(batch(b"a"), batch(b"b")))
        assert (first.error, second.error) == (6, 3)


@on_a_loop
async def test_acks_0_has_no_answer() -> None:
    """Requests behind it on the connection are answered; the records are there."""
    async with producing(TP) as one:
        one.send(produce(batch(b"a"), acks=0))
        (result,) = await one.ask(produce(batch(b"b"), acks=1))

        assert (result.error, result.offset) == (0, 1)


@on_a_loop
@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_acks_0_from_a_producer_that_has_left_is_appended(is_reset: bool) -> None:
    """Past bug: what was read behind a request that was being answered was dropped with its connection."""
    async with producing(TP) as one:
        writer = one.client.writer
        # In one piece: a reset drops what the system has not passed on.
        writer.write(encode_request(produce(batch(b"a"), acks=0), 1, "test", version=LATEST) * 100)
        if is_reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

        await until(lambda: one.one.server.connections == 0)
        assert await one.replicas(lambda host: log_end_offset(host, TP)) == 100


@on_a_loop
async def test_an_error_with_acks_0_closes_the_connection() -> None:
    """As Kafka does: the client then asks for metadata."""
    async with producing(TP) as one:
        one.send(produce(batch(b"a"), batch(b"b"), acks=0))

        assert await one.client.is_closed()
        assert log_end_offset(one.host, TP) == 1


@on_a_loop
@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_acks_are_refused(acks: int) -> None:
    """Error 21; nothing is appended."""
    async with producing(TP) as one:
        (result,) = await one.ask(produce(batch(b"a"), acks=acks))

        assert (result.error, result.error_message) == (21, f"acks: expected 0, 1 or -1, found {acks}")
        assert log_end_offset(one.host, TP) == 0


def replicated() -> tuple[ReplicaManager, ReplicaManager]:
    one, two = in_memory(1), in_memory(2)
    pair(one, two)
    one.become_leader(OTHER, 0, (1,), {1})
    return one, two


@on_a_loop
async def test_acks_all_is_answered_when_all_partitions_are_replicated() -> None:
    """Not before: the partition that this broker holds alone does not answer for the other one."""
    leader, follower = replicated()
    async with producing(host=leader) as one:
        answer = asyncio.create_task(one.ask(produce(batch(b"a"), batch(b"b"))))
        await until(lambda: log_end_offset(leader, TP) == 1)
        other = await one.one.client()
        await Producer(one.one, leader, other).ask(produce(acks=1))
        await other.close()
        assert not answer.done()

        await one.replicas(lambda host: replicate(host, follower, TP))
        assert [(result.error, result.offset) for result in await answer] == [(0, 0), (0, 0)]


@on_a_loop
async def test_acks_all_times_out_with_the_records_in_the_log() -> None:
    """Error 7 with their offset; with a timeout of 0 at once."""
    leader, _ = replicated()
    async with producing(host=leader) as one:
        for number, timeout_ms in enumerate((0, 1, -1)):
            first, second = await one.ask(produce(batch(b"a"), batch(b"b"), timeout_ms=timeout_ms))

            assert (first.error, first.offset) == (7, number)
            assert (second.error, second.offset) == (0, number)
        assert log_end_offset(leader, TP) == 3


@on_a_loop
async def test_acks_all_ends_with_error_6_when_another_broker_leads() -> None:
    """The client sends the records to that one."""
    leader, _ = replicated()
    async with producing(host=leader) as one:
        answer = asyncio.create_task(one.ask(produce(batch(b"a"))))
        await until(lambda: log_end_offset(leader, TP) == 1)
        await one.replicas(lambda host: host.become_follower(TP, 1))

        (result,) = await answer
        assert (result.error, result.offset) == (6, -1)


@on_a_loop
async def test_too_few_in_sync_replicas_refuse_acks_all() -> None:
    """Error 19 before the append; acks=1 does not ask."""
    settings = MinInsync(1, default=2)
    settings.led(TP, 0, {1})
    async with producing(TP, min_insync=settings) as one:
        (result,) = await one.ask(produce(batch(b"a")))
        assert (result.error, log_end_offset(one.host, TP)) == (19, 0)
        (result,) = await one.ask(produce(batch(b"a"), acks=1))
        assert (result.error, log_end_offset(one.host, TP)) == (0, 1)


@on_a_loop
async def test_the_end_of_a_connection_ends_the_wait() -> None:
    """`served` finds a task that is left."""
    leader, _ = replicated()
    async with producing(host=leader) as one:
        one.send(produce(batch(b"a")))
        await until(lambda: log_end_offset(leader, TP) == 1)


@on_a_loop
@pytest.mark.parametrize("version", range(3))
async def test_message_sets_of_old_clients_are_refused(version: int) -> None:
    """Error 43, whatever they carry; with acks 0 the connection is closed."""
    async with producing(TP) as one:
        (result,) = await one.ask(produce(batch(b"a")), version)
        assert (result.error, result.offset) == (43, -1)
        one.send(produce(batch(b"a"), acks=0), version)
        assert await one.client.is_closed()
        assert log_end_offset(one.host, TP) == 0


@on_a_loop
async def test_there_are_no_transactions() -> None:
    """Error 53 for a transactional id, and for a batch of a transaction without one (as Kafka 2.8.2)."""
    async with producing(TP) as one:
        (result,) = await one.ask(produce(batch(b"a"), transactional_id="pay"))
        assert result.error == 53
        record = Record(0, 1, None, b"a")
        transactional = build_batch(
            [record], producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10
        )
        (result,) = await one.ask(produce(transactional))
        assert result.error == 53
        assert log_end_offset(one.host, TP) == 0


@on_a_loop
@pytest.mark.parametrize("version", [7, 8])
async def test_each_record_of_a_batch_with_append_time_is_named(version: int) -> None:
    """Error 32, from version 8 on with the records, as Kafka does; at most so many, whatever is claimed."""
    records = [Record(0, 1, None, b"a"), Record(1, 1, None, b"b")]
    claimed = bytearray(build_batch(records, attributes=0x08))
    claimed[23:27] = (2**31 - 2).to_bytes(4)
    claimed[57:61] = (2**31 - 1).to_bytes(4)
    claimed[17:21] = crc32c(claimed[21:]).to_bytes(4)
    async with producing(TP, OTHER) as one:
        request = produce(build_batch(records, attributes=0x08), bytes(claimed))
        first, second = await one.ask(request, version)

    assert (first.error, second.error, first.offset) == (32, 32, -1)
    assert [error.index for error in first.record_errors] == ([0, 1] if version >= 8 else [])
    assert len(second.record_errors) == (RECORD_ERRORS_MAX if version >= 8 else 0)
    assert all("LogAppendTime" in (error.message or "") for error in first.record_errors)


ZSTD = build_batch([Record(0, 1, None, b"a")], attributes=4)


def _with(position: int, *values: int) -> bytes:
    """A batch with other bytes at a position; its checksum is that of before."""
    made = bytearray(batch(b"a"))
    made[position : position + len(values)] = values
    return bytes(made)


@pytest.mark.parametrize(
    ("records", "version", "error"),
    [
        (None, 8, 87),
        (b"", 8, 87),
        (b"x" * 16, 8, 87),
        (batch(b"a")[:10], 8, 87),
        (batch(b"a")[:17], 8, 87),
        (batch(b"a")[:40], 8, 87),
        (batch(b"a")[:-1], 8, 87),
        (batch(b"a") + batch(b"b"), 8, 87),
        (batch(b"a") + b"x", 8, 87),
        (_with(8, 0x7F, 0xFF, 0xFF, 0xFF), 8, 87),
        (_with(8, 0xFF, 0xFF, 0xFF, 0xFF), 8, 2),
        (_with(8, 0, 0, 0, 0), 8, 2),
        (_with(8, 0, 0, 0, 48), 8, 2),
        (_with(16, 0), 8, 87),
        (_with(16, 1), 8, 87),
        (_with(16, 3), 8, 2),
        (_with(16, 0xFF), 8, 2),
        (ZSTD, 6, 76),
    ],
)
def test_what_is_not_one_batch_is_refused(records: bytes | None, version: int, error: int) -> None:
    """The codes of Kafka 2.8.2 to the same bytes, except for a length of 2^31 - 1 (-1), for null (-1), and
    for bytes behind the batch that are no batch, which it drops.

    Clients send records again after error 2: it is for a damaged head, not for what is cut short.
    """
    refused = check_records(records, version)

    assert refused is not None
    assert refused.error == error
    assert refused.message


@pytest.mark.parametrize(("records", "version"), [(batch(b"a"), 3), (ZSTD, 7), (_with(17, 1), 8)])
def test_one_whole_batch_is_left_to_the_log(records: bytes, version: int) -> None:
    """Which checks its bytes: with a wrong checksum it is damaged, error 2."""
    assert check_records(records, version) is None


@on_a_loop
async def test_a_request_without_partitions_has_an_empty_answer() -> None:
    """As Kafka answers."""
    async with producing() as one:
        one.send(ProduceRequest(1, 100, ()))
        assert await one.client.receive(ProduceResponse, version=LATEST) == ProduceResponse(())
        one.send(produce(topic="empty"))
        expected = ProduceResponse((ProduceTopicResult("empty", ()),))
        assert await one.client.receive(ProduceResponse, version=LATEST) == expected


@on_a_loop
async def test_a_batch_that_is_sent_again_has_the_offset_of_the_first_time() -> None:
    """It is in the log once; a gap is error 45, an old epoch 47, an unknown producer 59."""
    async with producing(TP) as one:
        results = [
            (await one.ask(produce(batch(b"a", b"b", producer=producer))))[0]
            for producer in ((7, 1, 0), (7, 1, 2), (7, 1, 0), (7, 1, 6), (7, 0, 4), (8, 0, 2))
        ]

        assert [(each.error, each.offset) for each in results] == [
            (0, 0),
            (0, 2),
            (0, 0),
            (45, -1),
            (47, -1),
            (59, -1),
        ]
        assert log_end_offset(one.host, TP) == 4


def test_the_bytes_of_appended_batches_are_counted() -> None:
    """Not those of partitions that were refused; with acks 0 all."""
    request = produce(batch(b"a"), batch(b"b" * 10), None)
    results = (ProduceResult(0, 0, 5), ProduceResult(1, 6, -1), ProduceResult(2, 87, -1))
    response = ProduceResponse((ProduceTopicResult("orders", results),))
    sizes = [len(batch(b"a")), len(batch(b"b" * 10))]

    assert bytes_in(request, response) == sizes[0]
    assert bytes_in(request, NO_ANSWER) == sum(sizes)
    assert bytes_in(request, None) == 0


@on_a_loop
async def test_a_wait_of_acks_all_is_one_call_of_the_replicas() -> None:
    """What its followers do is checked where it happens: the request is not passed on again."""
    leader, follower = in_memory(1), in_memory(2)
    pair(leader, follower)
    async with producing(host=leader) as one:
        assert one.one.thread is not None
        one.send(produce(batch(b"x")))
        await until(lambda: log_end_offset(leader, TP) == 1)
        calls = one.one.thread._given

        await one.replicas(lambda host: replicate(host, follower, TP))

        assert [result.error for result in await one.answer()] == [0]
        assert one.one.thread._given == calls + 1
