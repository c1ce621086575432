"""The file descriptors of a broker's process: its limit, and how connections and files share it."""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final, NamedTuple

RESERVE: Final = 128
"""Descriptors for all else: the ZooKeeper client, fetches, the controller's channels, the files of libraries,
and connections of the controller and of followers."""


class DescriptorShares(NamedTuple):
    """The shares of the descriptors of a process."""

    limit: int | None
    """Most that the process may have; None without a limit."""
    connections: int
    """Most connections of clients."""
    files: int
    """Most files of logs that stay open."""
    reserve: int

    def __str__(self) -> str:
        if self.limit is None:
            return f"at most {self.connections} connections of clients; descriptors have no limit"
        return (
            f"at most {self.connections} connections of clients: {self.files} of {self.limit} descriptors "
            f"are kept for files of logs, and {self.reserve} for all else (ulimit -n)"
        )


def shared(limit: int | None, connections_max: int, files_max: int) -> DescriptorShares:
    """Keeps descriptors back for files before connections get the rest, at most `connections_max`.

    Of a small limit files get two fifths, and all else an eighth.
    """
    if limit is None:
        return DescriptorShares(None, connections_max, files_max, RESERVE)
    files, reserve = min(files_max, limit * 2 // 5), min(RESERVE, limit // 8)
    return DescriptorShares(limit, max(1, min(connections_max, limit - files - reserve)), files, reserve)


def descriptor_limit() -> int | None:
    """The soft limit of this process; None without one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raises the soft limit of this process to its hard one, as the JVM does, where the system lets it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # no hard limit, and the system allows fewer
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
