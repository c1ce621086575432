"""What a verification of files comes to, in a word."""

from __future__ import annotations

from typing import Literal

from zkgroup.zkfiles.verification import HistoryVerification

Verdict = Literal["clean", "mismatch", "not_applicable"]


def digest_verdict(found: HistoryVerification) -> Verdict:
    """Of the servers' digests alone; never `clean` where there are none."""
    if found.mismatches:
        return "mismatch"
    return "clean" if found.digests_checked else "not_applicable"


def is_right(found: HistoryVerification) -> bool:
    """Nothing was found wrong or missing."""
    return (
        found.first_bad_zxid is None
        and not found.holes
        and not found.damages
        and not found.splits
        and all(check.agrees is not False for check in found.snapshots)
    )
