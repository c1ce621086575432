"""Clients that authenticate and set ACLs, in memory and on real servers, for the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, InvalidACLError, NoAuthError, NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from tests.worlds.other_clients import kazoo_on
from zkgroup.model.ports import Store
from zkgroup.model.requests import Code
from zkgroup.testing import MemoryZooKeeper
from zkgroup.testing.conformance import AclTarget
from zkgroup.testing.conformance.acls import OWNER
from zkgroup.zookeeper import Acl, ClientSettings, Digest, ZooKeeperClient

_CODES = {
    BadVersionError: Code.BAD_VERSION,
    InvalidACLError: Code.INVALID_ACL,
    NoAuthError: Code.NO_AUTH,
    NoNodeError: Code.NO_NODE,
}


@contextmanager
def memory_target() -> Iterator[AclTarget]:
    """Clients of `MemoryZooKeeper`."""
    server = MemoryZooKeeper()

    def open_as(session_timeout_ms: int, auth: Digest | None, acl: tuple[Acl, ...]) -> Store:
        return server.client(session_timeout_ms=session_timeout_ms, auth=auth, acl=acl)

    def set_acl(path: str, acl: tuple[Acl, ...], version: int, auth: Digest | None) -> Code | None:
        client = server.client(auth=auth)
        refused = client.set_acl(path, *acl, version=version)
        client.close()
        return refused if isinstance(refused, Code) else None

    with AclTarget(open_as, set_acl) as target:
        yield target


@contextmanager
def real_target(address: str) -> Iterator[AclTarget]:
    """Clients of ZooKeeper servers; kazoo's client sets ACLs. Created znodes are deleted at the end."""
    with ExitStack() as clients:
        by_auth: dict[Digest | None, KazooClient] = {}

        def client(auth: Digest | None) -> KazooClient:
            if auth not in by_auth:
                by_auth[auth] = clients.enter_context(kazoo_on(address, auth))
            return by_auth[auth]

        def open_as(session_timeout_ms: int, auth: Digest | None, acl: tuple[Acl, ...]) -> Store:
            settings = ClientSettings(session_timeout_ms=session_timeout_ms, auth=auth, acl=acl)
            return ZooKeeperClient(address, settings)

        def set_acl(path: str, acl: tuple[Acl, ...], version: int, auth: Digest | None) -> Code | None:
            try:
                client(auth).set_acls(path, [ACL(e.mask, Id(e.scheme, e.identity)) for e in acl], version)
            except tuple(_CODES) as error:
                return _CODES[type(error)]
            return None

        with AclTarget(open_as, set_acl) as target:
            yield target
        _clean(client(OWNER))


def _clean(owner: KazooClient, path: str = "/") -> None:
    """Deletes a tree as the owner, who may administrate every parent in the checks."""
    for name in owner.get_children(path):
        child = f"{path.rstrip('/')}/{name}"
        try:
            owner.set_acls(child, OPEN_ACL_UNSAFE)
        except NoAuthError:
            pass
        else:
            _clean(owner, child)
        owner.delete(child)
