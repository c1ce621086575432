"""How the clients of a listener log in: Kafka's settings of brokers for SASL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from zkgroup.errors import ConfigError
from zkgroup.security import oauth
from zkgroup.security.client import MECHANISM
from zkgroup.security.jaas import BEARER, JAAS, MECHANISMS, PLAIN, parse_jaas
from zkgroup.security.oauth import BearerExchange, TokenChecker, TokenSettings
from zkgroup.security.passwords import PasswordFile
from zkgroup.security.sasl import Exchange, PlainExchange, ScramExchange, ScramUsers
from zkgroup.security.scram import HASHES, import_scramp
from zkgroup.security.secret import Secret

ENABLED: Final = "sasl.enabled.mechanisms"
USERS_FILE: Final = "sasl.plain.users.file"
"""zkgroup's own; its lines are `name:hash`."""
INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"
MAX_REAUTH: Final = "connections.max.reauth.ms"
FAILURE_DELAY: Final = "connection.failed.authentication.delay.ms"
FAILURE_DELAY_MS: Final = 100

_USER: Final = "user_"
_OF_MECHANISM: Final = (
    rf"(({'|'.join(map(str.lower, MECHANISMS))})\.)?({re.escape(JAAS)}|{re.escape(MAX_REAUTH)})"
)
_NAME: Final = re.compile(
    rf"(listener\.name\.[^.].*\.)?({re.escape(ENABLED)}|(plain\.)?{re.escape(USERS_FILE)}|{_OF_MECHANISM}"
    rf"|({BEARER.lower()}\.)?({'|'.join(map(re.escape, oauth.NAMES))}))"
    rf"|{re.escape(FAILURE_DELAY)}"
)
_DURATION: Final = re.compile(r"[0-9]{1,15}")


def is_of_sasl(name: str) -> bool:
    """Returns whether a name of Kafka's, with prefixes or without, is one of these settings."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The logins that a listener offers."""

    mechanisms: tuple[str, ...]
    """Of `jaas.MECHANISMS`, in the order in which they are offered."""
    plain_users: Mapping[str, Secret] = field(default_factory=dict)
    """Users of PLAIN that the JAAS entry names, with their passwords."""
    plain_file: Path | None = None
    """A file of more users of PLAIN."""
    tokens: TokenSettings | None = None
    """The tokens of OAUTHBEARER."""
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    """By mechanism: a client has to log in again within this time; none or 0 for never."""
    failure_delay_ms: int = FAILURE_DELAY_MS
    """The delay of the answer to a login that is refused."""

    @classmethod
    def of(cls, properties: Mapping[str, str], listener: str) -> Self:
        """The settings of one listener. A name with its prefix, `listener.name.<listener>.`, comes first.

        Raises ConfigError, with no secret in it.
        """
        mechanisms = _mechanisms(properties, listener)
        users: dict[str, Secret] = {}
        for mechanism in mechanisms:
            users |= _jaas_users(properties, listener, mechanism)
        _, file = _found(properties, listener, PLAIN, USERS_FILE)
        if PLAIN in mechanisms and not users and not file:
            raise ConfigError(
                f"listener {listener}: expected users of PLAIN, {_USER}<name>=... in {JAAS} or {USERS_FILE}"
            )
        path = Path(file) if file and PLAIN in mechanisms else None
        if path is not None:
            PasswordFile(path, lambda _: None)  # its faults are known now
        tokens = None
        if BEARER in mechanisms:
            tokens = TokenSettings.of(partial(_found, properties, listener, BEARER))
            TokenChecker(tokens, lambda _: None)
        return cls(
            mechanisms=mechanisms,
            plain_users=users,
            plain_file=path,
            tokens=tokens,
            max_reauth_ms={one: _ms(*_found(properties, listener, one, MAX_REAUTH)) for one in mechanisms},
            failure_delay_ms=_ms(FAILURE_DELAY, properties.get(FAILURE_DELAY, str(FAILURE_DELAY_MS))),
        )

    @property
    def uses_scram(self) -> bool:
        """True if a mechanism needs the credentials in ZooKeeper."""
        return any(one in HASHES for one in self.mechanisms)

    def exchanges(
        self, users: ScramUsers, on_fault: Callable[[str], object]
    ) -> dict[str, Callable[[], Exchange]]:
        """By mechanism, what begins a login. Raises ConfigError for a file of users that cannot be read.

        `on_fault`: see `PasswordFile`.
        """
        others = None if self.plain_file is None else PasswordFile(self.plain_file, on_fault).accepts
        found: dict[str, Callable[[], Exchange]] = {
            mechanism: partial(ScramExchange, mechanism, users) for mechanism in self.mechanisms
        }
        if PLAIN in found:
            found[PLAIN] = partial(PlainExchange, self.plain_users, others)
        if self.tokens is not None:
            found[BEARER] = partial(BearerExchange, TokenChecker(self.tokens, on_fault))
        return found


def inter_broker_login(properties: Mapping[str, str], listener: str) -> dict[str, str]:
    """The client's settings of a broker that logs in to others: mechanism, and JAAS entry or file of a token.

    Raises ConfigError for a mechanism that its own listener does not offer.
    """
    mechanism = properties.get(INTER_BROKER, "GSSAPI").strip()
    offered = _mechanisms(properties, listener)
    if mechanism not in offered:
        raise ConfigError(f"setting {INTER_BROKER}: expected one of {', '.join(offered)}, found {mechanism}")
    names = (JAAS, oauth.TOKEN_URL, oauth.TOKEN_READER) if mechanism == BEARER else (JAAS,)
    return {MECHANISM: mechanism} | {name: _found(properties, listener, mechanism, name)[1] for name in names}


def _found(properties: Mapping[str, str], listener: str, mechanism: str, name: str) -> tuple[str, str]:
    """The name under which a setting is given, and its value; the bare name and an empty text without one."""
    own, of_mechanism = f"listener.name.{listener.lower()}.", f"{mechanism.lower()}."
    for prefix in (own + of_mechanism, own, of_mechanism, ""):
        if (value := properties.get(prefix + name)) is not None:
            return prefix + name, value
    return name, ""


def _mechanisms(properties: Mapping[str, str], listener: str) -> tuple[str, ...]:
    setting, text = _found(properties, listener, "", ENABLED)
    found = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    for one in found or ("GSSAPI",):  # Kafka's default
        if one not in MECHANISMS:
            raise ConfigError(f"setting {setting}: expected some of {', '.join(MECHANISMS)}, found {one}")
    if any(one in HASHES for one in found):
        import_scramp()
    return found


def _jaas_users(properties: Mapping[str, str], listener: str, mechanism: str) -> dict[str, Secret]:
    """The users of PLAIN in the JAAS entry of a mechanism; that of another names none.

    An entry without a prefix is that of the mechanisms whose module it is.
    """
    setting, text = _found(properties, listener, mechanism, JAAS)
    if not text:
        return {}
    entry = parse_jaas(text, f"setting {setting}")
    expected = MECHANISMS[mechanism]
    if entry.module != expected:
        if f"{mechanism.lower()}." in setting:
            raise ConfigError(f"setting {setting}: expected {expected}, found {entry.module}")
        return {}
    if mechanism != PLAIN:
        return {}
    return {
        name.removeprefix(_USER): Secret(password)
        for name, password in entry.options.items()
        if name.startswith(_USER)
    }


def _ms(setting: str, text: str) -> int:
    if text and not _DURATION.fullmatch(text.strip()):
        raise ConfigError(f"setting {setting}: expected milliseconds, found {text!r}")
    return int(text or 0)
