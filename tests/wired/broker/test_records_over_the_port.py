"""Record batches at the ports of complete brokers: producers, offsets, and the settings of logs."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tests.pure.broker.log.made_batches import batch
from tests.worlds.running_brokers import QUICK, T0, MemoryBrokers
from zkgroup.model.requests import Create
from zkgroup.wire.records import (
    EARLIEST,
    LATEST,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
)
from zkgroup.znodes.cluster import ProducerIdBlock
from zkgroup.znodes.config import ConfigEntity, TopicConfig
from zkgroup.znodes.notifications import ConfigChange


def produce(world: MemoryBrokers, records: bytes, *, broker: int = 1, acks: int = -1) -> ProduceResult:
    request = ProduceRequest(acks, 30_000, (ProducedTopic("t", (ProducedPartition(0, records),)),))
    response = world.running.ask(broker, request, ProduceResponse, version=8)
    return response.topics[0].partitions[0]


def offset(world: MemoryBrokers, time_ms: int, broker: int = 1) -> int:
    request = ListOffsetsRequest(-1, (ListOffsetsTopic("t", (ListOffsetsPartition(0, time_ms),)),))
    response = world.running.ask(broker, request, ListOffsetsResponse, version=6)
    return response.topics[0].partitions[0].offset


def test_an_idempotent_producer_writes_to_three_brokers(world: MemoryBrokers) -> None:
    """It gets an id from any broker; its records are acknowledged when all have them, and stored once."""
    world.add(1, 2, 3)
    world.running.lead(world.zk, T0, 1, (1, 2, 3))
    ids = [
        world.running.ask(broker, InitProducerIdRequest(None, 0), InitProducerIdResponse, version=4)
        for broker in (1, 2, 1)
    ]
    assert [(one.error, one.producer_id, one.producer_epoch) for one in ids] == [
        (0, 0, 0),
        (0, 1000, 0),
        (0, 1, 0),
    ]
    stored = world.zk.read(ProducerIdBlock.path())
    assert ProducerIdBlock.decode(stored.path, stored.data) == ProducerIdBlock(2, 1000, 1999)

    for sequence in (0, 1, 1, 0):
        result = produce(world, batch(b"%d" % sequence, producer=(1000, 0, sequence)))
        assert (result.error, result.offset) == (0, sequence)
    assert [world.running.view(broker, T0).log_end_offset for broker in (1, 2, 3)] == [2, 2, 2]
    assert produce(world, batch(b"a"), broker=2).error == 6


def test_without_zookeeper_new_producers_are_asked_to_try_again(world: MemoryBrokers) -> None:
    """Error 14 at once; ids that the broker has left are given out, and running producers go on."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1,))
    asked = InitProducerIdRequest(None, 0)
    assert world.running.ask(1, asked, InitProducerIdResponse, version=4).producer_id == 0
    for broker in (1, 2):
        world.server.suspend(f"b{broker}")
        world.eventually(lambda broker=broker: world.running.told[broker].of("disconnected"))

    assert world.running.ask(1, asked, InitProducerIdResponse, version=4).producer_id == 1
    assert world.running.ask(2, asked, InitProducerIdResponse, version=4) == InitProducerIdResponse(14)
    assert produce(world, batch(b"a", producer=(0, 0, 0))).error == 0


def test_the_settings_of_a_topic_reach_its_logs(world: MemoryBrokers) -> None:
    """Those that it is created with, and later ones by their notification."""
    world.add(1)
    world.server.put(TopicConfig.path("t"), TopicConfig({"max.message.bytes": "100"}).encode())
    world.running.lead(world.zk, T0, 1, (1,))
    world.becomes(lambda: produce(world, batch(b"x" * 100)).error, 10)
    assert produce(world, batch(b"x")).error == 0

    world.server.put(TopicConfig.path("t"), TopicConfig({"message.timestamp.type": "LogAppendTime"}).encode())
    world.zk.multi(
        Create(ConfigChange.prefix(), ConfigChange(ConfigEntity.topic("t"), "v2").encode(), sequential=True)
    )
    world.becomes(lambda: produce(world, batch(b"x" * 100)).error, 0)
    result = produce(world, batch(b"x", timestamp=5))
    assert result.log_append_time_ms > 5


def test_old_segments_are_deleted_while_the_broker_runs(
    world: MemoryBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """Every `log_retention_check_interval_ms`, by the broker's clock; the log then starts later.

    The broker logs what is gone.
    """
    caplog.set_level(logging.INFO, "zkgroup.broker")
    settings = replace(
        QUICK, log_segment_bytes=100, log_retention_ms=60_000, log_retention_check_interval_ms=1_000
    )
    world.add(1, settings=settings)
    world.running.lead(world.zk, T0, 1, (1,))
    now_ms = world.clock.wall_ms()
    for time in (now_ms - 60_000, now_ms - 60_000, now_ms + 600_000):
        produce(world, batch(b"x" * 60, timestamp=time))

    world.becomes(lambda: offset(world, EARLIEST), 2)
    assert offset(world, LATEST) == 3
    assert produce(world, batch(b"y")).log_start_offset == 2
    world.becomes(lambda: "t-0: retention has deleted all records below offset 2" in caplog.messages, True)
