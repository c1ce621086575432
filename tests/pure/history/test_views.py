"""S10 looked at one rule at a time: the same view, the same answer, the right one, the own share of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.worlds.group_history import TOPIC, GroupHistory, good_history
from zkgroup.history.report import Report


def details(report: Report) -> list[str]:
    assert {violation.invariant for violation in report.violations} <= {"S10"}
    return [violation.detail for violation in report.violations]


def plans(
    world: GroupHistory, *results: str, strategy: str = "sticky", inputs: Sequence[str] = ("v", "v")
) -> None:
    """Two members of `b` and `c` plan, each from a view and with a result of the given digests."""
    world.register("c", 3)
    for name, view, result in zip("bc", inputs, results, strict=True):
        world.rebalance(name, ["b", "c"], mine=[], strategy=strategy, inputs=view, result=result)


@pytest.mark.parametrize("strategy", ["sticky", "roundrobin"])
def test_members_with_the_same_view_and_different_answers_are_found(strategy: str) -> None:
    """Also where nobody can say which of the two is right."""
    world = good_history()
    plans(world, "0000", "1111", strategy=strategy)

    assert details(world.check()) == ["from the same view g_b computed 0000, g_c 1111"]


def test_other_views_may_have_other_answers() -> None:
    """Of another membership, or by another strategy."""
    world = good_history()
    plans(world, "0000", "1111", inputs=["v", "w"])

    assert details(world.check()) == []


def test_an_answer_that_everybody_shares_can_be_wrong() -> None:
    """Range is computed again, by code that shares nothing with that of the members."""
    world = good_history()
    plans(world, "0000", "0000", strategy="range")

    assert details(world.check()) == [
        "g_b computed 0000, which is not the range assignment",
        "g_c computed 0000, which is not the range assignment",
    ]


def test_two_views_with_one_digest_are_found() -> None:
    """Of members that want different things, and of topics that have other partitions."""
    world = good_history()
    world.rebalance("b", ["b"], mine=[], strategy="sticky", inputs="v", result="0000")
    world.rebalance("b", ["a", "b"], mine=[], strategy="sticky", inputs="v", result="0000")
    fewer = {TOPIC: [0]}
    world.rebalance("b", ["b"], mine=[], strategy="sticky", inputs="v", result="0000", partitions=fewer)

    assert details(world.check()) == [
        "g_b and g_b hash different members to v",
        "g_b and g_b hash different partitions to v",
    ]


def test_the_order_in_which_a_view_is_recorded_means_nothing() -> None:
    """Neither of members nor of partitions."""
    world = good_history()
    turned = {TOPIC: [3, 2, 1, 0]}
    world.rebalance("b", ["b"], mine=[], strategy="sticky", inputs="v", result="0000")
    world.rebalance("b", ["b"], mine=[], strategy="sticky", inputs="v", result="0000", partitions=turned)

    assert details(world.check()) == []


@pytest.mark.parametrize("kind", ["unsupported_subscription", "assignment_refused"])
def test_a_member_that_could_not_plan_is_not_asked_for_an_answer(kind: str) -> None:
    """It goes on with what it has, and says so before it begins."""
    world = good_history()
    world.note("b", kind, detail="x")
    world.rebalance("b", ["b"], mine=[], result="0000")

    report = world.check()

    assert details(report) == []
    assert report.figures.rebalances == 5


def test_an_end_belongs_to_the_begin_of_its_generation() -> None:
    """A rebalance that was overtaken has no end; the next one's is not taken for it."""
    world = good_history()
    world.rebalance("b", ["b"], mine=[], result="0000")
    overtaken = world.records.pop()
    world.records.append(
        type(overtaken)(
            overtaken.ts, overtaken.seq, 1, overtaken.member, overtaken.session, overtaken.kind,
            {**overtaken.fields, "generation": 7},
        )
    )  # fmt: skip

    assert details(world.check()) == []
