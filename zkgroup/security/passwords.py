"""Hashed passwords for SASL/PLAIN: a file of lines `name:hash`, and the hash of one password."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from zkgroup.errors import ConfigError

LOG2_N: Final = 14
BLOCK: Final = 8
PARALLEL: Final = 1
"""The costs of new hashes: 16 MiB and some 50 ms each."""
LOG2_N_MAX: Final = 17
SALT_BYTES: Final = 16

_HASH: Final = re.compile(
    r"\$scrypt\$ln=([0-9]{1,2}),r=([0-9]{1,2}),p=([0-9]{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)


def hash_password(password: str, salt: bytes) -> str:
    """The hash of a password: `$scrypt$ln=14,r=8,p=1$SALT$HASH`, in base 64 without padding.

    Raises ConfigError for an empty password.
    """
    if not password:
        raise ConfigError("password: expected at least one character, found none")
    digest = _scrypt(password, salt, LOG2_N, BLOCK, PARALLEL)
    return f"$scrypt$ln={LOG2_N},r={BLOCK},p={PARALLEL}${_base64(salt)}${_base64(digest)}"


def is_password(text: str, password: str) -> bool:
    """Returns whether a hash is that of a password. It takes 16 MiB and some 50 ms. Raises ValueError."""
    if (found := _HASH.fullmatch(text)) is None:
        raise ValueError
    log2_n, block, parallel = map(int, found.group(1, 2, 3))
    if not 1 <= log2_n <= LOG2_N_MAX or not 1 <= block <= BLOCK or not 1 <= parallel <= PARALLEL:
        raise ValueError
    salt, digest = _bytes(found[4]), _bytes(found[5])
    return hmac.compare_digest(digest, _scrypt(password, salt, log2_n, block, parallel))


def _scrypt(password: str, salt: bytes, log2_n: int, block: int, parallel: int) -> bytes:
    memory = 256 * block * 2**log2_n
    return hashlib.scrypt(
        password.encode(), salt=salt, n=2**log2_n, r=block, p=parallel, maxmem=memory, dklen=32
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError from error
