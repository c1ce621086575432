"""`commit_rate_max`: the members of a group share a rate of commits without a coordinator (recipes 6)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.worlds.stepped_group import GROUP, Member, SteppedGroup, effects_of, multis, owned, tp
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import FinishCommit
from zkgroup.model import StaticSubscription
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.settings import GroupSettings
from zkgroup.znodes.consumers import Registration


def commits(actor: Member) -> int:
    """Number of the transactions that set offsets and change no owner."""
    return sum(
        any(isinstance(o, SetData) and "/offsets/" in o.path for o in ops)
        and not any(isinstance(o, (Create, Delete)) for o in ops)
        for ops in multis(actor.asked)
    )


def group(rates: Sequence[int | None], *, jvm: bool = False) -> tuple[SteppedGroup, list[Member]]:
    """A member for each rate, with a partition each; none has committed in the last second."""
    stage = SteppedGroup(topics={"t": len(rates)})
    for number, rate in enumerate(rates):
        settings = GroupSettings(commit_rate_max=rate, verify_interval_ms=600_000)
        stage.join(f"m{number}", run_ms=None, settings=settings)
    if jvm:
        nothing = Registration.of(StaticSubscription({}), 0).encode()
        stage.run(1)
        stage.foreign_write(Create(Registration.path(GROUP, "g_jvm"), nothing))
    stage.run(20_000)
    members = list(stage.actors.values())
    for actor in members:
        assert len(owned(actor)) == 1
        actor.asked.clear()
    return stage, members


def commit(stage: SteppedGroup, actor: Member) -> None:
    """Processes one record of each partition and requests a commit, without waiting for it."""
    for number in owned(actor):
        actor.application.deliver(tp(number))
    request = actor.application.commit()
    actor.post(ev.CommitRequested(request.commit_id, request.positions))
    stage.drain()


def test_ten_members_share_the_rate_of_their_group() -> None:
    """At a rate of 10 each commits once a second, the first time at once; no commit is refused or lost."""
    stage, members = group([10] * 10)
    for _ in range(20):
        for actor in members:
            commit(stage, actor)
        stage.run(250)
    assert [commits(actor) for actor in members] == [6] * 10

    for actor in members:
        outcomes = effects_of(actor, FinishCommit)
        assert len(outcomes) == 20
        assert not any(one.refused for one in outcomes)
    assert {stage.offset(n).data for n in range(10)} == {b"20"}


def test_the_lowest_rate_counts_and_jvm_members_neither_count_nor_wait() -> None:
    """A member that publishes no rate follows the others; two members at 1 take turns of two seconds."""
    stage, members = group([None, 1, 50], jvm=True)
    for actor in members:
        commit(stage, actor)
        commit(stage, actor)
    stage.run(2999)
    assert [commits(actor) for actor in members] == [1] * 3
    stage.run(1)
    assert [commits(actor) for actor in members] == [2] * 3


def test_a_turn_comes_in_two_session_timeouts() -> None:
    """Fifteen members at a rate of 1 would commit every 15 s: a call of `commit()` would not wait so long."""
    stage, members = group([1] * 15)
    for actor in members:
        commit(stage, actor)
        commit(stage, actor)
    stage.run(12_000)
    assert {commits(actor) for actor in members} == {2}


def test_a_commit_does_not_wait_where_partitions_are_given_up() -> None:
    """Its member leaves: the commit is done before the partition is free."""
    stage, (leaver, _) = group([1, 1])
    commit(stage, leaver)
    commit(stage, leaver)
    (number,) = owned(leaver)
    assert stage.offset(number).data == b"1"

    before_ms = stage.clock.now_ms()
    leaver.post(ev.CloseRequested(True, before_ms + 5000))
    stage.drain()
    assert len(effects_of(leaver, FinishCommit)) == 2
    assert not effects_of(leaver, FinishCommit)[-1].refused
    assert stage.offset(number).data == b"2"
    assert stage.clock.now_ms() == before_ms
