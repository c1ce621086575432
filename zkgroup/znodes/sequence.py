"""Names of sequential znodes: a prefix and the ten digits that ZooKeeper appends."""

from __future__ import annotations

from zkgroup.znodes.json_object import INT32, decimal


def sequential(prefix: str, sequence: int) -> str:
    """The name, or path, that ZooKeeper gives the znode of a number (`%010d` of Java)."""
    return f"{prefix}{sequence:010}"


def sequence_of(prefix: str, name: str) -> int | None:
    """The number of a child, or None for a name that is not of this kind."""
    return decimal(name.removeprefix(prefix), INT32) if name.startswith(prefix) else None
