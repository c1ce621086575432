"""The rebalances that a coordinator stores with the generations (recipes 25)."""

from __future__ import annotations

from tests.worlds.coordinated_groups import assignment_bytes
from tests.worlds.coordinators import SETTINGS, TIMEOUT_MS, Coordinator
from zkgroup.coordinator.effects import WriteGroup
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model import TopicPartition
from zkgroup.znodes.group_history import RebalanceRecord

T = [TopicPartition("t", number) for number in range(4)]


def records(world: Coordinator) -> list[GroupRecord]:
    return [each.record for each in world.written if isinstance(each, WriteGroup)]


def last(world: Coordinator) -> RebalanceRecord | None:
    return records(world)[-1].rebalance


def rebalanced(world: Coordinator, *shares: list[TopicPartition], **options: str) -> list[str]:
    """A group whose members, as many as shares, have them. Returns their ids."""
    ids = world.completing(len(shares), **options)
    assignments = {name: assignment_bytes(share) for name, share in zip(ids, shares, strict=True)}
    leader = ids[0]
    for name in ids:
        world.sync(name, 1, assignments if name == leader else None)
    return ids


def test_first_generation_has_its_members_and_its_time() -> None:
    """From the first join, with the initial delay; nothing has moved."""
    world = Coordinator()
    ids = rebalanced(world, T[:2], T[2:])

    found = last(world)
    assert found is not None
    assert found.joined == tuple(sorted(ids))
    assert (found.left, found.moved, found.generation) == ((), 0, 1)
    assert found.reason == f"member {ids[0]} joins"
    assert found.took_ms is not None
    assert SETTINGS.group_initial_rebalance_delay_ms <= found.took_ms <= TIMEOUT_MS


def test_member_that_leaves_and_what_moves_from_it() -> None:
    """Partitions that have another member now; the ones that keep theirs do not count."""
    world = Coordinator()
    first, second = rebalanced(world, T[:2], T[2:])
    world.leave(second)
    number = world.send_join(first)
    assert world.joined(number).generation == 2
    world.sync(first, 2, {first: assignment_bytes(T)})

    found = last(world)
    assert found is not None
    assert (found.joined, found.left, found.moved) == ((), (second,), 2)
    assert found.reason == f"member {second} leaves"


def test_last_member_that_leaves() -> None:
    """The empty group is stored with it."""
    world = Coordinator()
    (only,) = rebalanced(world, T)
    world.leave(only)

    found = last(world)
    assert found is not None
    assert (found.left, found.moved) == ((only,), 0)


def test_write_that_fails_keeps_the_rebalance_for_the_next() -> None:
    """A rebalance ends when a generation is stored: its begin and its reason are the first ones."""
    world = Coordinator(stores=True)
    (only,) = rebalanced(world, T)
    world.advance(100)
    begun_ms = world.now_ms
    number = world.send_join(only, protocols=(("range", b"other"),))
    assert world.joined(number).generation == 2
    world.stores = False
    world.send_sync(only, 2, {only: assignment_bytes(T)})
    world.complete(WriteOutcome.CONFLICT)
    world.stores = True
    world.advance(10)
    world.send_join(only, protocols=(("range", b"other"),))
    world.sync(only, 3, {only: assignment_bytes(T)})

    found = last(world)
    assert found is not None
    assert (found.time_ms, found.generation, found.reason) == (begun_ms, 3, f"member {only} joins again")


def test_static_member_that_is_started_again_has_neither_left_nor_joined() -> None:
    """A write without a rebalance has none."""
    world = Coordinator()
    (former,) = rebalanced(world, T, instance="i")
    again = world.send_join(instance="i")

    assert world.joined(again).member_id != former
    assert last(world) is None
    world.leave("", "i")
    found = last(world)
    assert found is not None
    assert found.left == ("i",)


def test_group_that_was_loaded_goes_on_from_its_members() -> None:
    """What the former coordinator has stored is known: who has left since, and what moved."""
    world = Coordinator()
    first, second = rebalanced(world, T[:2], T[2:])
    successor = Coordinator(first_id=100)
    successor.load(records(world)[-1], epoch=1)
    successor.leave(second)
    generation = successor.joined(successor.send_join(first)).generation
    successor.sync(first, generation, {first: assignment_bytes(T)})

    found = last(successor)
    assert found is not None
    assert (found.joined, found.left, found.moved) == ((), (second,), 2)


def test_assignment_that_is_no_consumers_has_an_unknown_number() -> None:
    """Of other protocols nobody can tell, nor of bytes that are none of the protocol's."""
    world = Coordinator()
    (only,) = world.completing(1, protocol_type="connect")
    world.sync(only, 1, {only: b"a"})
    found = last(world)
    assert found is not None
    assert found.moved is None

    world = Coordinator()
    (only,) = world.completing(1)
    world.sync(only, 1, {only: b"\x00"})
    found = last(world)
    assert found is not None
    assert found.moved is None
