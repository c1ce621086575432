"""Reads and writes of a test in a `MemoryZooKeeper`, without a client."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from zkgroup.model import Znode
from zkgroup.model.requests import AclEntry, Code, MultiDone, MultiRefused, Operation
from zkgroup.testing.memory_zookeeper.leader import QuorumLeader
from zkgroup.testing.memory_zookeeper.tree import OPEN, SetAcl
from zkgroup.znodes.brokers import Topic, broker_ids_path, topics_path
from zkgroup.zookeeper.settings import Acl


class DirectWrites(ABC):
    """Direct reads and writes of a `MemoryZooKeeper`, without a client. Thread-safe in direct mode."""

    leader: QuorumLeader
    _lock: threading.RLock

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]: ...

    def topic(self, name: str, partitions: int, *, replicas: tuple[int, ...] = (0,)) -> None:
        """Creates a topic with its parent znodes, or adds partitions to it.

        `replicas`: broker ids of each partition. A group can consume it without a registered broker.
        """
        path = Topic.path(name)
        with self.locked():
            for parent in (broker_ids_path(), topics_path()):
                if parent not in self.leader.tree.nodes:
                    self.leader.put(parent, None)
            self.leader.put(path, Topic(dict.fromkeys(range(partitions), replicas)).encode())

    def tree(self) -> dict[str, Znode]:
        """Every znode as the leader has it, without /zookeeper."""
        with self._lock:
            return self.leader.znodes()

    def find(self, path: str) -> Znode | None:
        """One znode as the leader has it."""
        with self._lock:
            return self.leader.tree.read(path)

    def write(self, *operations: Operation, session_id: int = 0) -> MultiDone | MultiRefused:
        """Executes a transaction at once, without a client; ephemerals need a session of this server."""
        with self.locked():
            return self.leader.transact(operations, session_id)

    def put(self, path: str, data: bytes | None = None) -> None:
        """Creates a persistent znode with its parents, or sets its data."""
        with self.locked():
            self.leader.put(path, data)

    def remove(self, path: str) -> None:
        """Deletes a znode with everything below it, if it exists."""
        with self.locked():
            self.leader.remove(path)

    def set_acl(self, path: str, *acl: Acl) -> None:
        """Sets the ACL of a znode without a permission check. Raises ValueError where that fails."""
        with self.locked():
            done = self.leader.transact((SetAcl(path, tuple(entry.entry for entry in acl), -1),))
        refused = done if isinstance(done, MultiRefused) else None
        if refused is not None:
            raise ValueError(f"{path}: {refused.code.value}")

    def acl(self, path: str) -> tuple[AclEntry, ...]:
        """The ACL of a znode. Raises ValueError if it does not exist."""
        with self._lock:
            if path not in self.leader.tree.nodes:
                raise ValueError(f"{path}: {Code.NO_NODE.value}")
            return self.leader.tree.acls.get(path, OPEN)
