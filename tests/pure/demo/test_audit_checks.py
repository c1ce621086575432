"""The verdict of the demo of the audit: each way in which a run can be wrong is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkgroup.audit.owner_lives import OwnerLife
from zkgroup.audit.rules import Finding, Severity
from zkgroup.demo.audit import AuditEvidence, Planted, check_audit
from zkgroup.demo.flight_data import MemberOutput, Processed
from zkgroup.zkfiles.verification import HistoryVerification

STRANGER = 0xABC
COMMIT = Planted(1, "ada", STRANGER, 0x41, 255, 275)
REWIND = Planted(9, "cleo", STRANGER, 0x47, 292, 146)


def finding(name: str, planted: Planted, severity: Severity = "error") -> Finding:
    """What a right audit says of a planted write."""
    return Finding(
        name,
        severity,
        group="demo",
        topic="flights",
        partition=planted.partition,
        session=planted.session,
        from_zxid=planted.zxid,
        to_zxid=planted.zxid,
    )


FOUND = (
    finding("zombie_commit", COMMIT),
    finding("offset_regression", REWIND),
    finding("zombie_commit", REWIND),
    finding("commit_rate", COMMIT, "info"),
)
ADA = OwnerLife("demo_ada-0", 0xD1, 0x20, 1_000, None, None)
CLEO = OwnerLife("demo_cleo-0", 0xD2, 0x21, 1_000, None, None)
RUN = AuditEvidence(
    group="demo",
    planted=(COMMIT, REWIND),
    findings=FOUND,
    outputs=(
        MemberOutput("ada", (Processed(1, 0, "SFO", 4, 0x20), Processed(1, 1, "SFO", 4, 0x20)), 0),
        MemberOutput("cleo", (Processed(9, 0, "OAK", 4, 0x21),), 0),
    ),
    lives={1: (ADA,), 9: (CLEO,)},
    files=2,
    damages=(),
    replayed=HistoryVerification(records=183, digests_checked=176),
)


def failed(run: AuditEvidence) -> list[tuple[str, str]]:
    """Statements that do not hold, with what is said of them."""
    return [(check.statement, check.evidence) for check in check_audit(run) if not check.holds]


def test_right_run_passes_every_check() -> None:
    """Both writes found, nothing else an error, every record under an ownership of the files."""
    assert failed(RUN) == []
    assert [check.evidence for check in check_audit(RUN)] == [
        "2 files, 183 transactions, 176 tree digests compared",
        "zombie_commit at 0x41, offset_regression at 0x47, zombie_commit at 0x47",
        "partitions 1, 9; session 0xabc",
        "3 records under 2 of 2 ownerships",
    ]


@pytest.mark.parametrize("lost", range(3))
def test_missed_write_is_reported(lost: int) -> None:
    """An error that the audit does not find is named with its zxid."""
    found = FOUND[:lost] + FOUND[lost + 1 :]
    (wrong,) = failed(replace(RUN, findings=found))

    assert wrong[0] == "the audit's errors are exactly what was planted"
    assert wrong[1].endswith(f"; missed: {FOUND[lost].finding} at {FOUND[lost].from_zxid:#x}")


def test_milder_finding_is_a_miss() -> None:
    """A warning at the right place is not what was promised."""
    mild = (finding("zombie_commit", COMMIT, "warning"), *FOUND[1:])

    assert "missed: zombie_commit at 0x41" in failed(replace(RUN, findings=mild))[0][1]


def test_unplanted_error_is_named() -> None:
    """An error beside the planted ones fails the demo, also one more at the right zxid."""
    more = (*FOUND, finding("orphan_owner", replace(COMMIT, zxid=0x50)), finding("zombie_commit", COMMIT))
    ((_, text),) = failed(replace(RUN, findings=more))

    assert text.endswith("; not planted: zombie_commit at 0x41, orphan_owner at 0x50")


def test_run_without_its_planted_writes_proves_nothing() -> None:
    """No writes and no errors agree, but show nothing."""
    text = dict(failed(replace(RUN, planted=(), findings=())))

    assert text == {
        "the audit's errors are exactly what was planted": (
            "no error; not even planted: offset_regression, zombie_commit"
        ),
        "they name the partitions and the writer": "partitions ; session ",
    }


@pytest.mark.parametrize(
    "wrong", [{"partition": 2}, {"session": 0xD1}, {"group": "other"}, {"topic": "orders"}], ids=str
)
def test_finding_about_another_partition_or_writer_is_named(wrong: dict[str, int | str]) -> None:
    """The right name and zxid with the wrong partition, writer, group or topic does not count."""
    changed = (replace(FOUND[0], **wrong), *FOUND[1:])  # type: ignore[arg-type]

    assert failed(replace(RUN, findings=changed)) == [
        (
            "they name the partitions and the writer",
            "partitions 1, 9; session 0xabc; wrong: zombie_commit at 0x41",
        )
    ]


def test_record_processed_without_an_ownership_in_the_files_is_named() -> None:
    """A token that no owner znode had, or that another member's had."""
    lives = {1: (ADA._replace(thread="demo_ben-0"),), 9: (CLEO._replace(from_zxid=0x22),)}

    ((statement, text),) = failed(replace(RUN, lives=lives))

    assert statement == "each record was processed by the owner in the files"
    assert text.endswith(
        "; not in the files: partition 1 under 0x20 by demo_ada, partition 9 under 0x21 by demo_cleo"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"damages": ("zxids 0x5 to 0x7 are missing",)}, "zxids 0x5 to 0x7 are missing"),
        (
            {
                "replayed": HistoryVerification(
                    records=9, digests_checked=8, mismatches=2, first_bad_zxid=0x30
                )
            },
            "2 differ, the first at 0x30",
        ),
        ({"replayed": HistoryVerification(records=9)}, "0 tree digests compared"),
    ],
    ids=["damage", "other digests", "no digests"],
)
def test_damage_of_the_files_is_named(change: dict[str, object], expected: str) -> None:
    """An audit of damaged files, or of a tree that differs from the server's, proves nothing."""
    ((statement, text),) = failed(replace(RUN, **change))  # type: ignore[arg-type]

    assert statement == "ZooKeeper's own files are whole"
    assert text.endswith(expected)
