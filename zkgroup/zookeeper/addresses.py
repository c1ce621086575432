"""Addresses of servers as users write them: `HOST:PORT[,HOST:PORT...]`."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from zkgroup.errors import ConfigError


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
