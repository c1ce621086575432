"""A member that an ACL denies a request: it fails with the path, and retries with a backoff."""

from __future__ import annotations

import pytest

from tests.worlds.stepped_group import GROUP, Member, SteppedGroup, effects_of, is_stable, owned, tp
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import Finish
from zkgroup.errors import AccessDeniedError
from zkgroup.znodes.consumers import Offset, Owner
from zkgroup.zookeeper import Acl
from zkgroup.zookeeper.settings import OPEN_ACL

OWNERS = Owner.path(GROUP, tp(0)).rpartition("/")[0]
OFFSETS = Offset.path(GROUP, tp(0)).rpartition("/")[0]
OFFSET = Offset.path(GROUP, tp(0))
IDS = "/consumers/g/ids"


def allow(stage: SteppedGroup, path: str, permissions: str) -> None:
    stage.server.set_acl(path, Acl(permissions, "world", "anyone"))


def leave(stage: SteppedGroup, member: Member, *, ends_session: bool = True) -> None:
    member.post(ev.CloseRequested(ends_session, stage.clock.now_ms() + 30_000))


def failed_at(member: Member, path: str) -> None:
    (finish,) = effects_of(member, Finish)
    assert isinstance(finish.error, AccessDeniedError)
    assert str(finish.error) == f"{path}: the ACL refuses this member"


@pytest.mark.parametrize(
    ("protected", "permissions", "refused"),
    [
        pytest.param(IDS, "rwda", f"{IDS}/g_a", id="registration"),
        pytest.param(IDS, "cdwa", IDS, id="list of members"),
        pytest.param(OWNERS, "rwda", f"{OWNERS}/0", id="claim"),
        pytest.param(OFFSETS, "rwda", OFFSET, id="first offset"),
        pytest.param(OFFSET, "rcda", OFFSET, id="offset that a claim goes on from"),
        pytest.param("/brokers/topics/t", "cdwa", "/brokers/topics/t", id="topic"),
    ],
)
def test_a_member_that_may_not_join_says_at_which_znode(
    protected: str, permissions: str, refused: str
) -> None:
    """It fails in a few requests and leaves nothing behind."""
    stage = SteppedGroup()
    if protected != "/brokers/topics/t":
        stage.server.put(protected, b"5" if protected == OFFSET else None)
    allow(stage, protected, permissions)

    member = stage.join("a", run_ms=5000)

    failed_at(member, refused)
    assert len(member.asked) < 20
    assert (stage.registration("a"), stage.owners()) == (None, {})


def test_a_refused_commit_fails_the_member_that_owns() -> None:
    """Past bug: it asked again and again, without a pause, for five seconds."""
    stage = SteppedGroup()
    member, other = stage.join("a"), stage.join("b", run_ms=5000)
    allow(stage, OFFSET, "rcda")
    owner = member if 0 in owned(member) else other
    before = len(owner.asked)

    stage.commit(owner, {tp(0): 7})

    failed_at(owner, OFFSET)
    assert len(owner.asked) - before < 10
    assert stage.offset(0).data == b"-1"


def test_a_member_that_leaves_says_what_it_could_not_commit() -> None:
    """The end of the session still gives everything back; others could go on from there."""
    stage = SteppedGroup()
    member = stage.join("a", run_ms=5000)
    allow(stage, OFFSET, "rcda")

    leave(stage, member)
    stage.run(5000)

    failed_at(member, OFFSET)
    assert stage.owners() == {}


def test_what_a_shared_session_holds_is_released_once_the_acl_lets_it() -> None:
    """Tried once a second meanwhile: the session lives on with its client."""
    stage = SteppedGroup()
    member = stage.join("a", client="shared", run_ms=5000)
    allow(stage, OWNERS, "rwca")
    before = len(member.asked)

    leave(stage, member, ends_session=False)
    stage.run(10_000)

    assert member.finished is None
    assert set(stage.owners()) == {0, 1, 2, 3}
    assert 10 <= len(member.asked) - before < 60

    stage.server.set_acl(OWNERS, *OPEN_ACL)
    stage.run(5000)
    failed_at(member, Owner.path(GROUP, tp(0)))
    assert (stage.registration("a"), stage.owners()) == (None, {})


def test_a_permitted_member_continues_where_another_was_refused() -> None:
    """The partitions of the one that failed are claimed by the member whose claims nothing is against."""
    stage = SteppedGroup({"t": 4, "u": 2})
    stage.server.put("/consumers/g/owners/u")
    allow(stage, "/consumers/g/owners/u", "rwda")
    member = stage.join("a", {"t": 1}, run_ms=5000)
    refused = stage.join("b", {"t": 1, "u": 1}, run_ms=20_000)

    failed_at(refused, "/consumers/g/owners/u/0")
    assert is_stable(member)
    assert owned(member) == [0, 1, 2, 3]
