"""The effect of a change on a group, without the change."""

from __future__ import annotations

import pytest

from tests.worlds.memory_groups import OURS, MemoryGroups
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.groups.descriptions import Preview
from zkgroup.groups.preview import GroupChange
from zkgroup.groups.reads import preview


@pytest.fixture
def group(world: MemoryGroups) -> MemoryGroups:
    """Two members that share four partitions."""
    world.topic("orders", 4)
    world.member("g", "a", {"orders": 1})
    world.member("g", "b", {"orders": 1})
    world.own_as_planned("g")
    return world


def _then(shown: Preview) -> list[str | None]:
    return [row.then for row in shown.partitions]


def test_no_change_moves_nothing(group: MemoryGroups) -> None:
    """The assignment of a converged group equals its owners."""
    shown = preview(group.ensemble, "g", GroupChange())

    assert shown.moves == 0
    assert [row.now for row in shown.partitions] == _then(shown) == ["g_a-0", "g_a-0", "g_b-0", "g_b-0"]


def test_a_member_more_takes_its_share(group: MemoryGroups) -> None:
    """An added member subscribes like the others unless its topics are given."""
    shown = preview(group.ensemble, "g", GroupChange(add=(("c", None),)))
    other = preview(group.ensemble, "g", GroupChange(add=(("g_c", {"clicks": 1}),)))

    assert (_then(shown), shown.moves) == (["g_a-0", "g_a-0", "g_b-0", "g_c-0"], 1)
    assert other.moves == 0


def test_a_member_less_leaves_its_share(group: MemoryGroups) -> None:
    """A removed member is named with or without the group's prefix."""
    for name in ("b", "g_b"):
        shown = preview(group.ensemble, "g", GroupChange(remove=(name,)))

        assert (_then(shown), shown.moves) == (["g_a-0"] * 4, 2)


def test_the_number_of_members_can_be_given(group: MemoryGroups) -> None:
    """Members beyond the present ones come last in the order, which is said; surplus ones go from the end."""
    more = preview(group.ensemble, "g", GroupChange(members=4))
    fewer = preview(group.ensemble, "g", GroupChange(members=1))

    assert len(set(_then(more))) == 4
    assert more.notes
    assert _then(fewer) == ["g_a-0"] * 4


def test_partitions_can_be_added(group: MemoryGroups) -> None:
    """New partitions are numbered on and shown without an owner now."""
    shown = preview(group.ensemble, "g", GroupChange(add_partitions={"orders": 2}))

    assert [row.topic_partition.partition for row in shown.partitions] == [0, 1, 2, 3, 4, 5]
    assert shown.partitions[5].now is None
    assert _then(shown) == ["g_a-0"] * 3 + ["g_b-0"] * 3


def test_another_strategy_can_be_tried(group: MemoryGroups) -> None:
    """Sticky starts from the present owners, so a new member moves the fewest partitions."""
    change = GroupChange(add=(("0", None),))
    by_range = preview(group.ensemble, "g", change)
    sticky = preview(group.ensemble, "g", GroupChange(add=change.add, assignor="sticky"))

    assert (by_range.assignor, sticky.assignor) == ("range", "sticky")
    assert sticky.moves < by_range.moves


def test_the_strategy_is_the_one_that_the_members_then_agree_on(group: MemoryGroups) -> None:
    """Without the member that has range only, the others use what they prefer."""
    lists = {**OURS, "strategy": "sticky,range", "features": "strategies"}
    group.member("l", "a", {"orders": 1}, lists)
    group.member("l", "b", {"orders": 1}, {**OURS, "features": "strategies"})

    now = preview(group.ensemble, "l", GroupChange(members=3))
    then = preview(group.ensemble, "l", GroupChange(remove=("b",)))

    assert (now.assignor, then.assignor) == ("range", "sticky")


def test_new_members_are_like_the_present_ones_in_capacity_and_rack(group: MemoryGroups) -> None:
    """The most usual capacity, and the rack with the fewest members; both are said."""
    for name, capacity, rack in (("a", "1", "x"), ("b", "9", "y"), ("c", "9", "x")):
        group.member("w", name, {"orders": 1}, {**OURS, "capacity": capacity, "rack": rack})

    shown = preview(group.ensemble, "w", GroupChange(members=4))

    assert [_then(shown).count(f"w_{name}-0") for name in ("a", "b", "c", "~new-1")] == [0, 2, 1, 1]
    assert any("capacity and rack" in note for note in shown.notes)


def test_what_cannot_be_imagined_is_refused(group: MemoryGroups) -> None:
    """Unknown members and topics, a name that is taken, and nothing to copy from."""
    with pytest.raises(NotFoundError, match="no member 'x'"):
        preview(group.ensemble, "g", GroupChange(remove=("x",)))
    with pytest.raises(NotFoundError, match="no topic 'x'"):
        preview(group.ensemble, "g", GroupChange(add_partitions={"x": 1}))
    with pytest.raises(ConfigError, match="already"):
        preview(group.ensemble, "g", GroupChange(add=(("a", None),)))
    group.member("g", "c", {"clicks": 1}, OURS)
    with pytest.raises(ConfigError, match="different subscriptions"):
        preview(group.ensemble, "g", GroupChange(members=9))


def test_partitions_without_an_owner_are_assigned_and_surplus_ones_released(group: MemoryGroups) -> None:
    """Past bug: both counted as moves, and the preview of a group that begins was all moves."""
    group.topic("fresh", 2)
    group.member("new", "a", {"fresh": 1})

    begins = preview(group.ensemble, "new", GroupChange())
    ends = preview(group.ensemble, "g", GroupChange(members=0))

    assert ([row.step for row in begins.partitions], begins.moves) == (["assigned"] * 2, 0)
    assert ({row.step for row in ends.partitions}, ends.moves) == ({"released"}, 0)
    assert (begins.count_of("assigned"), ends.count_of("released")) == (2, len(ends.partitions))


def test_a_group_that_does_not_exist_can_be_imagined(group: MemoryGroups) -> None:
    """With members given; it is said that it is new, and without any it is not found."""
    change = GroupChange(add=(("x", {"orders": 1}), ("y", {"orders": 1})))

    shown = preview(group.ensemble, "new", change)

    assert [row.then for row in shown.partitions] == ["new_x-0", "new_x-0", "new_y-0", "new_y-0"]
    assert (shown.moves, shown.count_of("assigned")) == (0, 4)
    assert shown.notes == ("there is no group 'new' yet",)
    with pytest.raises(NotFoundError, match="/consumers/new"):
        preview(group.ensemble, "new", GroupChange())
    with pytest.raises(ConfigError, match="new has no member: say what a new one subscribes to"):
        preview(group.ensemble, "new", GroupChange(members=2))


def test_topics_that_do_not_exist_are_named(group: MemoryGroups) -> None:
    """Past bug: a mistyped topic showed a group with nothing to share, without a note."""
    group.topic("clicks", 2)

    shown = preview(group.ensemble, "g", GroupChange(add=(("c", {"clicks": 1, "clicsk": 1}),)))

    assert [row.then for row in shown.partitions if row.topic_partition.topic == "clicks"] == ["g_c-0"] * 2
    (note,) = shown.notes
    assert note.startswith("there is no topic clicsk: nothing of it is shared")
    with pytest.raises(ConfigError, match="topic 'a b'"):
        preview(group.ensemble, "g", GroupChange(add=(("c", {"a b": 1}),)))
