"""Batches of lines: made by a leader, checked by whoever is handed one."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.replica_host import LineBatch


def are_lines(lines: Sequence[bytes]) -> bool:
    """Whether they can be appended: one or more, none with a newline in it."""
    return bool(lines) and not any(b"\n" in line for line in lines)


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
