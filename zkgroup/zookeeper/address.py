"""Where ZooKeeper is: `HOST:PORT[,HOST:PORT...][/CHROOT]`."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from zkgroup.errors import ConfigError

DEFAULT_PORT = 2181


@dataclass(frozen=True, slots=True)
class Address:
    """The servers of one ensemble and the folder of it that is our root."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str
    """Empty, or an absolute path without a slash at its end."""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Reads the usual form; IPv6 addresses stand in brackets.

        Raises `ConfigError` naming the part that is wrong.
        """
        servers, slash, chroot = text.strip().partition("/")
        hosts = tuple(_host(part.strip(), text) for part in servers.split(","))
        return cls(hosts, _chroot("/" + chroot, text) if slash else "")

    @property
    def servers(self) -> str:
        """The servers alone, as kazoo wants them."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)

    def __str__(self) -> str:
        return self.servers + self.chroot


def _host(text: str, whole: str) -> tuple[str, int]:
    try:
        parts = urlsplit("//" + text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"ZooKeeper address {whole!r}: {text!r} is not HOST:PORT ({error})") from error
    if not host or parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(f"ZooKeeper address {whole!r}: expected HOST:PORT, found {text!r}")
    return host, DEFAULT_PORT if port is None else port


def _chroot(text: str, whole: str) -> str:
    path = text.rstrip("/")
    if not path:
        return ""
    if any(part in ("", ".", "..") for part in path.split("/")[1:]) or "\0" in path:
        raise ConfigError(f"ZooKeeper address {whole!r}: expected an absolute path, found {text!r}")
    return path
