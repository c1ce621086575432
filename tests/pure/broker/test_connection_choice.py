"""Which connection a port closes where all together take too much."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from zkgroup.broker.server.connection_choice import (
    CLUSTER_MAX,
    ClusterPeers,
    Doing,
    Peer,
    PeerKind,
    slowest,
    to_make_room,
)


@dataclass(frozen=True)
class Holds:
    held: int
    moved: int


@pytest.mark.parametrize(
    ("connections", "goes"),
    [
        ([Holds(429, 1), Holds(429, 2), Holds(429, 3), Holds(900, 4)], 0),  # not the largest
        ([Holds(900, 9), Holds(429, 2), Holds(429, 3)], 1),  # whoever was connected first
        ([Holds(3, 1), Holds(0, 2), Holds(500, 3), Holds(700, 4)], 2),  # not one for a few bytes
        ([Holds(0, 1), Holds(500, 2)], 1),
    ],
)
def test_who_has_held_its_bytes_longest_is_closed(connections: list[Holds], goes: int) -> None:
    """Among those that hold at least half of an equal share."""
    assert slowest(connections, sum(each.held for each in connections)) is connections[goes]


def test_nobody_is_closed_for_connections_that_are_being_opened() -> None:
    """They are not among those that can be closed yet."""
    assert slowest([], 500) is None
    assert slowest([Holds(1, 1)], 500) is None


@dataclass(frozen=True)
class Opened:
    """A connection that was opened so many seconds ago."""

    ago_s: float
    doing: Doing = Doing.NOTHING
    has_asked: bool = True

    @property
    def opened_s(self) -> float:
        return 1000 - self.ago_s


def silent(ago_s: float, doing: Doing = Doing.NOTHING) -> Opened:
    return Opened(ago_s, doing, has_asked=False)


@pytest.mark.parametrize(
    ("latest_first", "goes"),
    [
        ([Opened(5), Opened(60), Opened(600)], 0),  # who is connected stays
        ([Opened(5, Doing.WAITING), Opened(60, Doing.SENDING), Opened(600)], 2),  # who does nothing goes
        ([Opened(5, Doing.WAITING), Opened(60, Doing.SENDING), Opened(600, Doing.SENDING)], 1),
        ([Opened(5, Doing.WAITING), Opened(60, Doing.WAITING)], 0),
        ([silent(0.1), Opened(5), Opened(60)], 1),  # a new one may be the controller's
        ([silent(0.1), Opened(5, Doing.WAITING)], 1),
        ([silent(5), Opened(60)], 0),  # but not for long
        ([silent(0.1), silent(0.2, Doing.SENDING), Opened(5), Opened(60)], 1),  # nor do many take places
        ([Opened(0.1), silent(0.2), silent(0.3), Opened(0.5), Opened(5)], 2),
        ([Opened(0.1, Doing.WAITING), Opened(0.2), Opened(0.3), Opened(5)], 1),
        ([silent(0.1)], 0),
        ([], None),
    ],
)
def test_who_makes_room_at_a_full_port(latest_first: list[Opened], goes: int | None) -> None:
    """With twenty places, of which new ones may take two."""
    expected = None if goes is None else latest_first[goes]
    assert to_make_room(latest_first, 1000, 20) is expected


def test_few_connections_are_exempt_from_the_limit() -> None:
    """Of those that have claimed to be of the cluster, the last ones: a claim gives no place for ever."""
    cluster = ClusterPeers()
    peers = [Peer("127.0.0.1", number, cluster.confirmed) for number in range(CLUSTER_MAX + 1)]
    for peer in peers:
        peer.confirm(PeerKind.FOLLOWER)
    assert len(cluster) == CLUSTER_MAX
    assert peers[0] not in cluster

    peers[0].confirm(PeerKind.CONTROLLER)
    assert peers[0] in cluster
    assert peers[1] not in cluster
    cluster.ended(peers[0])
    cluster.ended(peers[0])
    assert len(cluster) == CLUSTER_MAX - 1
