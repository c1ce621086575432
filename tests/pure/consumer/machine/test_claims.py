"""Claims: what they rest on, and what a blocked partition does to the rest (recipes 5)."""

from __future__ import annotations

import pytest

from tests.simulation.group.members import Actor
from tests.worlds.stepped_group import (
    GROUP,
    SteppedGroup,
    claims,
    effects_of,
    is_stable,
    owned,
    reads,
    tp,
    writes_to,
)
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import Finish, Lose, MemberState
from zkgroup.consumer.machine.transactions import CLAIMED_VERSION
from zkgroup.errors import RebalanceFailedError
from zkgroup.model.requests import Check, Create, Delete, SetData
from zkgroup.runtime.events import LogEvent
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner, Registration


def block(stage: SteppedGroup, number: int) -> None:
    """A foreign session owns the partition."""
    if stage.client("stranger").session is None:
        stage.drain()
    session = stage.client("stranger").session
    assert session is not None
    stage.server.put("/consumers/g/owners/t")
    stage.server.write(
        Create(Owner.path(GROUP, tp(number)), b"g_x-0", ephemeral=True), session_id=session.session_id
    )


def blocked_stage(
    topics: dict[str, int] | None = None, number: int = 1, **settings: object
) -> tuple[SteppedGroup, Actor]:
    """A member with one of its partitions, by default 1 of 4, owned by a foreign session."""
    stage = SteppedGroup(topics, **settings)
    block(stage, number)
    return stage, stage.join("a", run_ms=2000)


def test_blocked_partition_delays_no_other() -> None:
    """Nothing of the refused packet was created; the others are claimed at once (recipes 5)."""
    _, member = blocked_stage()

    assert owned(member) == [0, 2, 3]
    assert member.machine.describe().blocked == {tp(1): "g_x-0"}
    assert len(claims(member)) == 2


def test_blocked_claim_resumes_soon_after_the_blocker_is_gone() -> None:
    """By the watch, within 500 ms."""
    stage, member = blocked_stage(rebalance_backoff_ms=60_000)
    stage.foreign_write(Delete(Owner.path(GROUP, tp(1)), -1))

    assert stage.run_until(lambda: owned(member) == [0, 1, 2, 3]) < 500


def test_blocked_claim_is_read_again_without_a_watch() -> None:
    """A second read with jitter beside the watch, without limit (recipes 5)."""
    stage, member = blocked_stage(rebalance_backoff_ms=2000)
    member.client.data_watches.clear()
    stage.foreign_write(Delete(Owner.path(GROUP, tp(1)), -1))

    assert stage.run_until(lambda: owned(member) == [0, 1, 2, 3]) <= 3000


def test_equal_text_of_another_session_is_a_conflict() -> None:
    """Mine is session and text; a JVM member would adopt it."""
    stage = SteppedGroup(topics={"t": 1})
    stage.client("stranger")
    stage.drain()
    session = stage.client("stranger").session
    assert session is not None
    stage.server.put("/consumers/g/owners/t")
    stage.server.write(
        Create(Owner.path(GROUP, tp(0)), b"g_a-0", ephemeral=True), session_id=session.session_id
    )
    member = stage.join("a", run_ms=3000)

    assert owned(member) == []
    assert member.machine.describe().blocked == {tp(0): "g_a-0"}


def test_a_persistent_owner_is_reported_at_once_and_blocks_no_other() -> None:
    """No session ends it: the log and the blocker name the path, and the command that removes it."""
    stage = SteppedGroup(topics={"t": 2})
    stage.server.put(Owner.path(GROUP, tp(0)), b"g_gone-0")
    member = stage.join("a")
    (note,) = stage.notes("persistent_znode")

    assert owned(member) == [1]
    assert member.machine.describe().blocked == {tp(0): note.fields["detail"]}
    assert "/consumers/g/owners/t/0: " in str(note.fields["detail"])
    assert "`zkgroup doctor --fix`" in str(note.fields["detail"])
    stage.foreign_write(Delete(Owner.path(GROUP, tp(0)), -1))
    stage.run(1000)
    assert owned(member) == [0, 1]


def test_a_consumer_that_writes_its_id_alone_blocks_until_it_releases() -> None:
    """kazoo-go and kafka-node write no thread; the session tells whose a text is that reads as ours."""
    stage = SteppedGroup(topics={"t": 2})
    stage.client("go")
    stage.drain()
    session = stage.client("go").session
    assert session is not None
    stage.server.put("/consumers/g/owners/t")
    for number, text in enumerate((b"host:7b0cfb39", b"g_a-0")):
        created = Create(Owner.path(GROUP, tp(number)), text, ephemeral=True)
        stage.server.write(created, session_id=session.session_id)
    member = stage.join("a", run_ms=3000)

    assert member.machine.describe().blocked == {tp(0): "host:7b0cfb39", tp(1): "g_a-0"}
    stage.server.expire_session(session.session_id)
    stage.run(1000)
    assert owned(member) == [0, 1]


def test_own_session_with_another_members_text_is_a_conflict() -> None:
    """Members that share a client share a session; the session alone never suffices (recipes 1)."""
    stage = SteppedGroup(topics={"t": 2})
    first = stage.join("a", client="shared")
    second = stage.join("b", client="shared")

    assert (owned(first), owned(second)) == ([0], [1])
    assert first.client is second.client


def test_no_limit_of_attempts_by_default() -> None:
    """After a minute of reads of the blocker the member still tries, and gets it in the end."""
    stage, member = blocked_stage(rebalance_backoff_ms=500)
    member.asked.clear()
    stage.run(60_000)
    looks = [request for request in member.asked if reads("/owners/t/1")(request)]

    assert len(looks) > 50
    assert member.finished is None
    assert member.state is MemberState.JOINING
    stage.foreign_write(Delete(Owner.path(GROUP, tp(1)), -1))
    stage.run(1000)
    assert owned(member) == [0, 1, 2, 3]


def test_limit_of_attempts_ends_with_the_blockers_and_without_a_registration() -> None:
    """The error names the owners; the member has left, it is never registered and idle."""
    stage, member = blocked_stage(rebalance_backoff_ms=300, rebalance_max_retries=3)
    stage.run(5000)
    (finish,) = effects_of(member, Finish)

    assert isinstance(finish.error, RebalanceFailedError)
    assert finish.error.blockers == {tp(1): "g_x-0"}
    assert stage.registration("a") is None
    assert set(stage.owners()) == {1}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_limit_of_attempts_counts_every_one_of_them(limit: int) -> None:
    """The member reads its blocker exactly that often before it fails."""
    stage, member = blocked_stage({"t": 1}, 0, rebalance_backoff_ms=300, rebalance_max_retries=limit)
    stage.run(5000)

    assert len([request for request in member.asked if reads("/owners/t/0")(request)]) == limit
    assert len(effects_of(member, Finish)) == 1


def test_accepted_claim_ends_the_row_of_failed_ones() -> None:
    """The limit is of attempts in a row; two that failed long ago do not count with the next."""
    stage, member = blocked_stage({"t": 1}, 0, rebalance_backoff_ms=60_000, rebalance_max_retries=2)
    stage.foreign_write(Delete(Owner.path(GROUP, tp(0)), -1))
    stage.run(1000)
    assert owned(member) == [0]
    block(stage, 1)
    stage.topic("t", 2)
    stage.run(1000)
    assert member.machine.describe().blocked == {tp(1): "g_x-0"}
    stage.foreign_write(Delete(Owner.path(GROUP, tp(1)), -1))
    stage.run(1000)

    assert owned(member) == [0, 1]


def test_second_blocker_is_watched_as_the_first_one_was() -> None:
    """It came between the end of the first one and the claim; its end makes the claim as soon."""
    stage, member = blocked_stage(rebalance_backoff_ms=60_000)
    stage.when("client-a", writes_to("/owners/t/1", Create), lambda: block(stage, 1))
    stage.foreign_write(Delete(Owner.path(GROUP, tp(1)), -1))
    stage.run(1000)
    assert member.machine.describe().blocked == {tp(1): "g_x-0"}
    stage.foreign_write(Delete(Owner.path(GROUP, tp(1)), -1))

    assert stage.run_until(lambda: owned(member) == [0, 1, 2, 3]) < 500


def test_offset_that_was_read_back_serves_the_next_claim_alone() -> None:
    """It is as old as that read-back; a claim of the partition later reads it anew (recipes 5)."""
    stage, member = blocked_stage()
    assert owned(member) == [0, 2, 3]
    stage.commit(member, {tp(3): 5})
    other = stage.join("b", run_ms=3000)
    assert owned(other) == [2, 3]
    stage.commit(other, {tp(3): 8})
    other.kill()
    stage.actors.pop("b")
    stage.server.expire("client-b")
    member.asked.clear()
    stage.run(2000)

    assert member.machine.grants()[tp(3)].offset == 8
    assert len(claims(member)) == 1


def test_parent_that_is_gone_is_made_again() -> None:
    """NoNode at the claim; it existed at the member's claim before, and was deleted since (recipes 5)."""
    stage = SteppedGroup()
    member = stage.join("a")
    member.post(ev.HandBackRequested(frozenset(map(tp, range(4)))))
    stage.run(1000)
    assert stage.owners() == {}
    stage.server.remove("/consumers/g/owners/t")
    stage.topic("t", 5)
    stage.run(1000)

    assert owned(member) == [0, 1, 2, 3, 4]


def test_parents_of_parents_are_made_again() -> None:
    """The group was deleted between the parents and the registration of this member."""
    stage = SteppedGroup()
    member = stage.join("a", run_ms=None)
    stage.run_until(lambda: stage.registration("a") is not None)
    stage.server.remove("/consumers/g/offsets")
    stage.server.remove("/consumers/g/owners")
    stage.run(3000)

    assert owned(member) == [0, 1, 2, 3]


def test_commit_of_the_predecessor_between_read_and_claim_is_honoured() -> None:
    """BadVersion, read again, claimed again; the value of the claim is where it starts."""
    stage = SteppedGroup(topics={"t": 1})
    stage.server.put("/consumers/g/offsets/t/0", b"5")
    stage.when(
        "client-a",
        writes_to("/owners/", Create),
        lambda: stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"9", -1)),
    )
    member = stage.join("a")

    assert member.machine.grants()[tp(0)].offset == 9
    assert len(claims(member)) == 2


def test_claim_without_an_answer_is_recognised_as_my_own() -> None:
    """EphemeralOwner and text are the member's: adopted unchanged, not claimed again (recipes 5)."""
    stage = SteppedGroup(topics={"t": 2})
    stage.server.put("/consumers/g/offsets/t/1", b"42")
    stage.when("client-a", writes_to("/owners/", Create), fault="lost_reply")
    member = stage.join("a", run_ms=3000)
    owners, held = [stage.owner(0), stage.owner(1)], member.machine.grants()

    assert is_stable(member)
    assert len(claims(member)) == 1
    assert [o.stat.czxid if o else None for o in owners] == [held[tp(0)].token, held[tp(1)].token]
    assert (held[tp(0)].offset, held[tp(1)].offset) == (None, 42)
    stage.commit(member, {tp(0): 1, tp(1): 43})
    assert [stage.offset(number).data for number in (0, 1)] == [b"1", b"43"]


def test_claim_without_an_answer_that_was_not_applied_is_made_again() -> None:
    """There is no claim of this member, so it claims again with the offset read back (recipes 10)."""
    stage = SteppedGroup(topics={"t": 2})
    stage.when("client-a", writes_to("/owners/", Create), fault="lost_request")
    member = stage.join("a", run_ms=3000)

    assert is_stable(member)
    assert len(claims(member)) == 2
    assert owned(member) == [0, 1]


def test_topic_that_grows_between_snapshot_and_claim_is_seen_first() -> None:
    """The claim is refused at the topic's version, and the group is read again (recipes 5)."""
    stage = SteppedGroup(topics={"t": 2})
    stage.when("client-a", writes_to("/owners/", Create), lambda: stage.topic("t", 3))
    member = stage.join("a")

    assert owned(member) == [0, 1, 2]
    assert len(claims(member)) == 2


def test_claim_depends_on_the_topic_it_was_planned_from() -> None:
    """`check` of the topic's version; after a change the group is read again, without a claim (recipes 5)."""
    stage = SteppedGroup()
    member = stage.join("a")
    (claim,) = claims(member)

    assert Check(Topic.path("t"), 0) in claim
    assert claim[0] == Check(Registration.path(GROUP, "g_a"), 0)


def test_claim_bumps_every_offset_and_marks_the_owner() -> None:
    """Owner of data version 1, offset created as -1 or set to the same value (recipes 5)."""
    stage = SteppedGroup(topics={"t": 2})
    stage.server.put("/consumers/g/offsets/t/1", b"42")
    member = stage.join("a")
    owner = stage.owner(0)

    assert owner is not None
    assert owner.stat.version == CLAIMED_VERSION
    assert (stage.offset(0).data, stage.offset(0).stat.version) == (b"-1", 0)
    assert (stage.offset(1).data, stage.offset(1).stat.version) == (b"42", 1)
    grants = member.machine.grants()
    assert (grants[tp(0)].offset, grants[tp(1)].offset) == (None, 42)
    assert grants[tp(0)].token == owner.stat.czxid


def test_claims_too_big_for_one_packet_are_several() -> None:
    """Split by bytes; each transaction is independent (recipes 5)."""
    stage = SteppedGroup(topics={"t": 40})
    member = stage.join("a", request_bytes_max=3000)

    assert len(claims(member)) > 3
    assert len(stage.owners()) == 40


def test_unreadable_offset_is_reported_and_never_taken_for_none() -> None:
    """The partition waits, the path is reported once; once it is readable it is claimed."""
    stage = SteppedGroup(topics={"t": 2}, rebalance_backoff_ms=500)
    stage.server.put("/consumers/g/offsets/t/0", b"x")
    member = stage.join("a", run_ms=5000)

    assert owned(member) == [1]
    assert [note.fields["path"] for note in stage.notes("corrupt_znode")] == ["/consumers/g/offsets/t/0"]
    stage.server.put("/consumers/g/offsets/t/0", b"3")
    stage.run(2000)
    assert member.machine.grants()[tp(0)].offset == 3


def test_stolen_owner_is_found_lost_and_claimed_again() -> None:
    """Recipes 5, D-06: verified by bulk read every 30 s; reported as lost, then claimed with a new token."""
    stage = SteppedGroup(topics={"t": 1}, verify_interval_ms=5000)
    member = stage.join("a")
    token = member.machine.grants()[tp(0)].token
    stage.foreign_write(Delete(Owner.path(GROUP, tp(0)), -1))
    stage.run(8000)

    assert [loss.partitions for loss in effects_of(member, Lose)] == [(tp(0),)]
    assert member.machine.grants()[tp(0)].token > token
    assert is_stable(member)
    ends = [
        e for e in member.effects if isinstance(e, Lose) or (isinstance(e, LogEvent) and e.kind == "own.end")
    ]
    assert [type(each) for each in ends] == [Lose, LogEvent], "nothing is delivered behind the recorded end"


def test_jvm_members_make_the_verification_come_again_after_2_and_8_seconds() -> None:
    """A JVM member deletes by path, so owned partitions are verified soon (recipes 5)."""
    stage = SteppedGroup(topics={"t": 2})
    stage.server.put("/consumers/g/ids")
    member = stage.join("a")
    jvm = b'{"version":1,"subscription":{"u":1},"pattern":"static","timestamp":"1"}'
    stage.foreign_write(Create(Registration.path(GROUP, "g_j"), jvm))
    stage.run(500)
    stage.foreign_write(Delete(Owner.path(GROUP, tp(0)), -1))
    stage.run(2000)

    assert [loss.partitions for loss in effects_of(member, Lose)] == [(tp(0),)]
