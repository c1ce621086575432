"""Compares what a job of Spark finds in the files of a random history with what the laptop finds."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from tests.worlds.history_files import PlayedSpark, consistent, write_history
from tests.worlds.plain_findings import find
from tests.worlds.random_histories import history_of
from tests.worlds.record_by_record import rows_from
from tests.worlds.screened_findings import events_in
from zkgroup.audit.findings.engine import RULES, Found, audit
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import findings_document
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.audit.report.writing import document
from zkgroup.audit.spark.job import run


def assert_same(place: Path, seed: int, spark: Any = None) -> Counter[str]:
    """Findings and facts of the whole, of a group, and of parts that begin later, with and without an end.

    Each part begins with the state that the part before it kept. Gives how often each finding was found.
    """
    draw = random.Random(seed)
    files, output = place / f"version-2-{seed}", str(place / f"out-{seed}")
    zxids = write_history(files, list(consistent(history_of(seed))), draw)
    early, late = (PointInTime(zxid) for zxid in sorted(draw.choices(zxids, k=2)))
    found: Counter[str] = Counter()
    for asked in ({}, {"group": "g"}, {"start": early, "end": late}, {"start": late}):
        expected = _expected(files, asked)
        if expected is None:
            continue
        (audited,) = run(spark or PlayedSpark(), [str(files)], output, rules=RULES, **asked)
        what = (seed, asked)
        assert (what, Counter(audited.found.findings) - Counter(expected.findings)) == (what, Counter())
        assert (what, Counter(expected.findings) - Counter(audited.found.findings)) == (what, Counter())
        assert (what, audited.found.facts) == (what, expected.facts)
        assert (what, lists_of(document([audited]))) == (
            what,
            lists_of(findings_document(expected, numbered(expected))),
        )
        found += Counter(one.finding for one in audited.found.findings)
    assert audit(open_source([Path(output)]), RULES).findings == audit(open_source([files]), RULES).findings
    return found


def lists_of(document: dict[str, Any]) -> dict[str, Any]:
    """The incidents and the findings of a document, whether of a job or of one process."""
    return {
        name: [{key: value for key, value in one.items() if key != "ensemble"} for one in document[name]]
        for name in ("incidents", "findings")
    }


def _expected(files: Path, asked: dict[str, Any]) -> Found | None:
    """What the laptop finds; None where there is no such group."""
    source = open_source([files])
    if "start" not in asked:
        groups = {"g"} if any("/consumers/g/" in row.path for row in events_in(source.rows())) else set()
        return audit(source, RULES, **asked) if groups or not asked else None
    rows = events_in(source.rows(end=asked.get("end")))
    events = list(rows_from(rows, asked["start"].zxid))
    facts = facts_of(events)
    rules = [rule for rule in RULES if facts.has_log or "log" not in rule.needs]
    return Found(find(rules, lambda: events, facts=facts), [], facts)
