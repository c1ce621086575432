"""Batches of lines: made by a leader, checked by whoever is handed one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.messages import REQUEST_BYTES_MAX
from zkgroup.wire.replica_host import LineBatch

HEAD_BYTES: Final = 24
"""What a batch takes in an answer beside its lines."""
BATCH_BYTES_MAX: Final = REQUEST_BYTES_MAX - 1024
"""Of its lines with their newlines: whoever reads frames must be able to take the answer that carries it."""


def are_lines(lines: Sequence[bytes]) -> bool:
    """Whether they can be one batch: one or more, none with a newline in it, together not too large."""
    size = len(lines) + sum(map(len, lines))
    return bool(lines) and size <= BATCH_BYTES_MAX and not any(b"\n" in line for line in lines)


def batch_of(lines: Sequence[bytes], base_offset: int, leader_epoch: int) -> LineBatch:
    """One batch of lines that are given without their newlines."""
    text = b"\n".join((*lines, b""))
    return LineBatch(base_offset, leader_epoch, len(lines), crc32c(text), text)


def is_whole(batch: LineBatch) -> bool:
    """Whether the batch is what its leader made: complete lines, as many as it says, with its checksum."""
    return (
        batch.count > 0
        and batch.lines.endswith(b"\n")
        and batch.lines.count(b"\n") == batch.count
        and crc32c(batch.lines) == batch.crc32c
    )


def end_of(batch: LineBatch) -> int:
    """The first offset behind the batch."""
    return batch.base_offset + batch.count
