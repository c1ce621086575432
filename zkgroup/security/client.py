"""How a client reaches brokers and logs in: Kafka's client settings, and the client's side of SASL."""

from __future__ import annotations

import ssl
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from zkgroup.errors import ConfigError
from zkgroup.model.values import PLAINTEXT, PROTOCOLS
from zkgroup.security.jaas import BEARER, JAAS, MECHANISMS, PLAIN, parse_jaas
from zkgroup.security.oauth import TOKEN_READER, TOKEN_URL, check_class, file_of, first_message, read_token
from zkgroup.security.scram import HASHES, import_scramp
from zkgroup.security.secret import Secret
from zkgroup.security.tls import (
    HOST_NAMES,
    KEY_PASSWORD,
    KEY_STORE,
    KEY_STORE_TYPE,
    TRUST_STORE,
    TRUST_STORE_TYPE,
    TlsSettings,
    client_context,
)

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
ITERATIONS_MAX: Final = 100_000
"""Of SCRAM: a broker that does not prove who it is could else keep a client busy."""
TOLD_MAX: Final = 200
"""Characters of a broker's answer in an error."""
KNOWN: Final = (
    PROTOCOL, MECHANISM, JAAS, TOKEN_URL, TOKEN_READER,
    TRUST_STORE, TRUST_STORE_TYPE, KEY_STORE, KEY_STORE_TYPE, KEY_PASSWORD, HOST_NAMES,
)  # fmt: skip
"""The settings that are read; another one of their kind is refused."""
_KINDS: Final = ("security.", "ssl.", "sasl.")


class LoginRefusedError(Exception):
    """The broker's side of an exchange is not what a broker that knows the password sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """The protocol of connections to brokers, and who the client is."""

    protocol: str = PLAINTEXT
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."""
    tls: TlsSettings | None = None
    """Of `SSL` and `SASL_SSL`; the system's authorities by default."""
    mechanism: str | None = None
    """Of `SASL_PLAINTEXT` and `SASL_SSL`: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`."""
    username: str | None = None
    """The user of SASL."""
    password: Secret | None = None
    """The password of SASL."""
    token_file: Path | None = None
    """Of `OAUTHBEARER`, in place of a user: the file with the token, which is read at each login."""

    def __post_init__(self) -> None:
        """Raises ConfigError for settings that do not belong together."""
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"{PROTOCOL}: expected one of {', '.join(PROTOCOLS)}, found {self.protocol!r}")
        if self.uses_sasl:
            if self.mechanism not in MECHANISMS:
                raise ConfigError(
                    f"{MECHANISM}: expected one of {', '.join(MECHANISMS)}, found {self.mechanism or 'none'}"
                )
            if (self.mechanism == BEARER) != (self.token_file is not None):
                raise ConfigError(f"{TOKEN_URL}: expected the file of a token for {BEARER} only")
            if self.mechanism != BEARER and (not self.username or self.password is None):
                raise ConfigError(f"{JAAS}: expected a username and a password for {self.mechanism}")
            if self.mechanism in HASHES:
                import_scramp()
        if not self.uses_sasl and (self.mechanism or self.username or self.password):
            raise ConfigError(f"{PROTOCOL}: expected SASL_PLAINTEXT or SASL_SSL for a user and a mechanism")
        if not self.uses_tls and self.tls is not None:
            raise ConfigError(f"{PROTOCOL}: expected SSL or SASL_SSL for certificates")

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """The security of a client by Kafka's client settings; those of other subjects are not looked at.

        Raises ConfigError, with no secret in it: also for a name that begins with `security.`, `ssl.` or
        `sasl.` and is not supported, because a client must not be less secure than its settings say.
        """
        for name in properties:
            if name.startswith(_KINDS) and name not in KNOWN:
                raise ConfigError(f"{name} is not supported: expected of its kind only {', '.join(KNOWN)}")
        protocol = properties.get(PROTOCOL, PLAINTEXT).upper()
        tls = TlsSettings.of(properties) if protocol.endswith("SSL") else None
        if not protocol.startswith("SASL_"):
            return cls(protocol=protocol, tls=tls)
        mechanism = properties.get(MECHANISM, "GSSAPI")
        if mechanism not in MECHANISMS:
            raise ConfigError(f"{MECHANISM}: expected one of {', '.join(MECHANISMS)}, found {mechanism!r}")
        entry = parse_jaas(properties.get(JAAS, ""), JAAS)
        if entry.module != MECHANISMS[mechanism]:
            raise ConfigError(
                f"{JAAS}: expected {MECHANISMS[mechanism]} for {MECHANISM} {mechanism}, found {entry.module}"
            )
        if entry.options.get("tokenauth", "false").lower() == "true":
            raise ConfigError(f"{JAAS}: tokenauth is not supported: expected a user's own password")
        if mechanism == BEARER:
            check_class(TOKEN_READER, TOKEN_READER, properties.get(TOKEN_READER, ""))
        password = entry.options.get("password")
        return cls(
            protocol=protocol,
            tls=tls,
            mechanism=mechanism,
            username=entry.options.get("username"),
            password=None if password is None else Secret(password),
            token_file=file_of(TOKEN_URL, properties.get(TOKEN_URL, "")) if mechanism == BEARER else None,
        )

    @property
    def uses_tls(self) -> bool:
        """True for `SSL` and `SASL_SSL`."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """True for `SASL_PLAINTEXT` and `SASL_SSL`."""
        return self.protocol.startswith("SASL_")

    @property
    def who(self) -> str:
        """The user of SASL, or the place of the token."""
        return f"user {self.username}" if self.token_file is None else f"token in {self.token_file}"

    def tls_context(self) -> ssl.SSLContext | None:
        """A context of the files as they are now; None without TLS. Raises ConfigError."""
        return client_context(self.tls or TlsSettings()) if self.uses_tls else None

    def kafka_python_options(self) -> dict[str, Any]:
        """The options of kafka-python's clients that mean the same. They have the password: never print them.

        Raises ConfigError for a file of certificates that cannot be used.
        """
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self.uses_tls:
            options["ssl_context"] = self.tls_context()
        if self.token_file is not None:
            options["sasl_mechanism"] = self.mechanism
            options["sasl_oauth_token_provider"] = _token_provider(self.token_file)
        elif self.uses_sasl:
            assert self.password is not None
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = self.username
            options["sasl_plain_password"] = self.password.reveal()
        return options

    def login(self) -> Generator[bytes, bytes | None, None]:
        """Yields the tokens that log in, and takes the broker's answer to each.

        It ends when the broker has proved that it knows the password, where the mechanism has that (SCRAM).
        Raises LoginRefusedError for another answer, ConfigError for the file of a token that cannot be read.
        """
        if self.token_file is not None:
            if (yield first_message(read_token(self.token_file))):
                yield b"\1"  # to a refusal, which the broker then sends as an error (RFC 7628, 3.2.3)
            return
        assert self.username is not None
        assert self.password is not None
        if self.mechanism == PLAIN:
            yield b"\0".join((b"", self.username.encode(), self.password.reveal().encode()))
            return
        scramp = import_scramp()
        try:
            client = scramp.ScramClient([self.mechanism], self.username, "-")
            # As Kafka hashes it: without the normalization (SASLprep) that scramp would apply.
            client.password = self.password.reveal().encode()
            client.set_server_first(_text((yield client.get_client_first().encode())))
            if int(client.iterations) > ITERATIONS_MAX:
                raise LoginRefusedError(f"the broker asks for more than {ITERATIONS_MAX} iterations")
            client.set_server_final(_text((yield client.get_client_final().encode())))
        except (scramp.ScramException, ValueError) as error:
            told = ascii(str(error)[:TOLD_MAX])
            raise LoginRefusedError(f"the broker does not prove that it knows the password: {told}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """How a program that finds brokers in ZooKeeper reaches them."""

    security: ClientSecurity | None = None
    """Protocol and user; None for plain text, at the first such listener of a broker."""
    bootstrap: tuple[tuple[str, int], ...] = ()
    """Hosts and ports of brokers that name the addresses of all; without them the registrations do."""

    @property
    def bootstrap_servers(self) -> list[str]:
        """`bootstrap` as texts; IPv6 addresses are in brackets."""
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.bootstrap]


PLAIN_ACCESS: Final = BrokerAccess()
"""Of programs that are told nothing else."""


def _token_provider(path: Path) -> Any:
    """What kafka-python asks for a token."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class FileToken(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return read_token(path)

    return FileToken()


def _text(token: bytes | None) -> str:
    """Raises ValueError for other bytes than UTF-8."""
    return (token or b"").decode()
