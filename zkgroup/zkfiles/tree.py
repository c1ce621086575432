"""The tree of znodes, replayed by the rules of a ZooKeeper server.

Sources: DataTree.java, DataNode.java, DigestCalculator.java and NodeHashMapImpl.java@3.9.4. A snapshot is
taken while writes go on, so it has some changes of the log behind it. So every rule here gives the same
tree if a record is applied that was in the snapshot already. Nothing is refused: records that a server
ignores are ignored here, too.

The aim is the tree that the running server had. A server that is restarted from a fuzzy snapshot can fall
short of that where a znode was deleted and created anew meanwhile, and this does not: a znode that is later
than the record is not changed, one that is created anew keeps the children that the snapshot has of its later
life, and a create of an existing znode counts for the parent whatever its kind (on a server only `create`).
One thing cannot be known: before 3.6 the pzxid of a znode whose ephemeral child went with its session between
the moments at which the snapshot wrote the two.

Memory: about 400 bytes a znode beside its path and data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from zkgroup.model.requests import Znode
from zkgroup.zkfiles import records
from zkgroup.zkfiles.jute import DIGEST_VERSION, OPEN_ACL


class Compared(NamedTuple):
    """The comparison of digests of successive records with the tree's."""

    records: int
    digests: int
    wrong: int
    first_wrong_zxid: int | None


@dataclass(slots=True, eq=False)
class Node:
    """One znode. The numbers up to `owner` go into its digest in this order."""

    data: bytes | None
    acl: records.Acl | None
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int = 0
    cversion: int = 0
    aversion: int = 0
    owner: int = 0
    children: int = 0
    base: int | None = None
    """The CRC of path and data; None where digests are not kept."""
    crc: int = 0
    """The part of the znode in the tree's digest."""

    def stored(self) -> records.StoredStat:
        return records.StoredStat(*_stored_of(self))


_stored_of: Final = attrgetter(
    *("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner", "pzxid")
)


def seen(path: str, node: Node) -> Znode:
    """The znode as a client sees it: only ephemerals have an owner, and all changes of children count."""
    stat = node.stored().shown(node.children, len(node.data or b""))
    if node.owner and records.lifetime_of(node.owner) != "session":
        stat = stat._replace(ephemeral_owner=0)
    return Znode(path or "/", node.data, stat)


_COUNTED: Final = Struct(">qqqqqiiiq")
"""The numbers that go into a znode's digest, behind path and data: pzxid third, unlike in a snapshot."""
_counted_of: Final = attrgetter(
    *("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner")
)
_CHARSETS: Final = ("utf-8", "ascii", "latin-1")
"""The charsets that can be a JVM's default, in which a server encodes paths for digests; before Java 18 the
locale's."""
_NOT_COUNTED_BELOW: Final = "/zookeeper/"
_LARGEST_VERSION: Final = 2**31 - 1
_CLOSE_SESSION: Final = int(records.TransactionType.CLOSE_SESSION)
_CREATE_SESSION: Final = int(records.TransactionType.CREATE_SESSION)
_MULTI: Final = int(records.TransactionType.MULTI)


class Tree:
    """All znodes and sessions after some transaction. `apply` takes the next one.

    Without `digests` the sum over the tree is not kept, which saves more than a third of the time.
    """

    def __init__(self, *, digests: bool = True) -> None:
        """Makes the tree of a server's first start."""
        self.zxid = 0
        """The last zxid applied; before the first one that of the snapshot."""
        self.time_ms: int | None = None
        """The time of the last transaction by the leader's clock; None before the first one."""
        self.sessions: dict[int, int] = {}
        """The timeouts in ms by session."""
        self._digests = digests
        self._sum = 0
        self._charset = _CHARSETS[0]
        self._charset_tries = 2  # a tree that is one transaction ahead differs once
        self._nodes: dict[str, Node] = {}
        self._ephemerals: dict[int, set[str]] = {}
        self._acls: dict[records.Acl, records.Acl] = {}
        self._orphans: dict[str, int] = {}
        """The numbers of children of deleted paths: of a later life, which the snapshot has already."""
        for path in ("", "/zookeeper", "/zookeeper/quota"):
            self._add(path, Node(b"", OPEN_ACL, 0, 0, 0, 0, 0))
        self._nodes[""].children = self._nodes["/zookeeper"].children = 1

    @classmethod
    def from_znodes(
        cls,
        znodes: Iterable[records.StoredZnode],
        *,
        zxid: int = 0,
        sessions: Mapping[int, int] | None = None,
        digests: bool = True,
    ) -> Tree:
        """The tree of a snapshot, from znodes in any order with parents first."""
        tree = cls(digests=digests)
        tree._nodes.clear()
        tree._sum = 0
        for znode in znodes:
            tree._load(znode)
        tree.zxid = zxid
        tree.sessions.update(sessions or {})
        return tree

    @property
    def digest(self) -> int:
        """ZooKeeper's own digest of the whole tree (version 2), unsigned; 0 where digests are not kept."""
        return self._sum

    def agrees(self, transaction: records.Transaction) -> bool | None:
        """Returns whether the digest behind this transaction, which was just applied, equals the tree's.

        None where the record has none, or one of another version.
        """
        return None if transaction.digest is None else self.has(transaction.digest)

    def has(self, digest: records.TreeDigest) -> bool | None:
        """Returns whether a digest equals the tree's; None where versions differ, or none are kept."""
        if digest.version != DIGEST_VERSION or not self._digests:
            return None
        return digest.value == self._sum or self._agrees_in_another_charset(digest.value)

    def __contains__(self, path: str) -> bool:
        return _key(path) in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def znode(self, path: str) -> Znode | None:
        """The znode at a path as a client sees it; None where there is none."""
        node = self._nodes.get(_key(path))
        return None if node is None else seen(path, node)

    def stored(self, path: str) -> records.StoredZnode | None:
        """The znode at a path as in a snapshot, with its ACL; None where there is none."""
        node = self._nodes.get(_key(path))
        return None if node is None else records.StoredZnode(path, node.data, node.acl, node.stored())

    def paths(self, below: str = "/") -> list[str]:
        """The existing paths at and below `below`, sorted."""
        if below == "/":
            return sorted(path or "/" for path in self._nodes)
        prefix = f"{below}/"
        found = [path for path in self._nodes if path.startswith(prefix)]
        return sorted([below, *found] if below in self._nodes else found)

    def children(self, path: str) -> list[str]:
        """The names of the children of a path, sorted. Reads every path of the tree."""
        prefix = f"{_key(path)}/"
        size = len(prefix)
        return sorted(
            each[size:] for each in self._nodes if each.startswith(prefix) and "/" not in each[size:]
        )

    def newest_zxid(self) -> int:
        """The highest zxid in any znode. A change of an ACL leaves none. Reads every znode."""
        return max((max(each.mzxid, each.czxid, each.pzxid) for each in self._nodes.values()), default=0)

    def first_difference(self, other: Tree, *, except_below: str, with_pzxid: bool = True) -> str | None:
        """The first path, in order, at which data, history or ACL differ; None where the trees are equal.

        Paths with the prefix `except_below` are left out, as are ACLs that one tree does not know.
        """
        mine, its = self._nodes, other._nodes
        paths = (path for path in mine.keys() | its.keys() if not path.startswith(except_below))
        different = (
            path or "/"
            for path in paths
            if path not in mine
            or path not in its
            or not _are_equal(mine[path], its[path], with_pzxid=with_pzxid)
        )
        return min(different, default=None)

    def ephemerals(self, session: int) -> frozenset[str]:
        """The paths that will go with this session."""
        return frozenset(self._ephemerals.get(session, ()))

    def apply(self, transaction: records.Transaction) -> None:
        """Applies the next transaction. Those of a fuzzy snapshot's window may be in the tree already."""
        operations = transaction.operations
        kind = transaction.type
        if operations:
            if kind != _MULTI or transaction.is_applied:
                for operation in operations:
                    self.apply_operation(operation, transaction)
        elif kind == _CLOSE_SESSION:
            self._close(transaction)
        elif kind == _CREATE_SESSION:
            self.sessions[transaction.session] = transaction.timeout_ms or 0
        self.arrive(transaction)

    def apply_operation(self, operation: records.Operation, transaction: records.Transaction) -> None:
        """Applies one operation of a transaction."""
        act = _ACTS.get(operation.type)
        if act is not None:
            act(self, operation, transaction)

    @property
    def has_orphans(self) -> bool:
        """True if some deleted path has children, of a later life."""
        return bool(self._orphans)

    def nodes_at(self, paths: Iterable[str]) -> list[Node | None]:
        """The nodes at paths; the root's path is the empty string."""
        return list(map(self._nodes.get, paths))

    def forget(self, path: str) -> None:
        """Removes a node, and changes nothing else."""
        self._disown(path, self._nodes.pop(path).owner)

    def put(self, path: str, node: Node) -> None:
        """Adds a node, and changes nothing else."""
        self._nodes[path] = node
        if node.owner and records.lifetime_of(node.owner) == "session":
            self._ephemerals.setdefault(node.owner, set()).add(path)

    def jump(self, zxid: int, time_ms: int, digest: int) -> None:
        """Notes that all transactions up to this one are applied, which gives the tree this digest."""
        self.zxid, self.time_ms, self._sum = max(zxid, self.zxid), time_ms, digest

    def keeps_charset(self, differences: int) -> bool:
        """Returns whether another charset cannot explain so many digests that differ, of paths in ASCII."""
        if self._charset_tries:
            if not all(path.isascii() for path in self._nodes):
                return False
            self._charset_tries = max(self._charset_tries - differences, 0)
        return True

    def arrive(self, transaction: records.Transaction) -> None:
        """Notes that all of this transaction is applied."""
        if transaction.zxid > self.zxid:
            self.zxid = transaction.zxid
        self.time_ms = transaction.time_ms

    def _create(self, operation: records.Operation, transaction: records.Transaction) -> None:
        path = operation.path or "/"
        nodes = self._nodes
        parent_path = path.rpartition("/")[0]
        parent = nodes.get(parent_path)
        zxid = transaction.zxid
        if parent is None or path == "/" or parent.czxid > zxid:
            return
        count = operation.parent_cversion
        if count is None or count == -1:
            count = next_version(parent.cversion)
        acl = self.same_acl(operation.acl or ())
        there = nodes.get(path)
        if there is not None:
            there.acl = acl
        if count > parent.cversion:
            parent.cversion = count
            parent.pzxid = zxid
            self._count(parent)
        if there is not None:
            return
        parent.children += 1
        owner = records.owner_of(operation, transaction.session)
        time_ms = transaction.time_ms
        node = Node(operation.data, acl, zxid, zxid, zxid, time_ms, time_ms, owner=owner)
        if self._orphans:
            node.children = self._orphans.pop(path, 0)
        self._add(path, node)

    def _delete(self, operation: records.Operation, transaction: records.Transaction) -> None:
        self._remove(operation.path or "/", transaction.zxid)

    def _set(self, operation: records.Operation, transaction: records.Transaction) -> None:
        path = operation.path
        if path == "/" or path is None:
            path = ""
        node = self._nodes.get(path)
        if node is None or node.czxid > transaction.zxid:
            return
        data = operation.data
        node.data = data
        node.mtime = transaction.time_ms
        node.mzxid = transaction.zxid
        node.version = operation.version or 0
        if node.base is not None:
            node.base = crc32(data or b"", crc32(path.encode(self._charset, "replace")))
            self._count(node)

    def _set_acl(self, operation: records.Operation, transaction: records.Transaction) -> None:
        node = self._nodes.get(_key(operation.path or ""))
        if node is not None and node.czxid <= transaction.zxid:
            node.acl = self.same_acl(operation.acl or ())
            node.aversion = operation.version or 0
            self._count(node)

    def _close(self, transaction: records.Transaction) -> None:
        """Deletes the listed paths, then other ephemerals of the session, as 3.6 does."""
        session, zxid = transaction.session, transaction.zxid
        self.sessions.pop(session, None)
        for path in transaction.closed_paths or ():
            self._remove(path, zxid)
        for path in sorted(self._ephemerals.get(session, ())):
            self._remove(path, zxid)

    def _remove(self, path: str, zxid: int) -> None:
        parent = self._nodes.get(path.rpartition("/")[0])
        if parent is None or path == "/" or parent.czxid > zxid:
            return
        node = self._nodes.get(path)
        if node is not None and node.czxid <= zxid:
            del self._nodes[path]
            parent.children -= 1
            self._sum -= node.crc
            if node.children:
                self._orphans[path] = node.children
            self._disown(path, node.owner)
        if zxid > parent.pzxid:
            parent.pzxid = zxid
            self._count(parent)

    def _disown(self, path: str, owner: int) -> None:
        paths = self._ephemerals.get(owner) if owner else None
        if paths is not None:
            paths.discard(path)
            if not paths:
                del self._ephemerals[owner]

    def _agrees_in_another_charset(self, digest: int) -> bool:
        """Returns whether another charset explains a digest; tried at the first differences, kept if so."""
        if not self._charset_tries:
            return False
        self._charset_tries -= 1
        if all(path.isascii() for path in self._nodes):
            return False
        for charset in (*_CHARSETS[1:], _CHARSETS[0]):
            self._charset = charset
            for path, node in self._nodes.items():
                if node.base is not None and not path.isascii():
                    node.base = crc32(node.data or b"", crc32(path.encode(charset, "replace")))
                    self._count(node)
            if self._sum == digest:
                self._charset_tries = 0
                return True
        return False

    def _add(self, path: str, node: Node) -> None:
        self.put(path, node)
        if self._digests and not path.startswith(_NOT_COUNTED_BELOW):
            node.base = crc32(node.data or b"", crc32(path.encode(self._charset, "replace")))
            self._count(node)

    def _load(self, znode: records.StoredZnode) -> None:
        path = _key(znode.path)
        czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = znode.stat
        # Most numbers of a znode that never changed are equal; as one object they take a third of the room.
        if mzxid == czxid:
            mzxid = czxid
        if pzxid == czxid:
            pzxid = czxid
        if mtime == ctime:
            mtime = ctime
        history = czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner
        node = Node(znode.data, self.same_acl(znode.acl), *history)
        if path:
            parent = self._nodes.get(path.rpartition("/")[0])
            if parent is not None:
                parent.children += 1
        self._add(path, node)

    def same_acl(self, acl: records.Acl | None) -> records.Acl | None:
        """The one object for equal ACLs in this tree."""
        return acl if acl is None else self._acls.setdefault(acl, acl)

    def _count(self, node: Node) -> None:
        """Updates the digest after a change of this node; fewer than 2**32 CRCs need no modulus."""
        base = node.base
        if base is None:
            return
        crc = crc32(_COUNTED.pack(*_counted_of(node)), base)
        self._sum += crc - node.crc
        node.crc = crc


_ACTS: Final[Mapping[int, Callable[[Tree, records.Operation, records.Transaction], None]]] = {
    **dict.fromkeys(map(int, records.CREATES), Tree._create),
    **dict.fromkeys(map(int, records.DELETES), Tree._delete),
    **dict.fromkeys(map(int, records.SETS), Tree._set),
    int(records.TransactionType.SET_ACL): Tree._set_acl,
}
"""The effects by type; other types (a check, an error, those of later servers) change nothing."""


def _are_equal(one: Node, other: Node, *, with_pzxid: bool) -> bool:
    """Returns whether data, history and the ACL are equal; an ACL that is not known equals all."""
    return (
        one.data == other.data
        and one.stored()[:-1] == other.stored()[:-1]
        and (one.pzxid == other.pzxid or not with_pzxid)
        and (one.acl == other.acl or None in (one.acl, other.acl))
    )


def next_version(version: int) -> int:
    """The version after one more change: 32 bits with a sign, as Java counts."""
    return version + 1 if version < _LARGEST_VERSION else -_LARGEST_VERSION - 1


def _key(path: str) -> str:
    """The key of a path; that of the root is empty, as on a server."""
    return "" if path == "/" else path
