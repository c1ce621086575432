"""The exporter's page on an ensemble in memory, read by hand and served at a free port."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from zkgroup_cli.commands.live import LIVE, live

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.processes import violations
from zkgroup.exporter.exporter import HTML, JSON, ExporterSettings, page_for_people
from zkgroup.exporter.history import ReadingHistory
from zkgroup.exporter.reading import EnsembleReading, Reader, ReadingSettings
from zkgroup.groups.lag_verdict import LagWindows
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.runtime.http_server import HttpServer, Page
from zkgroup.znodes.admin_requests import Move
from zkgroup.znodes.consumers import Owner
from zkgroup.zookeeper.settings import Address

Document = dict[str, Any]
HOUR_MS = 3_600_000
RARELY_MS = 24 * HOUR_MS
"""The page polls when a test says so."""
DRAWN = "document.documentElement.dataset.live"
WAIT = f"(async () => {{ while (!{DRAWN}) await new Promise(requestAnimationFrame); }})()"
"""Waits in a browser until the first document is drawn."""


class LivePages:
    """Groups, brokers and log ends, which a test changes, and what an exporter shows of them."""

    def __init__(self) -> None:
        self.world = MemoryGroups()
        self.cluster = MemoryCluster(self.world)
        self.ends: dict[TopicPartition, int] = {}
        self.reader = Reader(self.world.ensemble, ReadingSettings(), LagWindows(), log_ends=self._known_ends)
        self.history = ReadingHistory()
        self.reading: EnsembleReading | None = None
        self.shape: Callable[[Document], Document] = lambda document: document

    def _known_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in partitions if tp in self.ends}

    def read(self, passes_ms: int = 60_000) -> EnsembleReading:
        """Reads as the exporter does, after this time has passed."""
        self.world.clock.advance(passes_ms)
        self.reading = self.reader.read()
        self.history.add(self.reading)
        return self.reading

    def lose(self, reason: str) -> None:
        """A read fails, as where ZooKeeper is away."""
        self.world.clock.advance(60_000)
        self.reading = EnsembleReading(time_ms=self.world.clock.wall_ms(), took_s=10.0, unknown=(reason,))
        self.history.add(self.reading)

    def document(self, group: str | None = None) -> Document:
        """What `/api/snapshot` has, which keeps to its schema."""
        assert self.reading is not None
        found = live(self.reading, self.history, group)
        assert not violations(found, LIVE.schema)
        return self.shape(found)

    def group(self, name: str, topic: str, partitions: int, members: Iterable[str], lag: int = 0) -> None:
        """A group whose members own a topic that three brokers hold, and have committed."""
        replicas = [(n % 3 + 1, (n + 1) % 3 + 1) for n in range(partitions)]
        self.cluster.topic(topic, *replicas)
        for member in members:
            self.world.member(name, member, {topic: 1})
        self.world.own_as_planned(name)
        for number in range(partitions):
            self.world.commit(name, topic, number, 1000)
            self.ends[TopicPartition(topic, number)] = 1000 + lag

    def release(self, group: str) -> None:
        """Removes all owners of a group."""
        assert self.reading is not None
        for tp in list(self.reading.groups[group].snapshot.owners):
            if self.world.server.find(Owner.path(group, tp)) is not None:
                self.world.write(Delete(Owner.path(group, tp), -1))

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serves page and data; gives the address of the page."""
        shown = ReadingSettings(servers=Address.parse("zk1:2181,zk2:2181/kafka"))
        html = page_for_people(ExporterSettings(interval_ms=RARELY_MS, reading=shown))
        pages = {"/": lambda query: Page(HTML, html)}
        server = HttpServer(("127.0.0.1", 0), pages | {"/api/snapshot": self._snapshot})
        server.start()
        try:
            yield "http://{}:{}/".format(*server.address)
        finally:
            server.close()

    def _snapshot(self, query: Mapping[str, str]) -> Page:
        group = query.get("group")
        if self.reading is None or (group is not None and group not in self.reading.groups):
            return Page(JSON, b"{}", HTTPStatus.NOT_FOUND)
        return Page(JSON, json.dumps(self.document(group)).encode())

    def close(self) -> None:
        for client in list(self.world.server.clients.values()):
            client.close()


def an_hour_with_everything() -> LivePages:
    """Stable groups, one that nobody consumes any more, one that fell behind, a lost replica, and a move."""
    pages = LivePages()
    pages.group("billing", "orders", 12, ("host-1", "host-2", "host-3"))
    pages.group("shipping", "parcels", 6, ("host-4", "host-5"))
    pages.group("search-index", "documents", 24, ("host-6", "host-7", "host-8", "host-9"))
    pages.group("mails", "letters", 4, ("host-10",))
    for minute in range(60):
        for tp in pages.ends:
            pages.ends[tp] += 40 + 7 * (minute % 5) + tp.partition
            behind = {"orders": (minute % 12) * 9, "parcels": minute * 40, "documents": 30}.get(tp.topic)
            name = {
                "orders": "billing",
                "parcels": "shipping",
                "documents": "search-index",
                "letters": "mails",
            }
            if behind is not None or minute < 40:
                pages.world.commit(name[tp.topic], *tp, max(0, pages.ends[tp] - (behind or 0)))
        if minute == 50:
            pages.world.leave("billing", "host-3")
            pages.release("billing")
            pages.world.own_as_planned("billing")
            pages.cluster.state("documents", 3, 1, (1,))
        if minute == 57:
            pages.cluster.request(
                Move(TopicPartition("parcels", 0), (2, 3)), Move(TopicPartition("parcels", 1), (3, 1))
            )
        pages.read()
    return pages
