"""Fetch sessions of a leader: which requests belong to one, and which partitions are read for them."""

from __future__ import annotations

import pytest

from tests.pure.broker.test_fetch_requests import A, B, C, append, leader_of
from tests.worlds.replica_managers import caught_up, log_end_offset
from zkgroup.broker.fetch_session import FetchSessionHandler
from zkgroup.broker.replica_view import FollowerId
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server import fetch_sessions
from zkgroup.broker.server.fetch_requests import DelayedFetch, topics_of
from zkgroup.broker.server.fetch_sessions import FetchSession, FetchSessions
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    next_session_epoch,
)


def request(
    *offsets: tuple[TopicPartition, int],
    session: tuple[int, int] = (0, 0),
    forgotten: tuple[int, ...] = (),
    replica: int = 2,
    broker_epoch: int = 5,
    leader_epoch: int = 0,
    max_bytes: int = 1 << 20,
) -> FetchRequest:
    partitions = tuple(
        FetchPartition(
            tp.partition,
            offset,
            1 << 20,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=0 if offset else -1,
        )
        for tp, offset in offsets
    )
    return FetchRequest(
        replica,
        0,
        1,
        (FetchTopic("t", partitions),) if partitions else (),
        max_bytes=max_bytes,
        broker_epoch=broker_epoch,
        session_id=session[0],
        session_epoch=session[1],
        forgotten=(ForgottenTopic("t", forgotten),) if forgotten else (),
    )


class Leader:
    """A leader with one session, which answers each request at once."""

    def __init__(self, host: ReplicaManager) -> None:
        self.host = host
        self.sessions = FetchSessions()
        self.changed: dict[TopicPartition, None] = {}
        host.listen(lambda tp: self.changed.setdefault(tp))
        self.read: list[TopicPartition] = []
        self.reported: list[TopicPartition] = []

    def ask(self, asked: FetchRequest, *, sweeps: bool = False) -> tuple[list[TopicPartition], DelayedFetch]:
        """The partitions in the answer; `read` has those that were read for it, `reported` those whose fetch
        is known without a read."""
        session = self.sessions.find(asked)
        assert isinstance(session, FetchSession), session
        delayed = session.begin(asked)
        changed, self.changed = self.changed, {}
        self.read, resting = session.due(changed, all_partitions=sweeps)
        self.reported = [one.topic_partition for one in resting]
        fetched = delayed.read(self.host, self.read, held=False)
        session.was_read(self.read, fetched, held=False)
        session.answered(delayed)
        return list(delayed.news), delayed


def test_a_follower_gets_a_session_and_a_consumer_none() -> None:
    """As from a broker whose cache of sessions is full: an epoch above 0 is then of no session."""
    sessions = FetchSessions()
    assert sessions.find(request(session=(0, 0), replica=-1)) is None
    assert sessions.find(request(session=(0, -1), replica=-1)) is None
    assert sessions.find(request(session=(4, 1), replica=-1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.find(request(session=(0, -1))) is None
    assert len(sessions) == 0

    found = sessions.find(request())
    assert isinstance(found, FetchSession)
    assert (found.session_id, found.follower) == (1, FollowerId(2, 5))


def test_a_request_must_have_the_next_epoch_of_its_session() -> None:
    """71 for another one, 70 for a session that there is not, or of another incarnation."""
    sessions = FetchSessions()
    first = sessions.find(request())
    assert sessions.find(request(session=(1, 1))) is first
    assert sessions.find(request(session=(1, 1))) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.find(request(session=(1, 3))) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.find(request(session=(1, 2))) is first
    for other in (request(session=(2, 3)), request(session=(1, 3), broker_epoch=6)):
        assert sessions.find(other) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert next_session_epoch(2**31 - 1) == 1


def test_a_full_request_ends_the_session_that_it_names() -> None:
    """Its own, not that of another follower; without a new one the epoch is -1."""
    ended: list[int] = []
    sessions = FetchSessions(lambda session: ended.append(session.session_id))
    sessions.find(request())
    sessions.find(request(replica=3))
    second = sessions.find(request(session=(1, 0)))
    assert isinstance(second, FetchSession)
    assert (second.session_id, ended) == (3, [1])
    sessions.find(request(session=(2, 0)))
    assert ended == [1]
    sessions.find(request(session=(3, -1)))
    assert (ended, len(sessions)) == ([1, 3], 2)
    sessions.end_all(3)
    assert (ended, len(sessions)) == ([1, 3, 2], 1)


def test_a_session_ends_with_the_first_one_of_a_later_incarnation() -> None:
    """What an earlier process still fetches is no progress of the present one."""
    ended: list[int] = []
    sessions = FetchSessions(lambda session: ended.append(session.session_id))
    for broker_epoch in (5, 5, 6, 5):
        sessions.find(request(broker_epoch=broker_epoch))
    sessions.find(request(replica=3, broker_epoch=9))

    assert ended == [1, 2]
    assert sessions.find(request(session=(1, 1))) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_session_that_was_used_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on."""
    monkeypatch.setattr(fetch_sessions, "SESSIONS_MAX", 2)
    sessions = FetchSessions()
    for replica in (2, 3):
        sessions.find(request(replica=replica))
    sessions.find(request(session=(1, 1)))
    sessions.find(request(replica=4))

    assert sessions.find(request(session=(2, 1), replica=3)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(sessions.find(request(session=(1, 2))), FetchSession)


def test_idle_partitions_are_neither_named_nor_read() -> None:
    """Once after they were answered: the follower joins the ISR after an answer."""
    leader = Leader(leader_of(A, B, C, records=0))
    news, _ = leader.ask(request((A, 0), (B, 0), (C, 0)))
    assert news == [A, B, C]
    leader.ask(request(session=(1, 1)))
    assert leader.read == [A, B, C]
    assert all(caught_up(leader.host, tp, 2) for tp in (A, B, C))
    leader.ask(request(session=(1, 2)))
    assert leader.read == []

    append(leader.host, B)
    news, delayed = leader.ask(request(session=(1, 3)))
    assert (leader.read, news, list(delayed.results)) == ([B], [B], [B])
    news, _ = leader.ask(request((B, 1), session=(1, 4)))
    assert (leader.read, news) == ([B], [])


def test_a_sweep_reads_what_may_have_another_answer() -> None:
    """Of the others it reports the fetch that was found twice. A change noted since then is another answer,
    and so are a partition that is named, and a follower that lacks records."""
    leader = Leader(leader_of(A, B, C, records=0))
    leader.ask(request((A, 0), (B, 0), (C, 0)))
    leader.ask(request(session=(1, 1)))
    leader.ask(request(session=(1, 2)), sweeps=True)
    assert (leader.read, leader.reported) == ([], [A, B, C])

    append(leader.host, B)
    leader.ask(request((C, 0), session=(1, 3)), sweeps=True)
    assert (leader.read, leader.reported) == ([C, B], [A])
    leader.ask(request(session=(1, 4)), sweeps=True)
    assert (leader.read, leader.reported) == ([B, C], [A])
    leader.ask(request((B, 1), session=(1, 5), forgotten=(2,)), sweeps=True)
    assert (leader.read, leader.reported) == ([B], [A])
    leader.ask(request(session=(1, 6)), sweeps=True)
    assert (leader.read, leader.reported) == ([B], [A])
    leader.ask(request(session=(1, 7)), sweeps=True)
    assert (leader.read, leader.reported) == ([], [A, B])


def test_a_replica_that_is_added_again_is_read_until_it_may_join() -> None:
    """Without another change of the partition: its leader has forgotten its progress, and two fetches show
    that it is level."""
    leader = Leader(leader_of(A, records=0))
    leader.ask(request((A, 0)))
    leader.ask(request(session=(1, 1)))
    leader.ask(request(session=(1, 2)), sweeps=True)
    assert leader.reported == [A]
    leader.host.set_replicas(A, 0, (1,))
    leader.host.set_replicas(A, 0, (1, 2))
    assert not caught_up(leader.host, A, 2)
    leader.ask(request(session=(1, 3)), sweeps=True)
    leader.ask(request(session=(1, 4)), sweeps=True)

    assert caught_up(leader.host, A, 2)


def test_a_replica_that_is_removed_is_answered_with_an_error() -> None:
    """3, also if the partition is idle."""
    leader = Leader(leader_of(A, B, records=0))
    leader.ask(request((A, 0), (B, 0)))
    leader.ask(request(session=(1, 1)))
    leader.host.set_replicas(A, 0, (1,))
    news, delayed = leader.ask(request(session=(1, 2)))

    assert (news, delayed.news[A].error) == ([A], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_new_log_start_offset_is_answered() -> None:
    """It travels in the answer, also without records and with the same high watermark."""
    host = leader_of(A, B, records=2)
    leader = Leader(host)
    leader.ask(request((A, 2), (B, 2)))
    leader.ask(request(session=(1, 1)))
    assert host.delete_records(B, 1) is ErrorCode.NONE
    news, delayed = leader.ask(request(session=(1, 2)))

    assert (news, delayed.is_complete) == ([B], True)
    assert (delayed.news[B].log_start_offset, delayed.news[B].high_watermark) == (1, 2)
    assert leader.ask(request(session=(1, 3)))[0] == []


def test_a_forgotten_partition_is_not_read_until_it_is_named_again() -> None:
    """Then it is answered whatever the follower knew."""
    leader = Leader(leader_of(A, B, records=0))
    leader.ask(request((A, 0), (B, 0)))
    leader.ask(request(session=(1, 1), forgotten=(0,)))
    assert leader.read == [B]
    append(leader.host, A)
    assert leader.ask(request(session=(1, 2)))[0] == []
    assert leader.ask(request((A, 1), session=(1, 3)))[0] == [A]


def test_a_follower_in_a_new_leader_epoch_is_answered_whatever_it_knew() -> None:
    """It learns where the logs agreed by an answer (ADR 0018); so does one whose log diverged."""
    leader = Leader(leader_of(A, B))
    leader.ask(request((A, 2), (B, 2)))
    assert leader.ask(request(session=(1, 1)))[0] == []
    for tp in (A, B):
        leader.host.become_leader(tp, 1, (1, 2), {1})
    assert leader.ask(request(session=(1, 2)))[0] == [A, B], "74"
    news, delayed = leader.ask(request((A, 2), (B, 3), session=(1, 3), leader_epoch=1))
    assert news == [A, B]
    assert delayed.news[B].diverging.end_offset == 2

    assert leader.ask(request((B, 2), session=(1, 4), leader_epoch=1))[0] == [B]
    assert leader.ask(request(session=(1, 5), leader_epoch=1))[0] == []


def test_a_follower_that_names_a_new_leader_epoch_is_answered_with_the_same_high_watermark() -> None:
    """It has got the epoch before its leader's answer with 74."""
    leader = Leader(leader_of(A, B))
    leader.ask(request((A, 2), (B, 2)))
    leader.host.become_leader(A, 1, (1, 2), {1})

    news, delayed = leader.ask(request((A, 2), session=(1, 1), leader_epoch=1))

    assert news == [A]
    assert (delayed.news[A].error, delayed.news[A].high_watermark) == (0, 2)


def test_partitions_whose_records_did_not_fit_come_first_next_time() -> None:
    """So none starves, however many records the first one gets."""
    leader = Leader(leader_of(A, B, C, records=1))
    answers = [leader.ask(request((A, 0), (B, 0), (C, 0), max_bytes=1))[1]]
    for number in range(1, 4):
        append(leader.host, A)
        answers.append(leader.ask(request((A, number), session=(1, number), max_bytes=1))[1])

    with_records = [[tp for tp, one in answer.news.items() if one.records] for answer in answers]
    assert with_records == [[A], [B], [C], [A]]


def test_both_sides_of_a_session_agree() -> None:
    """What the follower names is what the leader expects, through errors and partitions that come and go."""
    host = leader_of(A, B, C, records=0)
    leader, follower = Leader(host), FetchSessionHandler()
    offsets = {A: 0, B: 0}
    for number in range(30):
        tp = (A, B, C)[number % 3]
        append(host, tp)
        if number % 7 == 3:
            follower.reset()
        if number % 5 == 4:
            offsets.pop(B, None)
            follower.forget(B)
        else:
            offsets.setdefault(B, log_end_offset(host, B) or 0)
        if number == 10:
            offsets[C] = 0
        for one, offset in offsets.items():
            epoch = -1 if offset == 0 else 0
            follower.fetch(
                one,
                FetchPartition(
                    one.partition, offset, 1 << 20, current_leader_epoch=0, last_fetched_epoch=epoch
                ),
            )
        asked = follower.request(replica_id=2, broker_epoch=5, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20)
        _, delayed = leader.ask(asked)
        session = leader.sessions._sessions[next(reversed(leader.sessions._sessions))]
        assert session.partitions == follower.partitions
        assert follower.answered(FetchResponse(topics_of(delayed.news), session_id=session.session_id))
        for one, result in delayed.news.items():
            if result.records:
                offsets[one] = log_end_offset(host, one) or 0

    assert len(leader.sessions) == 1
    ends = {tp: log_end_offset(host, tp) for tp in offsets}
    assert {tp: offset - (ends[tp] or 0) for tp, offset in offsets.items()} == dict.fromkeys(offsets, 0)
