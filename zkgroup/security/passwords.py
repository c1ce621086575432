"""Hashed passwords for SASL/PLAIN: a file of lines `name:hash`, and the hash of one password."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.security.secret_files import Followed, check_secret_file, refuse_irregular

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
    log2_n, block, parallel, salt, digest = _parsed(text)
    return hmac.compare_digest(digest, _scrypt(password, salt, log2_n, block, parallel))


def _parsed(text: str) -> tuple[int, int, int, bytes, bytes]:
    """The costs of a hash, its salt, and itself. Raises ValueError for other texts, and for higher costs."""
    if (found := _HASH.fullmatch(text)) is None:
        raise ValueError
    log2_n, block, parallel = map(int, found.group(1, 2, 3))
    if not 1 <= log2_n <= LOG2_N_MAX or not 1 <= block <= BLOCK or not 1 <= parallel <= PARALLEL:
        raise ValueError
    return log2_n, block, parallel, _bytes(found[4]), _bytes(found[5])


class PasswordFile:
    """The users of a file of lines `name:hash`, read again when it changes. Empty lines and `#` are skipped.

    Its methods may be called on any thread.
    """

    def __init__(self, path: Path, on_fault: Callable[[str], object]) -> None:
        """Reads the file. Raises ConfigError, also for one that others may write.

        Args:
            path: the file.
            on_fault: is called with the reason where a changed file cannot be read; until it can, users are
                as they were.
        """
        self._path = path
        self._hashes = Followed(path, make=self._read, on_fault=on_fault)

    def accepts(self, user: str, password: str) -> bool:
        """Returns whether that is the user's password; takes as long for a user who is not there."""
        stored = self._hashes.current().get(user)
        is_right = is_password(_NOBODY if stored is None else stored, password)
        return is_right and stored is not None

    def _read(self) -> Mapping[str, str]:
        refuse_irregular(self._path)
        check_secret_file(self._path)
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"{self._path}: the file of users cannot be read: {why}") from None
        found: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                user, text = self._entry(number, line)
                if user in found:
                    raise ConfigError(f"{self._path}, line {number}: expected {user} once, found it again")
                found[user] = text
        return found

    def _entry(self, number: int, line: str) -> tuple[str, str]:
        user, _, text = line.rpartition(":")
        try:
            _parsed(text)
        except ValueError:
            user = ""
        if not user:
            raise ConfigError(
                f"{self._path}, line {number}: expected a name, a colon and what `zkgroup user hash` prints"
            )
        return user, text


_NOBODY: Final = "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
"""The hash of no password, for a user who is not there."""


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
