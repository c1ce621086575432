"""SCRAM credentials as Kafka's tools store them in `/config/users/<user>` (RFC 5802 and 7677)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Any, Final, Self

from zkgroup.errors import ConfigError

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms of Kafka's brokers, and the hash of each."""
MECHANISM_TYPES: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Their numbers in requests (org/apache/kafka/clients/admin/ScramMechanism.java@2.8.2)."""
MIN_ITERATIONS: Final = 4096
"""Fewer are refused by Kafka's tools and clients; this many are the default."""
MAX_ITERATIONS: Final = 16384
"""More are refused by Kafka's brokers (kafka/server/ZkAdminManager.scala@2.8.2): a client computes them."""
SALT_BYTES: Final = 24
"""Of salts that are made here."""
SALT_MIN: Final = 12
"""A login with a shorter one is refused (scramp 1.5)."""

_KEYS: Final = ("salt", "stored_key", "server_key", "iterations")
_DECIMAL: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """A user's credential of one mechanism: what a server needs to check a password that it does not know.

    Whoever has it may try passwords, and pose as the server, so its text form hides all but the iterations.
    """

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_password(cls, mechanism: str, password: str, iterations: int, salt: bytes) -> Self:
        """The credential of a password. As Kafka and its clients do, it takes the UTF-8 bytes as they are.

        Raises ConfigError for an empty password, and for iterations that Kafka refuses.
        """
        if not password:
            raise ConfigError("password: expected at least one character, found none")
        check_iterations(iterations)
        return cls.of_salted_password(
            mechanism,
            hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations),
            iterations,
            salt,
        )

    @classmethod
    def of_salted_password(cls, mechanism: str, salted: bytes, iterations: int, salt: bytes) -> Self:
        """The credential of a salted password, as AlterUserScramCredentials brings it."""
        name = HASHES[mechanism]
        client_key = hmac.digest(salted, b"Client Key", name)
        return cls(
            salt=salt,
            stored_key=hashlib.new(name, client_key).digest(),
            server_key=hmac.digest(salted, b"Server Key", name),
            iterations=iterations,
        )

    def encode(self) -> str:
        """The text in the znode: `salt=..,stored_key=..,server_key=..,iterations=4096`, in base 64.

        Source: org/apache/kafka/common/security/scram/internals/ScramCredentialUtils.java@2.8.2.
        """
        values = (*map(_base64, (self.salt, self.stored_key, self.server_key)), str(self.iterations))
        return ",".join(f"{key}={value}" for key, value in zip(_KEYS, values, strict=True))

    @classmethod
    def decode(cls, where: str, mechanism: str, text: str) -> Self:
        """The credential in a znode. The order of its parts is free.

        Raises ConfigError that names `where` and the mechanism, but nothing of the text.
        """
        try:
            return cls._parse(text, hashlib.new(HASHES[mechanism]).digest_size)
        except (ValueError, KeyError):
            keys = ",".join(f"{key}=..." for key in _KEYS)
            raise ConfigError(f"{where}: expected {keys} in {mechanism}, found another text") from None

    @classmethod
    def _parse(cls, text: str, key_bytes: int) -> Self:
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        salt, stored_key, server_key = (base64.b64decode(parts.pop(key), validate=True) for key in _KEYS[:3])
        iterations = parts.pop(_KEYS[3])
        if parts or not salt or not _DECIMAL.fullmatch(iterations):
            raise ValueError
        if {len(stored_key), len(server_key)} != {key_bytes}:
            raise ValueError
        return cls(salt=salt, stored_key=stored_key, server_key=server_key, iterations=int(iterations))


def import_scramp() -> Any:
    """The package scramp. Raises ConfigError where it is not installed."""
    try:
        import scramp
    except ImportError as error:
        raise ConfigError("SCRAM needs the package scramp: pip install 'zkgroup[security]'") from error
    return scramp


def check_iterations(iterations: int) -> None:
    """Raises ConfigError for so many that Kafka refuses them."""
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ConfigError(f"iterations: expected {MIN_ITERATIONS} to {MAX_ITERATIONS}, found {iterations}")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
