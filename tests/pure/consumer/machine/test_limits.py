"""What goes on and on: a group that always moves, packets that are too big, plans without brokers."""

from __future__ import annotations

import pytest

from tests.simulation.group.members import Actor
from tests.worlds.stepped_group import GROUP, SteppedGroup, effects_of, multis, owned, tp, writes_to
from zkgroup.consumer.machine.events import FinishCommit, MemberState
from zkgroup.model.requests import Create, Delete, ListChildren, Request, SetData
from zkgroup.testing.memory_zookeeper import client
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment


def offsets_written(member: Actor) -> list[int]:
    """Partitions of each transaction that commits."""
    counts = [
        sum(isinstance(o, SetData) and "/offsets/" in o.path for o in ops) for ops in multis(member.asked)
    ]
    return [count for count in counts if count]


def lists_members(request: Request) -> bool:
    return isinstance(request, ListChildren) and request.path == f"/consumers/{GROUP}/ids"


def test_last_broker_goes_while_a_claim_is_refused_at_the_plan() -> None:
    """Past bug: sticky with require_brokers planned again and again without asking anything, and failed."""
    stage = SteppedGroup({"t": 4}, require_brokers=True, partition_assignment_strategy="sticky")
    stage.server.put("/brokers/ids")
    stage.server.put("/brokers/ids/0", b"{}")

    def outdate() -> None:
        znode = stage.server.find(StoredAssignment.path(GROUP))
        assert znode is not None
        plan = StoredAssignment.decode(znode.path, znode.data)
        newer = StoredAssignment(plan.generation + 1000, plan.inputs, plan.owners)
        stage.foreign_write(SetData(znode.path, newer.encode(), znode.stat.version))
        stage.foreign_write(Delete("/brokers/ids/0", -1))

    stage.when("client-a", writes_to("/owners/", Create), outdate)
    member = stage.join("a", run_ms=3000)
    waiting = (owned(member), member.machine.describe().reason)
    stage.foreign_write(Delete(StoredAssignment.path(GROUP), -1))
    stage.server.put("/brokers/ids/0", b"{}")
    stage.run(1000)

    assert waiting == ([], "waiting_for_brokers")
    assert owned(member) == [0, 1, 2, 3]


def test_broker_that_comes_while_the_group_gathers_is_seen() -> None:
    """Past bug: the listing that waited for others to join was used again, with the brokers of its time."""
    stage = SteppedGroup({"t": 2}, require_brokers=True, initial_rebalance_delay_ms=1000)
    stage.server.put("/brokers/ids")
    member = stage.join("a", run_ms=500)
    waiting = owned(member)
    stage.server.put("/brokers/ids/0", b"{}")
    stage.run(3000)

    assert waiting == []
    assert owned(member) == [0, 1]


def test_group_that_moves_during_every_pass_is_left_alone_for_a_moment() -> None:
    """After some passes the member backs off; then it reads the group as soon as it is stable."""
    stage = SteppedGroup({"t": 1})
    stage.join("a")
    path = Registration.path(GROUP, "g_restless")
    moves = 0

    def move() -> None:
        nonlocal moves
        moves += 1
        if stage.server.find(path):
            stage.server.remove(path)
        else:
            stage.server.put(path, b"x")
        if moves < 15:
            stage.when("client-a", lists_members, move)

    stage.when("client-a", lists_members, move)
    stage.server.put(path, b"x")
    stage.run(50)
    before_the_pause = moves
    took_ms = stage.run_until(lambda: moves >= 15)
    stage.run(1000)

    assert before_the_pause == 10
    assert took_ms >= 400
    assert stage.actors["a"].state is MemberState.STABLE


def test_packets_that_are_too_big_are_cut_and_grow_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's limit is lower for a while: packets shrink to what passes, and grow later."""
    stage = SteppedGroup({"t": 200}, verify_interval_ms=600_000)
    member = stage.join("a")
    with monkeypatch.context() as patch:
        patch.setattr(client, "MAX_REQUEST_BYTES", 12_000)
        stage.commit(member, {tp(n): 1 for n in range(200)})
        stage.run(5000)
    small = offsets_written(member)[-3:]
    assert len(effects_of(member, FinishCommit)[-1].committed) == 200
    stage.run(10 * 60_000)
    member.asked.clear()
    stage.commit(member, {tp(n): 2 for n in range(200)})

    assert max(small) < 100
    assert offsets_written(member) == [200]


def test_packets_have_a_least_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no packet succeeds, it is reported and retried slowly; after a success packets grow again."""
    stage = SteppedGroup({"t": 30}, verify_interval_ms=600_000)
    member = stage.join("a")
    with monkeypatch.context() as patch:
        patch.setattr(client, "MAX_REQUEST_BYTES", 400)
        stage.commit(member, {tp(n): 1 for n in range(30)})
        stage.run(3500)
    told_of = stage.notes("unexpected_reply", "a")
    member.asked.clear()
    stage.run(2000)

    assert told_of
    assert max(offsets_written(member)) >= 5
    assert len(effects_of(member, FinishCommit)[-1].committed) == 30
