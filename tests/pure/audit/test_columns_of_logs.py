"""Rows that logs give as columns: ends of sessions that name no ephemerals, and the checks of all records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.record_by_record import exact_rows
from tests.worlds.screened_findings import whole_columns
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.inputs.events import DELETE
from zkgroup.audit.inputs.logs import with_ends
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.rows import Columns, columns_of


def sessions(*, lists: bool) -> ServerHistory:
    """Two sessions that end, one with an ephemeral, and one that lives."""
    world = ServerHistory(lists=lists)
    for session in (7, 8, 9):
        world.open(session)
        world.create(f"/e{session}", session=session, ephemeral=True)
    world.delete("/e8")
    world.fail()
    world.close(8)
    world.close(7)
    world.create("/e7", session=9, ephemeral=True)
    return world


def columns_in(folder: Path) -> Columns:
    columns = whole_columns(open_source([folder]).rows())
    assert list(columns.events()) == exact_rows(open_source([folder]))
    return columns


@pytest.mark.parametrize("lists", [True, False])
def test_ends_that_name_nothing_are_found(tmp_path: Path, lists: bool) -> None:
    """Before 3.6 the record of an end has no list: the deletes are added."""
    sessions(lists=lists).log(tmp_path)
    columns = columns_in(tmp_path)
    assert columns.synthetic.any() != lists


def test_an_end_that_lacks_one_ephemeral_is_not_named(tmp_path: Path) -> None:
    """As if another session had deleted it later."""
    world = sessions(lists=True)
    world.log(tmp_path)
    columns = columns_in(tmp_path)
    is_named = (columns.op == DELETE) & (columns.session == 7)
    assert is_named.sum() == 1
    added = with_ends([columns.where(~is_named)], columns_of(()))
    assert [event.path for event in added.events(added.synthetic.nonzero()[0])] == ["/e7"]
