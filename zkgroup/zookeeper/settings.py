"""Settings of a ZooKeeper client: addresses, timeouts with their unit in the name, TLS, credentials, ACLs."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from zkgroup.errors import ConfigError
from zkgroup.model.requests import AclEntry
from zkgroup.security.secret import Secret as Secret
from zkgroup.security.secret import refuse_writable


@dataclass(frozen=True, slots=True)
class Digest:
    """ZooKeeper's scheme `digest`. The password is sent in plain text: use TLS with it."""

    username: str
    """The user name, without `:`."""
    password: Secret
    """The password."""
    file: Path | None = None
    """The file that they are read from, again at each connection; None for none."""

    def __post_init__(self) -> None:
        if not self.username or ":" in self.username:
            raise ConfigError(f"digest user name: expected a name without ':' in it, found {self.username!r}")

    @property
    def credential(self) -> str:
        """`user:password` as it is sent. Never log it."""
        return f"{self.username}:{self.password.reveal()}"

    @classmethod
    def from_file(cls, path: str | Path) -> Digest:
        """The credentials in a file with `user:password` in its first line. Raises `ConfigError`."""
        user, colon, password = Secret.from_file(path).reveal().partition(":")
        if not colon:
            raise ConfigError(f"digest file {path}: expected user:password in the first line")
        return cls(user, Secret(password), Path(path))


_KERBEROS = ("kerberos", "winkerberos")
"""The packages that pure-sasl accepts for GSSAPI; without one kazoo's thread would fail each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """SASL by kazoo and pure-sasl (extra `sasl`)."""

    mechanism: str = "DIGEST-MD5"
    """`DIGEST-MD5` with user name and password, or `GSSAPI` with the process's Kerberos ticket, which is
    for `service` and the host as in the address."""
    username: str | None = None
    """The user name; required for `DIGEST-MD5`."""
    password: Secret | None = None
    """The password; required for `DIGEST-MD5`."""
    service: str = "zookeeper"
    """The service name of the servers' Kerberos principal."""
    principal: str | None = None
    """The client's Kerberos principal; by default that of the ticket."""
    file: Path | None = None
    """The file that they are read from, again at each connection; None for none."""

    def __post_init__(self) -> None:
        if self.mechanism not in ("DIGEST-MD5", "GSSAPI"):
            raise ConfigError(f"sasl mechanism: expected DIGEST-MD5 or GSSAPI, found {self.mechanism!r}")
        if self.mechanism == "DIGEST-MD5" and not (self.username and self.password):
            raise ConfigError("sasl mechanism DIGEST-MD5 needs a username and a password")
        if importlib.util.find_spec("puresasl") is None:
            raise ConfigError("SASL needs the package pure-sasl: pip install 'zkgroup[sasl]'")
        if self.mechanism == "GSSAPI" and not any(map(importlib.util.find_spec, _KERBEROS)):
            raise ConfigError("sasl mechanism GSSAPI needs the package kerberos: pip install kerberos")

    @classmethod
    def from_file(cls, path: str | Path) -> Sasl:
        """The options of a TOML file, of these names. Raises `ConfigError`."""
        known = ("mechanism", "username", "password", "service", "principal")
        refuse_writable(path)
        try:
            options = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not a TOML file: {type(error).__name__}") from None
        for key, value in options.items():
            if key not in known or not isinstance(value, str):
                raise ConfigError(f"{path}: key {key!r}: expected a text under one of {', '.join(known)}")
        password = options.pop("password", None)
        return cls(**options, password=Secret(password) if password else None, file=Path(path))

    def options(self) -> dict[str, str]:
        """The options that kazoo passes to pure-sasl, with the password in plain text: never log them."""
        options = {"mechanism": self.mechanism, "service": self.service}
        if self.username:
            options["username"] = self.username
        if self.password:
            options["password"] = self.password.reveal()
        if self.principal:
            options["principal"] = self.principal
        return options


def present(auth: Digest | Sasl) -> Digest | Sasl:
    """The credentials as their file has them now. Raises `ConfigError` where it cannot be used."""
    return auth if auth.file is None else type(auth).from_file(auth.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS 1.2 or newer; the server's certificate and its host name are checked."""

    ca_file: str | None = None
    """Certificate authorities to trust; those of the system when absent."""
    cert_file: str | None = None
    """The client's certificate, for servers that require one (mutual TLS)."""
    key_file: str | None = None
    """The private key of `cert_file`; both or none."""
    key_password: Secret | None = None
    """The password of an encrypted private key."""
    check_host_name: bool = True
    """Set to False only if certificates name no host and the network is trusted."""

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ConfigError("tls: cert_file and key_file belong together")


@dataclass(frozen=True, slots=True)
class Acl:
    """One entry of the ACL of created znodes (ZooKeeper Programmer's Guide, "ACL")."""

    permissions: str
    """Letters of `cdrwa` (create, delete, read, write, admin)."""
    scheme: str
    """ZooKeeper's scheme: `world`, `auth`, `digest`, `sasl`, `ip` or `x509`."""
    identity: str
    """The id within the scheme, as `anyone` for `world`; empty for `auth`."""

    def __post_init__(self) -> None:
        if not self.permissions or set(self.permissions) - set(_PERMISSIONS):
            raise ConfigError(f"acl permissions: expected letters of 'cdrwa', found {self.permissions!r}")

    @property
    def mask(self) -> int:
        """The permissions as the bit set of `ZooDefs.Perms`."""
        return sum(_PERMISSIONS[letter] for letter in set(self.permissions))

    @property
    def entry(self) -> AclEntry:
        """The same with its permissions as bits."""
        return AclEntry(self.mask, self.scheme, self.identity)


_PERMISSIONS = {"r": 1, "w": 2, "c": 4, "d": 8, "a": 16}

ANYONE = ("world", "anyone")
"""Scheme and identity of everyone."""
OPEN_ACL = (Acl("cdrwa", *ANYONE),)
"""The ACL of Kafka 0.8's znodes. Members of Kafka and of zkgroup can then use each other's."""
CREATOR_ALL_ACL = (Acl("cdrwa", "auth", ""),)
"""All permissions for the authenticated creator only (`ZooDefs.Ids.CREATOR_ALL_ACL`)."""
CREATOR_ACL = (*CREATOR_ALL_ACL, Acl("r", *ANYONE))
"""The ACL of secured Kafka (`zookeeper.set.acl`): the creator may do all, everyone may read what has no
secrets."""


NO_CREDENTIALS = (
    "rights of the creator need one that servers know, found no credentials: give auth, or tls with a "
    "certificate (--zk-digest-file, --zk-sasl-file or --zk-tls-cert)"
)


def _setting(default: Any, doc: str, *, kafka: str | None = None, why: str = "") -> Any:
    return field(default=default, metadata={"doc": doc, "kafka": kafka, "why": why})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings of one ZooKeeper client."""

    session_timeout_ms: int = _setting(
        6000,
        "Requested session timeout of ZooKeeper. The server may grant another, which then applies.",
        kafka="zookeeper.session.timeout.ms",
    )
    connection_timeout_ms: int | None = _setting(
        None,
        "Longest wait for the first connection; the session timeout when absent.",
        kafka="zookeeper.connection.timeout.ms",
    )
    request_timeout_ms: int | None = _setting(
        None,
        "A connection that leaves a request unanswered for this long is dropped; the granted session "
        "timeout when absent.",
        why="After that time the session is gone anyway.",
    )
    silence_timeout_ms: int | None = _setting(
        None,
        "A connection on which nothing at all arrives for this long, while requests wait, is dropped; a "
        "third of the granted session timeout when absent.",
        why="kazoo gives up an idle connection after the same time, but never one under load.",
    )
    auth: Digest | Sasl | None = field(
        default=None, metadata={"doc": "Credentials of the client.", "kafka": None, "why": ""}
    )
    tls: Tls | None = field(
        default=None, metadata={"doc": "Encrypt, and verify the server.", "kafka": None, "why": ""}
    )
    acl: tuple[Acl, ...] = _setting(
        OPEN_ACL,
        "Access list of the znodes that are created: `OPEN_ACL`, `CREATOR_ACL` or entries of your own. "
        "`/consumers` is open in any case, and where secrets are everyone's entries are left out.",
        why="Kafka 0.8 members must be able to write znodes that zkgroup created.",
    )
    max_request_bytes: int = _setting(
        1_000_000,
        "The client refuses a larger request: the server would close the connection.",
        why="jute.maxbuffer is 1,048,575 by default; the server adds a header when it passes a request on.",
    )
    max_in_flight: int = _setting(
        1000,
        "Most packets that wait for their replies at once; a bulk read is one for each `bulk_paths` znodes.",
        kafka="zookeeper.max.in.flight.requests",
        why="Kafka's 10 is for one znode a packet; a server takes 1,000 before it makes its clients wait.",
    )
    bulk_paths: int = _setting(1000, "Most paths in one packet of a bulk read.")
    bulk_reply_bytes: int = _setting(
        1_000_000, "Target size of the replies to a bulk read, estimated from earlier replies."
    )

    def __post_init__(self) -> None:
        for name in (
            "session_timeout_ms",
            "connection_timeout_ms",
            "request_timeout_ms",
            "silence_timeout_ms",
            "max_request_bytes",
            "max_in_flight",
            "bulk_paths",
            "bulk_reply_bytes",
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ConfigError(f"setting {name}: expected a whole number above 0, found {value!r}")
        if not self.acl:
            raise ConfigError("setting acl: expected at least one entry, found none")
        if any(entry.scheme == "auth" for entry in self.acl) and not self.is_authenticated:
            raise ConfigError(f"setting acl: {NO_CREDENTIALS}")

    @property
    def is_authenticated(self) -> bool:
        """Whether servers know who this client is: by `auth`, or by a certificate."""
        return self.auth is not None or (self.tls is not None and self.tls.cert_file is not None)


DEFAULT_PORT = 2181


@dataclass(frozen=True, slots=True)
class Address:
    """The servers of one ensemble and the chroot: `HOST:PORT[,HOST:PORT...][/CHROOT]`."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str
    """Empty, or an absolute path without a slash at its end."""

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address in a text of the usual form; IPv6 addresses are in brackets.

        Raises `ConfigError` that names the invalid part.
        """
        what = f"ZooKeeper address {text!r}"
        try:
            servers, slash, chroot = text.strip().partition("/")
        except AttributeError:  # a client, say, which programs give without its name
            raise ConfigError(f"{what}: expected a text HOST:PORT; a client is given as `client=`") from None
        refuse_schemes(text, what)
        hosts = parse_hosts(servers, DEFAULT_PORT, what)
        return cls(hosts, _chroot("/" + chroot, text, what) if slash else "")

    @property
    def servers(self) -> str:
        """The servers without the chroot, as kazoo takes them."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)

    def __str__(self) -> str:
        return self.servers + self.chroot


def check_connection(
    who: str, address: str | None, client: object | None, connection: ClientSettings | None
) -> None:
    """Raises `ConfigError` unless `who` is given an address, or a client that has its own settings."""
    if (address is None) == (client is None):
        raise ConfigError(f"{who} needs exactly one of an address and a client")
    if client is not None and connection is not None:
        raise ConfigError("connection: expected none with `client`, which has its own settings")
    if address is not None:
        Address.parse(address)


def _chroot(text: str, whole: str, what: str) -> str:
    if "," in text:
        servers, _, chroots = zip(*(part.strip().partition("/") for part in whole.split(",")), strict=True)
        same = {chroot.rstrip("/") for chroot in chroots}
        meant = f"; write {','.join(servers) + '/' + min(same)!r}" if len(same) == 1 else ""
        raise ConfigError(f"{what}: expected one chroot, behind the last server, found {text!r}{meant}")
    path = text.rstrip("/")
    if not path:
        return ""
    if any(part in ("", ".", "..") for part in path.split("/")[1:]) or "\0" in path:
        raise ConfigError(f"{what}: expected an absolute path, found {text!r}")
    return path


def parse_hosts(text: str, default_port: int, what: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each server; IPv6 addresses are in brackets. `what` begins the message of an error.

    Raises ConfigError that names the invalid part.
    """
    refuse_schemes(text, what)
    return tuple(_host(part.strip(), default_port, what) for part in text.split(","))


_SCHEME = re.compile(r"(^|,)\s*([a-z][a-z0-9_+.-]*://)", re.IGNORECASE)


def refuse_schemes(text: str, what: str) -> None:
    """Raises ConfigError for a text with `zookeeper://` or the like before a server."""
    if found := _SCHEME.search(text):
        bare = _SCHEME.sub(r"\1", text.strip())
        raise ConfigError(f"{what}: expected no scheme, found {found[2]!r}; write {bare!r}")


def _host(text: str, default_port: int, what: str) -> tuple[str, int]:
    try:
        parts = urlsplit("//" + text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{what}: {text!r} is not HOST:PORT ({error})") from error
    if not host or parts.username is not None or parts.path or parts.query or parts.fragment:
        raise ConfigError(f"{what}: expected HOST:PORT, found {text!r}")
    return host, default_port if port is None else port
