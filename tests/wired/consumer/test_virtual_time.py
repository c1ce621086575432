"""Members on a clock that the test moves: waits of seconds take no real time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.waiting import PATIENCE_S
from tests.worlds.public_apis import MemberWorld, orders, settings
from zkgroup import GroupMember
from zkgroup.consumer.aio import AsyncGroupMember
from zkgroup.consumer.callbacks import AsyncRebalanceListener
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.machine.events import MemberState
from zkgroup.model import TopicPartition


def member(world: MemberWorld, name: str) -> GroupMember:
    return GroupMember(
        client=world.client(name),
        group="g",
        topics=["orders"],
        settings=settings(consumer_id=name),
        clock=world.clock,
    )


def test_a_lease_ends_when_the_clock_comes_to_its_end(world: MemberWorld) -> None:
    """Not a millisecond earlier or later; with the session of 6,000 ms it is over by then at the latest."""
    with member(world, "a") as one:
        one.wait_until_assigned(PATIENCE_S)
        lease = one.lease(orders(0)[0])
        assert lease is not None
        world.server.suspend("a")
        left_ms = lease.remaining_ms
        assert 0 < left_ms <= 6_000

        world.clock.advance(left_ms - 1)
        assert lease.is_valid
        world.clock.advance(1)
        assert not lease.is_valid
        world.server.resume("a")


def test_a_day_of_a_member_that_is_connected(world: MemberWorld) -> None:
    """Its lease goes on for as long as it reaches ZooKeeper, however far the clock is moved at a time."""
    with member(world, "a") as one:
        one.wait_until_assigned(PATIENCE_S)
        leases = one.leases()
        world.clock.advance(600_000)
        assert [lease.is_valid for lease in leases] == [True] * 4


def test_another_member_takes_over(world: MemberWorld) -> None:
    """It claims what the suspended one had, once the session of 6,000 ms has ended and not before."""
    with member(world, "a") as one, member(world, "b") as other:
        world.clock.advance_until(lambda: len(one.leases()) == len(other.leases()) == 2)
        world.server.suspend("a")
        lease = one.leases()[0]
        world.clock.advance(5_999)
        assert (lease.is_valid, len(other.leases())) == (False, 2)

        world.clock.advance_until(lambda: len(other.leases()) == 4, max_ms=10_000)
        assert one.state is MemberState.LOST
        world.server.resume("a")


def test_the_asyncio_twin(world: MemberWorld) -> None:
    """What is awaited moves the clock; callbacks that are coroutines run meanwhile."""
    seen: list[str] = []

    class Listener(AsyncRebalanceListener):
        async def on_assigned(self, leases: Sequence[Lease]) -> None:
            await asyncio.sleep(0)
            seen.append(f"assigned {len(leases)}")

        async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
            seen.append(f"lost {len(partitions)}")

    async def main() -> None:
        async with AsyncGroupMember(
            client=world.client("a"),
            group="g",
            topics=["orders"],
            settings=settings(),
            listener=Listener(),
            clock=world.clock,
        ) as one:
            await one.wait_until_stable(PATIENCE_S)
            world.server.suspend("a")
            await world.clock.advance_async(6_000)
            assert [lease.is_valid for lease in one.leases()] == [False] * len(one.leases())
            world.server.expire("a")
            world.server.resume("a")
            await world.clock.advance_until_async(lambda: seen[1:2] == ["lost 4"])
            await one.wait_until_assigned(PATIENCE_S)

    asyncio.run(main())
    assert seen == ["assigned 4", "lost 4", "assigned 4"]
