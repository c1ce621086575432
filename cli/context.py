"""The ensemble that a command talks to, by option, environment or profile, and the connection to it."""

from __future__ import annotations

import os
import socket
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zkgroup.errors import ConfigError, StoreUnavailableError, ZkGroupError

from .app import ACLS, Shared, quiet_connecting, shared
from .param_types import nearest
from .render import echo_err

if TYPE_CHECKING:
    from zkgroup.groups.ensemble import Ensemble
    from zkgroup.security.client import BrokerAccess
    from zkgroup.zookeeper import ClientSettings

ENVIRONMENT = "ZKGROUP_ZOOKEEPER"

SESSION_TIMEOUT_MS = 10_000
"""Session timeout of one-shot commands: they live shorter than that."""

CONNECT_TIMEOUT_MS = 10_000
"""Default of `--connect-timeout`."""

ECHO_WAITING_AFTER_S = 1.0
"""After so long without a connection a command prints which servers it waits for."""

_CLOSE_S = 5.0
"""Longest wait for the end of the session."""
_INTERRUPTED_CLOSE_S = 0.5
"""The same where a signal ends the command, or no server answers: the servers end the session later."""

_ECHOED = "zkgroup.echoed"
"""Key of `Context.meta` for messages that were printed already."""

_KEPT = "zkgroup.kept_connection"
"""Key of `Context.meta` for the connection that a command keeps between its readings."""

_FILES = ("digest_file", "tls_ca", "tls_cert", "tls_key", "sasl_file")
_PROFILE_KEYS = ("zookeeper", *_FILES, "acl")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTarget:
    """The address of the cluster and its credentials. Secrets stay in the files that are named here."""

    zookeeper: str
    digest_file: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    sasl_file: Path | None = None
    acl: str | None = None
    """`open` or `creator`: who may change what is created (`zkgroup.zookeeper.acls`); None, where it is not
    said, for `open`."""
    timeout_s: float = 10.0


def config_path() -> Path:
    """The file with the profiles: `$XDG_CONFIG_HOME/zkgroup/config.toml`."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "zkgroup" / "config.toml"


def target(options: Shared, environment: Mapping[str, str] | None = None) -> ConnectionTarget:
    """The target by option, then environment, then profile. Raises UsageError where there is none.

    Raises ConfigError for one that cannot be. An invalid file with profiles is an error only where a
    profile is named, or needed for the address.
    Otherwise a warning is printed, and a command that has the address by other means works.
    """
    environment = os.environ if environment is None else environment
    given = options.zookeeper or environment.get(ENVIRONMENT)
    try:
        profile = _profile(options.profile)
    except click.UsageError as error:
        if options.profile or not given:
            raise
        _echo_once(f"warning: {error.message}; the address is given, so no profile is used")
        profile = {}
    address = given or profile.get("zookeeper")
    if options.profile and not options.zookeeper and given:
        _echo_once(f"note: {ENVIRONMENT} overrides the address of profile {options.profile!r}")
    if not address:
        raise click.UsageError(
            f"no ZooKeeper given: use -z HOST:PORT, set {ENVIRONMENT}, or write a profile into "
            f"{config_path()}; to try things out, run `zkgroup zookeeper start` in another terminal"
        )
    _check_address(
        address, "" if options.zookeeper else f"{ENVIRONMENT}: " if given else f"{config_path()}: "
    )
    files = {key: _file(key, getattr(options, f"zk_{key}"), profile) for key in _FILES}
    return ConnectionTarget(
        zookeeper=address,
        **files,
        acl=options.zk_acl or profile.get("acl"),
        timeout_s=_connect_timeout_ms(options) / 1000,
    )


def _check_address(address: str, named_by: str) -> None:
    from zkgroup.zookeeper.settings import Address

    try:
        Address.parse(address)
    except ConfigError as error:
        raise ConfigError(f"{named_by}{error}") from error


def _connect_timeout_ms(options: Shared) -> int:
    return CONNECT_TIMEOUT_MS if options.connect_timeout is None else options.connect_timeout


def add_connect_timeout(values: dict[str, Any], options: Shared, setting_option: str) -> None:
    """Makes `--connect-timeout` the setting of a process that waits by its settings, unless they name one.

    `setting_option` is the option by which settings are given. Raises ConfigError where both name one.
    """
    if "connection_timeout_ms" not in values:
        values["connection_timeout_ms"] = _connect_timeout_ms(options)
    elif options.connect_timeout is not None:
        raise ConfigError(
            f"setting connection_timeout_ms is given twice: by --connect-timeout and by {setting_option}"
        )


def _echo_once(text: str) -> None:
    """A command asks for its target more than once."""
    ctx = click.get_current_context(silent=True)
    echoed: set[str] = ctx.meta.setdefault(_ECHOED, set()) if ctx else set()
    if text not in echoed:
        echoed.add(text)
        echo_err(text)


def _profile(name: str | None) -> Mapping[str, str]:
    """One profile; without a name that called `default`, if there is one."""
    path = config_path()
    if not path.exists():
        if name is None:
            return {}
        raise click.UsageError(f"no profile {name!r}: there is no {path}")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: not TOML: {error}") from error
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be read: {error.strerror}") from error
    profiles = tables.pop("profiles", {})
    if tables or not isinstance(profiles, dict):
        found = ", ".join(tables) or repr(profiles)
        raise click.UsageError(f"{path}: expected tables [profiles.NAME], found {found}")
    if name is None:
        return _checked(path, "default", profiles["default"]) if "default" in profiles else {}
    if name not in profiles:
        guess = nearest(name, list(profiles))
        known = f"did you mean {guess!r}?" if guess else f"it has {', '.join(sorted(profiles)) or 'none'}"
        raise click.UsageError(f"{path} has no profile {name!r}: {known}")
    return _checked(path, name, profiles[name])


def _checked(path: Path, name: str, profile: Any) -> Mapping[str, str]:
    if not isinstance(profile, dict):
        raise click.UsageError(f"{path}: expected a table [profiles.{name}], found {profile!r}")
    for key, value in profile.items():
        if key not in _PROFILE_KEYS or not isinstance(value, str):
            raise click.UsageError(
                f"{path}: profile {name!r}, key {key!r}: expected a string under one of "
                + ", ".join(_PROFILE_KEYS)
            )
        if key == "acl" and value not in ACLS:
            raise click.UsageError(
                f"{path}: profile {name!r}, key 'acl': expected {' or '.join(ACLS)}, found {value!r}"
            )
    return profile


def _file(key: str, given: str | None, profile: Mapping[str, str]) -> Path | None:
    """Returns the option's file, else the profile's. Raises UsageError that names the one that is wrong."""
    text = given or profile.get(key)
    if text is None:
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        named_by = f"--zk-{key.replace('_', '-')}" if given else f"{config_path()}: {key} of the profile"
        raise click.UsageError(f"{named_by}: there is no file {path}")
    return path


def client_settings(where: ConnectionTarget, **overrides: Any) -> ClientSettings:
    """Settings of a client for this target: authentication and encryption. Raises ConfigError."""
    from zkgroup.zookeeper.settings import CREATOR_ACL, OPEN_ACL, ClientSettings, Digest, Sasl, Tls

    if where.digest_file and where.sasl_file:
        raise click.UsageError("--zk-digest-file and --zk-sasl-file exclude each other")
    auth: Digest | Sasl | None = None
    if where.digest_file:
        auth = Digest.from_file(where.digest_file)
    elif where.sasl_file:
        auth = Sasl.from_file(where.sasl_file)
    tls = None
    if where.tls_ca or where.tls_cert or where.tls_key:
        files = (where.tls_ca, where.tls_cert, where.tls_key)
        ca, cert, key = (str(file) if file else None for file in files)
        tls = Tls(ca_file=ca, cert_file=cert, key_file=key)
    acl = CREATOR_ACL if where.acl == "creator" else OPEN_ACL
    return ClientSettings(auth=auth, tls=tls, acl=acl, **overrides)


def broker_access() -> BrokerAccess:
    """How the running command reaches brokers: `--command-config` and `--bootstrap-server`.

    Raises ConfigError that names the file, or the address that cannot be.
    """
    from zkgroup.security.client import PLAIN_ACCESS, BrokerAccess, ClientSecurity

    options = shared()
    if options.command_config is None and options.bootstrap_server is None:
        return PLAIN_ACCESS
    security, named_by, addresses = None, "--bootstrap-server", options.bootstrap_server
    if options.command_config is not None:
        from zkgroup.security.properties import read_properties

        path = Path(options.command_config)
        properties = read_properties(path)
        try:
            security = ClientSecurity.of(properties)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
        if addresses is None:
            named_by, addresses = f"{path}: bootstrap.servers", properties.get("bootstrap.servers")
    return BrokerAccess(security=security, bootstrap=_hosts(addresses, named_by) if addresses else ())


def _hosts(addresses: str, named_by: str) -> tuple[tuple[str, int], ...]:
    from zkgroup.clients.kafka_python import DEFAULT_PORT
    from zkgroup.zookeeper.settings import parse_hosts

    return parse_hosts(addresses, DEFAULT_PORT, named_by)


@contextmanager
def connecting(*, says_waiting: bool = True) -> Iterator[Callable[[], None]]:
    """Surrounds the first connection of a command, quietly; what it yields is called once there is one.

    After a second it prints which servers it waits for, if `says_waiting`. Raises
    StoreUnavailableError at once where no name of the address can be resolved.
    """
    found = target(shared())
    where = found.zookeeper
    waiting = threading.Timer(ECHO_WAITING_AFTER_S, lambda: echo_err(f"waiting for {where}"))
    waiting.daemon = True
    with quiet_connecting() as show_warnings:
        if says_waiting and found.timeout_s > ECHO_WAITING_AFTER_S:  # else the error is printed as soon
            waiting.start()

        def reached() -> None:
            waiting.cancel()
            show_warnings()

        try:
            _check_names(where)
            yield reached
        finally:
            waiting.cancel()
            if waiting.ident is not None:
                waiting.join()


def _check_names(where: str) -> None:
    from zkgroup.zookeeper.settings import Address

    unknown = []
    for host, port in Address.parse(where).hosts:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            unknown.append(f"{host}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    raise StoreUnavailableError(
        f"no connection to ZooKeeper: expected a server at {where}, found no name that can be resolved "
        f"({'; '.join(unknown)}); check the address"
    )


def _warn_of_open_znode(ensemble: Ensemble, path: str) -> None:
    """Says that the command created an open znode where znodes are closed. Only `doctor` would, else."""
    from zkgroup.admin.access import closed_parent

    with suppress(ZkGroupError):  # the command itself has succeeded
        parent = closed_parent(ensemble, path)
        if parent is not None:
            echo_err(
                f"warning: {parent} is closed, but everyone may change {path}, which this command created: "
                'give commands --zk-acl creator (acl = "creator" in a profile); `zkgroup zookeeper secure` '
                "closes what is open"
            )


@contextmanager
def keeping_connection() -> Iterator[None]:
    """While the block runs, `connected` gives the same connection each time, and ends none that works."""
    with _KeptConnection() as kept:
        click.get_current_context().meta[_KEPT] = kept
        try:
            yield
        finally:
            del click.get_current_context().meta[_KEPT]


class _KeptConnection(ExitStack):
    """A connection that `connected` opens when it is first needed, or needed again."""

    ensemble: Ensemble | None = None
    has_dropped = False

    def drop(self, error: StoreUnavailableError) -> None:
        """Ends the connection after this error; the next one is new."""
        self.ensemble, self.has_dropped = None, True
        with suppress(StoreUnavailableError), self.pop_all():
            raise error


@contextmanager
def connected(*, above_chroot: bool = False, says_waiting: bool = True) -> Iterator[Ensemble]:
    """The ensemble of the running command, connected; the session ends with the block.

    In `keeping_connection` it ends with that block, or after a StoreUnavailableError. `above_chroot` leaves
    the chroot of the address out: paths are those of the servers. `says_waiting` as in `connecting`.
    Raises StoreUnavailableError where nothing answers in time.
    """
    ctx = click.get_current_context(silent=True)
    kept: _KeptConnection | None = ctx.meta.get(_KEPT) if ctx else None
    opening = _connected(above_chroot, says_waiting and not (kept and kept.has_dropped))
    if kept is None:
        with opening as ensemble:
            yield ensemble
        return
    if kept.ensemble is None:
        kept.ensemble = kept.enter_context(opening)
    try:
        yield kept.ensemble
    except StoreUnavailableError as error:
        kept.drop(error)
        raise


@contextmanager
def _connected(above_chroot: bool, says_waiting: bool) -> Iterator[Ensemble]:
    from zkgroup.groups.ensemble import Ensemble
    from zkgroup.zookeeper import ZooKeeperClient
    from zkgroup.zookeeper.blocking import Blocking
    from zkgroup.zookeeper.client import SystemClock
    from zkgroup.zookeeper.settings import Address

    where, access = target(shared()), broker_access()
    address = Address.parse(where.zookeeper).servers if above_chroot else where.zookeeper
    timeout_ms = int(where.timeout_s * 1000)
    client = ZooKeeperClient(
        address,
        client_settings(where, session_timeout_ms=SESSION_TIMEOUT_MS, connection_timeout_ms=timeout_ms),
    )
    close_s = _CLOSE_S
    with connecting(says_waiting=says_waiting) as connected:
        try:
            client.wait_connected(where.timeout_s)
            connected()
            blocking = Blocking(client, timeout_s=where.timeout_s)
            ensemble = Ensemble(zk=blocking, clock=SystemClock(), access=access)
            yield ensemble
            if where.acl is None and client.opened is not None:
                _warn_of_open_znode(ensemble, client.opened)
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, StoreUnavailableError):
                close_s = _INTERRUPTED_CLOSE_S
            raise
        finally:
            client.close(close_s)
