"""Who owned a partition when, and how each ownership ended."""

from __future__ import annotations

import pytest

from tests.worlds.audit_log import START_MS, AuditLog, owner
from zkgroup.audit.answers.owner_lives import OwnerLife
from zkgroup.audit.answers.partitions import owners_of
from zkgroup.model import TopicPartition

T0 = TopicPartition("t", 0)


def _owners(log: AuditLog, group: str = "g") -> list[OwnerLife]:
    return owners_of(log.events(), log.facts(), group, T0)


@pytest.mark.parametrize("with_lists", [False, True])
def test_each_end_of_an_ownership_is_distinguished(*, with_lists: bool) -> None:
    """Release, deletion by another session, end of the session, and still open, each with its zxid."""
    log = AuditLog(with_lists=with_lists)
    log.open(1)
    log.open(2)
    first = log.claim("g", T0, "g_a-0", 1)
    released = log.release("g", T0, 1)
    second = log.claim_ours("g", T0, "g_a-1", 1)
    stolen = log.release("g", T0, 2)
    third = log.claim("g", T0, "g_a-0", 1)
    log.wait(70)
    expired = log.expire(1)
    fourth = log.claim("g", T0, "g_b-0", 2)

    assert _owners(log) == [
        OwnerLife("g_a-0", 1, first, START_MS, released, START_MS, "release", 1),
        OwnerLife("g_a-1", 1, second, START_MS, stolen, START_MS, "deleted_by_other", 2),
        OwnerLife("g_a-0", 1, third, START_MS, expired, START_MS + 70, "session_end", 1),
        OwnerLife("g_b-0", 2, fourth, START_MS + 70),
    ]


def test_a_hand_over_between_threads_in_one_multi_is_a_release_and_a_claim() -> None:
    """One multi that replaces an owner ends the first life by release and begins the second at its zxid."""
    log = AuditLog()
    log.claim("g", T0, "g_a-0", 1)
    path = owner("g", T0)
    moved = log.multi(1, log.deletion(path), log.creation(path, "g_a-1", ephemeral=True))

    before, after = _owners(log)

    assert (before.to_zxid, before.ended_by, after.from_zxid, after.ended_by) == (
        moved,
        "release",
        moved,
        "open",
    )


def test_other_groups_partitions_and_offsets_are_left_out() -> None:
    """Claims of another partition or group, and commits, are no owners of the partition asked for."""
    log = AuditLog()
    log.claim("g", ("t", 1), "g_a-0", 1)
    log.commit("g", T0, 5, 1)
    log.claim("h", T0, "h_a-0", 1)

    assert _owners(log) == []
    assert [life.is_of("h_a") for life in _owners(log, "h")] == [True]


def test_seeds_are_owners_from_their_creation_on() -> None:
    """An owner of the snapshot lives since its creation."""
    log = AuditLog(zxid=100)
    log.seed(owner("g", T0), "no thread", zxid=9, ms=33, session=5)
    log.fail(1)

    (life,) = _owners(log)

    assert (life.from_zxid, life.from_ms, life.session) == (9, 33, 5)


def test_where_the_log_lacks_the_deletion_the_next_claim_ends_it() -> None:
    """A second claim without a deletion before it ends the first life at its zxid, by nobody known."""
    log = AuditLog()
    log.claim("g", T0, "g_a-0", 1)
    again = log.claim("g", T0, "g_b-0", 2)

    assert [(life.to_zxid, life.ender) for life in _owners(log)] == [(again, None), (None, None)]
