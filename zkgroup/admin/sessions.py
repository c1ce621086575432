"""Finds the client behind a session: who is connected by it, and which znodes it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from zkgroup.admin.znodes import PATHS_AT_ONCE
from zkgroup.errors import NotFoundError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import value_of
from zkgroup.model import Znode
from zkgroup.model.requests import Code
from zkgroup.model.text import hex_session
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.znodes.consumers import (
    Registration,
    consumers_path,
    ids_path,
    owners_path,
    prepared_path,
    views_path,
)
from zkgroup.znodes.controller import ControllerRegistration, standby_controllers_path
from zkgroup.znodes.ids import member_host
from zkgroup.znodes.sessions import PARENTS_IN_CLUSTER, SINGLES_IN_CLUSTER
from zkgroup.zookeeper.four_letter_words import ADMIN_PORT
from zkgroup.zookeeper.server_connections import SessionConnection, read_connections

SessionZnodeKind = Literal[
    "broker", "controller", "controller_status", "standby_controller", "member", "owner", "prepared", "view"
]

FIND_IN_FILES = "zkgroup session {session} --input FOLDER"
"""The command that finds a session in copies of the servers' files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionZnode:
    """A znode that the session holds."""

    path: str
    """Its path."""
    kind: SessionZnodeKind
    """The role that it gives the client."""
    who: str
    """The broker, the member with its host and process, or the partition with its group, for people."""
    created_ms: int
    """The time of its creation by the server's clock, in epoch milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDescription:
    """What the servers and the tree say about one session."""

    as_of: AsOf
    """The last transaction that was read."""
    session_id: int
    """The session."""
    connections: tuple[SessionConnection, ...]
    """Its connection; two where it moved from one server to another meanwhile."""
    znodes: tuple[SessionZnode, ...]
    """The znodes of brokers, controllers and groups that it holds, by path."""
    unanswered: tuple[str, ...]
    """The servers that did not report their connections, each with the reason."""
    hidden: tuple[str, ...]
    """Paths that an ACL hides."""

    @property
    def is_whole(self) -> bool:
        """Returns whether nothing more can be found: a session has one connection at a time."""
        return not self.hidden and (bool(self.connections) or not self.unanswered)


def describe_session(
    ensemble: Ensemble,
    session_id: int,
    servers: Sequence[tuple[str, int]],
    *,
    admin_port: int | None = ADMIN_PORT,
    words: bool = True,
) -> SessionDescription:
    """Asks each server for its connections, and reads the znodes of sessions.

    `admin_port` and `words` as of `read_connections`. Raises NotFoundError where everything could be read and
    there is no such session.
    """
    ensemble.zk.sync("/")
    hidden: set[str] = set()
    held = [znode for znode in _znodes_of_sessions(ensemble, hidden) if _is_held(znode, session_id)]
    asked = [read_connections(host, port, admin_port=admin_port, words=words) for host, port in servers]
    found = SessionDescription(
        as_of=ensemble.as_of(),
        session_id=session_id,
        connections=tuple(
            one for server in asked for one in server.connections if one.session_id == session_id
        ),
        znodes=tuple(_described(znode) for znode in sorted(held)),
        unanswered=tuple(f"{server.server}: {server.reason}" for server in asked if server.reason),
        hidden=tuple(sorted(hidden)),
    )
    if found.is_whole and not found.connections and not found.znodes:
        names, session = ", ".join(server.server for server in asked), hex_session(session_id)
        raise NotFoundError(
            f"session {session}: expected a client that is connected to {names}, or a znode of a broker or "
            "group that it holds, found neither: it has ended, or the address lacks a server; whose "
            f"it was is in the servers' files: {FIND_IN_FILES.format(session=session)}"
        )
    return found


def _is_held(znode: Znode, session_id: int) -> bool:
    return znode.stat.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF == session_id


def _znodes_of_sessions(ensemble: Ensemble, hidden: set[str]) -> Iterator[Znode]:
    """Every znode of brokers, controllers and groups that a session may hold."""
    groups = [path.rpartition("/")[2] for path in _below(ensemble, [consumers_path()], hidden)]
    topics = _below(ensemble, [owners_path(group) for group in groups], hidden)
    parents = [*PARENTS_IN_CLUSTER, *topics]
    parents += [path(group) for group in groups for path in (ids_path, views_path, prepared_path)]
    paths = [*SINGLES_IN_CLUSTER, *_below(ensemble, parents, hidden)]
    for start in range(0, len(paths), PATHS_AT_ONCE):
        for path, znode in ensemble.zk.read_each(paths[start : start + PATHS_AT_ONCE]).items():
            if isinstance(znode, Code):
                hidden.add(path)
            elif znode is not None:
                yield znode


def _below(ensemble: Ensemble, parents: Sequence[str], hidden: set[str]) -> list[str]:
    """The paths of the children."""
    found = []
    for start in range(0, len(parents), PATHS_AT_ONCE):
        for parent, names in ensemble.zk.list_each(list(parents[start : start + PATHS_AT_ONCE])).items():
            if isinstance(names, Code):
                hidden.add(parent)
            else:
                found += [f"{parent}/{name}" for name in names or ()]
    return found


def _described(znode: Znode) -> SessionZnode:
    kind, who = _role(znode)
    return SessionZnode(path=znode.path, kind=kind, who=who, created_ms=znode.stat.ctime)


def _role(znode: Znode) -> tuple[SessionZnodeKind, str]:
    parent, _, name = znode.path.rpartition("/")
    match znode.path.split("/"):
        case ["", "consumers", group, "ids", member]:
            registration = value_of(znode, Registration.decode)
            host = member_host(group, member) or (registration.host if registration else None)
            pid = registration.pid if registration else None
            where = (f" on {host}" if host else "") + (f", pid {pid}" if pid is not None else "")
            return "member", f"{member} of group {group}{where}"
        case ["", "consumers", group, "owners", topic, partition]:
            return "owner", f"{topic}-{partition} of group {group}"
        case ["", "consumers", group, "prepared", member]:
            return "prepared", f"{member} of group {group}"
        case ["", "consumers", group, "views", member]:
            return "view", f"{member} of group {group}"
    if parent == broker_ids_path():
        broker = value_of(znode, BrokerRegistration.decode)
        return "broker", f"broker {name}" + (f" at {broker.host}:{broker.port}" if broker else "")
    if parent == standby_controllers_path():
        return "standby_controller", f"broker {name}"
    controller = value_of(znode, ControllerRegistration.decode)
    if znode.path != ControllerRegistration.path():
        return "controller_status", "the active controller"
    return "controller", f"broker {controller.broker}" if controller else "unreadable"
