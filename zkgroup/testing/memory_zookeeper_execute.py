"""What each kind of request does on a server: one function each, chosen by type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zkgroup.model.requests import (
    Code,
    Create,
    CreateMissing,
    CreateMissingDone,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    ListMany,
    ListManyDone,
    Multi,
    MultiRefused,
    Outcome,
    Read,
    ReadAcls,
    ReadAclsDone,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    Sync,
    SyncDone,
)
from zkgroup.model.stat import ZnodeAcl
from zkgroup.testing.memory_zookeeper_acls import ADMIN, OPEN, READ, masked
from zkgroup.testing.memory_zookeeper_client import InFlight, MemoryClient

if TYPE_CHECKING:
    from zkgroup.testing.memory_zookeeper import MemoryZooKeeper

OnWatch = Callable[[str], None] | None


def execute(server: MemoryZooKeeper, client: MemoryClient, flight: InFlight) -> Outcome:
    """Executes a request on the server of this client and gives its outcome."""
    request = flight.request
    if isinstance(request, Multi):
        session_id = flight.session.session_id
        outcome = server.leader.transact(request.operations, session_id, client.name, client.credentials)
        server.catch_up(client.name)
        return outcome
    if isinstance(request, CreateMissing):
        return _create_missing(server, client, request, flight.session.session_id)
    if isinstance(request, Sync):
        server.catch_up(client.name)
        return SyncDone()
    if isinstance(request, ReadMany | ListMany):
        found = (*flight.found, *_look(client, request, request.paths[len(flight.found) :]))
        return ReadManyDone(found) if isinstance(request, ReadMany) else ListManyDone(found)
    if isinstance(request, ReadAcls):
        return ReadAclsDone(tuple([_acl(client, path) for path in request.paths]))
    if not client.may_read(request.path):  # type: ignore[union-attr]
        return Refused(Code.NO_AUTH, request.path)  # type: ignore[union-attr]
    return _READS[type(request)](client, request, flight.on_watch)


def read_part(client: MemoryClient, paths_at_once: int) -> bool:
    """Reads on in the client's oldest request, if that is a bulk read with more left than that many paths.

    False where it is to be executed to its end.
    """
    flight = client.requests[0]
    request = flight.request
    if not isinstance(request, ReadMany | ListMany):
        return False
    left = request.paths[len(flight.found) :]
    if len(left) <= paths_at_once:
        return False
    found = (*flight.found, *_look(client, request, left[:paths_at_once]))
    client.requests[0] = flight._replace(found=found)
    return True


def _look(client: MemoryClient, request: ReadMany | ListMany, paths: tuple[str, ...]) -> list[Any]:
    look = client.tree.read if isinstance(request, ReadMany) else client.tree.children
    if client.tree.acls.keys().isdisjoint(paths):
        return [look(path) for path in paths]
    return [look(path) if client.may_read(path) else Code.NO_AUTH for path in paths]


def _create_missing(
    server: MemoryZooKeeper, client: MemoryClient, request: CreateMissing, session_id: int
) -> Outcome:
    """As pipelined creates: each stands alone; those after a refused one are still tried.

    A real client looks first, so no ACL is against what its server shows.
    """
    refusal: Outcome | None = None
    for path in request.paths:
        outcome = server.leader.transact((Create(path, None),), session_id, client.name, client.credentials)
        if isinstance(outcome, MultiRefused) and outcome.code is not Code.NODE_EXISTS:
            if outcome.code in (Code.NO_AUTH, Code.INVALID_ACL) and path in client.tree.nodes:
                continue
            refusal = refusal or Refused(outcome.code, path)
    server.catch_up(client.name)
    return refusal or CreateMissingDone()


def _read(client: MemoryClient, request: Read, on_watch: OnWatch) -> Outcome:
    _arm(client.data_watches, request, on_watch)
    return ReadDone(client.tree.read(request.path))


def _acl(client: MemoryClient, path: str) -> ZnodeAcl | Code | None:
    """For who may read or administrate; who may not administrate sees no digest."""
    stat, acl = client.tree.stat(path), client.tree.acls.get(path)
    if stat is None:
        return None
    if acl is None:
        return ZnodeAcl(OPEN, stat)
    if not client.credentials.may(READ | ADMIN, acl):
        return Code.NO_AUTH
    return ZnodeAcl(acl if client.credentials.may(ADMIN, acl) else masked(acl), stat)


def _exists(client: MemoryClient, request: Exists, on_watch: OnWatch) -> Outcome:
    _arm(client.data_watches, request, on_watch)
    return ExistsDone(client.tree.stat(request.path))


def _list_children(client: MemoryClient, request: ListChildren, on_watch: OnWatch) -> Outcome:
    children = client.tree.children(request.path)
    _arm(client.child_watches if children is not None else client.data_watches, request, on_watch)
    return ListChildrenDone(children or (), client.tree.stat(request.path))


def _arm(
    table: dict[str, list[Callable[[str], None]]], request: Read | Exists | ListChildren, on_watch: OnWatch
) -> None:
    if request.watch and on_watch is not None:
        table.setdefault(request.path, []).append(on_watch)


_READS: dict[type, Callable[[MemoryClient, Any, OnWatch], Outcome]] = {
    Read: _read,
    Exists: _exists,
    ListChildren: _list_children,
}
