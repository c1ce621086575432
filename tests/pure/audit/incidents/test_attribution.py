"""Which findings are one incident: one cause each, built record by record."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog, registration
from tests.worlds.plain_findings import find
from zkgroup.audit.findings.engine import RULES
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.incidents.attribution import APART_MS, REBALANCE_MS, incidents_of
from zkgroup.audit.incidents.causes import Causes
from zkgroup.audit.incidents.incident import Incident

A, B, FOREIGN = 0xA, 0xB, 0xF
T0, T1 = ("t", 0), ("t", 1)


def told(log: AuditLog) -> list[Incident]:
    """All incidents of a log."""
    return incidents_of(find(RULES, log.events), log.facts())


def bad(log: AuditLog) -> list[tuple[str, str]]:
    """Severity and cause of those that are more than notes."""
    return [(one.severity, one.cause.kind) for one in told(log) if one.severity != "info"]


def group(log: AuditLog) -> AuditLog:
    """A member that owns two partitions of t."""
    log.topic("t", 2)
    log.come("g", "g_a", A)
    for partition in (T0, T1):
        log.claim("g", partition, "g_a-0", A)
        log.commit("g", partition, 500, A)
    return log


def test_a_tool_that_sets_an_offset_back_is_one_foreign_write() -> None:
    """The commit without ownership and the rewind are one incident, and it names both offsets."""
    log = group(AuditLog())
    log.open(FOREIGN)
    log.commit("g", T1, 120, FOREIGN)

    (one,) = [each for each in told(log) if each.severity != "info"]

    assert (one.severity, one.cause.kind, one.cause.session) == ("error", "foreign write", FOREIGN)
    assert one.title == "22:13:20 session …f set back g's t-1 without owning it: offset 500 → 120"
    assert {each.finding for each in one.findings} >= {"zombie_commit", "offset_regression"}
    assert [(each.partition, each.delivered_again) for each in one.damage] == [(1, 380)]


def test_only_what_went_back_was_set_back() -> None:
    """A session that moved one offset forward and another back; and its first write is the cause."""
    log = group(AuditLog())
    log.open(FOREIGN)
    forward = log.commit("g", T0, 505, FOREIGN)
    log.commit("g", T1, 120, FOREIGN)

    (one,) = [each for each in told(log) if each.severity != "info"]

    assert one.title == (
        "22:13:20 session …f committed g's t-0..1 without owning them and set back t-1: offset 500 → 120"
    )
    assert (one.cause.zxid, one.cause.time_ms) == (forward, log.ms)
    assert one.from_zxid == forward


def test_a_member_that_writes_what_it_does_not_own_is_called_a_member() -> None:
    """It is no foreign client that is to be stopped."""
    log = group(AuditLog())
    log.come("g", "g_b", B)
    log.commit("g", T1, 120, B)

    (one,) = [each for each in told(log) if each.severity == "error"]

    assert one.title == "22:13:20 member g_b set back g's t-1 without owning it: offset 500 → 120"
    assert one.act.startswith("The writer is a member of the group")


def test_the_end_of_a_session_that_took_nothing_is_of_its_claim() -> None:
    """One accident; where members lost their claims to it, its end is another."""
    for has_owner, expected in (
        (False, {"foreign write"}),
        (True, {"foreign write", "session end"}),
    ):
        log = AuditLog()
        log.topic("t", 1)
        log.come("g", "g_a", A)
        if has_owner:
            log.claim("g", T0, "g_a-0", A)
            log.commit("g", T0, 5, A)
        log.open(FOREIGN)
        if has_owner:
            log.release("g", T0, FOREIGN)
        log.claim("g", T0, "g_a-0", FOREIGN)
        log.wait(60_000)
        log.commit("g", T0, 6, A)
        log.close(FOREIGN)
        log.commit("g", T0, 7, A)
        log.passes(40_000)

        ends = {one.cause.kind for one in told(log) if any(each.partition == 0 for each in one.findings)}
        assert ends & {"foreign write", "session end"} == expected


def test_two_foreign_sessions_are_two_incidents() -> None:
    """What they did has two causes, though group and time are the same."""
    log = group(AuditLog())
    for session in (FOREIGN, 0xE):
        log.open(session)
        log.commit("g", T1, 120, session)
        log.commit("g", T1, 500, A)

    assert bad(log) == [("error", "foreign write")] * 2


def test_one_session_long_after_is_another_incident() -> None:
    """The same cause, further apart than the bound."""
    for wait_ms, number in ((APART_MS - 1, 1), (APART_MS + 1, 2)):
        log = group(AuditLog())
        log.open(FOREIGN)
        log.commit("g", T1, 120, FOREIGN)
        log.wait(wait_ms)
        log.commit("g", T1, 60, FOREIGN)

        assert bad(log) == [("error", "foreign write")] * number


def test_an_operators_reset_is_no_foreign_write() -> None:
    """Severity info by its marker."""
    marked = Finding("offset_regression", "info", "g", "t", 0, FOREIGN, 5, 5, 1, 1, "9 -> 2 by session 0xf")
    cause = Causes([marked], group(AuditLog()).facts()).of(marked)

    assert (cause.kind, cause.session) == ("operator reset", FOREIGN)


def test_a_restart_is_a_note_and_a_long_one_a_warning() -> None:
    """Partitions without an owner for the length of a rebalance are the rebalance."""
    for down_ms, expected in (
        (REBALANCE_MS, []),
        (REBALANCE_MS + 1, [("warning", "membership change")]),
    ):
        log = group(AuditLog())
        log.wait(60_000)
        for partition in (T0, T1):
            log.release("g", partition, A)
        log.come("g", "g_b", B)
        log.wait(down_ms)
        log.claim("g", T0, "g_a-0", A)
        log.claim("g", T1, "g_b-0", B)
        log.passes(60_000)

        assert bad(log) == expected
        (change,) = [one for one in told(log) if one.cause.kind == "membership change" and one.damage]
        assert sum(each.finding == "unowned_interval" for each in change.findings) == 2


def test_a_member_that_is_back_within_its_timeout_was_restarted() -> None:
    """Its session was closed, not expired; a later return, or of another member, is a change of the group."""
    for away_ms, member, expired, expected in (
        (6000, "g_a", False, "restart"),
        (6001, "g_a", False, "membership change"),
        (2000, "g_b", False, "membership change"),
        (2000, "g_a", True, "expiry"),
    ):
        log = group(AuditLog())
        log.wait(60_000)
        if not expired:
            for partition in (T0, T1):
                log.release("g", partition, A)
        zxid = log.close(A, expired=expired)
        log.wait(away_ms)
        log.come("g", member, B)
        for partition in (T0, T1):
            log.claim("g", partition, f"{member}-0", B)
        log.passes(60_000)

        causes = {one.cause for one in told(log) if any(each.finding == "rebalance" for each in one.findings)}
        assert expected in {cause.kind for cause in causes}, (away_ms, causes)
        if expected == "restart":
            (one,) = [one for one in told(log) if one.cause.kind == "restart"]
            assert one.title == "22:14:20 g_a restarted and g rebalanced (2 rebalances)"
            assert (one.cause.what, one.cause.session, one.cause.zxid) == ("g_a", A, zxid)
            assert one.severity == "info"


def test_an_expiry_has_its_rebalances_and_the_return_of_its_member() -> None:
    """The session, the time without an owner, and the rebalance when the member is back."""
    log = group(AuditLog())
    log.come("g", "g_b", B)
    log.wait(20_000)
    log.expire(A)
    log.wait(3_000)
    log.claim("g", T0, "g_b-0", B)
    log.claim("g", T1, "g_b-0", B)
    log.wait(10_000)
    log.come("g", "g_a", 0xC)

    (one,) = [each for each in told(log) if each.severity != "info"]

    assert (one.cause.kind, one.cause.what, one.cause.session) == ("expiry", "g_a", A)
    assert [each.unowned_ms for each in one.damage] == [3_000, 3_000]
    assert {each.finding for each in one.findings} >= {"session_end", "unowned_interval", "rebalance"}
    assert one.title.startswith(
        "22:13:40 member g_a of g was paused for longer than its session timeout of 6.0 s; t-0..1 had"
    )


def test_brokers_that_are_lost_together_are_one_incident() -> None:
    """Within fifteen seconds; another one later is another incident."""
    log = AuditLog()
    for broker in (1, 2, 3):
        log.open(broker)
        log.create(f"/brokers/ids/{broker}", "{}", broker, ephemeral=True)
    log.wait(400_000)
    log.expire(1)
    log.wait(14_000)
    log.expire(2)
    log.wait(100_000)
    log.expire(3)

    causes = [(one.cause.kind, one.cause.what) for one in told(log) if one.cause.kind == "lost broker"]

    assert causes == [("lost broker", "1, 2"), ("lost broker", "3")]


def test_slow_followers_are_one_warning() -> None:
    """However many partitions they are of, where no broker left."""
    rows = [
        Finding("under_replicated", "warning", None, f"t{n}", 0, None, n, n + 5, 1_000 * n, 1_000 * n + 9)
        for n in range(1, 300)
    ]

    (one,) = incidents_of(rows, AuditLog().facts())

    assert (one.severity, one.cause.kind, len(one.findings)) == ("warning", "slow follower", 299)
    assert one.title.endswith("followers fell behind in 299 partitions of 299 topics")


def test_notes_of_one_name_are_one_incident() -> None:
    """Whatever group and time they are of, and without a cause."""
    rows = [Finding("commit_rate", "info", f"g{n}", from_zxid=n, from_ms=n * APART_MS * 2) for n in range(9)]

    (one,) = incidents_of(rows, AuditLog().facts())

    assert (one.severity, one.cause.kind, one.title) == ("info", "note", "9 commit rates in 9 groups")


def test_members_of_one_session_lose_it_together() -> None:
    """The title has the plural, and names none as if it were a session."""
    log = group(AuditLog())
    log.come("g", "g_b", A)
    log.expire(A)

    titles = [one.title for one in told(log) if one.cause.kind == "expiry"]

    assert [title.partition(" of g ")[::2] for title in titles] == [
        ("22:13:20 members g_a, g_b", "lost their session (timeout 6.0 s)")
    ]


def test_a_topic_deletion_is_not_called_a_reassignment() -> None:
    """The cause of both is the controller; the title names the topic."""
    asked, done, detail = 5, 9, "deletion took 11.4 min"
    rows = [Finding("stuck_topic_deletion", "warning", None, "t", None, None, asked, done, 1, 2, detail)]

    (one,) = incidents_of(rows, AuditLog().facts())

    assert one.title.endswith("topic t: deletion took 11.4 min")


def test_a_note_on_digests_has_no_name_of_a_verdict() -> None:
    """The finding keeps it; the title is a sentence."""
    for detail in (
        "not_applicable: the servers wrote no digests; so",
        "not_applicable to all: the servers wrote no digests; so",
    ):
        (one,) = incidents_of([Finding("digest_mismatch", "info", detail=detail)], AuditLog().facts())

        assert one.title == "the servers wrote no digests; so"


def test_persistent_znodes_are_one_incident_of_the_group_and_one_of_the_cluster() -> None:
    """Each names its paths and the command that mends them; none advises to stop a client."""
    log = AuditLog()
    log.topic("t", 2)
    log.seed("/controller", '{"version":1,"brokerid":9,"timestamp":"1"}')
    log.seed("/brokers/ids/9", "{}")
    log.seed("/consumers/g/ids/g_a", registration())
    for number in range(2):
        log.seed(f"/consumers/g/owners/t/{number}", "g_a-0")

    errors = [one for one in told(log.passes(20_000)) if one.severity == "error"]

    of_group = "/consumers/g/ids/g_a, /consumers/g/owners/t/0, /consumers/g/owners/t/1"
    assert sorted(one.title.partition(" ")[2] for one in errors) == [
        "2 persistent znodes where sessions belong: /brokers/ids/9, /controller",
        f"3 persistent znodes where sessions belong in g: {of_group}",
    ]
    assert all("`zkgroup doctor --fix`" in one.act for one in errors)
