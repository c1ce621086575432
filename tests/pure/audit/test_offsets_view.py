"""The writes of a partition's offset, as people ask for them."""

from __future__ import annotations

from tests.worlds.audit_log import START_MS, AuditLog, offset, owner
from zkgroup.audit.answers.partitions import OffsetRow, offsets_of
from zkgroup.model import TopicPartition
from zkgroup.zkfiles.records import Operation, TransactionType

A, B, TOOL = 0xA, 0xB, 0xC
T0 = TopicPartition("t", 0)


def rows_of(log: AuditLog, group: str = "g") -> list[OffsetRow]:
    return offsets_of(log.events(), log.facts(), group, T0)


def test_every_write_is_listed_with_its_member_and_ownership() -> None:
    """Claims, commits, resets and deletions, told apart."""
    log = AuditLog()
    log.join("g", "g_a", A)
    log.join("g", "g_b", B)
    claimed = log.claim_ours("g", ("t", 0), "g_a-0", A)
    committed = log.commit("g", ("t", 0), 7, A)
    log.release("g", ("t", 0), A)
    log.claim("g", ("t", 0), "g_b-0", B)
    zombie = log.commit("g", ("t", 0), 5, A)
    marker = log.creation("/consumers/g/resets/t-0", "{}")
    reset = log.multi(TOOL, log.setting(offset("g", ("t", 0)), "3"), marker)
    deleted = log.delete(offset("g", ("t", 0)), TOOL)

    assert [
        (row.zxid, row.kind, row.members, row.previous, row.offset, row.owned, row.owner, row.is_rewind)
        for row in rows_of(log)
    ] == [
        (claimed, "claim", ("g_a",), None, -1, True, "g_a-0", False),
        (committed, "commit", ("g_a",), -1, 7, True, "g_a-0", False),
        (zombie, "commit", ("g_a",), 7, 5, False, "g_b-0", True),
        (reset, "reset", (), 5, 3, False, "g_b-0", True),
        (deleted, "deletion", (), 3, None, False, "g_b-0", False),
    ]


def test_a_claim_that_writes_what_was_there_is_none_and_one_that_moves_it_is_a_commit() -> None:
    """As members of ours claim, and as a client could that has processed something before."""
    log = AuditLog()
    log.commit("g", ("t", 0), 4, B)
    log.claim_ours("g", ("t", 0), "g_a-0", A, value=4)
    log.commit("g", ("t", 0), 4, A)
    log.release("g", ("t", 0), A)
    log.claim_ours("g", ("t", 0), "g_b-0", B, value=9)

    assert [(row.kind, row.previous, row.offset) for row in rows_of(log)] == [
        ("commit", None, 4),
        ("claim", 4, 4),
        ("commit", 4, 4),
        ("commit", 4, 9),
    ]


def test_a_commit_with_its_release_owned() -> None:
    """It stands before the deletion in its transaction."""
    log = AuditLog()
    log.claim_ours("g", ("t", 0), "g_a-0", A)
    log.multi(A, log.setting(offset("g", ("t", 0)), "4"), log.deletion(owner("g", ("t", 0))))

    assert [(row.offset, row.owned) for row in rows_of(log)] == [(-1, True), (4, True)]


def test_what_a_snapshot_held_comes_first_with_its_own_time() -> None:
    """Nobody knows who wrote it, nor who owned it."""
    log = AuditLog(zxid=100)
    log.seed(offset("g", ("t", 0)), "40", zxid=8, ms=START_MS - 9_000, mtime_ms=START_MS - 1_000)
    log.commit("g", ("t", 0), 41, A)

    seed, commit = rows_of(log)

    assert (seed.kind, seed.zxid, seed.time_ms, seed.session) == ("snapshot", 8, START_MS - 1_000, 0)
    assert (seed.offset, seed.owned, seed.members) == (40, None, ())
    assert (commit.kind, commit.previous, commit.owned) == ("commit", 40, None)


def test_other_partitions_and_groups_and_failed_writes_are_not_there() -> None:
    """An offset that is no number is, without one."""
    log = AuditLog()
    log.commit("g", ("t", 1), 1, A)
    log.commit("h", ("t", 0), 1, A)
    zxid = log.create(offset("g", ("t", 0)), "seven", A)
    failed = Operation(TransactionType.ERROR, error=-103)
    log.multi(A, log.setting(offset("g", ("t", 0)), "8"), failed)

    assert [(row.zxid, row.offset) for row in rows_of(log)] == [(zxid, None)]
