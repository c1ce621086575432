"""Writes the broker and topic znodes that members need: the smallest tree for 0.8.2.2.

The broker names a port on which no process listens: JVM members register, rebalance and claim, find no
leader and fetch nothing. Members do not read state znodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.worlds.kazoo_clients import kazoo_on


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _znodes(topics: int, partitions: int) -> Iterator[tuple[str, bytes]]:
    """Path and data of every znode, parents before children; `partitions` of each topic."""
    yield from ((path, b"") for path in ("/consumers", "/brokers", "/brokers/ids", "/brokers/topics"))
    broker = {"jmx_port": -1, "timestamp": "1400000000000", "host": "127.0.0.1", "version": 1, "port": 9}
    yield "/brokers/ids/1", _json(broker)
    for topic in range(topics):
        assignment = {str(p): [1] for p in range(partitions)}
        yield f"/brokers/topics/t{topic}", _json({"version": 1, "partitions": assignment})


def lay_out(address: str, topics: int, partitions: int) -> list[str]:
    """Writes the tree on a fresh server; the names of the topics."""
    with kazoo_on(address) as client:
        for path, data in _znodes(topics, partitions):
            client.create(path, data)
    return [f"t{topic}" for topic in range(topics)]
