"""Replica lists of other tools: their cost, and whether they make a property worse."""

from __future__ import annotations

import pytest

from tests.pure.placement.snapshots import Lists, snapshot, tp
from zkgroup.errors import PlacementError, PlanRefusedError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.placement import Broker, ClusterSnapshot, Load, balance, generate, validate

RING: Lists = [(1, 2), (2, 3), (3, 4), (4, 1)]


def test_a_proposal_is_priced() -> None:
    """Moves, bytes, leader changes; partitions that stay as they are do not count."""
    before = snapshot(RING, [1, 2, 3, 4], sizes=[10, 20, 30, 40])

    plan = validate(before, {tp(0): (2, 1), tp(1): (2, 3), tp(2): (4, 1)}, intent="assign", allow={"balance"})

    assert [change.topic_partition for change in plan.changes] == [tp(0), tp(2)]
    assert (plan.moves, plan.bytes, plan.leader_changes) == (1, 30, 2)
    assert plan.target == {tp(0): (2, 1), tp(2): (4, 1)}
    assert plan.before.loads[1] == Load(replicas=2, leaders=1, bytes=50, leader_bytes=10)
    assert plan.after.loads[1] == Load(replicas=3, leaders=0, bytes=80, leader_bytes=0)


def test_nothing_to_do() -> None:
    """Lists equal to the present ones."""
    assert validate(snapshot(RING, [1, 2, 3, 4]), {tp(0): (1, 2)}).changes == ()


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ((1, 2, 3), "3 joins"),
        ((2,), "1 leaves, leader 1 -> 2"),
        ((3, 4), "1 -> 3, 2 -> 4, leader 1 -> 3"),
        ((2, 1), "leader 1 -> 2"),
    ],
)
def test_each_change_is_explained(after: tuple[int, ...], reason: str) -> None:
    """The replicas and their targets, in words."""
    plan = validate(snapshot([(1, 2)], [1, 2, 3, 4]), {tp(0): after}, allow={"factor", "balance"})

    assert plan.changes[0].reason == reason


def test_an_order_of_followers_is_a_change() -> None:
    """AR is an ordered list, and verify compares it as one."""
    plan = validate(snapshot([(1, 2, 3)], [1, 2, 3]), {tp(0): (1, 3, 2)})

    assert (plan.changes[0].reason, plan.moves, plan.leader_changes) == ("order of followers only", 0, 0)


@pytest.mark.parametrize(
    ("lists", "brokers", "target", "kind", "reason"),
    [
        ([(1, 2)], [1, 2], (1,), "factor", "t-0 would have 1 replica instead of 2"),
        (
            [(1, 2)],
            {1: "a", 2: "b", 3: "a"},
            (1, 3),
            "racks",
            "t-0 would be in 1 rack instead of 2: [1, 2] -> [1, 3]",
        ),
        (
            [(8, 9)],
            [1],
            (1,),
            "source",
            "t-0: none of [8, 9] is alive and in sync, there is nothing to copy from",
        ),
    ],
)
def test_a_loss_is_refused_by_name_unless_allowed(
    lists: Lists, brokers: list[int], target: tuple[int, ...], kind: str, reason: str
) -> None:
    """Each kind of loss by itself."""
    everything = {"factor", "racks", "balance", "source"}
    before = snapshot(lists, brokers)

    with pytest.raises(PlanRefusedError) as refused:
        validate(before, {tp(0): target}, intent="assign", allow=everything - {kind})  # type: ignore[arg-type]

    assert refused.value.reasons == (reason,)
    assert refused.value.intent == "assign"
    assert str(refused.value) == f"assign: {reason}"
    assert isinstance(refused.value, RefusedError)
    assert refused.value.exit_code == 2
    assert validate(before, {tp(0): target}, allow=everything).target == {tp(0): target}  # type: ignore[arg-type]


def test_less_even_loads_are_refused() -> None:
    """Replicas and leaders each; a difference of 1 is always even enough."""
    before = snapshot(RING, [1, 2, 3, 4])

    with pytest.raises(PlanRefusedError) as refused:
        validate(before, {tp(2): (1, 2), tp(3): (1, 2)})
    assert refused.value.reasons == (
        "the loads of the brokers would differ by 4 replicas instead of 0",
        "the loads of the brokers would differ by 3 preferred leaders instead of 0",
    )
    assert validate(snapshot([(1,), (2,)], [1, 2, 3]), {tp(0): (3,)}).moves == 1


def test_less_even_bytes_are_refused_where_sizes_are_known() -> None:
    """The count does not matter then; a fifth of the mean is even enough."""
    before = snapshot([(1,), (1,), (2,)], [1, 2], sizes=[50, 50, 100])

    with pytest.raises(PlanRefusedError, match="would differ by 100 bytes of replicas instead of 0"):
        validate(before, {tp(0): (2,)})
    small = snapshot([(1,), (1,), (2,)], [1, 2], sizes=[5, 95, 100])
    assert validate(small, {tp(0): (2,)}).after.byte_spread == 10


def test_many_reasons_are_counted() -> None:
    """The message names five, the error carries all."""
    before = snapshot([(1, 2)] * 7, [1, 2])

    with pytest.raises(PlanRefusedError, match=r"; and 2 more$") as refused:
        validate(before, {tp(number): (1,) for number in range(7)}, allow={"balance"})

    assert len(refused.value.reasons) == 7


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({tp(9): (1,)}, "t-9 does not exist"),
        ({tp(0): (1, 1)}, r"t-0: the replica list \[1, 1\] repeats a broker"),
        ({tp(0): ()}, "t-0: the replica list is empty"),
        ({tp(0): (1, 7)}, "t-0: broker 7 is not registered"),
        ({tp(0): (8, 7)}, "t-0: brokers 7, 8 are not registered"),
    ],
)
def test_a_proposal_that_is_an_error(target: dict[TopicPartition, tuple[int, ...]], message: str) -> None:
    """Errors that no allowance permits."""
    with pytest.raises(PlacementError, match=message):
        validate(snapshot(RING, [1, 2, 3, 4]), target, allow={"factor", "racks", "balance", "source"})


def test_a_broker_that_is_gone_may_stay_in_a_list() -> None:
    """It was there before; only newcomers have to be registered."""
    assert validate(snapshot([(1, 9)], [1, 2]), {tp(0): (9, 1)}, allow={"balance"}).moves == 0


def test_generate_moves_far_more_than_balance() -> None:
    """One more broker, 300 partitions: the moves that Kafka proposes, and those that are needed."""
    topics = {f"t{n}": dict.fromkeys(range(100), (0, 0, 0)) for n in range(3)}
    brokers = [Broker(one) for one in range(10)]
    before = ClusterSnapshot(replicas=generate(topics, brokers[:9])[0], brokers=tuple(brokers))

    theirs = validate(before, generate(topics, brokers)[0])
    ours = balance(before)

    assert ours.after.replica_spread == theirs.after.replica_spread == 0
    assert (ours.moves, ours.least_moves) == (90, 90)
    assert theirs.moves > 5 * ours.moves
