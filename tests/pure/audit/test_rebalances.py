"""Rebalances: where one ends and the next begins, what set them off, what they cost."""

from __future__ import annotations

from tests.pure.audit.groups import OURS, T, alone, causes, rebalances, rested, shared
from tests.worlds.audit_log import AuditLog, owner, registration
from zkgroup.audit.findings.group_rebalances import Rebalance
from zkgroup.zkfiles.records import TransactionType

A_IDS = "/consumers/g/ids/g_a"


def test_a_join_and_what_it_moved() -> None:
    """Two of four partitions had to move, two were let go for nothing, all stood still for 300 ms."""
    first, second = rebalances(shared())

    assert [(each.cause, each.what) for each in second.triggers] == [("join", "g_b")]
    assert (second.moved, second.least, second.members, second.down_ms_max) == (2, 2, 2, 300)
    assert [(each.before, each.after, each.down_ms) for each in second.changes] == [
        ("g_a-0", "g_a-0", 300),
        ("g_a-0", "g_a-0", 300),
        ("g_a-0", "g_b-0", 300),
        ("g_a-0", "g_b-0", 300),
    ]
    assert [tp.partition for tp in second.retaken] == [0, 1]
    assert (first.moved, first.unowned, first.changes[0].before, first.changes[0].down_ms) == (
        0,
        0,
        None,
        None,
    )
    assert second.retaken_by_zkgroup == 0


def test_a_crash_takes_registration_and_owners_in_one_transaction() -> None:
    """An expiry begins one at its zxid, with a crash as cause; the last claim of what it held ends it."""
    log = shared()
    log.wait(10_000)
    died = log.expire(2)
    log.claim("g", T[2], "g_a-0", 1)
    log.wait(40)
    last = log.claim("g", T[3], "g_a-0", 1)

    *_, found = rebalances(log)

    assert (found.from_zxid, found.to_zxid) == (died, last)
    assert [(each.cause, each.what) for each in found.triggers] == [("crash", "g_b")]
    assert (found.moved, found.least, found.retaken) == (2, 2, ())
    assert [each.down_ms for each in found.changes] == [0, 40]


def test_a_member_that_comes_back_in_a_new_session_had_expired() -> None:
    """An expired member that registers again was not crashed but too slow: the cause is expiry."""
    log = rested()
    log.expire(1)
    log.wait(60_000)
    log.come("g", "g_a", 2)

    assert causes(log)[1:] == [[("expiry", "g_a")], [("join", "g_a")]]


def test_a_close_by_the_client_and_a_leave_without_one_are_clean() -> None:
    """A deleted registration and a closed session are both a clean leave."""
    log = shared()
    log.wait(10_000)
    log.leave("g", "g_b", 2)
    log.wait(10_000)
    log.close(1)

    assert causes(log)[2:] == [[("clean leave", "g_b")], [("clean leave", "g_a")]]


def test_a_registration_that_another_session_deleted_was_removed() -> None:
    """A registration that session 7 deletes, though session 1 made it, is a removal."""
    log = rested()
    log.leave("g", "g_a", 7)

    assert causes(log)[1:] == [[("removal", "g_a")]]


def test_a_changed_subscription_is_reported_by_topics_lost_and_gained() -> None:
    """Members of ours register anew in the session they have."""
    log = alone()
    for wants in ({"t": 1, "u": 1}, {"u": 1}):
        log.wait(10_000)
        log.multi(1, log.deletion(A_IDS), log.creation(A_IDS, registration(wants), ephemeral=True))
    log.wait(10_000)
    log.leave("g", "g_a", 1)
    log.join("g", "g_a", 1, {"u": 1})

    assert causes(log)[1:] == [[("subscribe", "g_a")], [("unsubscribe", "g_a")], []]


def test_another_number_of_threads_is_a_changed_subscription_too() -> None:
    """More threads of a topic are a subscription, fewer of one topic are none, whatever else is asked for."""
    log = alone()
    for wants in ({"t": 3}, {"t": 2, "u": 1}):
        log.wait(10_000)
        log.multi(1, log.deletion(A_IDS), log.creation(A_IDS, registration(wants), ephemeral=True))

    assert causes(log)[1:] == [[("subscribe", "g_a")], [("unsubscribe", "g_a")]]


def test_registered_again_much_later_in_the_same_session_it_has_left_and_joined() -> None:
    """Unregistered, and registered a minute later in the same session, is a leave and then a join."""
    log = rested()
    log.leave("g", "g_a", 1)
    log.wait(60_000)
    log.join("g", "g_a", 1)

    assert causes(log)[1:] == [[("clean leave", "g_a")], [("join", "g_a")]]


def test_new_partitions_set_one_off_and_begin_it() -> None:
    """A topic that grows is the cause and the beginning; the claim of the new partition ends it."""
    log = rested()
    grown = log.topic("t", 5)
    log.wait(50)
    log.claim("g", ("t", 4), "g_a-0", 1)

    found = rebalances(log)[-1]

    assert [(each.cause, each.what) for each in found.triggers] == [("partition growth", "t")]
    assert (found.from_zxid, found.to_ms - found.from_ms) == (grown, 50)


def test_a_topic_that_precedes_its_subscription_causes_no_rebalance() -> None:
    """Nor do topics that nobody of the group wants."""
    log = rested()
    log.topic("other", 2)
    log.release("g", T[0], 1)
    log.claim("g", T[0], "g_a-0", 1)

    assert causes(log) == [[("join", "g_a")], []]


def test_a_deleted_topic_lets_go_of_its_partitions() -> None:
    """The deletion of a topic is the cause; its partitions are unowned at the end and none has moved."""
    log = rested()
    log.delete("/brokers/topics/t")
    for partition in T:
        log.release("g", partition, 1)

    found = rebalances(log)[-1]

    assert [each.cause for each in found.triggers] == ["topic deletion"]
    assert (found.unowned, found.moved) == (4, 0)


def test_an_unreadable_registration_is_named() -> None:
    """A registration that is no JSON sets one off, and the cause names the member."""
    log = rested()
    log.create("/consumers/g/ids/g_x", "t", 9, ephemeral=True)

    assert causes(log)[1:] == [[("unreadable registration", "g_x")]]


def test_a_stolen_claim_begins_one_by_itself() -> None:
    """The group was at rest, though it had been busy a moment ago."""
    log = alone()
    stolen = log.release("g", T[1], 9)
    log.release("g", T[2], 9)
    log.claim("g", T[1], "g_a-0", 1)

    found = rebalances(log)[-1]

    assert (found.from_zxid, [(each.cause, each.what) for each in found.triggers]) == (
        stolen,
        [("stolen claim", "0x9")],
    )
    assert found.retaken == ()


def test_members_that_come_while_it_goes_on_are_part_of_it() -> None:
    """Two members that join before the group is at rest are two causes of one rebalance."""
    log = rested()
    log.open(2)
    log.open(3)
    first = log.join("g", "g_b", 2)
    log.release("g", T[0], 1)
    log.join("g", "g_c", 3)
    log.claim("g", T[0], "g_c-0", 3)

    found = rebalances(log)[-1]

    assert (found.from_zxid, [each.what for each in found.triggers]) == (first, ["g_b", "g_c"])


def test_members_that_come_when_all_is_as_planned_begin_the_next() -> None:
    """However soon after the one before."""
    log = shared()
    log.wait(1)
    joined = log.come("g", "g_c", 3)

    assert [each.from_zxid for each in rebalances(log)][-1] == joined
    assert len(rebalances(log)) == 3


def test_a_member_that_leaves_at_rest_begins_the_next_whatever_its_close_lists_first() -> None:
    """A server of 3.6 or later lists the ephemerals of a session in no order."""
    log = shared()
    log.wait(1)
    paths = (owner("g", T[3]), owner("g", T[2]), "/consumers/g/ids/g_b")
    closed = log.write(TransactionType.CLOSE_SESSION, 2, closed_paths=paths)

    found = rebalances(log)[-1]

    assert (found.from_zxid, [each.cause for each in found.triggers]) == (closed, ["clean leave"])
    assert found.unowned == 2


def test_quiet_ends_one_that_never_got_to_its_plan() -> None:
    """4,999 ms between two releases keep it going, 5,000 ms end it, planned or not."""
    log = rested()
    log.release("g", T[0], 1)
    log.wait(4_999)
    log.release("g", T[1], 1)
    log.wait(5_000)
    log.claim("g", T[0], "g_a-0", 1)

    found = rebalances(log)[1:]

    assert [len(each.changes) for each in found] == [2, 1]
    assert [each.down_ms for each in found[1].changes] == [9_999]
    assert found[0].unowned == 2


def test_a_clock_that_steps_back_neither_ends_one_nor_gives_it_a_negative_length() -> None:
    """A clock that goes back a minute between release and claim leaves one rebalance of 0 ms."""
    log = rested()
    log.release("g", T[0], 1)
    log.wait(-60_000)
    log.claim("g", T[0], "g_a-0", 1)

    found = rebalances(log)[-1]

    assert (found.to_ms - found.from_ms, found.changes[0].down_ms) == (0, 0)


def test_seeds_are_where_it_starts_from_and_no_rebalance() -> None:
    """Members and owners of the snapshot are the state before; the join in the log is the only one."""
    log = AuditLog(zxid=100)
    log.seed("/brokers/topics/t", '{"version":1,"partitions":{"0":[1],"1":[1]}}', zxid=1)
    log.seed(A_IDS, registration(), zxid=2, session=1)
    log.seed(owner("g", T[0]), "g_a-0", zxid=3, session=1)
    log.seed(owner("g", T[1]), "g_a-0", zxid=4, session=1)
    log.come("g", "g_b", 2)
    log.release("g", T[1], 1)
    log.claim("g", T[1], "g_b-0", 2)

    (found,) = rebalances(log)

    assert [(each.before, each.after) for each in found.changes] == [("g_a-0", "g_b-0")]
    assert (found.moved, found.least) == (1, 1)


def test_moves_beyond_the_least_possible_are_counted() -> None:
    """c takes over from b, and a and b swap what they need not."""
    log = shared()
    log.wait(10_000)
    log.come("g", "g_c", 3)
    for partition, thread, session in ((T[0], "g_c-0", 3), (T[1], "g_b-0", 2), (T[2], "g_a-0", 1)):
        log.release("g", partition, 1 if partition[1] < 2 else 2)
        log.claim("g", partition, thread, session)

    found = rebalances(log)[-1]

    assert (found.moved, found.least) == (3, 1)


def test_zkgroup_members_and_the_sticky_strategy_are_distinguished() -> None:
    """What members of ours took back is counted apart from JVM members', and sticky from range."""

    def told(found: Rebalance) -> tuple[int, bool]:
        return found.retaken_by_zkgroup, found.is_sticky

    assert told(rebalances(shared(**OURS))[-1]) == (2, True)
    assert told(rebalances(shared(zkgroup="1", strategy="range"))[-1]) == (2, False)
    assert told(rebalances(shared())[-1]) == (0, False)


def test_other_groups_are_left_alone() -> None:
    """A join in group h is a rebalance of h and none of g."""
    log = shared()
    log.open(5)
    log.join("h", "h_a", 5)

    assert len(rebalances(log, "h")) == 1
    assert len(rebalances(log)) == 2


def test_the_times_of_a_partition_without_owner_add_up() -> None:
    """Let go of twice in one rebalance, it stood still for both times together."""
    log = rested()
    for ms in (100, 250):
        log.release("g", T[0], 1)
        log.wait(ms)
        log.claim("g", T[0], "g_a-0", 1)
        log.wait(1_000)

    found = rebalances(log)[-1]

    assert [(each.topic_partition, each.down_ms) for each in found.changes] == [(T[0], 350)]


def test_a_topic_that_grew_long_ago_is_no_cause() -> None:
    """Nobody took notice of it then; a member that comes a minute later is the cause by itself."""
    log = rested()
    log.topic("t", 5)
    log.wait(60_000)
    log.come("g", "g_b", 2)

    assert causes(log)[1:] == [[("join", "g_b")]]


def test_a_member_that_lets_go_at_rest_goes_on_with_the_rebalance() -> None:
    """Only what asks for another one begins it: a change of the membership, or a claim that was taken."""
    log = shared()
    log.wait(1_000)
    log.release("g", T[0], 1)
    log.wait(1_000)
    log.claim("g", T[0], "g_a-0", 1)

    assert len(rebalances(log)) == 2


def test_each_that_takes_claims_of_others_is_a_cause() -> None:
    """Once, however many it took."""
    log = rested()
    for session, partition in ((8, T[0]), (9, T[1]), (8, T[2])):
        log.release("g", partition, session)

    assert causes(log)[1:] == [[("stolen claim", "0x8"), ("stolen claim", "0x9")]]


def test_other_writes_of_zkgroup_members_are_no_rebalance() -> None:
    """The bump of the owner in a claim and the view of a member neither begin one nor prolong it."""
    log = AuditLog()
    log.topic("t", 1)
    log.come("g", "g_a", 1, **OURS)
    claimed = log.claim_ours("g", T[0], "g_a-0", 1)
    log.wait(4_000)
    log.create("/consumers/g/views/g_a", "{}", 1, ephemeral=True)
    log.wait(4_000)
    log.come("g", "g_b", 2, {"u": 1}, **OURS)

    first, second = rebalances(log)

    assert (first.to_zxid, first.retaken, [each.cause for each in first.triggers]) == (claimed, (), ["join"])
    assert second.from_zxid == log.zxid
