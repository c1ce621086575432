"""The checks at the end of the demo of the audit. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.audit.rules import Finding
from zkgroup.audit.views.owners import OwnerLife
from zkgroup.audit.words import session_text
from zkgroup.demo.audit.planting import Planted
from zkgroup.demo.flight_data import TOPIC, MemberOutput
from zkgroup.demo.progress import Check, named
from zkgroup.zkfiles.verification import Verification

EXPECTED = {"zombie_commit": 2, "offset_regression": 1}
"""How often the audit has to find what as an error."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that there is to judge by."""

    group: str
    planted: Sequence[Planted]
    findings: Sequence[Finding]
    """All that the audit found, of every severity."""
    outputs: Sequence[MemberOutput]
    """What the members have processed, with the fencing tokens they had."""
    lives: Mapping[int, Sequence[OwnerLife]]
    """Every ownership that the files have, by partition."""
    files: int
    damages: Sequence[str]
    """What is wrong with the files, or missing in them."""
    replayed: Verification
    """The replay of the whole log, each tree digest of the server compared."""


def judge(evidence: Evidence) -> tuple[Check, ...]:
    """All checks, in the order in which a reader would ask."""
    return (_whole(evidence), _exact(evidence), _named(evidence), _owned(evidence))


def _whole(evidence: Evidence) -> Check:
    """Health of the files, and the server's own digest of the tree behind each transaction."""
    replayed = evidence.replayed
    text = f"{evidence.files} files, {replayed.records:,} transactions"
    text += f", {replayed.digests_checked:,} tree digests compared"
    if evidence.damages:
        text += f"; {named(evidence.damages)}"
    if replayed.mismatches:
        text += f"; {replayed.mismatches:,} differ, the first at {replayed.first_bad_zxid or 0:#x}"
    holds = not evidence.damages and not replayed.mismatches and replayed.digests_checked > 0
    return Check("ZooKeeper's own files are whole", holds, text)


def _exact(evidence: Evidence) -> Check:
    """By name and zxid: nothing is missed, and nothing else is an error."""
    planted = Counter((name, one.zxid) for one in evidence.planted for name in one.findings)
    errors = Counter((one.finding, one.from_zxid or 0) for one in _errors(evidence))
    missed, invented = _told(planted - errors), _told(errors - planted)
    short = Counter(EXPECTED) - Counter(name for name, _ in planted.elements())
    text = ", ".join(_told(errors)) or "no error"
    for what, which in (("missed", missed), ("not planted", invented), ("not even planted", sorted(short))):
        if which:
            text += f"; {what}: {named(which)}"
    return Check("the audit's errors are exactly what was planted", not (missed or invented or short), text)


def _named(evidence: Evidence) -> Check:
    """Each error says which partition it was and who wrote."""
    known = {one.zxid: one for one in evidence.planted}
    wrong = [
        f"{one.finding} at {one.from_zxid or 0:#x}"
        for one in _errors(evidence)
        if (about := known.get(one.from_zxid or 0)) is not None
        and (one.group, one.topic, one.partition, one.session)
        != (evidence.group, TOPIC, about.partition, about.session)
    ]
    sessions = sorted({session_text(one.session) for one in evidence.planted})
    text = (
        f"partitions {', '.join(str(one.partition) for one in evidence.planted)}; session {named(sessions)}"
    )
    if wrong:
        text += f"; wrong: {named(wrong)}"
    return Check("they name the partitions and the writer", not wrong and bool(known), text)


def _owned(evidence: Evidence) -> Check:
    """The members' own account against the files: a token is the zxid of a claim (docs/concepts.md)."""
    worked = Counter(
        (row.partition, row.token, f"{evidence.group}_{output.member}")
        for output in evidence.outputs
        for row in output.records
    )
    owned = {
        (partition, life.from_zxid, life.member)
        for partition, lives in evidence.lives.items()
        for life in lives
    }
    strangers = [
        f"partition {partition} under {token:#x} by {member}"
        for partition, token, member in sorted(set(worked) - owned)
    ]
    text = f"{worked.total():,} records under {len(worked)} of {len(owned)} ownerships"
    if strangers:
        text += f"; not in the files: {named(strangers)}"
    return Check("whoever processed a record owned it, by the files", bool(worked) and not strangers, text)


def _errors(evidence: Evidence) -> Iterable[Finding]:
    return (one for one in evidence.findings if one.severity == "error")


def _told(findings: Counter[tuple[str, int]]) -> list[str]:
    return [f"{name} at {zxid:#x}" for name, zxid in sorted(findings.elements(), key=lambda one: one[::-1])]
