"""Who ruled and was there at a zxid, and what was asked for: lookups in facts."""

from __future__ import annotations

from tests.pure.audit.cluster import CONTROLLER, REASSIGN, Cluster
from zkgroup.audit.findings.cluster import ChangeStamp, absences, ending_text, is_requested
from zkgroup.audit.inputs.facts import Life, life_at
from zkgroup.model import TopicPartition

T0, T1 = ("t", 0), ("t", 1)


def test_a_move_is_asked_for_from_its_request_to_its_end() -> None:
    """For the partition that it names alone, and not in the transaction that takes it off."""
    log = Cluster()
    log.topic("t", {0: (1,), 1: (1,)})
    asked = log.reassign({T0: (2,), T1: (2,)})
    shrunk = log.reassign({T1: (2,)})
    done = log.delete(REASSIGN, 1)
    again = log.reassign({T1: (1,)})
    facts = log.facts()

    def times(partition: int) -> list[int]:
        return [
            zxid for zxid in range(log.zxid + 2) if is_requested(facts, TopicPartition("t", partition), zxid)
        ]

    assert (shrunk, done, again) == (asked + 1, asked + 2, asked + 3)
    assert times(0) == [asked]
    assert times(1) == [asked, shrunk, again, again + 1]
    assert times(2) == []


def test_a_life_is_there_at_its_ends_too_and_the_later_of_two_that_meet() -> None:
    """A controller may be replaced in one transaction."""
    log = Cluster()
    first = log.elect(1, 1, 1)
    log.create("/between")
    gone = log.delete(CONTROLLER, 9)
    log.create("/nobody")
    second = log.elect(2, 2, 2)
    lives = log.facts().controllers

    sessions = [
        None if (life := life_at(lives, zxid)) is None else life.session for zxid in range(second + 2)
    ]

    assert [sessions[zxid] for zxid in (first - 1, first, gone - 1, gone, gone + 1, second)] == [
        *(None, 1, 1, 1, None, 2)
    ]


def test_absences_lie_between_registrations_within_the_time_asked_for() -> None:
    """From the end of one to the beginning of the next; none of it is before or behind the time."""
    log = Cluster()
    log.open(2)
    log.create("/start")
    up = log.broker(2, 2)
    log.wait(1_000)
    down = log.expire(2)
    log.wait(1_000)
    back = log.broker_comes(2, 22)
    log.create("/later")
    facts = log.facts()

    def spans(since: int, to: int | None) -> list[tuple[int, int | None]]:
        found = absences(facts, 2, ChangeStamp(since, 0), None if to is None else ChangeStamp(to, 0))
        return [(gone.zxid, back.zxid if back else None) for gone, back in found]

    assert spans(1, None) == [(1, up), (down, back)]
    assert spans(up, None) == [(down, back)]
    assert spans(up, down) == []
    assert spans(up, back) == [(down, back)]
    assert spans(down, back - 1) == [(down, back - 1)]
    assert spans(back, None) == []
    assert list(absences(facts, 3, ChangeStamp(5, 7), None)) == [(ChangeStamp(5, 7), None)]


def test_how_an_ephemeral_ended() -> None:
    """With its session, which expired or was closed; or by a deletion, its own or another's."""
    log = Cluster()
    log.open(1)
    log.open(2)
    expired, closed = log.expire(1), log.close(2)
    facts = log.facts()

    ends = [(1, expired, 1), (2, closed, 2), (2, closed - 1, 2), (2, closed - 1, 0xA), (3, closed, 3)]
    assert [
        ending_text(facts, Life("", session, b"", 1, 0, zxid, 0, ended_by))
        for session, zxid, ended_by in ends
    ] == [
        "its session expired",
        "it closed its session",
        "deleted by itself",
        "deleted by session 0xa",
        "deleted by itself",
    ]
