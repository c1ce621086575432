"""Groups of Kafka's group protocol as znodes on `MemoryGroups`, and a broker that says what a test wants."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.waiting import PATIENCE_S
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.wire_requests import decode_request, encode_response
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.wire.messages import FrameSplitter, Request, Response
from zkgroup.wire.metadata import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState
from zkgroup.znodes.consumers import ids_path
from zkgroup.znodes.coordinated_groups import (
    OFFSETS_TOPIC,
    GroupChunk,
    GroupHeader,
    ProtocolMarker,
    SlotConfig,
    SlotOwner,
    StoredMember,
    chunks_of,
)

SLOTS = 4


def subscription_bytes(*topics: str) -> bytes:
    """Version 0, as kafka-python sends it."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(_text, topics)) + struct.pack(">i", 0)


def assignment_bytes(partitions: Sequence[TopicPartition]) -> bytes:
    """Version 0, as kafka-python's leader sends it."""
    topics = sorted({tp.topic for tp in partitions})
    data = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        numbers = [tp.partition for tp in partitions if tp.topic == topic]
        data += _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return data + struct.pack(">i", 0)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def stored_member(
    name: str, *partitions: TopicPartition, topics: Sequence[str] = ("orders",)
) -> StoredMember:
    """A member of kafka-python with the strategy range, and these partitions."""
    return StoredMember(
        member_id=name,
        group_instance_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=300_000,
        protocols=(("range", subscription_bytes(*topics)),),
        assignment=assignment_bytes(partitions),
    )


class CoordinatedGroups:
    """The znodes that a coordinator writes."""

    def __init__(self, world: MemoryGroups, slots: int = SLOTS) -> None:
        self.world, self.slots = world, slots
        world.server.put(SlotConfig.path(), SlotConfig(slots).encode())
        self.epochs = dict.fromkeys(range(slots), 0)

    def slot(self, group: str) -> int:
        return slot_of(group, self.slots)

    def broker(self, number: int, port: int = 1) -> None:
        """Registers a broker of zkgroup."""
        broker = BrokerRegistration(
            "127.0.0.1", port, timestamp_ms=1, extensions={"zkgroup": {"role": "data"}}
        )
        self.world.hold(BrokerRegistration.path(number), broker.encode())

    def lead(self, broker: int) -> None:
        """Makes a broker the leader of every slot, which it has loaded; it need not be registered."""
        for slot in range(self.slots):
            epoch = self.epochs[slot] = self.epochs[slot] + 1
            state = PartitionState(
                leader=broker, leader_epoch=epoch, isr=(max(broker, 0),), controller_epoch=1
            )
            self.world.server.put(PartitionState.path(TopicPartition(OFFSETS_TOPIC, slot)), state.encode())
            if broker >= 0:
                self.world.server.put(SlotOwner.path(slot), SlotOwner(broker, epoch).encode())

    def mark(self, group: str) -> None:
        """Sets the marker, as the first member of a group does."""
        self.world.parent(ids_path(group))
        marker = ProtocolMarker(broker=1, time_ms=self.world.clock.wall_ms())
        self.world.server.put(ProtocolMarker.path(group), marker.encode())

    def store(
        self,
        group: str,
        *members: StoredMember,
        generation: int = 1,
        marked: bool | None = None,
        chunk_bytes: int = 100,
        protocol_type: str = "consumer",
    ) -> None:
        """Stores a generation; the marker is there while the group has members, unless told otherwise."""
        slot = self.slot(group)
        chunks, checksum = chunks_of(members, chunk_bytes)
        for number, chunk in enumerate(chunks):
            self.world.server.put(GroupChunk.path(slot, group, generation, number), chunk.encode())
        header = GroupHeader(
            generation=generation,
            reserved_generation=100,
            protocol_type=protocol_type,
            protocol=members[0].protocols[0][0] if members else None,
            leader=members[0].member_id if members else None,
            state_timestamp_ms=self.world.clock.wall_ms(),
            chunks=len(chunks),
            checksum=checksum,
        )
        self.world.server.put(GroupHeader.path(slot, group), header.encode())
        self.world.parent(ids_path(group))
        if bool(members) if marked is None else marked:
            self.mark(group)

    def drop(self, path: str) -> None:
        """Deletes a znode."""
        self.world.write(Delete(path, -1))

    def header(self, group: str) -> GroupHeader:
        path = GroupHeader.path(self.slot(group), group)
        found = self.world.server.find(path)
        assert found is not None, path
        return GroupHeader.decode(path, found.data)

    def is_marked(self, group: str) -> bool:
        return self.world.server.find(ProtocolMarker.path(group)) is not None


Answers = Mapping[type[Request], Callable[[Request], Response | None]]
"""A response to each kind of request; None: no response, the connection stays open."""


@contextmanager
def coordinating_broker(answers: Answers) -> Iterator[tuple[int, list[Request]]]:
    """A broker on loopback that sends these answers: its port, and the requests that it gets."""
    received: list[Request] = []
    started: list[int] = []
    is_up, end = threading.Event(), threading.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = FrameSplitter()
        while data := await reader.read(65536):
            splitter.feed(data)
            while (frame := splitter.next_frame()) is not None:
                header, request = decode_request(frame)
                received.append(request)
                version = header.version
                response = _versions(answers) if isinstance(request, ApiVersionsRequest) else None
                if response is None:
                    response = answers[type(request)](request)
                if response is not None:
                    writer.write(encode_response(response, header.correlation_id, version=version))
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        started.append(server.sockets[0].getsockname()[1])
        is_up.set()
        async with server:
            await asyncio.to_thread(end.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="coordinating-broker")
    thread.start()
    try:
        assert is_up.wait(PATIENCE_S)
        yield started[0], received
    finally:
        end.set()
        thread.join()


def _versions(answers: Answers) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error=0, apis=tuple(ApiVersion(kind.API, 0, kind.VERSIONS[-1]) for kind in answers)
    )
