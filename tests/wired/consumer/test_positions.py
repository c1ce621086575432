"""The position of a consumer: pause, seek, reset, commit, and the start position without an offset."""

from __future__ import annotations

import pytest

from tests.waiting import PATIENCE_S
from tests.wired.consumer.records import every, filled, places, polled
from tests.worlds.public_apis import Api, MemberWorld, orders, settings
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import ConfigError, NoOffsetError, NotOwnerError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.znodes.consumers import Offset
from zkgroup.znodes.group_records import Reset

(ZERO,) = orders(0)


def test_pause_and_resume(api: Api, world: MemberWorld) -> None:
    """A paused partition delivers nothing; the others go on."""
    with api.consumer(client=world.client("a"), source=filled(3, [0, 1])) as consumer:
        consumer.pause(ZERO)
        others = polled(consumer, 3)

        consumer.resume(ZERO)

        assert places(others) == every(3, [1])
        assert places(polled(consumer, 3)) == every(3, [0])


def test_a_seek_back_is_applied_and_may_be_committed(api: Api, world: MemberWorld) -> None:
    """It is the only way back."""
    with api.consumer(client=world.client("a"), source=filled(5, [0])) as consumer:
        polled(consumer, 5)
        consumer.poll(timeout_s=0.05)
        consumer.commit()
        assert consumer.commit({ZERO: 3}).committed == {ZERO: 3}
        assert world.offsets()[0] == 5

        consumer.seek(ZERO, 2)

        assert consumer.position(ZERO) == 2
        assert consumer.commit().committed == {ZERO: 2}
        assert places(polled(consumer, 3)) == [(0, 2), (0, 3), (0, 4)]
        with pytest.raises(NotOwnerError):
            consumer.seek(TopicPartition("orders", 9), 0)
        with pytest.raises(ConfigError, match="orders-0: expected an offset of 0 or more, found -1"):
            consumer.seek(ZERO, -1)
        with pytest.raises(ConfigError, match="max_records"):
            consumer.poll(max_records=0)


@pytest.mark.parametrize("how", ["close", "hand_back"])
def test_a_seek_back_goes_with_the_partition(api: Api, world: MemberWorld, how: str) -> None:
    """What is processed after it is committed when the partition is given up, as always."""
    with api.consumer(client=world.client("a"), source=filled(10, [0])) as consumer:
        polled(consumer, 10)
        consumer.poll(timeout_s=0.05)
        consumer.commit()
        before = world.offsets()[0]
        consumer.seek(ZERO, 2)
        consumer.poll(timeout_s=PATIENCE_S, max_records=3)
        consumer.poll(timeout_s=0.0, max_records=1)  # the three are processed, the fourth is in hand
        if how == "hand_back":
            consumer.ack(next(iter(consumer.poll(timeout_s=0.0, max_records=1).values()))[0])
            consumer.hand_back([ZERO])

    assert (before, world.offsets()[0]) == (10, 5 if how == "close" else 7)


def test_an_operators_reset_moves_an_idle_owner(api: Api, world: MemberWorld) -> None:
    """The marker is applied at once, and the next commit continues from it (recipes 6)."""
    with api.consumer(client=world.client("a"), source=filled(10, [0])) as consumer:
        polled(consumer, 10)
        consumer.poll(timeout_s=0.05)
        consumer.commit()
        offset = world.server.find(Offset.path("g", ZERO))
        assert offset is not None
        world.server.put("/consumers/g/resets")
        world.server.write(
            SetData(offset.path, Offset(4).encode(), offset.stat.version),
            Create(Reset.path("g", ZERO), Reset(offset=4, time_ms=1, by="test").encode()),
        )

        again = polled(consumer, 6)
        consumer.poll(timeout_s=0.05)
        consumer.commit()

        assert places(again) == [(0, n) for n in range(4, 10)]
    assert world.offsets()[0] == 10


def test_auto_commit_by_timer(api: Api, world: MemberWorld) -> None:
    """Processed positions only, one interval after the start, without being asked."""
    quick = settings(auto_commit_interval_ms=50)
    with api.consumer(client=world.client("a"), source=filled(3, [0]), settings=quick) as consumer:
        polled(consumer, 3)
        consumer.poll(timeout_s=0.01)

        world.until(lambda: world.offsets().get(0) == 3)


def test_without_auto_commit_only_commit_commits(api: Api, world: MemberWorld) -> None:
    """Not the timer, not a revocation, not close (R-24)."""
    manual = settings(auto_commit_enable=False, auto_commit_interval_ms=10)
    with api.consumer(client=world.client("a"), source=filled(3, [0]), settings=manual) as consumer:
        polled(consumer, 3)
        consumer.poll(timeout_s=0.05)
        before_close = world.offsets()[0]

    assert before_close == 0
    assert world.offsets()[0] == 0


@pytest.mark.parametrize(("policy", "start"), [("earliest", 2), ("smallest", 2), ("latest", 5), (None, 2)])
def test_the_policy_decides_where_nothing_is_committed(
    api: Api, world: MemberWorld, policy: str | None, start: int
) -> None:
    """The position is committed before the first record is delivered."""
    source = filled(5, [0])
    source.drop_before(ZERO, 2)
    with api.consumer(
        client=world.client("a"), source=source, settings=settings(auto_offset_reset=policy)
    ) as consumer:
        world.until(lambda: world.offsets().get(0) == start)
        source.append("orders", 0, b"new")

        assert polled(consumer, 6 - start)[0].offset == start


def test_the_policy_error_fails_the_consumer(api: Api, world: MemberWorld) -> None:
    """It names the partition and what to do; nothing is left behind."""
    consumer = api.consumer(
        client=world.client("a"), source=filled(1), settings=settings(auto_offset_reset="error")
    )
    consumer.start()
    world.until(lambda: consumer.state is MemberState.FAILED)

    with pytest.raises(NoOffsetError, match="no offset to start from"):
        consumer.poll()
    with pytest.raises(NoOffsetError):
        consumer.close()
    assert world.owners() == {}


def test_a_position_that_the_source_no_longer_has(api: Api, world: MemberWorld) -> None:
    """The policy decides as well, and the new position is committed first."""
    source = filled(9, [0])
    with api.consumer(client=world.client("a"), source=source) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)
        consumer.commit({ZERO: 3})
    source.drop_before(ZERO, 6)

    with api.consumer(client=world.client("b"), source=source) as consumer:
        assert polled(consumer, 3)[0].offset == 6
    assert world.offsets()[0] >= 6
