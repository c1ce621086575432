"""What `zkgroup audit run` does: convert, gather facts, fold, and write what was found.

OUTPUT/findings.json, OUTPUT/findings/*.parquet    all ensembles
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from zkgroup.audit.documents import as_of, finding_fields
from zkgroup.audit.facts import Facts
from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.rules import AnyRule, Finding, Rule, WholeRule
from zkgroup.audit.run import Skipped, bounds_of, order, reason_to_skip, within
from zkgroup.audit.spark.conversion import Conversion
from zkgroup.audit.spark.events import events_of
from zkgroup.audit.spark.folding import FINDINGS, facts_of, finding_of, findings_batch, findings_of
from zkgroup.audit.spark.inputs import EnsembleInput, inputs_of
from zkgroup.audit.spark.storage import Storage
from zkgroup.zkfiles.history import History

Progress = Callable[[str, int], None]

FINDINGS_FOLDER: Final = "findings"
FINDINGS_FILE: Final = "findings.json"
_BEHIND_URI: Final = "needs the files on local or shared paths"


@dataclass(frozen=True, slots=True)
class Audited:
    """What was found in one ensemble."""

    ensemble: str
    findings: tuple[Finding, ...]
    """By zxid."""
    skipped: tuple[Skipped, ...]
    facts: Facts
    damages: tuple[str, ...]
    """Files that rules about whole histories met, and where they could not be read."""

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


def run(
    spark: SparkSession,
    inputs: Sequence[str],
    output: str,
    *,
    rules: Sequence[AnyRule] = ALL_RULES,
    bounds: Mapping[str, float] | None = None,
    chroot: str = "",
    progress: Progress = lambda what, count: None,
) -> list[Audited]:
    """Converts what is new in the inputs, asks the rules of all that was converted, and writes the answers.

    Args:
        inputs: `[NAME=]FOLDER|URI`, as `inputs.inputs_of` takes them.
        output: a folder of its own, on a path that all workers have, or any URI that Spark writes to.
        bounds: what the user set, by `finding.bound`.

    Raises ConfigError for inputs, bounds and outputs that are wrong, NotZooKeeperFileError for folders.
    """
    chosen = bounds_of(rules, bounds or {})
    given = inputs_of(inputs)
    conversion = Conversion(spark, output, given)
    conversion.run(progress)
    bases = {each.name: conversion.manifest.ensembles[each.name].base_zxid for each in given}
    events = events_of(conversion.operations(), conversion.seeds(), bases, chroot)
    progress("gathering facts", len(given))
    facts = facts_of(events)
    skipped = {
        each.name: [
            Skipped(rule, reason)
            for rule in rules
            if (reason := _reason_to_skip(rule, facts.get(each.name, Facts()), each)) is not None
        ]
        for each in given
    }
    asked = {
        name: frozenset(rule.name for rule in rules if isinstance(rule, Rule))
        - {each.rule.name for each in left}
        for name, left in skipped.items()
    }
    progress("looking for findings", sum(len(names) for names in asked.values()))
    found: dict[str, list[Finding]] = {each.name: [] for each in given}
    wanted = {name: (facts.get(name, Facts()), chosen, names) for name, names in asked.items()}
    for row in findings_of(events, wanted).collect():
        found[row.ensemble].append(finding_of(row))
    audited = []
    for each in given:
        known = facts.get(each.name, Facts())
        whole, damages = _whole(each, rules, skipped[each.name], known, chosen, bases[each.name], progress)
        findings = tuple(sorted([*found[each.name], *whole], key=order))
        audited.append(Audited(each.name, findings, tuple(skipped[each.name]), known, tuple(damages)))
    _write(spark, Storage(spark, output), audited)
    return audited


def _reason_to_skip(rule: AnyRule, facts: Facts, given: EnsembleInput) -> str | None:
    if isinstance(rule, WholeRule) and not given.is_local:
        return _BEHIND_URI
    return reason_to_skip(rule, facts, has_files=True)


def _whole(
    given: EnsembleInput,
    rules: Sequence[AnyRule],
    skipped: Sequence[Skipped],
    facts: Facts,
    bounds: Mapping[str, Mapping[str, float]],
    base_zxid: int,
    progress: Progress,
) -> tuple[list[Finding], list[str]]:
    """What rules about whole histories find, on the driver: they replay, which is one thread's work."""
    left = {each.rule.name for each in skipped}
    asked = [rule for rule in rules if isinstance(rule, WholeRule) and rule.name not in left]
    if not asked:
        return [], []
    history = History(*given.paths)
    found: list[Finding] = []
    for number, rule in enumerate(asked):
        progress(f"looking at the files of {given.name}: {rule.name}", number)
        found += within(rule.look(history, facts, bounds[rule.name]), base_zxid, None)
    damages = [
        f"{damage.path}, byte {damage.offset}: expected {damage.expected}, found {damage.found}"
        for server in history.ensemble.servers
        for damage in server.damages.values()
    ]
    return found, damages


def document(audited: Sequence[Audited]) -> dict[str, Any]:
    """What is written as findings.json: the schema `zkgroup.audit_run/1`."""
    return {
        "schema": "zkgroup.audit_run/1",
        "ensembles": [
            {
                "ensemble": each.ensemble,
                "as_of": as_of(each.facts),
                "skipped": [{"finding": one.rule.name, "reason": one.reason} for one in each.skipped],
                "damages": list(each.damages),
            }
            for each in audited
        ],
        "findings": [
            {"ensemble": each.ensemble, **finding_fields(finding)}
            for each in audited
            for finding in each.findings
        ],
    }


def _write(spark: SparkSession, storage: Storage, audited: Sequence[Audited]) -> None:
    rows = [(each.ensemble, finding) for each in audited for finding in each.findings]
    table = pa.Table.from_batches([findings_batch(rows)])
    found = spark.createDataFrame(table, FINDINGS)
    found.coalesce(1).write.mode("overwrite").parquet(storage.path(FINDINGS_FOLDER))
    storage.write(FINDINGS_FILE, json.dumps(document(audited), indent=1).encode())
