"""The tree of znodes, its transactions as in ZooKeeper, and the checks of ACLs. Pure, single-threaded.

Source: PrepRequestProcessor and ZooKeeperServer.checkACL of ZooKeeper 3.9.5.

Schemes of ACLs: `world`, `auth`, `digest` and `ip`. The open ACL (world:anyone, all permissions) is None
here, so that checking it costs nothing.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import AclEntry, Check, Code, Create, Delete, MultiRefused, Operation, SetData
from zkgroup.znodes.access import HIDDEN_PATHS, models_of, secret_acl
from zkgroup.zookeeper.acls import acl_at
from zkgroup.zookeeper.settings import OPEN_ACL, Acl, Digest

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
"""Bits of `AclEntry.perms` (ZooDefs.Perms)."""

Entries = tuple[AclEntry, ...]
Identity = tuple[str, str]
"""Scheme and id."""

OPEN: Final[Entries] = (AclEntry(31, "world", "anyone"),)
READ_ONLY: Final[Entries] = (AclEntry(READ, "world", "anyone"),)

_SUPER: Final = ("super", "")
_ANYONE: Final = ("world", "anyone")
_BITS = re.compile(r"\d{1,3}")


def _is_valid(scheme: str, identity: str) -> bool:
    if scheme == "world":
        return identity == "anyone"
    if scheme == "digest":
        return identity.rstrip(":").count(":") == 1  # as Java's split counts
    return scheme == "ip" and _network(identity) is not None


def _network(identity: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The network of an address and its number of significant bits, all when it has none."""
    _, slash, bits = identity.partition("/")
    if slash and not _BITS.fullmatch(bits):
        return None
    try:
        return ipaddress.ip_network(identity, strict=False)
    except ValueError:
        return None


def _matches(address: str, identity: str) -> bool:
    network = _network(identity)
    return network is not None and ipaddress.ip_address(address) in network


class InvalidAclError(Exception):
    """The server returns InvalidACL."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Identities of a connection, and the setting `acl` of its client."""

    identities: tuple[Identity, ...]
    """ServerCnxn.authInfo: the address, and one identity for each successful authentication."""
    acl: tuple[Acl, ...] = OPEN_ACL

    def created_at(self, path: str) -> Entries | None:
        """The ACL of a new znode, None where it is open. Raises `InvalidAclError`."""
        return None if self.acl is OPEN_ACL else self.entries(entry.entry for entry in acl_at(path, self.acl))

    def entries(self, acl: Iterable[AclEntry]) -> Entries | None:
        """The ACL as the server stores it, None where it is open. Raises `InvalidAclError`.

        `auth` becomes the authenticated identities, without the address.
        """
        entries: dict[AclEntry, None] = {}
        for each in acl:
            if each.scheme == "auth":
                authenticated = [one for one in self.identities if one[0] == "digest"]
                if not authenticated:
                    raise InvalidAclError
                entries.update((AclEntry(each.perms, *one), None) for one in authenticated)
            elif _is_valid(each.scheme, each.id):
                entries[each] = None
            else:
                raise InvalidAclError
        if not entries:
            raise InvalidAclError
        return None if tuple(entries) == OPEN else tuple(entries)

    def may(self, perms: int, acl: Entries | None) -> bool:
        """Returns whether an entry of this ACL that matches these identities has one of these permissions."""
        if acl is None or self.identities[0] == _SUPER:
            return True
        return any(entry.perms & perms and self._is_meant(entry) for entry in acl)

    def _is_meant(self, entry: AclEntry) -> bool:
        if (entry.scheme, entry.id) == _ANYONE:
            return True
        if entry.scheme == "ip":
            return any(scheme == "ip" and _matches(address, entry.id) for scheme, address in self.identities)
        return (entry.scheme, entry.id) in self.identities


SUPERUSER: Final = Credentials((_SUPER,))
"""The credentials of the test itself, which bypass every ACL."""


def credentials(auth: Digest | None, acl: tuple[Acl, ...], address: str = "127.0.0.1") -> Credentials:
    """The credentials of a client at this address, with this authentication, if any."""
    identities: tuple[Identity, ...] = (("ip", address),)
    if auth is not None:
        identities += (("digest", digest_id(auth)),)
    return Credentials(identities, acl)


def digest_id(auth: Digest) -> str:
    """`user:base64(sha1(user:password))` (DigestAuthenticationProvider.generateDigest)."""
    digest = hashlib.sha1(auth.credential.encode(), usedforsecurity=False).digest()
    return f"{auth.username}:{base64.b64encode(digest).decode()}"


def masked(acl: Entries) -> Entries:
    """The ACL that getACL returns without ADMIN permission: digests of passwords are masked."""
    return tuple(
        entry._replace(id=re.sub(":.*", ":x", entry.id)) if entry.scheme == "digest" else entry
        for entry in acl
    )


@dataclass(frozen=True, slots=True)
class SetAcl:
    """The operation setACL, which no transaction has."""

    path: str
    acl: tuple[AclEntry, ...]
    version: int
    """Expected ACL version (`aversion`), -1 for any."""


AnyOperation = Operation | SetAcl


@dataclass(frozen=True, slots=True)
class CreatedNode:
    path: str
    data: bytes | None
    owner: int
    """Session id of an ephemeral, else 0."""
    acl: Entries | None = None
    """None where it is open."""


@dataclass(frozen=True, slots=True)
class DataSet:
    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Deleted:
    path: str


@dataclass(frozen=True, slots=True)
class Checked:
    path: str


@dataclass(frozen=True, slots=True)
class AclSet:
    path: str
    acl: Entries | None


Change = CreatedNode | DataSet | Deleted | Checked | AclSet


def parent_of(path: str) -> str:
    """Path of the parent; that of `/` is itself."""
    return path.rpartition("/")[0] or "/"


class DataNode:
    """One znode on a server (DataNode@3.9.5)."""

    __slots__ = (
        "aversion",
        "children",
        "creates",
        "ctime",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, owner: int, zxid: int, time_ms: int) -> None:
        self.data = data
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.aversion = 0
        self.creates = 0
        """Number of children ever created: the number of a sequential child, and half of `cversion`."""
        self.children: dict[str, None] = {}

    def stat(self) -> ZnodeStat:
        children = len(self.children)
        return ZnodeStat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            2 * self.creates - children,  # creates plus deletes (DataNode.copyStat)
            self.aversion,
            self.owner,
            len(self.data) if self.data is not None else 0,
            children,
            self.pzxid,
        )

    def copy(self) -> DataNode:
        twin = DataNode.__new__(DataNode)
        for name in DataNode.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.children = dict(self.children)
        return twin


class DataTree:
    """All znodes of one server (DataTree@3.9.5)."""

    def __init__(self) -> None:
        root, system = DataNode(b"", 0, 0, 0), DataNode(b"", 0, 0, 0)
        root.children = {"zookeeper": None}
        system.children = {"config": None, "quota": None}
        self.nodes: dict[str, DataNode] = {
            "/": root,
            "/zookeeper": system,
            "/zookeeper/config": DataNode(b"", 0, 0, 0),
            "/zookeeper/quota": DataNode(b"", 0, 0, 0),
        }
        self.nodes["/zookeeper/config"].aversion = -1  # DataTree.addConfigNode
        self.acls: dict[str, Entries] = {"/zookeeper/config": READ_ONLY}
        """ACLs of the znodes that are not open."""
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.zxid = 0

    def copy(self) -> DataTree:
        twin = DataTree()
        twin.nodes = {path: node.copy() for path, node in self.nodes.items()}
        twin.acls = dict(self.acls)
        twin.ephemerals = {session: dict(paths) for session, paths in self.ephemerals.items()}
        twin.zxid = self.zxid
        return twin

    def read(self, path: str) -> Znode | None:
        node = self.nodes.get(path)
        return Znode(path, node.data, node.stat()) if node is not None else None

    def stat(self, path: str) -> ZnodeStat | None:
        node = self.nodes.get(path)
        return node.stat() if node is not None else None

    def children(self, path: str) -> tuple[str, ...] | None:
        node = self.nodes.get(path)
        return tuple(node.children) if node is not None else None

    def apply(self, change: Change, zxid: int, time_ms: int) -> None:
        """Applies one prepared change."""
        if isinstance(change, CreatedNode):
            self._create(change, zxid, time_ms)
        elif isinstance(change, DataSet):
            node = self.nodes[change.path]
            node.data, node.mzxid, node.mtime = change.data, zxid, time_ms
            node.version += 1
        elif isinstance(change, Deleted):
            self._delete(change.path, zxid)
        elif isinstance(change, AclSet):
            self.nodes[change.path].aversion += 1
            self._protect(change.path, change.acl)

    def applied(self, change: Change, zxid: int, time_ms: int) -> ZnodeStat | None:
        """Applies one prepared change; returns the znode's new Stat, None when it is deleted."""
        self.apply(change, zxid, time_ms)
        return self.stat(change.path)

    def _protect(self, path: str, acl: Entries | None) -> None:
        if acl is not None:
            self.acls[path] = acl
        else:
            self.acls.pop(path, None)

    def _create(self, change: CreatedNode, zxid: int, time_ms: int) -> None:
        head, _, name = change.path.rpartition("/")
        parent = self.nodes[head or "/"]
        parent.children[name] = None
        parent.creates += 1
        parent.pzxid = zxid
        self.nodes[change.path] = DataNode(change.data, change.owner, zxid, time_ms)
        if change.owner:
            self.ephemerals.setdefault(change.owner, {})[change.path] = None
        if change.acl is not None:
            self.acls[change.path] = change.acl

    def _delete(self, path: str, zxid: int) -> None:
        node = self.nodes.pop(path)
        self.acls.pop(path, None)
        head, _, name = path.rpartition("/")
        parent = self.nodes[head or "/"]
        del parent.children[name]
        parent.pzxid = zxid
        if node.owner:
            del self.ephemerals[node.owner][path]


class _Outlook:
    """A znode as it will be after the operations prepared so far (ChangeRecord@3.9.5)."""

    __slots__ = ("acl", "aversion", "children", "creates", "owner", "version")

    def __init__(
        self,
        owner: int,
        version: int = 0,
        creates: int = 0,
        children: int = 0,
        aversion: int = 0,
        acl: Entries | None = None,
    ) -> None:
        self.owner = owner
        self.version = version
        self.creates = creates
        self.children = children
        self.aversion = aversion
        self.acl = acl


class _RefusedError(Exception):
    def __init__(self, code: Code) -> None:
        self.code = code


class _Preparation:
    """Checks the operations of one transaction in order, each on the result of those before it."""

    def __init__(self, tree: DataTree, session_id: int, asker: Credentials) -> None:
        self._nodes = tree.nodes
        self._acls = tree.acls
        self._session_id = session_id
        self._asker = asker
        self._outlooks: dict[str, _Outlook | None] = {}
        self.acls: dict[str, Entries] = {}
        """The ACLs that decide about the watches of the transaction."""

    def prepare(self, operation: AnyOperation) -> Change:
        if isinstance(operation, Check):
            self._at_version(operation.path, READ, operation.version)
            return Checked(operation.path)
        if isinstance(operation, SetData):
            self._at_version(operation.path, WRITE, operation.version).version += 1
            return DataSet(operation.path, operation.data)
        if isinstance(operation, Create):
            return self._create(operation)
        if isinstance(operation, Delete):
            return self._delete(operation)
        return self._set_acl(operation)

    def _find(self, path: str) -> _Outlook | None:
        try:
            return self._outlooks[path]
        except KeyError:
            node = self._nodes.get(path)
            outlook = None
            if node is not None:
                acl = self._acls.get(path)
                children = len(node.children)
                outlook = _Outlook(node.owner, node.version, node.creates, children, node.aversion, acl)
                if acl is not None:
                    self.acls[path] = acl
            self._outlooks[path] = outlook
            return outlook

    def _allowed(self, path: str, permission: int) -> _Outlook:
        """The znode, which must exist and grant this permission."""
        if not path.startswith("/"):
            raise _RefusedError(Code.BAD_ARGUMENTS)
        outlook = self._find(path)
        if outlook is None:
            raise _RefusedError(Code.NO_NODE)
        if outlook.acl is not None and not self._asker.may(permission, outlook.acl):
            raise _RefusedError(Code.NO_AUTH)
        return outlook

    def _at_version(self, path: str, permission: int, version: int) -> _Outlook:
        outlook = self._allowed(path, permission)
        if version not in (-1, outlook.version):
            raise _RefusedError(Code.BAD_VERSION)
        return outlook

    def _create(self, operation: Create) -> CreatedNode:
        path = operation.path
        if not path.startswith("/") or (path.endswith("/") and not operation.sequential):
            raise _RefusedError(Code.BAD_ARGUMENTS)
        acl = self._acl_of_new(path)
        parent = self._allowed(parent_of(path), CREATE)
        if operation.sequential:
            path = f"{path}{parent.creates:010d}"
        if self._find(path) is not None:
            raise _RefusedError(Code.NODE_EXISTS)
        if parent.owner:
            raise _RefusedError(Code.NO_CHILDREN_FOR_EPHEMERALS)
        owner = self._session_id if operation.ephemeral else 0
        self._outlooks[path] = _Outlook(owner, acl=acl)
        if acl is not None:
            self.acls.setdefault(path, acl)
        parent.creates += 1
        parent.children += 1
        return CreatedNode(path, operation.data, owner, acl)

    def _acl_of_new(self, path: str) -> Entries | None:
        """A client with credentials creates with the ACL of the group (`zkgroup.zookeeper.acls`)."""
        is_secret = path.startswith(HIDDEN_PATHS)
        if len(self._asker.identities) > 1 and not (is_secret and self._asker.acl is not OPEN_ACL):
            for model in models_of(path):
                outlook = self._find(model)
                if outlook is not None:
                    return secret_acl(outlook.acl or OPEN) if is_secret else outlook.acl
        try:
            return self._asker.created_at(path)
        except InvalidAclError:
            raise _RefusedError(Code.INVALID_ACL) from None

    def _delete(self, operation: Delete) -> Deleted:
        if operation.path == "/":
            raise _RefusedError(Code.BAD_ARGUMENTS)
        parent = self._allowed(parent_of(operation.path), DELETE)
        outlook = self._find(operation.path)
        if outlook is None:
            raise _RefusedError(Code.NO_NODE)
        if operation.version not in (-1, outlook.version):
            raise _RefusedError(Code.BAD_VERSION)
        if outlook.children:
            raise _RefusedError(Code.NOT_EMPTY)
        parent.children -= 1
        self._outlooks[operation.path] = None
        return Deleted(operation.path)

    def _set_acl(self, operation: SetAcl) -> AclSet:
        try:
            acl = self._asker.entries(operation.acl)
        except InvalidAclError:
            raise _RefusedError(Code.INVALID_ACL) from None
        outlook = self._allowed(operation.path, ADMIN)
        if operation.version not in (-1, outlook.aversion):
            raise _RefusedError(Code.BAD_VERSION)
        outlook.aversion += 1
        outlook.acl = acl
        return AclSet(operation.path, acl)


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that passed all checks."""

    changes: tuple[Change, ...]
    acls: Mapping[str, Entries] | None
    """Of the znodes changed and of their parents, where not open: as before the first change."""


def prepare(
    tree: DataTree, operations: Sequence[AnyOperation], session_id: int, asker: Credentials
) -> PreparedTransaction | MultiRefused:
    """The changes of this transaction, or its first refused operation. Changes nothing itself."""
    preparation = _Preparation(tree, session_id, asker)
    changes = []
    for index, operation in enumerate(operations):
        try:
            changes.append(preparation.prepare(operation))
        except _RefusedError as error:
            return MultiRefused(index, error.code)
    return PreparedTransaction(tuple(changes), preparation.acls or None)
