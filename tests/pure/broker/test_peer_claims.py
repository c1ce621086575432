"""What a peer claims to be, compared with what ZooKeeper says."""

from __future__ import annotations

import pytest

from zkgroup.broker.replica_view import FollowerId
from zkgroup.broker.server.peer_claims import (
    ClaimVerdict,
    ControllerId,
    FoundPeers,
    PeerClaims,
    registered_in,
)
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import Code
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration


def znode(path: str, data: bytes, czxid: int = 1) -> Znode:
    return Znode(path, data, ZnodeStat(czxid, czxid, 0, 0, 0, 0, 0, 0, len(data), 0, czxid))


PRESENT = ControllerId(broker=3, epoch=7)


def known(found: FoundPeers) -> PeerClaims:
    claims = PeerClaims()
    claims.read(found)
    return claims


@pytest.mark.parametrize(
    ("claim", "before", "after"),
    [
        (PRESENT, ClaimVerdict.CONFIRMED, ClaimVerdict.CONFIRMED),
        (ControllerId(3, 6), ClaimVerdict.FORMER, ClaimVerdict.FORMER),
        (ControllerId(1, 6), ClaimVerdict.FORMER, ClaimVerdict.FORMER),
        (ControllerId(3, 8), ClaimVerdict.UNREAD, ClaimVerdict.IMPOSSIBLE),
        (ControllerId(3, 2**31 - 1), ClaimVerdict.UNREAD, ClaimVerdict.IMPOSSIBLE),
        (ControllerId(1, 7), ClaimVerdict.UNREAD, ClaimVerdict.IMPOSSIBLE),
        (FollowerId(5, 90), ClaimVerdict.CONFIRMED, ClaimVerdict.CONFIRMED),
        (FollowerId(5, 89), ClaimVerdict.STALE, ClaimVerdict.STALE),
        (FollowerId(5, -1), ClaimVerdict.STALE, ClaimVerdict.STALE),
        (FollowerId(5, 2**63 - 1), ClaimVerdict.UNREAD, ClaimVerdict.IMPOSSIBLE),
        (FollowerId(6, 90), ClaimVerdict.UNREAD, ClaimVerdict.STALE),
    ],
)
def test_no_claim_is_believed_beyond_zookeeper(
    claim: ControllerId | FollowerId, before: ClaimVerdict, after: ClaimVerdict
) -> None:
    """A claim beyond what was read is decided by a new read, which finds the same here."""
    found = FoundPeers(7, 3, {5: 90, 6: None})
    claims = known(found)

    assert claims.compare(claim) is before
    assert claims.decide(claim, found) is after
    assert claims.compare(PRESENT) is ClaimVerdict.CONFIRMED, "and nothing of it is kept"
    assert claims.compare(FollowerId(5, 90)) is ClaimVerdict.CONFIRMED


def test_a_claim_that_is_new_here_is_confirmed_by_a_read() -> None:
    """A new controller and a broker that has started again: this broker may lag."""
    claims = known(FoundPeers(7, 3, {5: 90}))
    later = FoundPeers(8, 1, {5: 120})
    claims.read(later)

    assert claims.decide(ControllerId(1, 8), later) is ClaimVerdict.CONFIRMED
    assert claims.decide(FollowerId(5, 120), later) is ClaimVerdict.CONFIRMED
    assert claims.compare(PRESENT) is ClaimVerdict.FORMER
    assert claims.compare(FollowerId(5, 90)) is ClaimVerdict.STALE
    claims.read(FoundPeers(7, 3, {5: 90}))
    assert claims.compare(ControllerId(1, 8)) is ClaimVerdict.CONFIRMED, "an older read changes nothing"
    assert claims.compare(FollowerId(5, 120)) is ClaimVerdict.CONFIRMED


def test_without_a_controller_nobody_is_it() -> None:
    """The one of the last epoch has ended, and no other is elected yet."""
    found = FoundPeers(7, None, {})
    assert known(found).decide(PRESENT, found) is ClaimVerdict.STALE
    assert known(FoundPeers(0, None, {})).decide(ControllerId(1, 1), found) is ClaimVerdict.FORMER


def test_what_a_read_has_found() -> None:
    """The epoch of a broker is the czxid of its registration; nothing where something cannot be read."""
    epoch = znode(ControllerEpoch.path(), b"7")
    controller = znode(ControllerRegistration.path(), ControllerRegistration(3, 0).encode())
    broker = znode("/brokers/ids/5", b"not read", 90)

    assert registered_in([5, 6], (epoch, controller, broker, None)) == FoundPeers(7, 3, {5: 90, 6: None})
    assert registered_in([], (None, None)) == FoundPeers(0, None, {})
    for found in ((epoch, Code.NO_AUTH), (znode(ControllerEpoch.path(), b"x"), controller)):
        assert registered_in([], found) is None
