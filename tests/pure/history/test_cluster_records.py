"""Invariants that the records of brokers and clients decide: each fault is named."""

from __future__ import annotations

from tests.pure.history.cluster_history import ClusterHistory, broken
from tests.simulation.cluster.accepted_requests import check_accepted_requests


def test_a_broker_refuses_a_smaller_controller_epoch() -> None:
    """Fence F1: a smaller controller epoch is refused."""
    world = ClusterHistory()
    for epoch, controller in ((1, 1), (2, 2)):
        world.note(3, "control.accepted", broker=3, incarnation=7, controller=controller, epoch=epoch)
    assert list(check_accepted_requests(world.records)) == []

    world.note(3, "control.accepted", broker=3, incarnation=7, controller=1, epoch=1)
    assert {one.invariant for one in check_accepted_requests(world.records)} == {"S11"}


def test_an_epoch_belongs_to_one_controller_on_all_brokers() -> None:
    """Two brokers accepted requests of two controllers in one epoch."""
    world = ClusterHistory()
    for broker, controller in ((3, 1), (4, 2)):
        world.note(broker, "control.accepted", broker=broker, incarnation=1, controller=controller, epoch=1)

    assert {one.invariant for one in check_accepted_requests(world.records)} == {"S11"}


def test_a_leader_epoch_has_one_leader() -> None:
    """Two brokers got different leaders of one leader epoch."""
    world = ClusterHistory()
    for broker, leader in ((3, 1), (4, 2)):
        world.note(broker, "role.taken", broker=broker, topic="t", partition=0, leader=leader, leader_epoch=4)

    assert broken(world.check()) == {"S12"}


def test_acknowledged_records_are_kept() -> None:
    """Records kept at their offsets hold; records missing from what a replica kept are named."""
    world = ClusterHistory()
    world.note(1, "append.ok", topic="t", partition=0, offset=1, records=["b", "c"])
    world.note(2, "records.kept", broker=2, topic="t", partition=0, records=["a", "b", "c", "d"])
    assert world.check().holds
    assert world.check().figures.acknowledged_records == 2

    world.note(2, "records.kept", broker=2, topic="t", partition=0, records=["a", "b"])
    assert broken(world.check()) == {"records"}
