"""A claim that is found standing in our name: adopted, or released and made anew (recipes 5).

Adopted is what this registration claimed without hearing the answer, with the fence of the offset that
was read before the owner. Everything else is claimed anew, under a token that the application never had.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.stepped_group import (
    GROUP,
    Member,
    SteppedGroup,
    claims,
    effects_of,
    is_stable,
    multis,
    owned,
    reads,
    tp,
    writes_to,
)
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import Assign, Lose
from zkgroup.history import check_history
from zkgroup.model.requests import Create, Delete, Request, SetData, Sync
from zkgroup.testing.memory_zookeeper.leader import server_transactions
from zkgroup.znodes.consumers import Offset, Owner, Registration

OFFSET = Offset.path(GROUP, tp(0))
READ_BACK = reads("/offsets/")
"""Its first request, as no offset was read between the claim and it."""


def lose_reply(
    stage: SteppedGroup,
    then: Callable[[], object] = lambda: None,
    before: Callable[[Request], bool] = READ_BACK,
) -> None:
    """The first claim of member a is applied, its reply is lost; `then` happens before the read-back."""

    def act() -> None:
        then()
        stage.server.catch_up("client-a")

    def lose() -> str:
        stage.when("client-a", before, act)
        return "lost_reply"

    stage.when("client-a", writes_to("/owners/", Create), lose)


def token_of(stage: SteppedGroup, number: int = 0) -> int:
    owner = stage.owner(number)
    assert owner is not None
    return owner.stat.czxid


def releases(actor: Member) -> list[object]:
    return [o for ops in multis(actor.asked) for o in ops if isinstance(o, Delete) and "/owners/" in o.path]


def given(actor: Member, number: int = 0) -> list[int]:
    """The tokens that the application was given for a partition, in order."""
    grants = [grant for effect in effects_of(actor, Assign) for grant in effect.grants]
    return [grant.token for grant in grants if grant.topic_partition == tp(number)]


def claimed_in_a(stage: SteppedGroup, number: int, thread: int = 0) -> None:
    """A claim by the recipe, in the session and name of member a, which its machine did not make."""
    session, owner = stage.client("client-a").session, Owner.path(GROUP, tp(number))
    text = f"g_a-{thread}".encode()
    assert session is not None
    stage.server.write(
        Create(owner, text, ephemeral=True),
        SetData(owner, text, 0),
        Create(Offset.path(GROUP, tp(number)), b"-1"),
        session_id=session.session_id,
    )


def test_claim_whose_reply_was_lost_is_adopted() -> None:
    """Nothing is released and nothing claimed again; token and fence are those read back (recipes 5)."""
    stage = SteppedGroup()
    lose_reply(stage)
    member = stage.join("a", run_ms=3000)

    assert (owned(member), len(claims(member)), releases(member)) == ([0, 1, 2, 3], 1, [])
    assert given(member) == [token_of(stage)]
    stage.commit(member, {tp(0): 5})
    assert (stage.offset(0).data, stage.offset(0).stat.version) == (b"5", 1)


def test_adopted_claim_starts_from_the_offset_read_with_it() -> None:
    """A foreign write after the claim counts, with its version; not what was read before (recipes 5)."""
    stage = SteppedGroup(topics={"t": 1})
    stage.server.put(OFFSET, b"3")
    lose_reply(stage, lambda: stage.foreign_write(SetData(OFFSET, b"9", -1)))
    member = stage.join("a", run_ms=3000)

    assert (member.machine.grants()[tp(0)].offset, member.machine.describe().fences[tp(0)]) == (9, 2)
    assert (len(claims(member)), releases(member)) == (1, [])
    stage.commit(member, {tp(0): 10})
    assert stage.offset(0).data == b"10"


def test_claim_refused_by_a_claim_of_our_own_adopts_it() -> None:
    """Recipes 5: NodeExists, and the owner is mine: adopted with the offset read; the others are claimed at
    once."""
    stage = SteppedGroup()
    stage.when("client-a", writes_to("/owners/", Create), lambda: claimed_in_a(stage, 1))
    member = stage.join("a", run_ms=3000)

    assert (owned(member), releases(member)) == ([0, 1, 2, 3], [])
    assert given(member, 1) == [token_of(stage, 1)]
    assert [sum(isinstance(o, Create) and "/owners/" in o.path for o in ops) for ops in claims(member)] == [
        4,
        3,
    ]
    stage.commit(member, {tp(1): 5})
    assert stage.offset(1).data == b"5"


@pytest.mark.parametrize(
    ("meanwhile", "offset"),
    [((Delete(OFFSET, -1),), None), ((Delete(OFFSET, -1), Create(OFFSET, b"7")), 7)],
    ids=["gone", "another life"],
)
def test_claim_without_its_offset_is_released_and_made_anew(
    meanwhile: tuple[Create | Delete, ...], offset: int | None
) -> None:
    """The version that fenced it is gone; of a new life's version nothing was proved (recipes 6)."""
    stage = SteppedGroup(topics={"t": 1})
    first: list[int] = []

    def wipe() -> None:
        first.append(token_of(stage))
        stage.foreign_write(*meanwhile)

    lose_reply(stage, wipe)
    member = stage.join("a", run_ms=3000)

    assert (len(claims(member)), len(releases(member))) == (2, 1)
    assert given(member) == [token_of(stage)]
    assert given(member) > first
    assert member.machine.grants()[tp(0)].offset == offset
    stage.commit(member, {tp(0): 8})
    assert stage.offset(0).data == b"8"


def test_claim_with_an_unreadable_offset_is_released_and_waits() -> None:
    """A member cannot start from a corrupt offset, whichever member claimed it."""
    stage = SteppedGroup(topics={"t": 1}, rebalance_backoff_ms=500)
    lose_reply(stage, lambda: stage.foreign_write(SetData(OFFSET, b"x", -1)))
    member = stage.join("a", run_ms=3000)

    assert (owned(member), stage.owners(), len(releases(member))) == ([], {}, 1)
    assert stage.notes("corrupt_znode")
    stage.foreign_write(SetData(OFFSET, b"4", -1))
    stage.run(2000)
    assert member.machine.grants()[tp(0)].offset == 4


def test_claim_that_is_not_wanted_any_more_is_released() -> None:
    """Mine, but the plan does not name it (recipes 5)."""
    stage = SteppedGroup(topics={"t": 2})
    member = stage.join("a", run_ms=None)
    lose_reply(stage, lambda: member.give(ev.HandBackRequested(frozenset({tp(0)}))))
    stage.run(3000)

    assert (owned(member), given(member)) == ([1], [])
    assert stage.owners() == {1: "a-0"}


def test_claim_of_another_thread_is_made_anew() -> None:
    """Mine, but assigned to another of my threads (recipes 5)."""
    stage = SteppedGroup(topics={"t": 2})
    stage.when("client-a", writes_to("/owners/", Create), lambda: claimed_in_a(stage, 0, thread=1))
    member = stage.join("a", {"t": 2}, run_ms=3000)

    assert stage.owners() == {0: "a-0", 1: "a-1"}
    assert (given(member, 0), len(releases(member))) == ([token_of(stage, 0)], 1)


@pytest.mark.parametrize("is_reply_lost", [False, True])
def test_claim_of_an_earlier_registration_is_made_anew(is_reply_lost: bool) -> None:
    """A foreign writer deletes the registration; the session and the owner znode live on (recipes 10).

    The application may have had the token of that claim, so it is not used again.
    """
    stage = SteppedGroup(topics={"t": 1})

    def unregister() -> None:
        stage.foreign_write(Delete(Registration.path(GROUP, "g_a"), -1))

    if is_reply_lost:
        lose_reply(stage, unregister, before=lambda request: isinstance(request, Sync))
    member = stage.join("a")
    before = [] if is_reply_lost else given(member)
    if not is_reply_lost:
        unregister()
    stage.run(3000)

    assert is_stable(member)
    assert (len(claims(member)), len(releases(member))) == (2, 1)
    assert given(member) == [*before, token_of(stage)]
    assert [loss.partitions for loss in effects_of(member, Lose)] == [(tp(0),)] * len(before)


def test_claim_of_an_earlier_member_of_this_name_is_made_anew() -> None:
    """Left over in the session of a shared client; another member used its token (recipes 5)."""
    stage = SteppedGroup(topics={"t": 1})
    first = stage.join("a", client="shared")
    first.kill()
    stage.actors.pop("a")
    second = stage.join("a", client="shared", run_ms=3000)

    assert (given(second), len(releases(second))) == ([token_of(stage)], 1)
    assert given(second) > given(first)


@pytest.mark.parametrize("name", ["9" * 5000, "²", "٣", "007"])
def test_a_name_that_is_no_number_is_no_partition(name: str) -> None:
    """Past bug: digits without end below `owners` ended a member on a shared client, and the checker."""
    stage = SteppedGroup(topics={"t": 2})
    stage.server.put(f"/consumers/{GROUP}/owners/t/{name}", b"g_a-0")

    member = stage.join("a", client="shared", run_ms=3000)

    assert is_stable(member)
    assert owned(member) == [0, 1]
    check_history(stage.recording.records, server_transactions(stage.server.log, stage.clock))
