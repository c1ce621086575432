"""What a user writes, with every public type of both APIs. Checked by mypy --strict, never run."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup import (
    AsyncConsumer,
    AsyncGroupMember,
    AsyncRebalanceListener,
    ClientSettings,
    CommitResult,
    Consumer,
    FileSource,
    GroupMember,
    GroupSettings,
    Lease,
    RebalanceListener,
    Record,
    RecordSource,
    TopicPartition,
    Whitelist,
    ZooKeeperClient,
)
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import CommitRefusedError, NotOwnerError
from zkgroup.history import HistoryFile
from zkgroup.sources import Bounds, SourceRecord
from zkgroup.zookeeper import Sasl, Tls


class Listening(RebalanceListener):
    def on_assigned(self, leases: Sequence[Lease]) -> None:
        tokens: list[int] = [lease.token for lease in leases]
        print(tokens)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        print([str(tp) for tp in partitions])

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        print(f"{before} -> {after}: {reason}")


class AsyncListening(AsyncRebalanceListener):
    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        print(sorted(partitions))


class Rows(RecordSource):
    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        return Bounds(earliest=0, end=1)

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        return [SourceRecord(topic_partition.topic, topic_partition.partition, offset, b"row")]


def own() -> None:
    settings = GroupSettings(session_timeout_ms=10_000, consumer_id="a")
    with GroupMember(
        "host:2181/chroot", group="billing", topics=["orders"], settings=settings, listener=Listening()
    ) as member:
        member.wait_until_stable(timeout_s=1.0)
        for lease in member.leases():
            with lease.guard():
                remaining: int = lease.remaining_ms
                print(lease.topic_partition, lease.thread, remaining, lease.is_valid)
        one: Lease | None = member.lease(TopicPartition("orders", 3))
        if one is not None:
            one.check()
        try:
            result: CommitResult = member.commit({TopicPartition("orders", 3): 42})
        except NotOwnerError as error:
            print(error.result.committed)
        except CommitRefusedError as error:
            print(error.result.refused)
        else:
            print(result.committed)
        known: dict[TopicPartition, int | None] = member.committed([TopicPartition("orders", 3)])
        print(known, member.describe().state.value)


def consume() -> None:
    with Consumer("host:2181", group="billing", topics={"orders": 2}, source=FileSource("data/")) as consumer:
        for record in consumer:
            handle(record)
            consumer.ack(record)
        batches: dict[TopicPartition, list[Record]] = consumer.poll(timeout_s=1.0, max_records=500)
        for topic_partition, records in batches.items():
            position: int | None = consumer.position(topic_partition)
            print(position, len(records))
            consumer.pause(topic_partition)
            consumer.resume(topic_partition)
            consumer.seek(topic_partition, 0)
        consumer.commit()


def look_around() -> None:
    zero = TopicPartition("orders", 0)
    secured = ClientSettings(auth=Sasl(mechanism="GSSAPI"), tls=Tls(ca_file="ca.pem"))
    with (
        HistoryFile("ada.history.jsonl") as history,
        Consumer(
            "host:2181", group="g", topics=["orders"], source=Rows(), connection=secured, history=history
        ) as consumer,
    ):
        consumer.subscribe({"orders": 2})
        owned: frozenset[TopicPartition] = consumer.assignment()
        topics: frozenset[str] = consumer.subscription()
        ends: dict[TopicPartition, int] = {**consumer.beginning_offsets(owned), **consumer.end_offsets(owned)}
        found: dict[TopicPartition, int | None] = {**consumer.offsets_for_times({zero: 0}), **consumer.lag()}
        consumer.seek_to_beginning(zero)
        consumer.seek_to_end()
        committed: int | None = consumer.committed(zero)
        consumer.stop()
        state: MemberState = consumer.state
        print(topics, ends, found, committed, state, consumer.stopped)


async def look_around_async() -> None:
    zero = TopicPartition("orders", 0)
    async with AsyncConsumer("host:2181", group="g", topics=["orders"], source=Rows()) as consumer:
        consumer.subscribe(["orders"])
        owned: frozenset[TopicPartition] = consumer.assignment()
        ends: dict[TopicPartition, int] = {
            **await consumer.beginning_offsets(owned),
            **await consumer.end_offsets(owned),
        }
        found: dict[TopicPartition, int | None] = {
            **await consumer.offsets_for_times({zero: 0}),
            **await consumer.lag(),
        }
        await consumer.seek_to_beginning(zero)
        await consumer.seek_to_end()
        committed: int | None = await consumer.committed(zero)
        consumer.stop()
        print(consumer.subscription(), ends, found, committed)


def handle(record: Record) -> None:
    value: bytes | None = record.value
    print(record.topic, record.partition, record.offset, record.key, value, record.token)


async def own_async() -> None:
    client = ZooKeeperClient("host:2181")
    async with AsyncGroupMember(
        client=client, group="billing", topics=Whitelist("orders\\..*"), listener=AsyncListening()
    ) as member:
        await member.wait_until_assigned(timeout_s=1.0)
        leases: tuple[Lease, ...] = member.leases()
        result: CommitResult = await member.commit({lease.topic_partition: 1 for lease in leases})
        print(result)


async def consume_async() -> None:
    async with AsyncConsumer("host:2181", group="billing", topics=["orders"], source=Rows()) as consumer:
        async for record in consumer:
            handle(record)
            consumer.ack(record)
        batches: dict[TopicPartition, list[Record]] = await consumer.poll(timeout_s=1.0)
        print(batches)
