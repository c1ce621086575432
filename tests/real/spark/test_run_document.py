"""The document of `audit run`, which is findings.json too, against the schema of the command line."""

from __future__ import annotations

import json

from zkgroup_cli.audit_rows import LastTransaction
from zkgroup_cli.commands.audit.report import RUN, EnsembleFinding, EnsembleIncident, EnsembleRun
from zkgroup_cli.schemas import SCHEMAS

from tests.worlds.processes import violations
from zkgroup.audit.findings.engine import ALL_RULES, Found, Skipped
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.report.writing import Audited, document


def test_the_document_of_a_run_is_the_one_of_the_schema() -> None:
    """Key by key, in order."""
    finding = Finding("orphan_owner", "error", "g", "orders", 3, 0x1A, 4, 5, 1_000, 2_000, "why")
    skipped = Skipped(ALL_RULES[0], "no log")
    found = Found([finding], [skipped], Facts(end_zxid=7, end_ms=1_000))
    told = numbered(found)
    written = document([Audited("east", found, told, ("log.1: damaged",))])

    derived = RUN.json(
        None,
        ensembles=[EnsembleRun("east", LastTransaction.of(7, 1_000), (skipped,), ("log.1: damaged",))],
        incidents=[EnsembleIncident("east", one) for one in told.incidents],
        findings=[EnsembleFinding("east", one) for one in told.findings],
    )

    assert [each["incident"] for each in written["findings"]] == [written["incidents"][0]["number"]] == [1]
    assert json.dumps(written) == json.dumps(derived)
    assert violations(written, SCHEMAS["zkgroup.audit_run/1"]) == []
