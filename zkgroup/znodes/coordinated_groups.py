"""Znodes of the group coordinator: slots, groups with their members, the marker, the metadata of offsets.

A slot is a partition of `__consumer_offsets`. A group is a header and chunks: the chunks are written first,
the header names them. The offset itself is Kafka's znode, `znodes.consumers.Offset`. Recipes 20-23: writes.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import group_path
from zkgroup.znodes.json_fields import (
    INT32,
    INT64,
    check_number,
    decimal,
    integer_of,
    integer_text_of,
    json_text,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.paths import zkgroup_path

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic whose partitions are the slots: the leader of a partition is the coordinator of its groups."""
CHUNK_BYTES: Final = 512 * 1024
"""Largest chunk of a group; ZooKeeper refuses requests above 1 MiB."""
JAVA_HASH: Final = "java"


def slots_path() -> str:
    """The parent of the znodes of slots, which are never deleted."""
    return f"{zkgroup_path()}/slots"


def groups_path() -> str:
    """The parent of the parents of groups, one for each slot."""
    return f"{zkgroup_path()}/groups"


def slot_groups_path(slot: int) -> str:
    """The parent of the groups of a slot."""
    return f"{groups_path()}/{slot}"


def meta_path(slot: int, group: str) -> str:
    """Its children are the topics whose offsets have metadata."""
    return f"{GroupHeader.path(slot, group)}/meta"


def meta_topic_path(slot: int, group: str, topic: str) -> str:
    """Its children are the partitions of a topic whose offsets have metadata."""
    return f"{meta_path(slot, group)}/{topic}"


@dataclass(frozen=True, slots=True)
class SlotConfig:
    """`/zkgroup/config`: how groups are divided among slots. Persistent, created once, never changed."""

    slots: int
    """Partitions of `__consumer_offsets`."""

    @staticmethod
    def path() -> str:
        return f"{zkgroup_path()}/config"

    def encode(self) -> bytes:
        return write_object({"version": 1, "slots": check_number("slots", self.slots, 1), "hash": JAVA_HASH})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "the number of slots")
        if text_of(path, fields, "hash") != JAVA_HASH:
            raise CorruptZnodeError(path, f"the hash {JAVA_HASH!r}", show(fields["hash"]))
        return cls(integer_of(path, fields, "slots", range(1, INT32[-1] + 1)))


@dataclass(frozen=True, slots=True)
class SlotOwner:
    """`/zkgroup/slots/<slot>`: which broker fenced the slot last. Persistent; its version is the fence."""

    broker: int
    """-1: an operator."""
    leader_epoch: int

    @staticmethod
    def path(slot: int) -> str:
        return f"{slots_path()}/{slot}"

    def encode(self) -> bytes:
        return write_object({"version": 1, "broker": self.broker, "leader_epoch": self.leader_epoch})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "the owner of a slot")
        return cls(integer_of(path, fields, "broker"), integer_of(path, fields, "leader_epoch"))


@dataclass(frozen=True, slots=True)
class ProtocolMarker:
    """`/consumers/<g>/protocol`: the group's members are the coordinator's. Persistent."""

    broker: int
    """The coordinator that set it, for people."""
    time_ms: int
    """Epoch milliseconds, for people."""

    @staticmethod
    def path(group: str) -> str:
        return f"{group_path(group)}/protocol"

    def encode(self) -> bytes:
        return write_object({"version": 1, "broker": self.broker, "time": str(self.time_ms)})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "the marker of a group's protocol")
        return cls(integer_of(path, fields, "broker"), integer_text_of(path, fields, "time"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHeader:
    """`/zkgroup/groups/<slot>/<g>`: a group, Empty or Stable. Persistent; its version guards its changes."""

    generation: int
    reserved_generation: int
    """Generations up to this one may have been given to members."""
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    """Member id."""
    state_timestamp_ms: int
    """Since when the group is in its state."""
    first_chunk: int = 0
    """The number of its first chunk; a second write of a generation continues the numbers of the first."""
    chunks: int = 0
    """Number of chunks that hold its members; 0 for an empty group."""
    checksum: int = 0
    """CRC-32 of the chunks, joined."""

    @staticmethod
    def path(slot: int, group: str) -> str:
        return f"{slot_groups_path(slot)}/{group}"

    def encode(self) -> bytes:
        check_number("generation", self.generation)
        check_number("reserved generation", self.reserved_generation)
        return write_object(
            {
                "version": 1,
                "generation": self.generation,
                "reserved": self.reserved_generation,
                "protocol_type": self.protocol_type,
                "protocol": self.protocol,
                "leader": self.leader,
                "timestamp": str(self.state_timestamp_ms),
                "first_chunk": self.first_chunk,
                "chunks": self.chunks,
                "checksum": str(self.checksum),
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a group")
        numbers = range(INT32[-1] + 1)
        return cls(
            generation=integer_of(path, fields, "generation", numbers),
            reserved_generation=integer_of(path, fields, "reserved", numbers),
            protocol_type=_text_or_null(path, fields, "protocol_type"),
            protocol=_text_or_null(path, fields, "protocol"),
            leader=_text_or_null(path, fields, "leader"),
            state_timestamp_ms=integer_text_of(path, fields, "timestamp"),
            first_chunk=integer_of(path, fields, "first_chunk", numbers),
            chunks=integer_of(path, fields, "chunks", numbers),
            checksum=integer_text_of(path, fields, "checksum", range(2**32)),
        )


@dataclass(frozen=True, slots=True)
class GroupChunk:
    """`/zkgroup/groups/<slot>/<g>/rec-<generation>-<n>`: a part of the members of a generation. Persistent.

    Never changed: another write of the same generation has other numbers. One that no header names is deleted
    at load.
    """

    data: bytes

    @staticmethod
    def path(slot: int, group: str, generation: int, number: int) -> str:
        return f"{GroupHeader.path(slot, group)}/rec-{generation}-{number}"

    @staticmethod
    def parse(name: str) -> tuple[int, int] | None:
        """Generation and number in the name of a child of a header; None for another name."""
        prefix, *parts = name.split("-")
        numbers = [decimal(part, range(INT32[-1] + 1)) for part in parts]
        if prefix != "rec" or len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
            return None
        return numbers[0], numbers[1]

    def encode(self) -> bytes:
        return self.data

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        if not data:
            raise CorruptZnodeError(path, "a part of a group", show(data))
        return cls(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member of a stored group; `members_of` reads it from the joined chunks.

    Unlike Kafka's, it has all protocols, so that they survive a failover.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


def chunks_of(
    members: Sequence[StoredMember], chunk_bytes: int = CHUNK_BYTES
) -> tuple[list[GroupChunk], int]:
    """The members as chunks, and the checksum of the chunks, joined."""
    rows = [
        {
            "member": each.member_id,
            "instance": each.group_instance_id,
            "client": each.client_id,
            "host": each.client_host,
            "session_timeout_ms": each.session_timeout_ms,
            "rebalance_timeout_ms": each.rebalance_timeout_ms,
            "protocols": [[name, _base64(metadata)] for name, metadata in each.protocols],
            "assignment": _base64(each.assignment),
        }
        for each in members
    ]
    data = write_object({"version": 1, "members": rows}) if members else b""
    parts = [data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes)]
    return [GroupChunk(part) for part in parts], zlib.crc32(data)


def members_of(path: str, header: GroupHeader, chunks: Sequence[GroupChunk]) -> tuple[StoredMember, ...]:
    """The members of a group. `path`: the header's, for errors.

    Raises CorruptZnodeError where the chunks are not those that the header names.
    """
    data = b"".join(chunk.data for chunk in chunks)
    if len(chunks) != header.chunks or zlib.crc32(data) != header.checksum:
        expected = f"{header.chunks} chunks with the checksum {header.checksum}"
        raise CorruptZnodeError(path, expected, f"{len(chunks)} with {zlib.crc32(data)}")
    if not chunks:
        return ()
    fields = read_object(path, data, "the members of a group")
    rows = fields.get("members")
    if not isinstance(rows, list):
        raise CorruptZnodeError(path, "a list of members", show(rows))
    return tuple(_member(path, row) for row in rows)


def _member(path: str, row: object) -> StoredMember:
    if not isinstance(row, dict):
        raise CorruptZnodeError(path, "a member", show(row))
    protocols = row.get("protocols")
    if not isinstance(protocols, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
        for pair in protocols
    ):
        raise CorruptZnodeError(path, "a list of protocols", show(protocols))
    return StoredMember(
        member_id=text_of(path, row, "member"),
        group_instance_id=_text_or_null(path, row, "instance"),
        client_id=text_of(path, row, "client"),
        client_host=text_of(path, row, "host"),
        session_timeout_ms=integer_of(path, row, "session_timeout_ms"),
        rebalance_timeout_ms=integer_of(path, row, "rebalance_timeout_ms"),
        protocols=tuple((name, _bytes(path, text)) for name, text in protocols),
        assignment=_bytes(path, text_of(path, row, "assignment")),
    )


class OffsetAndMetadata(NamedTuple):
    """`/zkgroup/groups/<slot>/<g>/meta/<topic>/<partition>`: what belongs to a committed offset. Persistent.

    It belongs to the offset znode only while that has the same offset: ZooKeeper members write theirs alone.
    A tuple, because one is made for each partition of every commit.
    """

    offset: int
    leader_epoch: int = -1
    """-1 for unknown."""
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int | None = None
    """Of a commit with its own retention."""

    @staticmethod
    def path(slot: int, group: str, topic_partition: TopicPartition) -> str:
        return f"{meta_topic_path(slot, group, topic_partition.topic)}/{topic_partition.partition}"

    def encode(self) -> bytes:
        """Encodes as `write_object` would; put together here, once for each offset of a commit.

        Raises ConfigError for a leader epoch beyond 32 bits.
        """
        if self.leader_epoch not in INT32:
            raise ConfigError(f"leader epoch {self.leader_epoch}: expected a number of 32 bits")
        expires = "" if self.expire_timestamp_ms is None else f',"expires":"{self.expire_timestamp_ms}"'
        text = (
            f'{{"version":1,"offset":"{self.offset}","leader_epoch":{self.leader_epoch},'
            f'"metadata":{json_text(self.metadata)},"committed":"{self.commit_timestamp_ms}"{expires}}}'
        )
        return text.encode("utf-8", "replace")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "the metadata of an offset")
        return cls(
            offset=integer_text_of(path, fields, "offset", INT64),
            leader_epoch=integer_of(path, fields, "leader_epoch"),
            metadata=text_of(path, fields, "metadata"),
            commit_timestamp_ms=integer_text_of(path, fields, "committed"),
            expire_timestamp_ms=integer_text_of(path, fields, "expires") if "expires" in fields else None,
        )


def _text_or_null(path: str, fields: dict[str, object], key: str) -> str | None:
    return None if fields.get(key) is None else text_of(path, fields, key)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(path: str, text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise CorruptZnodeError(path, "bytes in base64", show(text)) from error
