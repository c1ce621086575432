"""What `status` and `doctor` report about the active controller and about partitions."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.cluster.controller import (
    HUNG_AFTER_MS,
    blocked_by_topic,
    is_hung,
    read_controller_health,
)
from zkgroup.admin.status import diagnose, read_status
from zkgroup.znodes.brokers import BrokerRegistration, Topic
from zkgroup.znodes.controller import ControllerRegistration, ControllerStatus
from zkgroup.znodes.reassignment_records import StoredPlan


def _says(world: MemoryGroups, zxid: int, epoch: int = 7, **more: object) -> None:
    status = ControllerStatus(1, epoch, zxid, 5, **more)  # type: ignore[arg-type]
    world.hold(ControllerStatus.path(), status.encode())


def test_partitions_whose_leader_refuses_to_lead_are_not_led(world: MemoryGroups) -> None:
    """Their states name a live broker, and the controller waits for a leader; each is counted once."""
    cluster = MemoryCluster(world)
    cluster.ours()
    cluster.broker(1)
    cluster.topic("orders", (1,), (1,), (9,))
    cluster.topic("__consumer_offsets", (1,))
    for number in range(2):
        cluster.state("orders", number, 1, (1,))
    cluster.state("orders", 2, -1, (9,))
    cluster.state("__consumer_offsets", 0, 1, (1,))
    _says(
        world,
        2**40,
        waiting={
            f"leader of {each}": "error 56" for each in ("orders-1", "orders-2", "__consumer_offsets-0")
        },
    )

    status = read_status(world.ensemble)

    assert (status.offline, status.leaders_awaited, status.slot_leaders_awaited) == (1, 2, 1)


def test_the_controllers_status_is_reported(world: MemoryGroups) -> None:
    """Unreadable paths, resumed fetches, brokers to restart, pending work (recipes 13, 15 and 18)."""
    MemoryCluster(world).ours()
    _says(
        world,
        2**40,
        unreadable={"/brokers/topics/odd": "expected an object"},
        omitted_partitions={3: ("orders-0", "orders-1")},
        waiting={"leader of orders-2": "no replica lives", "broker 2": "was the controller: restart it"},
        left_off=4,
    )

    status = read_status(world.ensemble)
    told = [
        (one.severity, one.subject) for one in diagnose(status, wanted_timeout_ms=status.session_timeout_ms)
    ]

    assert (status.health.kind, status.health.hung, status.health.last_processed_zxid) == (
        "zkgroup",
        False,
        2**40,
    )
    assert status.health.restart == {2: "was the controller: restart it"}
    assert list(status.health.waiting) == ["leader of orders-2"]
    assert status.health.refetching == {3: ("orders-0", "orders-1")}
    assert told == [
        ("error", "/brokers/topics/odd"),
        ("error", "leader of orders-2"),
        ("warning", "broker 3"),
        ("warning", "broker 2"),
        ("info", "controller"),
    ]


def test_what_waits_is_one_entry_a_topic() -> None:
    """Past bug: a topic of a thousand partitions filled the screen; its entry lists the different reasons."""
    waiting = {
        **{f"leader of orders-{number}": "no replica lives" for number in (0, 1, 2, 7, 9, 10)},
        "leader of clicks-3": "no replica lives",
        **{f"move of orders-{number}": f"broker {number % 2 + 1} is gone" for number in range(5)},
        "deletion of orders-1": "broker 3 is gone",
        "deletion of orders-2": "broker 3 is gone",
        "plan x": "waits",
    }

    assert blocked_by_topic(waiting) == (
        ("leader of 6 partitions of orders (0-2, 7, 9-10)", "no replica lives"),
        ("leader of clicks-3", "no replica lives"),
        (
            "move of 5 partitions of orders (0-4)",
            "0, 2, 4: broker 1 is gone; 1, 3: broker 2 is gone",
        ),
        ("deletion of orders-1", "broker 3 is gone"),
        ("deletion of orders-2", "broker 3 is gone"),
        ("plan x", "waits"),
    )


def test_what_an_earlier_controller_said_does_not_count(world: MemoryGroups) -> None:
    """Of another epoch, or beside a Kafka controller; a controller without a status is not called hung."""
    cluster = MemoryCluster(world)
    _says(world, 1, unreadable={"/odd": "odd"})
    real = read_controller_health(world.ensemble)
    cluster.ours()
    _says(world, 1, epoch=6)
    former = read_controller_health(world.ensemble)
    cluster.no_controller()
    none = read_controller_health(world.ensemble)

    assert [(one.kind, one.hung, one.last_processed_zxid) for one in (real, former, none)] == [
        ("kafka", None, None),
        ("zkgroup", None, None),
        (None, None, None),
    ]
    assert (real.unreadable, former.controller, none.controller) == ({}, 1, None)


def test_a_controller_that_leaves_changes_alone_hangs(world: MemoryGroups) -> None:
    """Shown by its last processed zxid; a change of this moment does not count yet (recipes 18)."""
    cluster = MemoryCluster(world)
    cluster.ours()
    cluster.topic("orders", (1, 2))
    found = world.server.find(Topic.path("orders"))
    assert found is not None
    _says(world, found.stat.mzxid - 1)

    fresh = read_controller_health(world.ensemble)
    world.pass_time(HUNG_AFTER_MS / 1000 + 1)
    late = read_controller_health(world.ensemble)
    hangs = [one.detail for one in diagnose(read_status(world.ensemble), wanted_timeout_ms=0)]
    _says(world, found.stat.mzxid)
    caught_up = read_controller_health(world.ensemble)

    assert (fresh.hung, late.hung, caught_up.hung) == (False, True, False)
    assert any("hangs since zxid" in detail for detail in hangs)


@pytest.mark.parametrize(
    ("zxid", "age_ms", "hung"),
    [(5, HUNG_AFTER_MS + 1, False), (6, HUNG_AFTER_MS, False), (6, HUNG_AFTER_MS + 1, True)],
)
def test_only_old_changes_that_were_not_processed_count(zxid: int, age_ms: int, hung: bool) -> None:
    """At the edges."""
    assert is_hung(5, [(1, 0), (zxid, 10**9 - age_ms)], 10**9) is hung


def test_unreadable_znodes_are_reported_with_their_path(world: MemoryGroups) -> None:
    """`/controller`, the epoch and the status itself."""
    cluster = MemoryCluster(world)
    cluster.no_controller()
    world.hold(ControllerRegistration.path(), b"{")
    world.hold(ControllerStatus.path(), b"[]")
    world.server.put("/controller_epoch", b"x")

    found = read_controller_health(world.ensemble)

    assert sorted(found.unreadable) == ["/controller", "/controller_epoch", ControllerStatus.path()]
    assert not any(detail.startswith(path) for path, detail in found.unreadable.items())
    assert (found.controller, found.epoch, found.kind) == (None, None, "kafka")


def test_partitions_and_moves_are_counted(world: MemoryGroups) -> None:
    """Without a live leader, under-replicated, being reassigned; topics being deleted do not count."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2), (9, 1), (2, 3), (1, 2))
    cluster.topic("leaving", (9, 1))
    cluster.state("orders", 1, -1, (9,))
    cluster.state("orders", 2, 2, (2,))
    cluster.request(move("orders", 0, 3, 1), move("orders", 3, 3, 1))
    world.server.put("/admin/delete_topics/leaving", b"")
    plan = StoredPlan(((move("orders", 0, 1, 2),),), "running", 0, 1, "ada")
    world.server.put(StoredPlan.path("p"), plan.encode())
    world.server.put(StoredPlan.path("q"), plan.at(0, "paused").encode())
    world.parent("/brokers")
    world.hold(BrokerRegistration.path(8), b"{")

    status = read_status(world.ensemble)

    assert (status.offline, status.under_replicated, status.moving, status.plans) == (1, 1, 2, ("p",))
    assert len(status.brokers.unreadable) == 1
