"""The leader's decisions about its ISR, and the handling of the outcomes of its writes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest

from tests.worlds.broker_requests import ORDERS, state
from zkgroup.broker.machine.isr import REFUSED_PAUSE_MAX_MS, REFUSED_PAUSE_MS, Isr, IsrOutcome, IsrWrite
from zkgroup.broker.replica_view import Follower
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import (
    Code,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Outcome,
    ReadDone,
    Refused,
    SetData,
    Unanswered,
)
from zkgroup.znodes.brokers import PartitionState

LAG_MS = 10_000
START_MS = 1_000
PATH = "/brokers/topics/orders/partitions/0/state"
BAD_VERSION = MultiRefused(0, Code.BAD_VERSION)


def led(isr: tuple[int, ...] = (1, 2, 3), replicas: tuple[int, ...] = (1, 2, 3), version: int = 7) -> Isr:
    """Broker 1 leads at leader epoch 5, as controller epoch 3 decided."""
    decision = state(leader=1, epoch=5, isr=isr, replicas=replicas, decided=3, version=version)
    return Isr(1, decision, START_MS)


def able(*brokers: int) -> dict[int, Follower]:
    """Followers that may join the ISR."""
    return {broker: Follower(10, caught_up=True, lost=False) for broker in brokers}


def behind(*brokers: int) -> dict[int, Follower]:
    return {broker: Follower(0, caught_up=False, lost=False) for broker in brokers}


def stored(
    isr: Iterable[int], version: int, *, leader: int = 1, epoch: int = 5, decided: int = 3, more: str = ""
) -> ReadDone:
    """The answer to a read of the znode."""
    text = PartitionState(leader, epoch, tuple(isr), decided).encode()[:-1] + more.encode() + b"}"
    return ReadDone(Znode(PATH, text, stat(version)))


def stat(version: int) -> ZnodeStat:
    return ZnodeStat(1, 2, 0, 0, version, 0, 0, 0, 0, 0, 1)


def done(version: int) -> MultiDone:
    return MultiDone((stat(version),), zxid=9)


def shrinking(isr: Isr) -> IsrWrite:
    """A write that removes 2 and 3 from the ISR, without an answer."""
    write = isr.propose({}, START_MS + LAG_MS + 1, LAG_MS)
    assert write is not None
    assert write.state.isr == (1,)
    return write


def test_a_write_keeps_the_decision_and_changes_the_isr_alone() -> None:
    """Leader epoch and the deciding controller's epoch stay; on the known version."""
    write = shrinking(led())

    assert write.topic_partition == ORDERS
    expected = PartitionState(leader=1, leader_epoch=5, isr=(1,), controller_epoch=3)
    assert write.request() == Multi((SetData(PATH, expected.encode(), 7),))


def test_a_follower_that_has_not_caught_up_within_the_limit_goes() -> None:
    """At the limit it stays; the order of the others is kept."""
    isr = led((3, 1, 2))
    isr.fetched(3, offset=10, log_end_offset=10, now_ms=START_MS + 1)
    at_limit = START_MS + LAG_MS

    assert isr.propose(able(2, 3), at_limit, LAG_MS) is None
    write = isr.propose(able(2, 3), at_limit + 1, LAG_MS)
    assert write is not None
    assert write.state.isr == (3, 1)


def test_the_leader_never_drops_itself() -> None:
    """However long it is since it wrote or fetched anything."""
    isr = led((2, 1))
    write = isr.propose({}, START_MS + 100 * LAG_MS, LAG_MS)
    assert write is not None
    assert write.state.isr == (1,)


def test_a_follower_under_a_steady_stream_keeps_up_by_what_stood_at_its_last_fetch() -> None:
    """It never reaches the log end, and does not lag; a follower that falls behind at each fetch does."""
    isr = led()
    for step in range(1, 21):
        now = START_MS + step * 1_000
        isr.fetched(2, offset=step * 10 - 10, log_end_offset=step * 10, now_ms=now)
        isr.fetched(3, offset=step, log_end_offset=step * 10, now_ms=now)

    write = isr.propose(able(2, 3), START_MS + 20_000, LAG_MS)

    assert write is not None
    assert write.state.isr == (1, 2)


def test_one_that_lost_records_goes_at_once() -> None:
    """Though it has just caught up: the next fetch would find less than the high watermark."""
    isr = led()
    isr.fetched(2, offset=10, log_end_offset=10, now_ms=START_MS)
    followers = able(3) | {2: Follower(0, caught_up=True, lost=True)}

    write = isr.propose(followers, START_MS, LAG_MS)

    assert write is not None
    assert write.state.isr == (1, 3)


def test_a_replica_that_has_caught_up_comes_back_behind_the_members() -> None:
    """Several in the order of the replica list."""
    isr = led((1,), replicas=(3, 2, 1))
    isr.fetched(2, offset=10, log_end_offset=10, now_ms=START_MS)
    isr.fetched(3, offset=10, log_end_offset=10, now_ms=START_MS)

    write = isr.propose(able(2, 3), START_MS, LAG_MS)

    assert write is not None
    assert write.state.isr == (1, 3, 2)


def test_who_may_not_join_or_was_late_does_not() -> None:
    """Below the high watermark; never fetched; caught up too long ago; no replica of the partition."""
    isr = led((1,), replicas=(1, 2, 3, 4))
    for follower in (2, 4, 9):
        isr.fetched(follower, offset=10, log_end_offset=10, now_ms=START_MS)

    assert isr.propose(behind(2) | able(3, 9), START_MS, LAG_MS) is None
    assert isr.propose(able(4), START_MS + LAG_MS + 1, LAG_MS) is None
    assert isr.propose({4: Follower(10, caught_up=True, lost=True)}, START_MS, LAG_MS) is None


def test_one_write_at_a_time() -> None:
    """The outcome of the first decides about the version of the next."""
    isr = led()
    shrinking(isr)

    assert isr.propose({}, START_MS + 3 * LAG_MS, LAG_MS) is None


def test_an_accepted_write_is_the_isr_and_its_version_the_next_condition() -> None:
    """No read in between."""
    isr = led()
    shrinking(isr)

    assert isr.written(done(8)) is IsrOutcome.STORED
    assert (isr.isr, isr.version, isr.maximal_isr) == ((1,), 8, {1})
    isr.fetched(2, offset=10, log_end_offset=10, now_ms=50_000)
    write = isr.propose(able(2), 50_000, LAG_MS)
    assert write is not None
    assert write.version == 8


@pytest.mark.parametrize("outcome", [BAD_VERSION, Unanswered("connection lost")])
def test_a_conflict_with_identical_content_was_the_own_lost_reply(outcome: Outcome) -> None:
    """It counts as success, with the stored version."""
    isr = led()
    shrinking(isr)

    assert isr.written(outcome) is IsrOutcome.READ_BACK
    assert isr.propose({}, START_MS + 3 * LAG_MS, LAG_MS) is None
    assert isr.read_back(stored((1,), 8)) is IsrOutcome.STORED
    assert (isr.isr, isr.version) == ((1,), 8)


@pytest.mark.parametrize("changed", [{"leader": 2}, {"epoch": 6}, {"leader": -1, "epoch": 6}])
def test_a_conflict_with_another_decision_stops_it(changed: dict[str, int]) -> None:
    """No more writes until the controller's next LeaderAndIsr."""
    isr = led()
    shrinking(isr)
    isr.written(BAD_VERSION)

    assert isr.read_back(stored((2, 3), 9, **changed)) is IsrOutcome.DEPOSED
    assert isr.propose({}, START_MS + 9 * LAG_MS, LAG_MS) is None
    assert (isr.isr, isr.version) == ((1, 2, 3), 7)


def test_a_foreign_write_in_the_own_term_is_adopted() -> None:
    """K9: the version that 0.8.2.2 remembers instead is refused for ever. Keys of others are kept."""
    isr = led()
    shrinking(isr)
    isr.written(BAD_VERSION)

    outcome = stored((1, 3), 12, decided=4, more=',"leader_recovery_state":0')
    assert isr.read_back(outcome) is IsrOutcome.ADOPTED
    assert (isr.isr, isr.version, isr.maximal_isr) == ((1, 3), 12, {1, 3})
    write = isr.propose({}, START_MS + 2 * LAG_MS, LAG_MS)
    assert write is not None
    assert (write.version, write.state) == (12, PartitionState(1, 5, (1,), 4, {"leader_recovery_state": 0}))


def test_what_was_certainly_not_written_is_proposed_again() -> None:
    """No write has an unknown outcome, so the maximal ISR has no further member."""
    isr = led()
    first = shrinking(isr)

    assert isr.written(NotSent("suspended")) is IsrOutcome.KEPT
    assert isr.maximal_isr == {1, 2, 3}
    assert shrinking(isr) == first


def test_a_write_that_an_acl_refuses_is_tried_after_growing_pauses() -> None:
    """A follower fetches twice a second: 14 writes in 5 minutes, not 600."""
    isr, tried = led(), []
    for now_ms in range(START_MS + 2 * LAG_MS, START_MS + 2 * LAG_MS + 300_000, 500):
        if isr.propose({}, now_ms, LAG_MS) is not None:
            tried.append(now_ms)
            assert isr.written(MultiRefused(0, Code.NO_AUTH)) is IsrOutcome.KEPT
            assert isr.maximal_isr == {1, 2, 3}

    pauses = [later - sooner for sooner, later in pairwise(tried)]
    assert pauses[:7] == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    assert len(tried) == 14


def test_a_write_that_succeeds_ends_the_pauses() -> None:
    """The next refusal is the first one again."""
    isr, now_ms = led(), START_MS + 2 * LAG_MS
    for _ in range(5):
        assert isr.propose({}, now_ms, LAG_MS) is not None
        isr.written(MultiRefused(0, Code.NO_AUTH))
        now_ms += REFUSED_PAUSE_MAX_MS
    assert isr.propose({}, now_ms, LAG_MS) is not None
    isr.written(done(8))

    isr.fetched(2, 10, 10, now_ms)
    assert isr.propose(able(2), now_ms, LAG_MS) is not None
    isr.written(MultiRefused(0, Code.NO_AUTH))
    assert isr.propose(able(2), now_ms + REFUSED_PAUSE_MS, LAG_MS) is not None


def test_a_znode_that_is_gone_stops_it() -> None:
    """Only the controller may create it again."""
    isr = led()
    shrinking(isr)
    isr.written(Unanswered("x"))

    assert isr.read_back(ReadDone(None)) is IsrOutcome.DEPOSED


@pytest.mark.parametrize(
    "found",
    [
        *(ReadDone(Znode(PATH, data, stat(8))) for data in (b"{", b"[]", None)),
        Refused(Code.NO_AUTH, PATH),
    ],
)
def test_a_znode_that_cannot_be_read_is_read_again(found: Outcome) -> None:
    """A repair may restore this leader epoch, and no controller would send a request then."""
    isr = led()
    shrinking(isr)
    isr.written(BAD_VERSION)
    now_ms = START_MS + 5 * LAG_MS

    assert isr.read_back(found) is IsrOutcome.UNREADABLE
    assert isr.maximal_isr == {1, 2, 3}
    assert isr.propose({}, now_ms, LAG_MS) is None
    assert isr.propose({}, now_ms + LAG_MS // 2 - 1, LAG_MS) is None
    assert isr.propose({}, now_ms + LAG_MS // 2, LAG_MS) is not None
    isr.written(BAD_VERSION)
    assert isr.read_back(stored((1, 2, 3), 9)) is IsrOutcome.ADOPTED
    assert (isr.isr, isr.version) == ((1, 2, 3), 9)


def test_a_partition_that_is_gone_stops_it() -> None:
    """The topic was deleted."""
    isr = led()
    shrinking(isr)

    assert isr.written(MultiRefused(0, Code.NO_NODE)) is IsrOutcome.DEPOSED


@pytest.mark.parametrize("outcome", [NotSent("lost"), Unanswered("x")])
def test_a_read_that_says_nothing_is_to_be_done_again(outcome: Outcome) -> None:
    """Until then nothing is written."""
    isr = led()
    shrinking(isr)
    isr.written(BAD_VERSION)

    assert isr.read_back(outcome) is IsrOutcome.READ_BACK
    assert isr.propose({}, START_MS + 9 * LAG_MS, LAG_MS) is None
    assert isr.read_back(stored((1,), 8)) is IsrOutcome.STORED


def growing() -> Isr:
    """2 has caught up, and the write that lets it in is under way."""
    isr = led((1,))
    isr.fetched(2, offset=10, log_end_offset=10, now_ms=START_MS)
    write = isr.propose(able(2), START_MS, LAG_MS)
    assert write is not None
    assert write.state.isr == (1, 2)
    return isr


def test_a_proposed_member_counts_before_it_is_stored_and_a_dropped_one_until_then() -> None:
    """Whichever of both ISRs is in the znode, the high watermark has waited for its members."""
    isr = growing()
    assert (isr.isr, isr.maximal_isr) == ((1,), {1, 2})

    other = led()
    shrinking(other)
    assert other.maximal_isr == {1, 2, 3}


def test_a_write_in_doubt_counts_until_the_znode_has_moved_on() -> None:
    """Not applied when it was read, it could still be: a write of the same ISR at that version settles it."""
    isr = growing()
    isr.written(Unanswered("connection lost"))

    assert isr.read_back(stored((1,), 7)) is IsrOutcome.KEPT
    assert (isr.isr, isr.maximal_isr) == ((1,), {1, 2})
    write = isr.propose(behind(2), START_MS + 2 * LAG_MS, LAG_MS)
    assert write is not None
    assert (write.state.isr, write.version) == ((1,), 7)
    assert isr.maximal_isr == {1, 2}
    isr.written(done(8))
    assert isr.maximal_isr == {1}
    assert isr.propose(behind(2), START_MS + 3 * LAG_MS, LAG_MS) is None


def test_a_shrink_in_doubt_is_settled_too() -> None:
    """Applied late, it would leave the znode without a member that this leader still counts."""
    isr = led((1, 2))
    late = START_MS + LAG_MS + 1
    isr.propose({}, late, LAG_MS)
    isr.written(Unanswered("connection lost"))
    isr.read_back(stored((1, 2), 7))
    isr.fetched(2, offset=10, log_end_offset=10, now_ms=late)

    write = isr.propose(able(2), late, LAG_MS)

    assert write is not None
    assert (write.state.isr, write.version) == ((1, 2), 7)
    isr.written(BAD_VERSION)
    assert isr.read_back(stored((1,), 8)) is IsrOutcome.ADOPTED
    assert isr.isr == (1,)


def test_a_deposed_leader_counts_all_that_it_ever_meant() -> None:
    """A leader that does not know of its successor must not raise the high watermark past any such member."""
    isr = growing()
    isr.written(BAD_VERSION)
    isr.read_back(stored((2,), 9, leader=2, epoch=6))

    assert isr.maximal_isr == {1, 2}
