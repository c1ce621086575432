"""S10: members with equal views compute equal assignments, and each owns its own share."""

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
    """Two members, `b` and `c`, compute assignments, with views and results of the given digests."""
    world.register("c", 3)
    for name, view, result in zip("bc", inputs, results, strict=True):
        world.rebalance(name, ["b", "c"], mine=[], strategy=strategy, inputs=view, result=result)


@pytest.mark.parametrize("strategy", ["sticky", "roundrobin"])
def test_different_results_from_the_same_view_are_found(strategy: str) -> None:
    """They are found even where the right result is not known."""
    world = good_history()
    plans(world, "0000", "1111", strategy=strategy)

    assert details(world.check()) == ["from the same view g_b computed 0000, g_c 1111"]


def test_different_views_may_have_different_results() -> None:
    """The views differ in members or strategy."""
    world = good_history()
    plans(world, "0000", "1111", inputs=["v", "w"])

    assert details(world.check()) == []


def test_a_wrong_result_that_all_members_share_is_found() -> None:
    """The checker computes range with its own code."""
    world = good_history()
    plans(world, "0000", "0000", strategy="range")

    assert details(world.check()) == [
        "g_b computed 0000, which is not the range assignment",
        "g_c computed 0000, which is not the range assignment",
    ]


def test_two_views_with_one_digest_are_found() -> None:
    """The views differ in subscriptions or in partitions."""
    world = good_history()
    world.rebalance("b", ["b"], mine=[], strategy="sticky", inputs="v", result="0000")
    world.rebalance("b", ["a", "b"], mine=[], strategy="sticky", inputs="v", result="0000")
    fewer = {TOPIC: [0]}
    world.rebalance("b", ["b"], mine=[], strategy="sticky", inputs="v", result="0000", partitions=fewer)

    assert details(world.check()) == [
        "g_b and g_b hash different members to v",
        "g_b and g_b hash different partitions to v",
    ]


def test_the_order_within_a_view_does_not_matter() -> None:
    """Neither the order of members nor that of partitions matters."""
    world = good_history()
    turned = {TOPIC: [3, 2, 1, 0]}
    world.rebalance("b", ["b"], mine=[], strategy="sticky", inputs="v", result="0000")
    world.rebalance("b", ["b"], mine=[], strategy="sticky", inputs="v", result="0000", partitions=turned)

    assert details(world.check()) == []


@pytest.mark.parametrize("kind", ["unsupported_subscription", "assignment_refused"])
def test_a_member_that_could_not_assign_needs_no_result(kind: str) -> None:
    """It keeps its partitions, and records the reason."""
    world = good_history()
    world.note("b", kind, detail="x")
    world.rebalance("b", ["b"], mine=[], result="0000")

    report = world.check()

    assert details(report) == []
    assert report.figures.rebalances == 5


def test_an_end_belongs_to_the_begin_of_its_generation() -> None:
    """An interrupted rebalance has no end, and does not get the end of the next one."""
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
