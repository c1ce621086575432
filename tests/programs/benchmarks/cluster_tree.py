"""Writes the znodes of a cluster of many partitions: brokers, topics and states, as a controller finds them.

The brokers are registered by a session that lasts, with ports on which no process listens: a controller loads
everything, elects the leaders that it must, and queues requests that are never delivered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kazoo.client import KazooClient

from tests.worlds.other_clients import kazoo_on

FIRST_BROKER = 101
BATCH = 500
_CLOSED_PORT = 9


@dataclass(frozen=True)
class ClusterTree:
    """The size of the cluster, and its znodes."""

    topics: int
    partitions: int
    """Of each topic."""
    brokers: int = 3
    replication: int = 3

    @property
    def size(self) -> int:
        """The number of partitions."""
        return self.topics * self.partitions

    def replicas(self, topic: int, partition: int) -> list[int]:
        """The replicas of a partition, assigned round robin; so are the leaders."""
        first = topic + partition
        return [FIRST_BROKER + (first + each) % self.brokers for each in range(self.replication)]

    @property
    def hosted_by_the_first(self) -> int:
        """The number of replicas on the first broker."""
        everything = [
            self.replicas(topic, each) for topic in range(self.topics) for each in range(self.partitions)
        ]
        return sum(FIRST_BROKER in replicas for replicas in everything)

    def broker(self, number: int) -> tuple[str, bytes]:
        """Path and data of the registration of the broker with this number, from 0."""
        registration = {"jmx_port": -1, "timestamp": "1400000000000", "host": "127.0.0.1", "version": 1}
        registration["port"] = _CLOSED_PORT + number
        return f"/brokers/ids/{FIRST_BROKER + number}", _json(registration)

    def paths(self) -> Iterator[str]:
        """The paths that a controller must read: every topic and every state."""
        for topic in range(self.topics):
            yield f"/brokers/topics/t{topic}"
            for partition in range(self.partitions):
                yield f"/brokers/topics/t{topic}/partitions/{partition}/state"

    def znodes(self) -> Iterator[tuple[str, bytes]]:
        """Path and data of all znodes, parents before children."""
        yield from ((path, b"") for path in ("/brokers", "/brokers/ids", "/brokers/topics"))
        yield from (self.broker(number) for number in range(self.brokers))
        for topic in range(self.topics):
            path = f"/brokers/topics/t{topic}"
            assignment = {str(each): self.replicas(topic, each) for each in range(self.partitions)}
            yield path, _json({"version": 1, "partitions": assignment})
            yield f"{path}/partitions", b""
            for partition, replicas in assignment.items():
                state = {"controller_epoch": 1, "leader": replicas[0], "version": 1, "leader_epoch": 0}
                yield f"{path}/partitions/{partition}", b""
                yield f"{path}/partitions/{partition}/state", _json({**state, "isr": replicas})

    @contextmanager
    def laid_out(self, address: str) -> Iterator[None]:
        """Writes the znodes on a fresh server; the brokers are registered until the end of the block."""
        with kazoo_on(address) as client:
            batch: list[tuple[str, bytes]] = []
            for znode in self.znodes():
                batch.append(znode)
                if len(batch) == BATCH:
                    _create(client, batch)
                    batch = []
            _create(client, batch)
            yield


def _create(client: KazooClient, batch: list[tuple[str, bytes]]) -> None:
    transaction = client.transaction()
    for path, data in batch:
        transaction.create(path, data, ephemeral=path.startswith("/brokers/ids/"))
    failed = [result for result in transaction.commit() if isinstance(result, Exception)]
    assert not failed, failed[0]


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
