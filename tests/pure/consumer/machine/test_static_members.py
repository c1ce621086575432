"""Static members: absences, their grace, and what moves (static members, recipes 24)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.stepped_group import (
    GROUP,
    Member,
    SteppedGroup,
    is_stable,
    multis,
    owned,
    packets,
    writes_to,
)
from zkgroup.consumer.machine import events as ev
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Check, Create, Delete, Multi, SetData
from zkgroup.settings import GroupSettings
from zkgroup.znodes.consumers import Registration, static_path
from zkgroup.znodes.group_records import StaticMember

GRACE_MS = 8000
STEP_MS = 50


def settings(name: str, strategy: str = "range", **more: object) -> GroupSettings:
    return GroupSettings(
        consumer_id=name,
        restart_grace_ms=GRACE_MS,
        partition_assignment_strategy=strategy,
        **more,  # type: ignore[arg-type]
    )


def group(*names: str, strategy: str = "range", partitions: int = 6) -> SteppedGroup:
    """A stable group of static members."""
    stage = SteppedGroup({"t": partitions})
    for name in names:
        stage.join(name, settings=settings(name, strategy), run_ms=None)
    until(stage, lambda: all(is_stable(actor) for actor in stage.actors.values()))
    return stage


def until(stage: SteppedGroup, condition: Callable[[], object], limit_ms: int = 30_000) -> int:
    """As `run_until`, in larger steps."""
    started_ms = stage.clock.now_ms()
    while not condition():
        assert stage.clock.now_ms() - started_ms < limit_ms, "it does not come to that"
        stage.run(STEP_MS)
    return stage.clock.now_ms() - started_ms


def kill(stage: SteppedGroup, name: str) -> Member:
    """Ends a process as by SIGKILL; its session lives on until it expires."""
    actor = stage.actors.pop(name)
    actor.kill()
    del stage.server.clients[actor.client.name]
    return actor


def close(stage: SteppedGroup, name: str, *, leave: bool) -> Member:
    actor = stage.actors[name]
    actor.post(ev.CloseRequested(True, stage.clock.now_ms() + 5000, leave))
    until(stage, lambda: stage.registration(name) is None)
    return kill(stage, name)


def entry(stage: SteppedGroup, name: str) -> StaticMember | None:
    """What `static/<c>` keeps; None for nothing."""
    path = StaticMember.path(GROUP, f"{GROUP}_{name}")
    znode = stage.server.find(path)
    return StaticMember.decode(path, znode.data) if znode is not None and znode.data else None


def moves(stage: SteppedGroup) -> dict[str, list[str]]:
    """The revocations of the running members."""
    return {
        name: [str(e) for e in actor.effects if isinstance(e, ev.Revoke)]
        for name, actor in stage.actors.items()
    }


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
@pytest.mark.parametrize("returns", [True, False], ids=["returns", "stays away"])
def test_a_killed_member_keeps_its_partitions_for_its_grace(strategy: str, returns: bool) -> None:
    """Back within the grace it gets them without a move; after it they move, and not before."""
    stage = group("a", "b", "c", strategy=strategy)
    before, quiet = stage.owners(), moves(stage)
    kill(stage, "b")
    until(stage, lambda: stage.registration("b") is None)
    gone_ms = stage.clock.now_ms()
    stage.run(GRACE_MS // 2)
    others = {number: who for number, who in before.items() if not who.startswith("b-")}
    assert stage.owners() == others

    if returns:
        stage.join("b", settings=settings("b", strategy))
        assert (stage.owners(), {**moves(stage), "b": []}) == (before, {**quiet, "b": []})
        stage.run(2 * GRACE_MS)
        assert stage.owners() == before
    else:
        until(stage, lambda: len(stage.owners()) == len(before))
        assert gone_ms + GRACE_MS <= stage.clock.now_ms() <= gone_ms + GRACE_MS + 1000
        assert entry(stage, "b") is None


def test_a_member_that_returns_before_its_old_session_ends_waits_for_it() -> None:
    """The old session still owns the partitions; the new process claims them after it, nobody else does."""
    stage = group("a", "b")
    before, quiet = stage.owners(), moves(stage)["a"]
    kill(stage, "b")
    returned = stage.join("b", settings=settings("b"), run_ms=500)
    assert returned.machine.describe().reason == "waiting_for_old_registration"
    until(stage, lambda: is_stable(returned))
    assert (stage.owners(), moves(stage)["a"]) == (before, quiet)


def test_close_gives_up_and_close_without_leaving_keeps() -> None:
    """A leave moves the partitions at once; `leave=False` keeps them, and no packet more is sent for it."""
    stage = group("a", "b")
    left = close(stage, "b", leave=True)
    assert entry(stage, "b") is None
    assert until(stage, lambda: len(stage.owners()) == 6) < 1000
    assert sum(map(writes_to("/static/", SetData), left.asked)) == 1

    stage.join("b", settings=settings("b"))
    until(stage, lambda: is_stable(stage.actors["b"]))
    before = stage.owners()
    kept = close(stage, "b", leave=False)
    stage.run(1000)
    assert len(stage.owners()) == 3
    assert (entry(stage, "b") or pytest.fail("nothing is kept")).is_away
    assert sum(map(writes_to("/static/"), kept.asked)) == 1  # its registration
    stage.join("b", settings=settings("b"))
    assert stage.owners() == before


@pytest.mark.parametrize("leave", [True, False])
def test_a_member_that_shares_its_client_releases_and_keeps(leave: bool) -> None:
    """Its registration and its entry are written together at the end."""
    stage = SteppedGroup({"t": 4})
    for name in ("a", "b"):
        stage.join(name, settings=settings(name), client="shared", run_ms=None)
    until(stage, lambda: all(is_stable(actor) for actor in stage.actors.values()))
    member = stage.actors["b"]
    member.post(ev.CloseRequested(False, stage.clock.now_ms() + 5000, leave))
    stage.run(1000)
    path = StaticMember.path(GROUP, f"{GROUP}_b")
    end = [Delete(Registration.path(GROUP, f"{GROUP}_b"), 0)]
    assert [*multis(member.asked)[-1]] == [*end, *([SetData(path, b"", 0)] if leave else [])]
    assert len(stage.owners()) == (4 if leave else 2)


def test_an_overdue_poll_gives_up() -> None:
    """A stuck application keeps nothing from the others."""
    stage = group("a", "b")
    stage.actors["b"].post(ev.PollOverdue())
    assert until(stage, lambda: len(stage.owners()) == 6) < 3000


def test_a_failed_member_is_kept() -> None:
    """A process that fails is started again."""
    stage = group("a", "b")
    stage.actors["b"].post(ev.ApplicationFailed(RuntimeError("it failed")))
    stage.run(2000)
    assert len(stage.owners()) == 3
    assert entry(stage, "b") is not None


def test_another_subscription_is_kept_too() -> None:
    """The entry has what the assignment depends on: it is replaced with the registration."""
    stage = SteppedGroup({"t": 4, "u": 2})
    for name in ("a", "b"):
        stage.join(name, {"t": 1}, settings=settings(name))
    stage.actors["b"].post(
        ev.SubscriptionChanged(
            Registration.of(
                Registration.decode("", Registration({"u": 1}, "static", 0).encode()).wanted(), 0
            ).wanted()
        )
    )
    until(stage, lambda: len(stage.owners("u")) == 2)
    assert (entry(stage, "b") or pytest.fail("nothing is kept")).registration.subscription == {"u": 1}
    kill(stage, "b")
    until(stage, lambda: stage.registration("b") is None)
    stage.run(1000)
    assert (len(stage.owners()), stage.owners("u")) == (4, {})


def test_nobody_waits_while_a_member_does_not_know_static_members() -> None:
    """A JVM member, or one of an earlier version, assigns the partitions to those that are there."""
    stage = group("a", "b")
    data = Registration({"u": 1}, "static", 0, {"zkgroup": "0.1"}).encode()
    session = stage.actors["a"].client.session
    assert session is not None
    stage.server.write(
        Create(Registration.path(GROUP, f"{GROUP}_old"), data, ephemeral=True), session_id=session.session_id
    )
    stage.run(1000)
    kill(stage, "b")
    until(stage, lambda: stage.registration("b") is None)
    assert until(stage, lambda: len(stage.owners()) == 6) < 1000
    stage.run(1000)
    assert entry(stage, "b") is None
    assert [note.fields["members"] for note in stage.notes("restart_grace_void")] == [[f"{GROUP}_old"]]


def test_the_grace_ends_whoever_dies() -> None:
    """The whole group is killed; a new member ends what was marked before, and marks what was not."""
    stage = group("a", "b", "c")
    kill(stage, "c")
    until(stage, lambda: (found := entry(stage, "c")) is not None and found.is_away)
    kill(stage, "a")
    kill(stage, "b")
    stage.run(GRACE_MS)
    new = stage.join("n", settings=settings("n"), run_ms=None)
    until(stage, lambda: is_stable(new))
    assert until(stage, lambda: len(owned(new)) > 1) < 2000
    assert (entry(stage, "c"), entry(stage, "a") is not None) == (None, True)
    assert GRACE_MS - 2000 < until(stage, lambda: len(owned(new)) == 6) < GRACE_MS + 2000


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
def test_a_wrong_clock_of_a_machine_neither_shortens_nor_lengthens_a_grace(skew_ms: int) -> None:
    """The server's clock decides: who guesses too early asks it, and waits for the rest."""
    stage = group("a", "b")
    kill(stage, "b")
    until(stage, lambda: (found := entry(stage, "b")) is not None and found.is_away)
    begin_ms = stage.clock.now_ms()
    kill(stage, "a")
    stage.run(7000)
    late = stage.join("z", settings=settings("z"), run_ms=None)
    step = late.machine.step
    late.machine.step = lambda event, now: step(event, Instant(now.ms, now.wall_ms + skew_ms))  # type: ignore[method-assign]
    until(stage, lambda: len(owned(late)) > 2, 60_000)
    assert begin_ms + GRACE_MS <= stage.clock.now_ms()


def costs(make: Callable[[str], GroupSettings | None]) -> tuple[int, int]:
    """The packets of a member while another joins, and of the one that joins."""
    stage = SteppedGroup({"t": 4})
    for name in ("a", "b"):
        stage.join(name, settings=make(name))
    until(stage, lambda: is_stable(stage.actors["a"]) and is_stable(stage.actors["b"]))
    stage.actors["a"].asked.clear()
    joined = stage.join("c", settings=make("c"))
    until(stage, lambda: all(is_stable(actor) for actor in stage.actors.values()))
    return packets(stage.actors["a"].asked), packets(joined.asked)


def test_the_names_of_static_members_are_listed_once() -> None:
    """A new name costs each member one packet; a registration, claim or leave costs none."""
    plain_peer, plain_join = costs(lambda name: None)
    static_peer, static_join = costs(settings)
    assert (static_peer - plain_peer, static_join - plain_join) == (1, 1)


def test_members_share_the_watch_by_turns() -> None:
    """One of the group marks an absence and ends it, without a packet of the others that changes anything."""
    stage = group("a", "b", "c", "d")
    for actor in stage.actors.values():
        actor.asked.clear()
    kill(stage, "d")
    until(stage, lambda: stage.registration("d") is None)
    stage.run(GRACE_MS + 3000)
    wrote = {name: sum(map(writes_to("/static"), actor.asked)) for name, actor in stage.actors.items()}
    assert wrote == {"a": 3, "b": 0, "c": 0}  # mark, clock, end
    ends = [
        ops
        for ops in multis(stage.actors["a"].asked)
        if any(isinstance(o, Create) and "/ids/" in o.path for o in ops)
    ]
    registration = Registration.path(GROUP, f"{GROUP}_d")
    assert ends == [
        (
            Check(Registration.path(GROUP, f"{GROUP}_a"), 0),
            Create(registration, None),
            Delete(registration, 0),
            SetData(StaticMember.path(GROUP, f"{GROUP}_d"), b"", 1),
        )
    ]


def test_a_member_that_is_static_no_more_gives_up_what_it_kept() -> None:
    """Its entry of before must not keep its partitions when it leaves."""
    stage = group("a", "b")
    close(stage, "b", leave=False)
    member = stage.join("b", settings=GroupSettings(consumer_id="b"))
    until(stage, lambda: is_stable(member))
    stage.run(1000)
    assert entry(stage, "b") is None
    close(stage, "b", leave=True)
    assert until(stage, lambda: len(stage.owners()) == 6) < 1000


def test_what_it_kept_is_given_up_although_its_absence_is_marked_meanwhile() -> None:
    """Past bug: another one's mark came late and refused it, and nothing tried it again."""
    stage = group("a", "b")
    close(stage, "b", leave=False)
    path = StaticMember.path(GROUP, f"{GROUP}_b")
    kept = entry(stage, "b")
    assert kept is not None
    mark = SetData(path, StaticMember(kept.registration, is_away=True).encode(), -1)
    stage.when("again", writes_to("/static/"), lambda: stage.foreign_write(mark))
    member = stage.join("b", settings=GroupSettings(consumer_id="b"), client="again")
    until(stage, lambda: is_stable(member))
    stage.run(1000)
    assert entry(stage, "b") is None


def test_a_refused_entry_is_read_again() -> None:
    """Another client has set it: registration, replacement and leave take its new version."""
    stage = group("a", "b")
    path = StaticMember.path(GROUP, f"{GROUP}_b")
    kill(stage, "b")
    until(stage, lambda: (found := entry(stage, "b")) is not None and found.is_away)
    data = (stage.server.find(path) or pytest.fail("no entry")).data or b""
    writes = [SetData(path, data, -1)]
    stage.when("client-b", writes_to("/static/"), lambda: stage.foreign_write(*writes))
    member = stage.join("b", settings=settings("b"))
    until(stage, lambda: is_stable(member))
    stage.foreign_write(*writes)
    close(stage, "b", leave=True)
    assert entry(stage, "b") is None
    assert stage.server.find(static_path(GROUP)) is not None
    assert isinstance(member.asked[-1], Multi)
