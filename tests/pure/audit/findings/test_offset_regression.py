"""Commits lower than the one before."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog, offset, worst
from zkgroup.audit.findings.offsets import offset_regression

A, B, TOOL = 0xA, 0xB, 0xC
T0 = ("t", 0)


def owned_at(value: int) -> AuditLog:
    """A log in which member a owns t-0 and has committed."""
    log = AuditLog()
    for session in (A, B, TOOL):
        log.open(session)
    log.join("g", "g_a", A)
    log.claim("g", T0, "g_a-0", A)
    log.commit("g", T0, value, A)
    return log


def test_a_commit_below_the_one_before_is_found_at_its_zxid() -> None:
    """Who wrote it does not matter where the partition is owned: it is an error."""
    log = owned_at(1000)
    by_owner = log.commit("g", T0, 21, A)
    log.commit("g", T0, 22, A)
    by_stranger = log.commit("g", T0, 3, B)

    own, foreign = log.find(offset_regression)

    assert (own.severity, own.from_zxid, own.to_zxid, own.session) == ("error", by_owner, by_owner, A)
    assert (own.group, own.topic, own.partition) == ("g", "t", 0)
    assert own.detail == "1000 -> 21 by member g_a (session 0xa)"
    assert (foreign.severity, foreign.from_zxid, foreign.session) == ("error", by_stranger, B)
    assert foreign.detail == "22 -> 3 by session 0xb; before it wrote member g_a (session 0xa)"


def test_what_rises_or_repeats_is_none() -> None:
    """Equal offsets and higher ones are what commits are for."""
    log = owned_at(5)
    for value in (5, 6, 6, 1 << 40):
        log.commit("g", T0, value, A)

    assert log.find(offset_regression) == []


def test_from_none_to_none_is_no_way_back() -> None:
    """Every negative value is none, as KafkaJS commits -2; from an offset to none is a way back."""
    log = owned_at(-1)
    log.commit("g", T0, -2, A)
    log.commit("g", T0, 5, A)
    log.commit("g", T0, -2, A)

    assert [found.detail for found in log.find(offset_regression)] == ["5 -> -2 by member g_a (session 0xa)"]


def test_the_bump_of_a_claim_is_no_commit() -> None:
    """A claim of ours writes what was there; the first one writes -1, which is none."""
    log = AuditLog()
    log.claim_ours("g", T0, "g_a-0", A)
    log.commit("g", T0, 7, A)
    log.release("g", T0, A)
    log.claim_ours("g", T0, "g_b-0", B, value=7)
    log.commit("g", T0, 7, B)

    assert log.find(offset_regression) == []


def test_a_claim_that_moves_the_offset_has_committed() -> None:
    """Only what repeats the offset is a bump."""
    log = owned_at(7)
    log.release("g", T0, A)
    zxid = log.claim_ours("g", T0, "g_b-0", B, value=2)

    (found,) = log.find(offset_regression)

    assert (found.severity, found.from_zxid, found.session) == ("error", zxid, B)


def test_a_reset_with_a_marker_is_information() -> None:
    """The marker may be new or there already, and stands behind the offset."""
    log = owned_at(50)
    marker = "/consumers/g/resets/t-0"
    first = log.multi(TOOL, log.setting(offset("g", T0), "40"), log.creation(marker, "{}"))
    again = log.multi(
        TOOL, log.setting(offset("g", T0), "30"), log.deletion(marker), log.creation(marker, "{}")
    )

    found = log.find(offset_regression)

    assert [(each.severity, each.from_zxid) for each in found] == [("info", first), ("info", again)]
    assert all("marker" in each.detail for each in found)


def test_an_audit_record_of_an_idle_group_is_a_marker_for_this_group_only() -> None:
    """`/zkgroup/audit/<group>` in the same transaction."""
    log = AuditLog()
    log.commit("g", T0, 50, A)
    log.commit("other", T0, 50, A)
    acted = log.multi(
        TOOL,
        log.setting(offset("g", T0), "4"),
        log.setting(offset("other", T0), "4"),
        log.creation("/zkgroup/audit/g", "{}"),
    )

    found = {each.group: (each.severity, each.from_zxid) for each in log.find(offset_regression)}

    assert found == {"g": ("info", acted), "other": ("warning", acted)}


def test_a_marker_in_the_next_transaction_is_none() -> None:
    """What excuses a reset has to be in it."""
    log = owned_at(50)
    zxid = log.commit("g", T0, 40, TOOL)
    log.create("/consumers/g/resets/t-0", "{}", TOOL)

    (found,) = log.find(offset_regression)

    assert (found.severity, found.from_zxid) == ("error", zxid)


def test_a_tool_on_an_idle_group_is_warned_of() -> None:
    """No member ever, and no member owned it: Kafka's ImportZkOffsets leaves no marker."""
    log = owned_at(50)
    log.close(A)
    by_tool = log.commit("g", T0, 10, TOOL)
    log.commit("g", T0, 20, TOOL)
    late = log.commit("g", T0, 15, A)

    found = log.find(offset_regression)

    assert [(each.severity, each.from_zxid) for each in found] == [("warning", by_tool), ("error", late)]


def test_a_new_life_of_the_offset_starts_anywhere() -> None:
    """Lives end at deletes."""
    log = owned_at(1000)
    log.delete(offset("g", T0), TOOL)
    log.commit("g", T0, 3, A)

    assert log.find(offset_regression) == []


def test_a_create_begins_a_new_life_where_the_log_has_a_hole() -> None:
    """The deletion is in a file that is missing."""
    log = owned_at(1000)
    log.zxid += 50
    log.create(offset("g", T0), "3", A)

    assert log.find(offset_regression) == []


def test_what_the_snapshot_held_counts_as_before() -> None:
    """And a value that is no number changes nothing."""
    log = AuditLog(zxid=100)
    log.seed(offset("g", T0), "500", zxid=7, version=3)
    log.commit("g", T0, 501, A)
    log.set(offset("g", T0), "what?", A)
    zxid = log.commit("g", T0, 499, A)

    (found,) = log.find(offset_regression)

    assert found.from_zxid == zxid
    assert found.detail.startswith("501 -> 499")
    assert worst([found]) == {"warning"}
