"""How many connections an address may have, and how many it may open a second. Pure.

Source: `ConnectionQuotas` in kafka/network/SocketServer.scala@2.8.2, KIP-612.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from zkgroup.broker.quotas.levels import CONNECTION_RATE, AddressQuotas, plain_address
from zkgroup.broker.quotas.rates import WINDOW_MS, Rate, Recent
from zkgroup.errors import ConfigError
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import MAX_CONNECTIONS_PER_IP, MAX_CONNECTIONS_PER_IP_OVERRIDES

_ADDRESS = re.compile(r"(?P<address>.+):(?P<count>[0-9]{1,10})")


def parse_overrides(text: str) -> dict[str, int]:
    """The addresses and numbers of `max.connections.per.ip.overrides`. Raises ConfigError."""
    found = {}
    for item in filter(None, (each.strip() for each in text.split(","))):
        match = _ADDRESS.fullmatch(item)
        if match is None:
            where = MAX_CONNECTIONS_PER_IP_OVERRIDES
            raise ConfigError(f"setting {where}: expected <address>:<number>,..., found {item!r}")
        found[plain_address(match["address"].strip("[]"))] = int(match["count"])
    return found


class ConnectionQuotas:
    """The connections of each address. Used on one thread."""

    def __init__(
        self,
        broker: int,
        per_ip: int,
        overrides: str = "",
        on_refused: Callable[[str], object] = lambda setting: None,
    ) -> None:
        """`per_ip` and `overrides`: the broker's settings; `on_refused` gets the one that refuses a client.

        Raises ConfigError for overrides that are none.
        """
        self._on_refused = on_refused
        self._rates = AddressQuotas()
        self._opened: Recent[str, Rate] = Recent(Rate)
        self._open: Counter[str] = Counter()
        self._default = per_ip, parse_overrides(overrides)
        self._levels = ConfigEntity.broker(None), ConfigEntity.broker(broker)
        self._dynamic: dict[ConfigEntity, Mapping[str, str]] = {}
        self._per_ip, self._overrides = self._default

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Sets the present configuration of an address, this broker or all brokers. Raises ConfigError."""
        if entity.kind == "ips":
            self._rates.configured(entity, overrides)
        elif entity in self._levels:
            self._dynamic[entity] = overrides
            self._per_ip, self._overrides = self._default
            for level in self._levels:
                self._apply(level, self._dynamic.get(level, {}))

    def _apply(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        if (text := overrides.get(MAX_CONNECTIONS_PER_IP)) is not None:
            if not (text.isascii() and text.isdigit()):
                where = f"{entity.config_path}: {MAX_CONNECTIONS_PER_IP}"
                raise ConfigError(f"{where}: expected a number, found {text!r}")
            self._per_ip = int(text)
        if (text := overrides.get(MAX_CONNECTIONS_PER_IP_OVERRIDES)) is not None:
            self._overrides = parse_overrides(text)

    def throttle_ms(self, address: str, now_ms: int) -> int:
        """Counts a new connection; returns 0 if it is taken, else the milliseconds until it is closed."""
        if not self._rates.is_limited or (found := self._rates.resolve(address)) is None:
            return 0
        opened = self._opened.of(plain_address(address), now_ms)
        opened.record(1, now_ms)
        if wait_ms := min(WINDOW_MS, opened.throttle_ms(found[0], now_ms)):
            opened.record(-1, now_ms)
            self._on_refused(CONNECTION_RATE)
        return wait_ms

    def has_place(self, address: str) -> bool:
        """Returns whether an address may have one more connection."""
        key = plain_address(address)
        if self._open[key] < self._overrides.get(key, self._per_ip):
            return True
        self._on_refused(MAX_CONNECTIONS_PER_IP)
        return False

    def opened(self, address: str) -> None:
        """Counts a connection, until `closed`."""
        self._open[plain_address(address)] += 1

    def closed(self, address: str) -> None:
        """Counts it no more."""
        key = plain_address(address)
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]
