"""Warm-up: the old owner works until the new one is ready, or the bound has passed (recipes 27)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.stepped_group import GROUP, SteppedGroup, effects_of, is_stable, owned
from zkgroup.consumer.machine import events as ev
from zkgroup.settings import GroupSettings
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import PreparedPartitions

PREPARED = f"/consumers/{GROUP}/prepared"


def _settings(**fields: object) -> GroupSettings:
    return GroupSettings(prepare_timeout_ms=5000, **fields)  # type: ignore[arg-type]


def test_the_old_owner_works_until_the_new_one_has_prepared() -> None:
    """Nothing is released while `on_prepare` runs; when it returns, the partitions change hands at once."""
    stage = SteppedGroup()
    first = stage.join("a", settings=_settings())
    stage.never_ready.add("b")
    second = stage.join("b", settings=_settings(), prepares=True, run_ms=3000)

    assert (owned(first), owned(second)) == ([0, 1, 2, 3], [])
    (call,) = effects_of(second, ev.Prepare)
    assert [tp.partition for tp in call.partitions] == [2, 3]
    assert not is_stable(first)

    stage.never_ready.clear()
    stage.run(200)
    assert (owned(first), owned(second)) == ([0, 1], [2, 3])
    assert is_stable(first)
    assert is_stable(second)


def test_the_bound_ends_the_wait() -> None:
    """5 s after the old owner has read the assignment; `on_prepare` may go on."""
    stage = SteppedGroup()
    first = stage.join("a", settings=_settings())
    stage.never_ready.add("b")
    second = stage.join("b", settings=_settings(), prepares=True, run_ms=4500)
    assert owned(first) == [0, 1, 2, 3]

    stage.run(1500)
    assert (owned(first), owned(second)) == ([0, 1], [2, 3])


@pytest.mark.parametrize("limit", [None, 8])
def test_the_bound_does_not_begin_again_when_the_group_changes(limit: int | None) -> None:
    """Past bug: it did where another member was the first to write each assignment in steps."""
    stage = SteppedGroup({"t": 8, "u": 1})
    settings = _settings(partition_assignment_strategy="sticky", rebalance_moves_max=limit)
    first = stage.join("a", settings=replace(settings, settle_ms=300))
    stage.never_ready.add("b")
    second = stage.join("b", settings=settings, prepares=True, run_ms=2000)
    for name in "cde":
        assert owned(first) == list(range(8))
        stage.join(name, {"u": 1}, settings=settings, run_ms=1400)

    assert (owned(first), owned(second)) == ([0, 1, 2, 3], [4, 5, 6, 7])


def test_a_bound_that_passes_after_the_session_is_forgotten() -> None:
    """The old owner has nothing to give up any more, and waits for nothing."""
    stage = SteppedGroup()
    first = stage.join("a")
    stage.never_ready.add("b")
    stage.join("b", settings=GroupSettings(prepare_timeout_ms=8000), prepares=True, run_ms=1000)
    stage.server.suspend("client-a")
    stage.run(10_000)

    assert owned(first) == []


@pytest.mark.parametrize("prepares", [False, True])
def test_a_crash_of_the_old_owner_leaves_partitions_without_an_owner_no_longer_than_without(
    prepares: bool,
) -> None:
    """They are claimed when its session ends, while `on_prepare` still runs."""
    stage = SteppedGroup()
    first = stage.join("a", settings=_settings())
    stage.never_ready.add("b")
    second = stage.join("b", settings=_settings(), prepares=prepares, run_ms=1000)
    first.kill()
    stage.server.expire("client-a")

    assert stage.run_until(lambda: owned(second) == [0, 1, 2, 3]) <= 200


def test_a_crash_of_the_new_owner_leaves_everything_where_it_is() -> None:
    """The old owner keeps what it has, without a moment between."""
    stage = SteppedGroup()
    first = stage.join("a", settings=_settings())
    tokens = {tp: grant.token for tp, grant in first.machine.grants().items()}
    stage.never_ready.add("b")
    second = stage.join("b", settings=_settings(), prepares=True, run_ms=1000)
    second.kill()
    stage.server.expire("client-b")
    stage.run(7000)

    assert {tp: grant.token for tp, grant in first.machine.grants().items()} == tokens
    assert is_stable(first)


def test_a_new_owner_that_comes_back_under_its_name_is_waited_for_anew() -> None:
    """What its former process had prepared says nothing about this one."""
    stage = SteppedGroup()
    first = stage.join("a", settings=_settings())
    stage.server.put(PREPARED)
    stage.never_ready.add("b")
    stage.join("b", settings=_settings(), prepares=True, run_ms=1000)
    znode = stage.server.find(f"/consumers/{GROUP}/ids")
    assert znode is not None
    old = PreparedPartitions(znode.stat.pzxid, frozenset(first.machine.grants()))
    stage.actors["b"].kill()
    stage.server.expire("client-b")
    stage.join("b", settings=_settings(), prepares=True, client="again", run_ms=500)
    stage.server.put(f"{PREPARED}/g_b", old.encode())
    stage.run(4000)

    assert owned(first) == [0, 1, 2, 3]
    stage.run(1500)
    assert owned(first) == [0, 1]


def test_a_leave_waits_for_nobody() -> None:
    """A member that leaves releases what it keeps for others as well."""
    stage = SteppedGroup()
    first = stage.join("a", settings=_settings(), client="shared")
    stage.never_ready.add("b")
    second = stage.join("b", settings=_settings(), prepares=True, run_ms=1000)
    first.post(ev.CloseRequested(False, stage.clock.now_ms() + 5000))
    stage.run(500)

    assert owned(second) == [0, 1, 2, 3]


def test_members_that_prepare_nothing_cost_nothing() -> None:
    """No key, no znode, no effect; partitions without an owner are not prepared either."""
    stage = SteppedGroup()
    plain = stage.join("a")
    alone = stage.join("b", {"t": 1}, prepares=False)
    stage.run(1000)

    assert not effects_of(alone, ev.Prepare)
    assert not any("prepared" in str(request) for request in (*plain.asked, *alone.asked))
    znode = stage.registration("a")
    assert znode is not None
    assert Registration.decode(znode.path, znode.data).prepare_ms is None

    only = SteppedGroup()
    first = only.join("a", settings=_settings(), prepares=True)
    assert owned(first) == [0, 1, 2, 3]
    assert not effects_of(first, ev.Prepare)


def test_what_is_ready_is_published_by_a_member_on_a_shared_client_until_it_leaves() -> None:
    """Its session goes on: the znode is deleted with the registration."""
    stage = SteppedGroup()
    stage.join("a", settings=_settings())
    second = stage.join("b", settings=_settings(), prepares=True, client="shared", run_ms=2000)
    znode = stage.server.find(f"{PREPARED}/g_b")
    assert znode is not None
    assert {tp.partition for tp in PreparedPartitions.decode(znode.path, znode.data).partitions} == {2, 3}

    second.post(ev.CloseRequested(False, stage.clock.now_ms() + 5000))
    stage.run(1000)
    assert stage.server.find(f"{PREPARED}/g_b") is None
