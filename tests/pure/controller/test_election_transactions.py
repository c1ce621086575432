"""The judgements of an election as values (recipes 13, 14)."""

from __future__ import annotations

import pytest

from zkgroup.controller.machine.controller_election.transactions import (
    NO_PREDECESSOR,
    ElectionAttempt,
    Predecessor,
    WonElection,
    is_won,
    needs_grace,
    reason_lost,
)
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model import Znode, ZnodeStat
from zkgroup.znodes.controller import ControllerEpoch, ControllerRecord, ControllerRegistration

TRIED = ElectionAttempt(epoch=4, version=6, foreign_epoch=0)
RULE = WonElection(Fence(5, 7), 50, ControllerRecord(1, 77, "started", 0), 0, 0)


def controller(*, version: int = 1, czxid: int = 50) -> Znode:
    return _znode(ControllerRegistration.path(), ControllerRegistration(1, 0).encode(), version, czxid)


def epoch(number: int = 5, *, version: int = 7, mzxid: int = 60) -> Znode:
    znode = _znode(ControllerEpoch.path(), ControllerEpoch(number).encode(), version)
    return znode._replace(stat=znode.stat._replace(mzxid=mzxid))


def record(*, czxid: int) -> Znode:
    return _znode(ControllerRecord.path(5), b"{}", 1, czxid)


def registration(session: int) -> Znode:
    znode = _znode("/brokers/ids/3", b"{}", 0)
    return znode._replace(stat=znode.stat._replace(ephemeral_owner=session))


def _znode(path: str, data: bytes, version: int, czxid: int = 1) -> Znode:
    return Znode(path, data, ZnodeStat(czxid, czxid, 0, 0, version, 0, 0, 77, len(data), 0, czxid))


@pytest.mark.parametrize(
    ("found_epoch", "found_controller", "won"),
    [
        (epoch(), controller(), True),
        (None, controller(), False),
        (epoch(version=6), controller(), False),
        (epoch(version=8), controller(), False),
        (epoch(4), controller(), False),
        (epoch(), controller(version=0), False),
        (epoch(), controller(version=2), False),
    ],
)
def test_an_attempt_is_won_where_all_that_it_writes_is_there(
    found_epoch: Znode | None, found_controller: Znode, won: bool
) -> None:
    """The epoch with its number and version, and `/controller` set once: one of Kafka's is never set."""
    assert is_won(TRIED, found_epoch, found_controller) is won


@pytest.mark.parametrize(
    ("found_epoch", "found_controller", "why"),
    [
        (epoch(), controller(), None),
        (epoch(), None, "/controller was deleted"),
        (epoch(), controller(czxid=51), "/controller was replaced"),
        (epoch(), controller(version=2), "/controller was written"),
        (None, controller(), "/controller_epoch was deleted"),
        (epoch(version=6), controller(), "/controller_epoch was changed"),
        (epoch(version=8), controller(), "/controller_epoch was changed"),
    ],
)
def test_a_controller_resigns_at_any_change_that_is_not_its_own(
    found_epoch: Znode | None, found_controller: Znode | None, why: str | None
) -> None:
    """Of either znode, to a smaller version too, as after a deletion (recipes 13)."""
    assert reason_lost(RULE, found_epoch, found_controller) == why


@pytest.mark.parametrize(
    ("predecessor", "kept", "found", "needed"),
    [
        (Predecessor(9, 33, 3, False, 7), None, None, False),
        (Predecessor(9, 33, 3, False, 6), None, None, True),
        (Predecessor(9, 33, 3, False, 8), None, None, True),
        (NO_PREDECESSOR, record(czxid=60), None, False),
        (NO_PREDECESSOR, record(czxid=59), None, True),
        (Predecessor(9, 33, 3, True, 7), None, None, False),
        (Predecessor(9, 33, 3, True, 7), None, registration(33), True),
        (Predecessor(9, 33, 3, True, 6), record(czxid=60), registration(33), True),
        (Predecessor(9, 33, 3, True, 7), None, registration(34), False),
        (Predecessor(9, 33, None, True, 7), None, None, True),
    ],
)
def test_grace_is_for_controllers_that_cannot_be_fenced(
    predecessor: Predecessor, kept: Znode | None, found: Znode | None, needed: bool
) -> None:
    """K1: one of Kafka whose session lives, or of which nothing is known; and one that came and went
    unseen, unless the epoch was written together with its record."""
    assert needs_grace(predecessor, epoch(mzxid=60), kept, found) is needed
