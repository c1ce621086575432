"""Offsets written below living members: who will obey is said before, and who did is watched after."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.worlds.memory_groups import OURS, MemoryGroups
from zkgroup.admin.change import UndoRecorder
from zkgroup.admin.offsets.changes import OffsetsChange, delete_offsets_change, set_offsets_change
from zkgroup.admin.offsets.standing import Standing
from zkgroup.admin.undo import undo_offsets_change
from zkgroup.admin.undo_records import UndoFolder
from zkgroup.errors import RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.znodes.consumers import Owner

ORDERS_0 = TopicPartition("orders", 0)
JVM: Mapping[str, str] = {}
FOREIGN = {"client": "go"}


@pytest.fixture
def recorder(tmp_path_factory: pytest.TempPathFactory) -> UndoRecorder:
    """Records in an empty folder."""
    return UndoRecorder(UndoFolder(tmp_path_factory.mktemp("undo")), zookeeper="zk:2181", user="olga")


@pytest.fixture
def group(world: MemoryGroups) -> MemoryGroups:
    """One partition at 1000, no member."""
    world.topic("orders", 1)
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, 1000)
    return world


def _join(world: MemoryGroups, name: str, extensions: Mapping[str, str]) -> None:
    world.member("g", name, {"orders": 1}, extensions)


def _claim(world: MemoryGroups, name: str) -> None:
    world.own("g", "orders", 0, f"g_{name}-0")


def _set(world: MemoryGroups, offset: int, *, force: bool = True) -> OffsetsChange:
    return set_offsets_change(world.ensemble, "g", {ORDERS_0: offset}, force=force)


def test_who_will_obey_is_said_in_the_refusal_and_in_the_preview(group: MemoryGroups) -> None:
    """By kind of member, of those that own what would change; recipes 6."""
    group.topic("orders", 4)
    for number, (name, extensions) in enumerate((("a", OURS), ("b", JVM), ("c", FOREIGN), ("d", JVM))):
        _join(group, name, extensions)
        group.own("g", "orders", number, f"g_{name}-0")
    values = {TopicPartition("orders", number): 40 for number in range(3)}

    with pytest.raises(RefusedError) as refused:
        set_offsets_change(group.ensemble, "g", values)
    notes = set_offsets_change(group.ensemble, "g", values, force=True).notes

    assert [note.partition(")")[0] for note in notes] == [
        "owners of kind zkgroup (g_a",
        "owners of kind jvm (g_b",
        "owners of kind unknown (g_c",
    ]
    assert ["overwrite" in note for note in notes] == [False, True, True]
    assert str(refused.value).endswith(f"stop them first, or --force: {'; '.join(notes)}")


def test_a_deletion_offers_no_force(group: MemoryGroups) -> None:
    """It is refused beside members of any kind."""
    _join(group, "a", OURS)

    with pytest.raises(RefusedError) as refused:
        delete_offsets_change(group.ensemble, "g", [("orders", ())])

    assert "--force" not in str(refused.value)


def test_without_an_owner_the_new_offsets_are_read_by_the_next(group: MemoryGroups) -> None:
    """A member that owns nothing of what changes overwrites nothing."""
    _join(group, "b", JVM)

    (note,) = _set(group, 40).notes

    assert "no registered member owns these partitions" in note


Step = Callable[[MemoryGroups], None]


def _stops(world: MemoryGroups) -> None:
    world.leave("g", "b")


def _is_succeeded(world: MemoryGroups) -> None:
    world.leave("g", "b")
    _join(world, "e", JVM)
    session = world.server.clients["g_e"].session
    assert session is not None
    owner = Create(Owner.path("g", ORDERS_0), b"g_e-0", ephemeral=True)
    world.write(owner, session_id=session.session_id)  # as a JVM member claims: it does not touch the offset


def _commits(offset: int) -> Step:
    return lambda world: world.commit("g", "orders", 0, offset)


@pytest.mark.parametrize(
    ("owner", "after", "steps", "standing"),
    [
        # obeys: ZooKeeper refuses its commits until it has sought
        (OURS, 40, [], "stands"),
        # a JVM member goes on from its own position, which only its next commit shows
        (JVM, 40, [], "pending"),
        (FOREIGN, 40, [], "pending"),
        (JVM, 40, [_commits(1010)], "overwritten"),
        (JVM, 40, [_commits(50)], "overwritten"),
        (JVM, 2000, [_commits(1010)], "overwritten"),
        # its last commit comes before it leaves, or does not come
        (JVM, 40, [_commits(1010), _stops], "overwritten"),
        (JVM, 40, [_stops], "stands"),
        # who claims the partition has read the new offset
        (JVM, 40, [_is_succeeded], "stands"),
        (JVM, 40, [_is_succeeded, _commits(1010)], "stands"),
        (JVM, 40, [_is_succeeded, _commits(45), _commits(50)], "stands"),
        (JVM, 40, [_is_succeeded, _commits(45), _commits(1010)], "overwritten"),
        (JVM, 40, [_commits(1010), _is_succeeded], "overwritten"),
        (JVM, 2000, [_is_succeeded, _commits(2005)], "stands"),
        (JVM, 2000, [_commits(1010), _is_succeeded], "overwritten"),
        # nobody has claimed it yet, and somebody wants it
        (None, 40, [lambda world: _join(world, "f", JVM)], "pending"),
        (None, 40, [], "stands"),
    ],
)
def test_offsets_stand_if_the_next_owner_goes_on_from_them(
    group: MemoryGroups,
    recorder: UndoRecorder,
    owner: Mapping[str, str] | None,
    after: int,
    steps: list[Step],
    standing: Standing,
) -> None:
    """What happens between the write and the first read decides, where it decides anything."""
    if owner is not None:
        _join(group, "b", owner)
        _claim(group, "b")
    change = _set(group, after)
    written = change.apply(recorder).written
    for step in steps:
        step(group)

    assert written is not None
    assert change.wait is not None
    (found,) = change.wait(written, 0)

    assert found.standing == standing


def test_the_wait_lasts_until_the_owner_shows_what_it_does(
    group: MemoryGroups, recorder: UndoRecorder
) -> None:
    """The owner commits 30 s later; what stood once is not asked again."""
    group.topic("orders", 2)
    group.commit("g", "orders", 1, 1000)
    _join(group, "a", OURS)
    _join(group, "b", JVM)
    group.own("g", "orders", 0, "g_a-0")
    group.own("g", "orders", 1, "g_b-0")
    began = group.clock.now_ms()
    group.clock.call_at(began + 5_000, lambda: group.commit("g", "orders", 0, 41))
    group.clock.call_at(began + 10_000, lambda: group.commit("g", "orders", 0, 2000))
    group.clock.call_at(began + 30_000, lambda: group.commit("g", "orders", 1, 1010))

    result = set_offsets_change(
        group.ensemble, "g", {TopicPartition("orders", number): 40 for number in (0, 1)}, force=True
    ).apply(recorder, wait_s=60)

    assert result.outcome is not None
    assert [(one.standing, one.offset, one.owner) for one in result.outcome] == [
        ("stands", 40, "g_a-0"),
        ("overwritten", 1010, "g_b-0"),
    ]
    assert 30_000 <= group.clock.now_ms() - began < 32_000


def test_the_wait_of_an_undo_is_the_same(group: MemoryGroups, recorder: UndoRecorder) -> None:
    """An undo below a JVM member writes offsets as `set` does."""
    _join(group, "b", JVM)
    _claim(group, "b")
    _set(group, 40).apply(recorder)
    record = recorder.folder.newest(lambda _: True)

    result = undo_offsets_change(group.ensemble, record, force=True).apply(recorder, wait_s=3)

    assert result.outcome is not None
    assert [one.standing for one in result.outcome] == ["pending"]
