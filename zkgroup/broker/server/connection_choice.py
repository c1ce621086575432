"""Chooses the connection to close where a port has no room for another, or all hold too much. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum, IntEnum
from typing import Final, Protocol, TypeVar

from zkgroup.broker.request_time import RequestTime


class PeerKind(Enum):
    """The kinds of peers, as ZooKeeper shows them to be (`PeerClaimChecker`)."""

    CLIENT = "client"
    FOLLOWER = "follower"
    """A registered broker that fetches."""
    CONTROLLER = "controller"
    """The active controller, or one that was active before it."""


class Peer:
    """The other end of a connection: its address, and what it has been shown to be."""

    __slots__ = ("_on_confirmed", "host", "kind", "muted_until_s", "port", "time")

    def __init__(
        self,
        host: str,
        port: int,
        on_confirmed: Callable[[Peer], None] = lambda peer: None,
        time: RequestTime | None = None,
    ) -> None:
        """`on_confirmed` is called with each request that has confirmed the peer as one of the cluster."""
        self.host, self.port = host, port
        self.kind = PeerKind.CLIENT
        self.muted_until_s = 0.0
        """Time of the loop until which no further request of it is read: it is beyond a quota."""
        self.time = time
        """Where the time of its requests is counted; None without a quota for it."""
        self._on_confirmed = on_confirmed

    def confirm(self, kind: PeerKind) -> None:
        """ZooKeeper says that it is what it claims to be."""
        self.kind = kind
        self._on_confirmed(self)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Holder(Protocol):
    """A connection with buffered bytes."""

    held: int
    """Bytes of requests without an answer, and of an answer not yet received."""
    moved: int
    """Rises from connection to connection, as each begins a request or has it whole."""


HolderT = TypeVar("HolderT", bound=Holder)


def slowest(connections: Collection[HolderT], held: int) -> HolderT | None:
    """The one to close where all together hold too much: the one whose bytes are there the longest.

    None if connections that are not among these hold nearly all: they are being opened.

    It holds at least half of an equal share of `held`, the sum: those that do hold half of all bytes. So a
    large request is not closed for many small ones that never end, nor one of a few bytes for nothing.
    """
    share = held / (2 * max(1, len(connections)))
    return min(
        (each for each in connections if each.held >= share), key=lambda each: each.moved, default=None
    )


NEW_S: Final = 1.0
"""A connection is new for this time: it may be the controller's, of which no request has come yet."""
NEW_SHARE: Final = 10
"""New ones may take one place in so many from older ones."""


class Doing(IntEnum):
    """The work of a connection; the one that does less is closed first."""

    NOTHING = 0
    SENDING = 1
    """Its client has begun a request, or does not take an answer."""
    WAITING = 2
    """For an answer."""


class Occupant(Protocol):
    """A connection of a client."""

    opened_s: float

    @property
    def has_asked(self) -> bool:
        """True if a whole request has come."""
        ...

    @property
    def doing(self) -> Doing: ...


OccupantT = TypeVar("OccupantT", bound=Occupant)


def to_make_room(latest_first: Iterable[OccupantT], now_s: float, places: int) -> OccupantT | None:
    """The connection of a client to close for one that comes to a full port; None without one.

    The one of those that do least that was opened last: who is connected stays, and of many that come again
    and again each displaces another one of them. New ones are spared until they have their share of the
    places. Then one of them goes: without a request the one that came first, which had the longest time.

    Args:
        latest_first: connections of clients, the one that was opened last first. Not all are looked at.
        places: connections that clients may have.
    """
    new: list[OccupantT] = []
    found: dict[Doing, OccupantT] = {}
    for each in latest_first:
        if each.opened_s > now_s - NEW_S:
            new.append(each)
            continue
        if len(new) >= max(1, places // NEW_SHARE) or Doing.NOTHING in found:
            break
        found.setdefault(each.doing, each)
    if found:
        return found[min(found)]
    silent = [each for each in new if not each.has_asked]
    return silent[-1] if silent else min(new, key=lambda each: each.doing, default=None)


CLUSTER_MAX: Final = 64
"""Connections of the cluster that no limit counts."""


class ClusterPeers:
    """The connections of the controller and of followers, which do not count for the limit of clients.

    They are the ones that ZooKeeper has confirmed last. Who knows an epoch can claim it too, but only so
    many connections get out of the limit, and one that was displaced is back with its next request.
    """

    def __init__(self) -> None:
        self._peers: dict[Peer, None] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, peer: Peer) -> bool:
        return peer in self._peers

    def confirmed(self, peer: Peer) -> None:
        """A request has come of it, and ZooKeeper says that it is who it claims to be."""
        self._peers.pop(peer, None)
        self._peers[peer] = None
        if len(self._peers) > CLUSTER_MAX:
            del self._peers[next(iter(self._peers))]

    def ended(self, peer: Peer) -> None:
        """Its connection has ended."""
        self._peers.pop(peer, None)
