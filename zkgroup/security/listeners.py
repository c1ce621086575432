"""The listeners of a broker: where it listens, what it advertises, and the protocol of each.

Source: `listeners`, `advertised.listeners`, `listener.security.protocol.map`, `inter.broker.listener.name`
and `security.inter.broker.protocol` in kafka/server/KafkaConfig.scala@2.8.2. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.model.values import PLAINTEXT, PROTOCOLS

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
INTER_BROKER_NAME: Final = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
NAMES: Final = (LISTENERS, ADVERTISED, PROTOCOL_MAP, INTER_BROKER_NAME, INTER_BROKER_PROTOCOL)
"""The settings of listeners."""

_ADDRESS: Final = re.compile(r"(?P<name>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]{1,9})")
_NAME: Final = re.compile(r"[A-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Listener:
    """An address that a broker listens on."""

    name: str
    """In capital letters."""
    host: str
    """Empty for every interface."""
    port: int
    """0: the system chooses one."""
    protocol: str
    """One of `PROTOCOLS`."""
    advertised_host: str | None
    """None where it is not advertised: clients that come by it are told of no broker."""
    advertised_port: int | None
    """0: the port that it listens on."""

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    def bound(self, host: str, port: int) -> Listener:
        """The same, as it listens: with a port that the system has chosen."""
        advertised = None if self.advertised_host is None else self.advertised_port or port
        return replace(self, host=host, port=port, advertised_port=advertised)


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The listeners of a broker, and the one by which brokers reach each other."""

    listeners: tuple[Listener, ...]
    inter_broker: str = PLAINTEXT
    """The name of that one."""

    @property
    def inter_broker_protocol(self) -> str:
        return next(each.protocol for each in self.listeners if each.name == self.inter_broker)


def plaintext(
    host: str, port: int, advertised_host: str | None = None, advertised_port: int | None = None
) -> ListenerSettings:
    """One plain listener. Raises ConfigError for a host that cannot be listened on or advertised."""
    if not is_wildcard(host) and not is_one_host(host):
        raise ConfigError(f"host: expected a name or an address alone (no scheme, no port), found {host!r}")
    if advertised_host is None and is_wildcard(host):
        raise ConfigError(
            f"host {host!r} stands for every address of this machine, and clients cannot connect to it: set "
            "advertised.host.name to the name under which they reach the broker "
            "(--set advertised.host.name=NAME)"
        )
    one = Listener(PLAINTEXT, host, port, PLAINTEXT, advertised_host or host, advertised_port or 0)
    return ListenerSettings((one,))


def parse_listeners(properties: Mapping[str, str]) -> ListenerSettings:
    """The listeners of a broker's properties. Raises ConfigError with the setting, by Kafka's rules."""
    protocols = _protocols(properties)
    listens = _addresses(LISTENERS, properties.get(LISTENERS, ""))
    if not listens:
        raise ConfigError(f"setting {LISTENERS}: expected NAME://HOST:PORT[,...], found none")
    ports = [port for _, port in listens.values() if port]
    if len(set(ports)) < len(ports):
        raise ConfigError(f"setting {LISTENERS}: expected another port for each listener, found {ports}")
    advertised = _addresses(ADVERTISED, properties.get(ADVERTISED, "")) or listens
    if unknown := advertised.keys() - listens.keys():
        raise ConfigError(
            f"setting {ADVERTISED}: expected listeners of {LISTENERS} ({', '.join(listens)}),"
            f" found {', '.join(sorted(unknown))}"
        )
    found = []
    for name, (host, port) in listens.items():
        if name not in protocols:
            raise ConfigError(
                f"setting {PROTOCOL_MAP}: expected a protocol for listener {name} of {LISTENERS},"
                f" found those of {', '.join(protocols)}"
            )
        found.append(Listener(name, host, port, protocols[name], *advertised.get(name, (None, None))))
    return ListenerSettings(tuple(map(_checked, found)), _inter_broker(properties, found))


def _checked(listener: Listener) -> Listener:
    """Raises ConfigError for a host that cannot be listened on or advertised."""
    where = f"listener {listener.name}"
    if not is_wildcard(listener.host) and not is_one_host(listener.host):
        raise ConfigError(f"{where}: expected a name or an address to listen on, found {listener.host!r}")
    advertised = listener.advertised_host
    if advertised is not None and not is_one_host(advertised):
        raise ConfigError(
            f"{where}: {advertised!r} stands for every address of this machine, and clients cannot connect "
            f"to it: set {ADVERTISED} to the name under which they reach the broker "
            f"({listener.name}://NAME:PORT)"
        )
    return listener


def _protocols(properties: Mapping[str, str]) -> dict[str, str]:
    text = properties.get(PROTOCOL_MAP, "").strip()
    if not text:
        return {protocol: protocol for protocol in PROTOCOLS}
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, protocol = (each.strip().upper() for each in part.rpartition(":"))
        if not _NAME.fullmatch(name) or protocol not in PROTOCOLS:
            raise ConfigError(
                f"setting {PROTOCOL_MAP}: expected NAME:PROTOCOL[,...] with one of {', '.join(PROTOCOLS)},"
                f" found {part.strip()!r}"
            )
        if name in found:
            raise ConfigError(f"setting {PROTOCOL_MAP}: expected each listener once, found {name} twice")
        found[name] = protocol
    return found


def _addresses(setting: str, text: str) -> dict[str, tuple[str, int]]:
    """Name to host and port, in the order of the text."""
    found: dict[str, tuple[str, int]] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        match = _ADDRESS.fullmatch(part)
        if match is None or not 0 <= int(match["port"]) <= 65_535:
            raise ConfigError(f"setting {setting}: expected NAME://HOST:PORT[,...], found {part!r}")
        name = match["name"].upper()
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"setting {setting}: expected a name of letters, digits, '.', '_' and '-', found {name!r}"
            )
        if name in found:
            raise ConfigError(
                f"setting {setting}: expected another name for each listener, found {name} twice"
            )
        found[name] = match["host"], int(match["port"])
    return found


def _inter_broker(properties: Mapping[str, str], listeners: list[Listener]) -> str:
    name = properties.get(INTER_BROKER_NAME, "").strip().upper()
    protocol = properties.get(INTER_BROKER_PROTOCOL, "").strip()
    if name and protocol:
        raise ConfigError(f"setting {INTER_BROKER_NAME}: expected it or {INTER_BROKER_PROTOCOL}, found both")
    if protocol and protocol not in PROTOCOLS:
        raise ConfigError(
            f"setting {INTER_BROKER_PROTOCOL}: expected one of {', '.join(PROTOCOLS)}, found {protocol!r}"
        )
    name = name or protocol or PLAINTEXT
    advertised = [each.name for each in listeners if each.advertised_host is not None]
    if name not in advertised:
        raise ConfigError(
            f"setting {INTER_BROKER_NAME}: expected an advertised listener ({', '.join(advertised)}),"
            f" found {name}"
        )
    return name


def is_one_host(host: str) -> bool:
    """Returns whether it names one machine: a name, an IPv4 address or an IPv6 address without brackets."""
    try:
        ip_address(host)
    except ValueError:
        try:
            found = host.encode("idna").decode()  # as it is looked up: digits of other scripts are digits
        except UnicodeError:
            return False
        return re.search(r"[/:,\s\[\]\0]", found) is None and not is_wildcard(found)
    return not is_wildcard(host)


def is_wildcard(host: str) -> bool:
    """Returns whether a host is every address of a machine, also as `0`, `::0` or `::ffff:0.0.0.0`."""
    if host in ("", "*") or _ZEROS.fullmatch(host):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_unspecified


_ZEROS: Final = re.compile(r"(0x)?0+(\.(0x)?0+){0,3}", re.IGNORECASE)
"""The IPv4 wildcard as the system's resolver takes it: one to four parts, also in octal and hexadecimal."""
