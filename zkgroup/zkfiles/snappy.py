"""Raw blocks of snappy. Source: format_description.txt of google/snappy."""

from __future__ import annotations

from typing import Final

MAX_BLOCK_BYTES: Final = 16 * 1024 * 1024
"""Plain bytes of one block that are believed; the JVM's library writes 32 KiB."""


class SnappyError(ValueError):
    """Bytes that are no snappy block; the message says where and why."""


def decompressed(block: bytes) -> bytes:
    """The plain bytes of one block. Raises SnappyError."""
    length, at = _plain_length(block)
    plain = bytearray()
    while at < len(block):
        tag, at = block[at], at + 1
        kind, size = tag & 3, tag >> 2
        if kind == 0:
            if size >= 60:
                size, at = _number(block, at, size - 59)
            size += 1
            piece = block[at : at + size]
            at += size
            if len(piece) < size or size > length - len(plain):
                raise SnappyError(f"a literal of {size} bytes that does not fit")
            plain += piece
            continue
        if kind == 1:
            low, at = _number(block, at, 1)
            size, back = (size & 7) + 4, tag >> 5 << 8 | low
        else:
            back, at = _number(block, at, 2 if kind == 2 else 4)
            size += 1
        if not 0 < back <= len(plain) or size > length - len(plain):
            raise SnappyError(f"a copy of {size} bytes from {back} back that does not fit")
        start = len(plain) - back
        # What is longer than its distance repeats itself.
        plain += plain[start : start + size] if back >= size else (plain[start:] * (size // back + 1))[:size]
    if len(plain) != length:
        raise SnappyError(f"a block of {len(plain)} bytes that says {length}")
    return bytes(plain)


def _number(block: bytes, at: int, size: int) -> tuple[int, int]:
    """A number of some bytes, and the place behind it."""
    if len(block) - at < size:
        raise SnappyError("a block that ends inside an element")
    return int.from_bytes(block[at : at + size], "little"), at + size


def _plain_length(block: bytes) -> tuple[int, int]:
    """The number of bytes that a block becomes, and the place of its first element."""
    length = 0
    for at, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            if length > MAX_BLOCK_BYTES:
                raise SnappyError(f"a block of {length} bytes, at most {MAX_BLOCK_BYTES} are believed")
            return length, at + 1
    raise SnappyError("a block without its length")
