"""CRC-32C (Castagnoli), the checksum of Kafka's record batches; RFC 3720, appendix B.4.

`crc32c` takes the C package of that name where it is installed (extra `broker`): some GB/s. Without it the
checksum is made in Python, at some tens of MB/s:

A CRC is the remainder of a polynomial over GF(2), and the remainder of `h * x^m + l` is that of
`h * (x^m mod P) + l`. So the front of a block is laid over its back, once for every term of `x^m mod P`, as
shifts and exclusive ors of one big integer. Each step about halves the block; the last 16 bytes go through
the usual table. Places to fold at are chosen where few terms are left. That is 12 to 30 times as fast as the
table alone and needs no library (docs/adr/0018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.wire.schema import Buffer

_native: Callable[[Buffer], int] | None
try:
    from crc32c import crc32c as _c_package
except ImportError:
    _native = None
else:
    _native = _c_package

POLYNOMIAL: Final = 0x1EDC6F41
"""Without its leading term, x^32."""
_REFLECTED: Final = 0x82F63B78
_ALL: Final = 0xFFFFFFFF

FOLDS: Final = (
    *(343_956, 203_189, 134_575, 67_303, 36_330, 19_236, 10_156),
    *(5_265, 2_804, 1_425, 759, 400, 220, 128),
)
"""Bits that are left after each fold. A block of n bits can be folded to m where n <= 2 m - 31."""
BLOCK_BYTES: Final = 64 * 1024
SHORT_BYTES: Final = 16
"""Most bytes that the table does alone."""


def require_native(needed_by: str) -> None:
    """Raises ConfigError where the C package is not installed; `needed_by` names the user."""
    if _native is None:
        raise ConfigError(f"{needed_by} needs the package crc32c: pip install 'zkgroup[broker]'")


def crc32c(data: Buffer) -> int:
    """The checksum of bytes."""
    return python_crc32c(data) if _native is None else _native(data)


def python_crc32c(data: Buffer) -> int:
    """Computes `crc32c` without the C package."""
    state = _ALL
    for at in range(0, len(data), BLOCK_BYTES):
        state = _block(state, data[at : at + BLOCK_BYTES] if len(data) > BLOCK_BYTES else data)
    return state ^ _ALL


def _block(state: int, block: Buffer) -> int:
    if len(block) <= SHORT_BYTES:
        return _by_table(state, block)
    bits = len(block) * 8
    # The first bit of the stream is the lowest bit of the first byte, so of this integer.
    value = int.from_bytes(block, "little") ^ state
    for left, terms in _STEPS:
        if bits > left:
            front = value & ((1 << (bits - left)) - 1)
            value >>= bits - left
            end = 2 * left - bits
            for power in terms:
                value ^= front << (end - power)
            bits = left
    return _by_table(0, value.to_bytes(bits // 8, "little"))


def _by_table(state: int, data: Buffer) -> int:
    for byte in data:
        state = _TABLE[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_REFLECTED if byte & 1 else 0)
    return byte


def _times(left: int, right: int) -> int:
    """Product of two remainders."""
    product = 0
    while right:
        if right & 1:
            product ^= left
        right >>= 1
        left <<= 1
        if left >> 32:
            left ^= POLYNOMIAL | 1 << 32
    return product


def _terms(power: int) -> tuple[int, ...]:
    """The powers of x in the remainder of x to this power."""
    remainder, square = 1, 2
    while power:
        if power & 1:
            remainder = _times(remainder, square)
        square = _times(square, square)
        power >>= 1
    return tuple(bit for bit in range(32) if remainder >> bit & 1)


_TABLE: Final = tuple(map(_entry, range(256)))
_STEPS: Final = tuple((left, _terms(left)) for left in FOLDS)
