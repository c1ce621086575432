"""The tables of planned offset changes, and of a group."""

from __future__ import annotations

import pytest
from zkgroup_cli import groups
from zkgroup_cli.render import Output

from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.change import UndoRecord
from zkgroup.admin.offsets.changes import delete_offsets_change, set_offsets_change
from zkgroup.admin.offsets.planning import OffsetPlan
from zkgroup.admin.undo import plan_undo
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.groups.reads import describe
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Owner

BY = ChangeRecord(undo_id="x", command="offsets delete", user="me")
PARTITION = TopicPartition("orders", 0)


@pytest.fixture
def world() -> MemoryGroups:
    """A topic, and a group whose offset of it is -1: claimed, and never committed."""
    found = MemoryGroups()
    found.topic("orders", 1)
    found.server.put("/consumers/g/ids")
    found.commit("g", "orders", 0, -1)
    return found


def _row(plan: OffsetPlan, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """BEFORE, AFTER and CHANGE of the only row."""
    groups.offset_plan(Output("table", color=False, width=None), [plan], executed=False)
    return capsys.readouterr().out.splitlines()[1].split()[-3:]


def test_the_undo_of_a_deleted_offset_that_was_never_committed_is_new(
    world: MemoryGroups, capsys: pytest.CaptureFixture[str]
) -> None:
    """Past bug: the znode with -1 that the undo creates again was shown as `gone`; as it is again, `-`."""
    change = delete_offsets_change(world.ensemble, "g", [("orders", ())])
    assert change.undo is not None
    record: UndoRecord = change.undo

    deleted = _row(change.plan, capsys)
    change.write(BY)
    undo = plan_undo(world.ensemble, record)
    undone = _row(undo, capsys)
    world.commit("g", "orders", 0, -1)
    again = _row(plan_undo(world.ensemble, record), capsys)

    assert deleted == ["-", "-", "gone"]
    assert (undone, len(undo.effective)) == (["-", "-", "new"], 1)
    assert again == ["-", "-", "-"]


def test_a_row_says_by_how_much_the_offset_changes(
    world: MemoryGroups, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or that it is the first one, stays, or is no longer committed."""
    rows = []
    for before, after in ((-1, 7), (7, 9), (9, 4), (4, 4), (4, -1)):
        world.commit("g", "orders", 0, before)
        change = set_offsets_change(world.ensemble, "g", {PARTITION: after})
        rows.append(_row(change.plan, capsys)[-1])

    assert rows == ["new", "+2", "-5", "-", "gone"]


def test_owners_that_no_session_holds_are_shown_by_path(
    world: MemoryGroups, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their rows have the kind of problem alone."""
    world.server.put(Owner.path("g", PARTITION), b"g_a-0")

    groups.group(Output("table", color=False, width=None), describe(world.ensemble, "g"))

    assert "\npersistent_znode  /consumers/g/owners/orders/0: no member can" in capsys.readouterr().out
