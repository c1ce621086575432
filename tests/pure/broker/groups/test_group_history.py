"""Rebalances in the store of groups: a znode each, in the transaction of the generation (recipes 25)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.stepped_stores import GROUP, SteppedStores, StoreNode, led, member, record
from zkgroup.broker.groups.group_writes import REBALANCE_BYTES_MAX
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model.requests import Delete, Multi
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.group_history import REBALANCES_MAX, RebalanceRecord


def with_history(generation: int, *joined: str) -> GroupRecord:
    rebalance = RebalanceRecord(
        time_ms=0, generation=generation, reason="r", joined=joined, left=(), moved=0, took_ms=1
    )
    return replace(record(generation=generation), rebalance=rebalance)


def kept(world: SteppedStores) -> list[int]:
    """The generations whose rebalances ZooKeeper has."""
    parent = RebalanceRecord.path(0, GROUP, 0).rpartition("/")[0]
    names = [path.removeprefix(f"{parent}/") for path in world.server.tree() if path.startswith(parent)]
    return sorted(number for name in names if (number := RebalanceRecord.parse(name)) is not None)


def stored(world: SteppedStores, node: StoreNode, generation: int) -> int:
    """Stores a generation with its rebalance; returns the number of transactions."""
    before = len(world.server.log)
    written = world.store(node, with_history(generation))
    world.run()
    assert node.outcome(written) is WriteOutcome.STORED
    return len(world.server.log) - before


def test_rebalance_is_stored_with_its_generation() -> None:
    """One transaction, as without it; its time is that of the wall clock."""
    world, node = led()
    world.stable(node)
    assert stored(world, node, 2) == 1
    found = world.find(RebalanceRecord.path(0, GROUP, 2))
    assert (
        RebalanceRecord.decode(found.path, found.data).time_ms == world.clock.wall_ms() - world.clock.now_ms()
    )


def test_newest_rebalances_are_kept_also_by_the_next_coordinator() -> None:
    """The oldest goes with the transaction that adds one; their names are read at load."""
    world, node = led()
    world.stable(node)
    for generation in range(2, REBALANCES_MAX + 3):
        stored(world, node, generation)
    assert kept(world) == list(range(3, REBALANCES_MAX + 3))
    successor = world.node(2)
    world.move(successor)
    world.run()
    stored(world, successor, REBALANCES_MAX + 3)
    assert kept(world) == list(range(4, REBALANCES_MAX + 4))


def test_rebalance_that_another_program_has_created_or_deleted_refuses_no_generation() -> None:
    """The transaction is sent again without it."""
    world, node = led()
    world.stable(node)
    world.server.put(RebalanceRecord.path(0, GROUP, 2), b"x")
    stored(world, node, 2)
    for generation in range(3, REBALANCES_MAX + 2):
        stored(world, node, generation)
    world.server.write(Delete(RebalanceRecord.path(0, GROUP, 2), -1))
    stored(world, node, REBALANCES_MAX + 2)
    assert kept(world) == list(range(3, REBALANCES_MAX + 3))


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request"])
def test_lost_answer_neither_loses_nor_repeats_a_rebalance(fault: Fault) -> None:
    """The header is read back, and says whether the rebalance is there as well."""
    world, node = led()
    world.stable(node)
    written = world.store(node, with_history(2))
    world.until_asks(node, Multi)
    world.lose(node, fault)
    world.run()
    world.advance(2000)
    assert node.outcome(written) is WriteOutcome.STORED
    stored(world, node, 3)
    assert kept(world) == [2, 3]


def test_rebalance_that_is_too_large_for_the_transaction_is_left_out() -> None:
    """The generation is stored all the same."""
    world, node = led()
    world.stable(node)
    large = with_history(2, "m" * REBALANCE_BYTES_MAX)
    written = world.store(node, replace(large, members=(member("m2"),)))
    world.run()
    assert node.outcome(written) is WriteOutcome.STORED
    assert kept(world) == []
