"""The judge of what members of groups saw: each rule with a history that breaks it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.programs.chaos.groups.history import HistoryFile, Seen
from tests.programs.chaos.groups.judge import judge, owners_at_the_end
from zkgroup.history import Change, ServerTransaction
from zkgroup.znodes.coordinated_groups import GroupHeader, SlotOwner

GROUP = "g"
OWNER, OTHER = 0xA, 0xB


def seen(kind: str, client: str, generation: int, at: int, **fields: object) -> Seen:
    """A request that was answered at once."""
    return Seen(kind, GROUP, client, f"id-{client}", generation, at, at + 1, **fields)  # type: ignore[arg-type]


def joined(client: str, generation: int, at: int, leader: str = "id-a", *members: str) -> Seen:
    return seen("joined", client, generation, at, leader=leader, members=members)


GOOD = (
    joined("a", 1, 10, "id-a", "id-a", "id-b"),
    joined("b", 1, 11),
    seen("synced", "a", 1, 20, partitions=(0,)),
    seen("synced", "b", 1, 21, partitions=(1,)),
    seen("fetched", "a", 1, 30, offsets=((0, -1),)),
    seen("committed", "a", 1, 40, offsets=((0, 5),)),
    joined("b", 2, 50, "id-b", "id-b"),
    seen("committed", "a", 1, 55, offsets=((0, 5),)),
    seen("synced", "b", 2, 60, partitions=(0, 1)),
    seen("committed", "a", 1, 62, error=25, offsets=((0, 6),)),
    seen("fetched", "b", 2, 70, offsets=((0, 5), (1, -1))),
)


def changed(zxid: int, session: int, *changes: Change) -> ServerTransaction:
    return ServerTransaction(zxid, zxid, session, changes)


def fence(zxid: int, session: int) -> ServerTransaction:
    return changed(zxid, session, Change("set", SlotOwner.path(0), SlotOwner(1, zxid).encode()))


def offset(zxid: int, session: int, value: int) -> ServerTransaction:
    return changed(zxid, session, Change("set", f"/consumers/{GROUP}/offsets/t/0", b"%d" % value))


def header(zxid: int, session: int, generation: int, reserved: int = 100) -> ServerTransaction:
    stored = GroupHeader(
        generation=generation,
        reserved_generation=reserved,
        protocol_type=None,
        protocol=None,
        leader=None,
        state_timestamp_ms=0,
    )
    return changed(zxid, session, Change("set", GroupHeader.path(0, GROUP), stored.encode()))


LOG = (fence(1, OWNER), header(2, OWNER, 1), offset(3, OWNER, 5), fence(4, OTHER), header(5, OTHER, 101, 200))


def test_a_history_in_order_has_no_violation() -> None:
    """Two generations, a commit before the second has its assignment, one that is refused, a failover."""
    found = judge(GOOD, LOG, 1)

    assert found.wrong == []
    assert found.figures["generations"] == 2
    assert found.figures["committed in an old generation"] == 1
    assert found.figures["fences"] == 2


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("G1", joined("c", 2, 80, "id-c", "id-c")),
        ("G2", seen("synced", "c", 2, 80, partitions=(1,))),
        ("G3", seen("committed", "a", 1, 80, offsets=((0, 7),))),
        ("G4", seen("fetched", "b", 2, 80, offsets=((0, 4),))),
    ],
)
def test_what_members_must_not_see_is_found(rule: str, more: Seen) -> None:
    """One answer too many."""
    assert [why[:2] for why in judge([*GOOD, more], LOG, 1).wrong] == [rule]
    unanswered = replace(more, error=None)
    assert judge([*GOOD, unanswered], LOG, 1).wrong == []


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("G5", offset(6, OWNER, 6)),
        ("G6", offset(6, OTHER, 4)),
        ("G7", header(6, OTHER, 100, 200)),
        ("G7", header(6, OTHER, 201, 200)),
    ],
)
def test_what_must_not_be_stored_is_found(rule: str, more: ServerTransaction) -> None:
    """One write too many; refused, it is none."""
    assert [why[:2] for why in judge(GOOD, [*LOG, more], 1).wrong] == [rule]


def test_who_is_a_member_at_the_end() -> None:
    """Whoever was assigned partitions last, and has not left."""
    left = seen("left", "b", 2, 90)

    assert {name: each.generation for name, each in owners_at_the_end(GOOD)[GROUP].items()} == {
        "a": 1,
        "b": 2,
    }
    assert set(owners_at_the_end([*GOOD, left])[GROUP]) == {"a"}
    assert set(owners_at_the_end([*GOOD, replace(left, error=None)])[GROUP]) == {"a", "b"}


def test_a_history_is_read_while_it_is_written(tmp_path: Path) -> None:
    """A line that is not whole yet is read later."""
    file = tmp_path / "history"
    history = HistoryFile(file)
    assert history.read() == []

    lines = "".join(each.line() + "\n" for each in GOOD)
    file.write_text(lines[:-20])
    assert history.read() == list(GOOD[:-1])
    file.write_text(lines)

    assert history.read() == list(GOOD)
