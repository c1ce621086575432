"""Corrupt znodes of a schedule, and what they affect."""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.history.cluster.replay import ReplayedCluster
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, SetData
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper
from zkgroup.zookeeper.settings import OPEN_ACL


class CorruptZnodes:
    """Corrupt znodes, which stay until an operator repairs them."""

    def __init__(self, server: MemoryZooKeeper) -> None:
        self._server = server
        self.unreadable: dict[str, tuple[bytes, bytes | None]] = {}
        """Path of each corrupted znode to its corrupt and its former data."""
        self.forbidden: set[str] = set()
        """Znodes whose ACL forbids every write."""

    def paths(self) -> list[str]:
        """Paths that are still corrupt: unreadable, or read-only."""
        broken = [
            path
            for path, (data, _) in self.unreadable.items()
            if (found := self._server.find(path)) is not None and found.data == data
        ]
        return [*broken, *(path for path in sorted(self.forbidden) if self._server.find(path) is not None)]

    def repair(self) -> None:
        """Restores the data of znodes that are still unreadable, and the ACLs of read-only ones."""
        for path, (broken, before) in self.unreadable.items():
            found = self._server.find(path)
            if found is not None and found.data == broken:
                if before is None:
                    self._server.write(Delete(path, -1))
                else:
                    self._server.write(SetData(path, before, -1))
        self.unreadable.clear()
        for path in sorted(self.forbidden):
            if self._server.find(path) is not None:
                self._server.set_acl(path, *OPEN_ACL)
        self.forbidden.clear()


class AffectedByCorruption:
    """Topics, brokers and requests that corrupt znodes affect."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        places = [place for path in self._paths if (place := ReplayedCluster().place(path)) is not None]
        self._topics = {place.topic for place in places if place.kind == "topic"}
        self._partitions = {place.topic_partition for place in places if place.kind == "state"}
        self.brokers = {place.number for place in places if place.kind == "broker"}
        self.has_moves = any(place.kind == "moves" for place in places)
        """Whether reassignments cannot begin or end."""

    def __bool__(self) -> bool:
        return bool(self._paths)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp.topic in self._topics or tp in self._partitions

    def concerns(self, what: str) -> bool:
        """Whether unfinished work waits for corrupt znodes: a corrupt topic affects all of its partitions."""
        if not self._paths:
            return False
        topics = {*self._topics, *(tp.topic for tp in self._partitions)}
        going = any(f"topic {name} " in what for name in topics)
        mine = any(str(tp) in what for tp in self._partitions) or any(
            f"{name}-" in what for name in self._topics
        )
        moves = self.has_moves and ("the move to" in what or "still to be deleted" in what)
        return going or mine or moves or "preferred election" in what


NOTHING_AFFECTED = AffectedByCorruption(())
