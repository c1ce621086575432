"""The placement model's cached racks stay correct while replicas move."""

from __future__ import annotations

from tests.pure.placement.snapshots import tp
from zkgroup.placement.model import ReplicaPlacement

RACKS = {1: "a", 2: "b", 3: "b", 4: "c", 5: "a"}


def placement(only_new: bool = False) -> ReplicaPlacement:
    """One partition on 1 (a) and 2 (b); three racks, so it may not have two replicas in one."""
    return ReplicaPlacement({tp(0): (1, 2)}, list(RACKS), RACKS, only_new=only_new)


def test_a_rack_opens_when_a_replica_leaves_it() -> None:
    """By a shift to another rack; an earlier query has cached the rack as full."""
    one = placement()
    assert one.find(1, 3) is None

    one.shift(tp(0), 2, 4)

    assert one.find(1, 3) == tp(0)
    assert one.find(1, 4) is None


def test_a_rack_stays_shut_for_what_moves_within_another() -> None:
    """From 1 to 5, both in rack a: the replica there may go to rack b no more than before."""
    one = placement()
    assert one.find(1, 3) is None

    one.shift(tp(0), 1, 5)

    assert one.find(5, 3) is None
    assert one.find(5, 4) == tp(0)


def test_a_rack_opens_when_a_replica_is_dropped() -> None:
    """And shuts again when one is added."""
    one = placement()
    assert one.find(1, 3) is None

    one.drop(tp(0), 2)
    assert one.find(1, 3) == tp(0)

    one.add(tp(0), 3)
    assert one.find(1, 2) is None


def test_what_was_there_before_is_not_shifted() -> None:
    """Only replicas that were placed since."""
    one = placement(only_new=True)
    assert (one.find(1, 5), list(one.pieces(1))) == (None, [])

    one.add(tp(0), 4)

    assert list(one.pieces(4)) == [tp(0)]
    assert one.away() == 1


def test_a_new_replica_goes_to_a_rack_without_one_first() -> None:
    """Even where a broker of another rack is as empty; there is none where every broker has one."""
    one = placement()

    assert one.best_target(tp(0)) == 4
    for broker in (4, 3, 5):
        one.add(tp(0), broker)
    assert one.best_target(tp(0)) is None
