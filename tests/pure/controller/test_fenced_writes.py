"""Transactions that prove that this controller is active, and what their outcomes mean."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import leadership, tp
from zkgroup.controller.machine import fenced_writes
from zkgroup.controller.machine.fenced_writes import (
    Fence,
    Packet,
    Write,
    changing,
    pack,
    single,
    size_of,
    was_applied,
    why_deposed,
)
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import (
    Check,
    Code,
    Create,
    Delete,
    Multi,
    MultiRefused,
    SetData,
)
from zkgroup.znodes.brokers import PartitionState

MINE = Fence(epoch=5, version=9)
HEAD = (Check("/controller", 1), Check("/controller_epoch", 9))


def write(number: int, size: int = 10) -> Write:
    """One that sets a znode of its own at version 3."""
    return Write(number, (SetData(f"/z/{number}", b"x" * size, 3),))


def znode(path: str, data: bytes, version: int) -> Znode:
    """As read back."""
    return Znode(path, data, ZnodeStat(1, 2, 0, 0, version, 0, 0, 0, len(data), 0, 1))


def test_every_transaction_begins_with_both_checks() -> None:
    """Recipes 13: version 1 of `/controller` is zkgroup's alone, the epoch's version that of the election."""
    packed = pack(MINE, [write(0), write(1)])

    assert [packet.request for packet in packed.packets] == [
        Multi((*HEAD, *write(0).operations, *write(1).operations))
    ]
    assert single(MINE, write(2)).request == Multi((*HEAD, *write(2).operations))
    assert pack(MINE, []).packets == ()


def test_writes_are_cut_below_the_limit_and_never_divided() -> None:
    """In their order; each packet has its own checks and fits."""
    writes = [write(number, 100) for number in range(25)]

    packed = pack(MINE, writes, bytes_max=1_000)

    assert [one for packet in packed.packets for one in packet.writes] == writes
    assert len(packed.packets) > 3
    for packet in packed.packets:
        assert packet.request.operations[:2] == HEAD
        assert size_of(packet.request.operations) <= 1_000


def test_what_no_server_takes_is_refused_before_it_is_sent() -> None:
    """With what, the bound and what was found; the others go (K33)."""
    packed = pack(MINE, [write(0), write(1, 900_000), write(2)])

    assert [one.about for packet in packed.packets for one in packet.writes] == [0, 2]
    assert [why[:68] for _, why in packed.too_big] == [
        "write about 1: expected at most 900000 bytes in one request, found 9"
    ]


def test_a_decision_carries_the_version_that_it_was_made_from() -> None:
    """And the first state brings the parents that are missing, topmost first."""
    before = leadership(1, (1, 2), leader_epoch=4, version=7)
    path = "/brokers/topics/t/partitions/3/state"
    state = before.decided(2, (2,), 5)
    assert fenced_writes.set_state(tp(3), before, state).operations == (SetData(path, state.encode(), 7),)

    first = PartitionState(1, 0, (1,), 5)
    created = fenced_writes.create_state(tp(3), first, fenced_writes.state_parents(tp(3)))
    assert [(each.path, getattr(each, "data", b"")) for each in created.operations] == [
        ("/brokers/topics/t/partitions", None),
        ("/brokers/topics/t/partitions/3", None),
        (path, first.encode()),
    ]


def two() -> Packet:
    """Writes of one and of two operations."""
    double = Write("b", (Check("/c", 1), SetData("/b", b"new", 4)))
    return pack(MINE, [Write("a", (SetData("/a", b"new", 3),)), double]).packets[0]


@pytest.mark.parametrize(
    ("index", "code", "reason"),
    [
        (0, Code.BAD_VERSION, "/controller has another version"),
        (0, Code.NO_NODE, "/controller is gone"),
        (1, Code.BAD_VERSION, "/controller_epoch has another version"),
        (1, Code.NO_AUTH, "/controller_epoch cannot be checked (NoAuth)"),
    ],
)
def test_a_failed_check_of_the_head_makes_the_controller_resign(index: int, code: Code, reason: str) -> None:
    """Recipes 16: resign, and write nothing else. Deposed by whom, the reason says."""
    assert why_deposed(two(), MultiRefused(index, code)) == reason
    assert why_deposed(two(), MultiRefused(2, code)) is None


@pytest.mark.parametrize(
    ("a", "b", "settled"),
    [
        (("new", 4), ("new", 5), True),
        (("old", 3), ("old", 4), False),
        (("another", 4), ("old", 4), False),
        (("later", 9), ("new", 5), True),
        (("later", 9), ("later", 9), False),
        (("new", 5), ("new", 6), False),
        (("another", 4), ("another", 5), False),
        (None, None, False),
    ],
)
def test_reading_back_says_what_became_of_all(
    a: tuple[str, int] | None, b: tuple[str, int] | None, settled: bool
) -> None:
    """A transaction is whole: the first znode that shows it is enough. Others' writes may hide it."""
    found = {path: znode(path, read[0].encode(), read[1]) for path, read in (("/a", a), ("/b", b)) if read}

    assert was_applied(two(), found) is settled


def test_reading_back_creations_and_deletions() -> None:
    """What is not there was not created; what is there at the version was not deleted; null says nothing."""
    path = "/p/state"
    creation = single(MINE, Write("p", (Create("/p", None), Create(path, b"s"))))
    parent = Znode("/p", None, znode("/p", b"", 0).stat)
    assert was_applied(creation, {"/p": parent, path: znode(path, b"s", 0)})
    assert not was_applied(creation, {"/p": parent})
    assert not was_applied(creation, {"/p": parent, path: znode(path, b"other", 0)})
    assert not was_applied(creation, {"/p": parent, path: znode(path, b"s", 1)})

    deletion = single(MINE, Write("m", (Delete("/m", 2),)))
    assert not was_applied(deletion, {"/m": znode("/m", b"", 2)})
    assert not was_applied(deletion, {})

    sequential = single(MINE, Write("s", (Create("/s-", b"r", sequential=True),)))
    assert not list(changing(sequential))
    assert not was_applied(sequential, {})
