"""Raw snappy blocks, and the stream of them that the JVM's library writes.

Sources: format_description.txt of google/snappy; SnappyCodec and SnappyInputStream of xerial's snappy-java.
The stream is not the official framing format: a header of 16 bytes, then blocks with their length in front.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

STREAM_MAGIC: Final = b"\x82SNAPPY\0"
STREAM_HEADER_BYTES: Final = 16
"""Magic, version, oldest version that can read it."""
MAX_BLOCK_BYTES: Final = 16 * 1024 * 1024
"""Plain bytes of one block that are believed; the JVM's library writes 32 KiB."""

_TWO: Final = struct.Struct("<H")
_FOUR: Final = struct.Struct("<I")

Decompress = Callable[[bytes], bytes]


class SnappyError(ValueError):
    """Bytes that are no snappy block; the message says where and why."""


def plain_length(block: bytes) -> tuple[int, int]:
    """Returns how many bytes a block becomes, and where its first element starts. Raises SnappyError."""
    length = shift = 0
    for at, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            if length > MAX_BLOCK_BYTES:
                raise SnappyError(f"a block of {length} bytes, at most {MAX_BLOCK_BYTES} are believed")
            return length, at + 1
        shift += 7
    raise SnappyError("a block without its length")


def decompressed(block: bytes) -> bytes:
    """The plain bytes of one raw block, in Python alone. Raises SnappyError."""
    length, at = plain_length(block)
    plain, end = bytearray(), len(block)
    try:
        while at < end:
            tag = block[at]
            at += 1
            if tag & 3:
                at = _copy(block, at, tag, plain, length)
                continue
            size = tag >> 2
            if size >= 60:
                extra = size - 59
                if end - at < extra:
                    raise SnappyError("a literal without its length")
                size = int.from_bytes(block[at : at + extra], "little")
                at += extra
            size += 1
            if size > end - at or size > length - len(plain):
                raise SnappyError(f"a literal of {size} bytes that does not fit")
            plain += block[at : at + size]
            at += size
    except (IndexError, struct.error) as error:
        raise SnappyError("a block that ends inside an element") from error
    if len(plain) != length:
        raise SnappyError(f"a block of {len(plain)} bytes that says {length}")
    return bytes(plain)


def _copy(block: bytes, at: int, tag: int, plain: bytearray, length: int) -> int:
    """Repeats what is already there, itself included where it is longer than its distance."""
    if tag & 3 == 1:
        size, back = (tag >> 2 & 7) + 4, tag >> 5 << 8 | block[at]
        at += 1
    elif tag & 3 == 2:
        size, back = (tag >> 2) + 1, _TWO.unpack_from(block, at)[0]
        at += 2
    else:
        size, back = (tag >> 2) + 1, _FOUR.unpack_from(block, at)[0]
        at += 4
    start = len(plain) - back
    if back == 0 or start < 0 or size > length - len(plain):
        raise SnappyError(f"a copy of {size} bytes from {back} back that does not fit")
    if back >= size:
        plain += plain[start : start + size]
    else:
        piece = bytes(plain[start:])
        plain += (piece * (size // back + 1))[:size]
    return at


def fastest() -> Decompress:
    """pyarrow's codec where it can be imported, else `decompressed`; both raise SnappyError.

    Called with the first block only: the import alone takes longer than most files.
    """
    try:
        import pyarrow
    except ImportError:
        return decompressed
    try:
        codec = pyarrow.Codec("snappy")
    except (pyarrow.ArrowException, OSError):  # built without it
        return decompressed

    def by_codec(block: bytes) -> bytes:
        length, _ = plain_length(block)
        if not length:
            return decompressed(block)
        try:
            plain: bytes = codec.decompress(block, length, asbytes=True)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise SnappyError(str(error)) from error
        return plain

    return by_codec
