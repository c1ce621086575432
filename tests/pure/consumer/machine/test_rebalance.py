"""Rebalancing: what makes one, what moves, and in which order."""

from __future__ import annotations

import pytest

from tests.worlds.stepped_group import (
    GROUP,
    SteppedGroup,
    effects_of,
    is_stable,
    multis,
    owned,
    reads,
    tp,
    writes_to,
)
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import Assign, EndLease, EndOverdue, MemberState, Revoke
from zkgroup.model import Blacklist, StaticSubscription, Whitelist
from zkgroup.model.requests import Check, Create, Delete, Read, SetData
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner, Registration, owners_path


def test_join_and_leave_of_a_member_rebalance() -> None:
    """A child change of `ids`."""
    stage = SteppedGroup()
    first = stage.join("a")
    second = stage.join("b")
    assert (owned(first), owned(second)) == ([0, 1], [2, 3])

    second.post(ev.CloseRequested(True, stage.clock.now_ms() + 5000))
    stage.run(1000)
    assert owned(first) == [0, 1, 2, 3]


def test_share_of_a_killed_member_is_taken_over_once_its_session_is_over() -> None:
    """Within its session timeout and a moment, by the watch; not before the session has ended."""
    stage = SteppedGroup()
    first, second = stage.join("a"), stage.join("b")
    second.kill()
    stage.actors.pop("b")
    stage.server.suspend("client-b")
    timeout_ms = stage.client("client-b").session_timeout_ms
    stage.run(timeout_ms - 1000)
    assert owned(first) == [0, 1]

    assert stage.run_until(lambda: owned(first) == [0, 1, 2, 3]) <= 1500


def test_growth_of_a_topic_rebalances() -> None:
    """A data watch per topic; the new partitions get owners."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.topic("t", 6)
    stage.run(1000)

    assert owned(member) == [0, 1, 2, 3, 4, 5]


def test_creation_of_a_missing_topic_rebalances() -> None:
    """A missing topic has no partitions, and its creation is heard of."""
    stage = SteppedGroup(topics={})
    member = stage.join("a")
    assert is_stable(member)
    stage.join("b")
    missing = [note.fields["topic"] for note in stage.notes("missing_topic", "a")]
    stage.actors["b"].give(ev.CloseRequested(close_session=True, deadline_ms=stage.clock.now_ms() + 1000))

    stage.topic("t", 2)
    stage.run(1000)
    assert owned(member) == [0, 1]
    assert missing == ["t"]


def test_rewritten_registration_of_another_member_does_not_rebalance() -> None:
    """A data change of an `ids` child is not watched for, so it is not heard of; nor is it read."""
    stage = SteppedGroup()
    stage.server.put("/consumers/g/ids")
    foreign = Registration.path(GROUP, "g_j")
    stage.server.put(foreign, b'{"version":1,"subscription":{"u":1},"pattern":"static","timestamp":"1"}')
    member = stage.join("a", run_ms=2000)
    before = len(stage.notes("rebalance.begin", "a"))
    member.asked.clear()
    stage.foreign_write(
        SetData(foreign, b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"2"}', -1)
    )
    stage.run(20_000)

    assert len(stage.notes("rebalance.begin", "a")) == before
    assert [request for request in member.asked if reads(foreign)(request)] == []
    assert owned(member) == [0, 1, 2, 3]


def test_deletion_of_a_topic_releases_its_partitions_only() -> None:
    """The others are not touched."""
    stage = SteppedGroup({"t": 2, "u": 2})
    member = stage.join("a", {"t": 1, "u": 1})
    tokens = {held: grant.token for held, grant in member.machine.grants().items()}
    stage.server.remove(Topic.path("u"))
    stage.run(1000)

    assert {held: g.token for held, g in member.machine.grants().items()} == {
        held: token for held, token in tokens.items() if held.topic == "t"
    }
    assert stage.owners("u") == {}


def test_new_topic_of_a_wildcard_needs_no_new_registration() -> None:
    """New owner znodes, the registration stays as it is."""
    stage = SteppedGroup({"t1": 1})
    member = stage.join("a", Whitelist("t.*"))
    before = stage.registration("a")
    stage.topic("t2", 2)
    stage.run(1000)

    assert stage.registration("a") == before
    assert len(member.machine.grants()) == 3


def test_topic_that_comes_between_list_and_read_is_counted_for_a_wildcard_too() -> None:
    """Past bug: read for a peer's subscription, it changed nothing with the next list: two plans stood."""
    stage = SteppedGroup({"t1": 2})

    def comes() -> None:
        stage.topic("t2", 2)
        stage.server.catch_up("client-a")

    stage.when("client-a", lambda request: request == Read(Topic.path("t2"), watch=True), comes)
    peer = stage.join("b", {"t1": 1, "t2": 1})
    member = stage.join("a", Whitelist("t.*"))

    assert sorted(map(str, member.machine.grants())) == ["t1-0", "t2-0"]
    assert sorted(map(str, peer.machine.grants())) == ["t1-1", "t2-1"]


@pytest.mark.parametrize("pattern", ["white", "black"])
def test_internal_topic_is_left_out_also_of_a_peers_wildcard(pattern: str) -> None:
    """`exclude.internal.topics` of the reader counts, for every member's wildcard alike."""
    stage = SteppedGroup({"t": 2, "__consumer_offsets": 4})
    wanted = Whitelist(".*") if pattern == "white" else Blacklist("nothing")
    first, second = stage.join("a", wanted), stage.join("b", wanted)

    assert {held.topic for held in (*first.machine.grants(), *second.machine.grants())} == {"t"}
    assert first.machine.describe().owners == second.machine.describe().owners


def test_ten_changes_during_a_rebalance_lead_to_one_more() -> None:
    """Events say only that something changed; what is there is read once."""
    stage = SteppedGroup(topics={"t": 24})
    first = stage.join("a")
    stage.hangs.add("a")
    stage.join("b", run_ms=200)  # `a` is revoking now
    before = len(stage.notes("rebalance.begin", "a"))
    for number in range(10):
        stage.join(f"m{number}", run_ms=None)
    stage.run(50)
    stage.hangs.clear()
    stage.run(3000)

    assert first.state is MemberState.STABLE
    assert len(stage.notes("rebalance.begin", "a")) == before + 1


def test_member_that_came_back_under_its_name_is_noticed() -> None:
    """Names are equal, but `cversion` has risen by two: its registration is read again (recipes 3)."""
    stage = SteppedGroup({"t": 2, "u": 2})
    first = stage.join("a", {"t": 1, "u": 1})
    second = stage.join("b", {"t": 1})
    assert owned(first) == [0, 0, 1]

    second.post(ev.SubscriptionChanged(StaticSubscription({"u": 1})))
    stage.run(2000)
    assert {(h.topic, h.partition) for h in first.machine.grants()} == {("t", 0), ("t", 1), ("u", 0)}
    assert {(h.topic, h.partition) for h in second.machine.grants()} == {("u", 1)}


def test_partitions_that_do_not_move_keep_their_claim() -> None:
    """Same czxid, and no callback of the application for them."""
    stage = SteppedGroup()
    member = stage.join("a")
    before = {held: grant.token for held, grant in member.machine.grants().items()}
    member.effects.clear()
    stage.join("b")

    kept = {held: grant.token for held, grant in member.machine.grants().items()}
    assert kept == {tp(0): before[tp(0)], tp(1): before[tp(1)]}
    assert effects_of(member, Assign) == []
    assert [r.partitions for r in effects_of(member, Revoke)] == [(tp(2), tp(3))]


def test_commit_and_release_are_one_transaction_before_the_claim_of_the_next() -> None:
    """Stop, callback, then commit and release in one multi (recipes 7)."""
    stage = SteppedGroup(topics={"t": 2})
    member = stage.join("b")
    stage.commit(member, {tp(0): 0, tp(1): 0})
    member.application.deliver(tp(0))
    member.asked.clear()
    member.effects.clear()
    stage.join("a")
    (release,) = [ops for ops in multis(member.asked) if any(isinstance(o, Delete) for o in ops)]

    assert release == (
        Check(Registration.path(GROUP, "g_b"), 0),
        Check(owners_path(GROUP), 0),
        Check(Owner.path(GROUP, tp(0)), 1),
        SetData(Offset.path(GROUP, tp(0)), b"1", 1),
        Delete(Owner.path(GROUP, tp(0)), 1),
    )
    kinds = [type(e).__name__ for e in member.effects if isinstance(e, (Revoke, EndLease))]
    assert kinds == ["Revoke", "EndLease"]


def test_member_that_loses_and_gains_releases_before_it_claims() -> None:
    """Release precedes any claim of the same rebalance."""
    stage = SteppedGroup(topics={"t": 6})
    stage.join("b")
    member = stage.join("c")
    member.asked.clear()
    stage.join("a")
    writes = multis(member.asked)
    release = next(i for i, ops in enumerate(writes) if any(isinstance(o, Delete) for o in ops))
    claim = [
        i for i, ops in enumerate(writes) if any(isinstance(o, Create) and "/owners/" in o.path for o in ops)
    ]

    assert all(i > release for i in claim)


def test_delivery_has_stopped_before_the_owner_goes() -> None:
    """The owner znode exists until the callback has returned."""
    stage = SteppedGroup()
    stage.hangs.add("a")
    member = stage.join("a")
    stage.join("b", run_ms=500)

    assert effects_of(member, Revoke)
    assert len(stage.owners()) == 4
    stage.hangs.clear()
    stage.run(500)
    assert stage.owners()[3] == "b-0"


def test_stuck_callback_delays_the_release_until_the_deadline_only() -> None:
    """Then the partitions go all the same, and its late answer is ignored."""
    stage = SteppedGroup(revoke_timeout_ms=800)
    stage.hangs.add("a")
    member = stage.join("a")
    second = stage.join("b", run_ms=None)
    took_ms = stage.run_until(lambda: stage.owners().get(3) == "b-0")

    assert 800 <= took_ms <= 1200
    (overdue,) = effects_of(member, EndOverdue)
    assert overdue.partitions == (tp(2), tp(3))
    member.post(ev.Revoked(overdue.call_id, {tp(2): 99}))
    stage.run(500)
    assert stage.offset(2).data == b"-1"
    assert owned(second) == [2, 3]


def test_positions_of_the_callback_are_committed_with_the_release() -> None:
    """The processed position is in the release's transaction, and the successor starts there (recipes 7)."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.commit(member, {tp(n): 0 for n in range(4)})
    for _ in range(5):
        member.application.deliver(tp(3))
    second = stage.join("b")

    assert second.machine.grants()[tp(3)].offset == 5


def test_move_between_threads_of_one_member_is_one_transaction() -> None:
    """Delete, create, set, bump in one multi; a new token; revoked, then assigned (recipes 5)."""
    stage = SteppedGroup(topics={"t": 3})
    member = stage.join("a", {"t": 2})
    before = member.machine.grants()
    stage.commit(member, {tp(n): 7 for n in range(3)})
    member.asked.clear()
    member.effects.clear()
    stage.topic("t", 5)
    stage.run(1000)
    after = member.machine.grants()

    moved = [held for held in before if before[held].thread != after[held].thread]
    assert moved
    for held in moved:
        (move,) = [
            ops
            for ops in multis(member.asked)
            if any(isinstance(o, Delete) and o.path == Owner.path(GROUP, held) for o in ops)
        ]
        assert Create(Owner.path(GROUP, held), f"g_a-{after[held].thread}".encode(), ephemeral=True) in move
        assert after[held].token > before[held].token
        assert after[held].offset == 7
    order = [type(e).__name__ for e in member.effects if isinstance(e, (Revoke, EndLease, Assign))]
    assert order[:3] == ["Revoke", "EndLease", "Assign"]
    assert is_stable(member)


def test_a_subscription_that_changes_while_the_last_one_is_registered_is_registered_too() -> None:
    """Past bug: the second change was lost, and the member stayed in `joining`."""
    stage = SteppedGroup({"t": 2, "u": 2, "v": 2})
    member = stage.join("a")
    again = ev.SubscriptionChanged(StaticSubscription({"v": 1}))
    stage.when("client-a", writes_to("/ids/"), lambda: member.post(again))
    member.post(ev.SubscriptionChanged(StaticSubscription({"u": 1})))
    stage.run(2000)

    assert is_stable(member)
    assert {tp.topic for tp in member.machine.grants()} == {"v"}
