"""The broker's side of SASL: the exchange of one login by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.

An exchange is given the client's tokens and gives the broker's; it knows no connection. Texts of refusals are
those of Kafka 2.8.2. `oauth` has OAUTHBEARER; GSSAPI and delegation tokens are refused.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from zkgroup.security.scram import ScramCredential, import_scramp
from zkgroup.security.secret import Secret

_USER: Final = re.compile(rb"[^,]*,[^,]*,n=([^,]*)")
_TOKEN_AUTH: Final = re.compile(rb",tokenauth=true(,|$)")


class LoginFailedError(Exception):
    """The client is not let in; the text is for the client, and says nothing of what it has sent."""


@dataclass(frozen=True, slots=True)
class ServerToken:
    """The broker's token, and the user once the client has proved who it is."""

    token: bytes
    user: str | None = None
    lifetime_ms: int = 0
    """For so long the user is known to be one; 0 for ever."""


class Exchange(Protocol):
    """One login."""

    def take(self, token: bytes) -> ServerToken:
        """The reply to the client's next token. Raises LoginFailedError; then the exchange is over."""
        ...


class ScramUsers:
    """The credentials in `/config/users`, as last read: they stay while ZooKeeper is away.

    Empty until they were read. One thread writes, any reads.
    """

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, ScramCredential]] = {}

    def changed(self, user: str, credentials: Mapping[str, ScramCredential]) -> None:
        """The credentials of a user by mechanism; none if they are gone."""
        if credentials:
            self._known[user] = credentials
        else:
            self._known.pop(user, None)

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        """The credential of a user; None without one."""
        return self._known.get(user, {}).get(mechanism)


class PlainExchange:
    """A login by PLAIN (RFC 4616): one token with name and password."""

    def __init__(self, users: Mapping[str, Secret], others: Callable[[str, str], bool] | None) -> None:
        """
        Args:
            users: with their passwords.
            others: whether a user, who is none of these, has a password; None where there are no others.
        """
        self._users, self._others = users, others

    def take(self, token: bytes) -> ServerToken:
        """As `Exchange.take`."""
        parts = token.decode(errors="replace").split("\0")
        if len(parts) != 3:
            raise LoginFailedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        identity, user, password = parts
        if not user:
            raise LoginFailedError("Authentication failed: username not specified")
        if not password:
            raise LoginFailedError("Authentication failed: password not specified")
        if not self._accepts(user, password):
            raise LoginFailedError("Authentication failed: Invalid username or password")
        if identity not in ("", user):
            raise LoginFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return ServerToken(b"", user)

    def _accepts(self, user: str, password: str) -> bool:
        own = self._users.get(user)
        if own is not None:
            return hmac.compare_digest(own.reveal().encode(), password.encode())
        return self._others is not None and self._others(user, password)


class ScramExchange:
    """A login by SCRAM (RFC 5802): two tokens of the client, by scramp."""

    def __init__(self, mechanism: str, users: ScramUsers) -> None:
        """Raises ConfigError without the package scramp."""
        self._scramp = import_scramp()
        self._mechanism, self._users = mechanism, users
        self._server: Any = None
        self._user = ""

    def take(self, token: bytes) -> ServerToken:
        """As `Exchange.take`."""
        try:
            return self._first(token) if self._server is None else self._final(token)
        except (self._scramp.ScramException, ValueError):
            raise LoginFailedError(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self._mechanism}"
            ) from None

    def _first(self, token: bytes) -> ServerToken:
        if _TOKEN_AUTH.search(token):
            raise LoginFailedError("Authentication failed: delegation tokens are not supported")
        found = _USER.match(token)
        if found is None:
            raise ValueError
        # The name as the client sends it, as in Kafka: scramp would normalize it (SASLprep).
        self._user = found[1].decode().replace("=2C", ",").replace("=3D", "=")
        mechanism = self._scramp.ScramMechanism(self._mechanism)
        self._server = mechanism.make_server(lambda _: self._credential())
        self._server.set_client_first(token.decode())
        return ServerToken(self._server.get_server_first().encode())

    def _credential(self) -> tuple[bytes, bytes, bytes, int] | None:
        found = self._users.find(self._user, self._mechanism)
        if found is None:
            return None
        return found.salt, found.stored_key, found.server_key, found.iterations

    def _final(self, token: bytes) -> ServerToken:
        self._server.set_client_final(token.decode())
        return ServerToken(self._server.get_server_final().encode(), self._user)
