"""Kafka's small text files: checkpoints of offsets and of leader epochs, `meta.properties`. Pure.

A checkpoint is a version (0), the number of entries, and a line for each entry
(kafka/server/checkpoints/*.scala and kafka/server/BrokerMetadataCheckpoint.scala @2.8.2). `high-watermark`,
in the folder of a partition, is zkgroup's own (docs/adr/0018).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from zkgroup.broker.log.leader_epochs import EpochStart, LeaderEpochs
from zkgroup.model import TopicPartition

VERSION: Final = 0
HIGH_WATERMARK_DIGITS: Final = 19

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
"""In the folder of a partition."""
HIGH_WATERMARK: Final = "high-watermark"
"""In the folder of a partition."""


class CheckpointError(ValueError):
    """A file is not what its writer makes; the message says where."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """A file of offsets."""
    return _encode(f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Raises CheckpointError."""
    offsets = {}
    for line in _lines(data):
        match line.split():
            case [topic, partition, offset]:
                offsets[TopicPartition(topic, _number(partition))] = _number(offset)
            case _:
                raise CheckpointError(f"expected topic, partition and offset, found {line!r}")
    return offsets


def encode_leader_epochs(epochs: LeaderEpochs) -> bytes:
    """A `leader-epoch-checkpoint`."""
    return _encode(f"{start.leader_epoch} {start.start_offset}" for start in epochs)


def decode_leader_epochs(data: bytes) -> LeaderEpochs:
    """Raises CheckpointError, also where epochs or offsets do not ascend."""
    starts: list[EpochStart] = []
    for line in _lines(data):
        match line.split():
            case [epoch, offset]:
                start = EpochStart(_number(epoch), _number(offset))
            case _:
                raise CheckpointError(f"expected leader epoch and start offset, found {line!r}")
        if starts and not all(before < after for before, after in zip(starts[-1], start, strict=True)):
            raise CheckpointError(f"{start} does not follow {starts[-1]}")
        starts.append(start)
    return LeaderEpochs(starts)


def encode_high_watermark(offset: int | None) -> bytes:
    """A `high-watermark`; -1 for None. All are equally long, so that one write replaces another."""
    return b"%0*d\n" % (HIGH_WATERMARK_DIGITS, -1 if offset is None else offset)


def decode_high_watermark(data: bytes) -> int | None:
    """None also where the text is not what `encode_high_watermark` makes."""
    text = data.decode("ascii", "replace").removesuffix("\n")
    if len(data) != HIGH_WATERMARK_DIGITS + 1 or not text.isdecimal() or not text.isascii():
        return None
    return int(text)


class MetaProperties(NamedTuple):
    """The identity of the broker that a data folder belongs to."""

    broker_id: int
    cluster_id: str | None
    directory_id: str | None
    """A uuid of this folder, as Kafka writes it from 3.7 on."""


def encode_meta_properties(meta: MetaProperties) -> bytes:
    """A `meta.properties`."""
    named = {"directory.id": meta.directory_id, "cluster.id": meta.cluster_id}
    lines = ["#", *(f"{name}={value}" for name, value in named.items() if value is not None)]
    return "\n".join([*lines, f"broker.id={meta.broker_id}", f"version={VERSION}", ""]).encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    """Raises CheckpointError."""
    found = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    if found.get("version") != str(VERSION):
        raise CheckpointError(f"expected version={VERSION}, found {found.get('version')}")
    return MetaProperties(
        _number(found.get("broker.id", "")), found.get("cluster.id"), found.get("directory.id")
    )


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode("ascii")


def _lines(data: bytes) -> Iterator[str]:
    lines = data.decode("ascii", "replace").split("\n")
    if len(lines) < 3 or lines[-1] != "":
        raise CheckpointError("expected version, number of entries and entries, each on a whole line")
    if lines[0] != str(VERSION):
        raise CheckpointError(f"expected version {VERSION}, found {lines[0]!r}")
    entries = lines[2:-1]
    if _number(lines[1]) != len(entries):
        raise CheckpointError(f"expected {lines[1]} entries, found {len(entries)}")
    yield from entries


def _number(text: str) -> int:
    if not (text.isdecimal() and text.isascii()):
        raise CheckpointError(f"expected a number, found {text!r}")
    return int(text)
