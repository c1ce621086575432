"""What strangers have made unreadable, or forbidden to be set, and what rests on it."""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.history.cluster_picture import ClusterPicture
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, SetData
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.zookeeper.settings import OPEN_ACL


class Garbage:
    """It lasts until an operator mends it."""

    def __init__(self, server: MemoryZooKeeper) -> None:
        self._server = server
        self.unreadable: dict[str, tuple[bytes, bytes | None]] = {}
        """Path of each znode that was made unreadable to what it was made, and what it was."""
        self.forbidden: set[str] = set()
        """Znodes that nobody may set."""

    def paths(self) -> list[str]:
        """Paths that still are as a stranger has made them: unreadable, or not to be set."""
        broken = [
            path
            for path, (data, _) in self.unreadable.items()
            if (found := self._server.find(path)) is not None and found.data == data
        ]
        return [*broken, *(path for path in sorted(self.forbidden) if self._server.find(path) is not None)]

    def mend(self) -> None:
        """An operator makes what was made unreadable what it was, unless somebody has made it something else,
        and lifts every ban."""
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


class Spoilt:
    """What rests on znodes that strangers have spoilt."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        places = [place for path in self._paths if (place := ClusterPicture().place(path)) is not None]
        self._topics = {place.topic for place in places if place.kind == "topic"}
        self._partitions = {place.topic_partition for place in places if place.kind == "state"}
        self.brokers = {place.number for place in places if place.kind == "broker"}
        self.has_moves = any(place.kind == "moves" for place in places)
        """Whether moves cannot begin, or not end."""

    def __bool__(self) -> bool:
        return bool(self._paths)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp.topic in self._topics or tp in self._partitions

    def concerns(self, what: str) -> bool:
        """Whether something that is left undone waits for them: a topic for all of its partitions."""
        if not self._paths:
            return False
        topics = {*self._topics, *(tp.topic for tp in self._partitions)}
        going = any(f"topic {name} " in what for name in topics)
        mine = any(str(tp) in what for tp in self._partitions) or any(
            f"{name}-" in what for name in self._topics
        )
        moves = self.has_moves and ("the move to" in what or "still to be deleted" in what)
        return going or mine or moves or "preferred election" in what


NOTHING = Spoilt(())
