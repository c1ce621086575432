"""What `zkgroup audit run` does: convert, gather facts, fold, and write what was found.

OUTPUT/findings.json, OUTPUT/findings/*.parquet    all ensembles
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from zkgroup.audit.documents import as_of, finding_fields
from zkgroup.audit.engine import Skipped, bounds_of, order, reason_to_skip, within
from zkgroup.audit.facts import Facts
from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.folders import Folders
from zkgroup.audit.progress import Progress, quiet
from zkgroup.audit.rules import AnyRule, Bounds, Finding, Rule, WholeRule
from zkgroup.audit.spark.ensembles import Ensemble, opened, rows_of
from zkgroup.audit.spark.folding import FINDINGS, facts_by_ensemble, finding_of, findings_batch, findings_of
from zkgroup.audit.spark.inputs import given_of
from zkgroup.audit.spark.storage import Storage

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
    progress: Progress = quiet,
) -> list[Audited]:
    """Converts what is new in the inputs, asks the rules of all that was converted, and writes the answers.

    Args:
        inputs: `[NAME=]FOLDER|URI`: folders of servers, or outputs of earlier runs, where NAME is one
            ensemble of it and none stands for all.
        output: a folder of its own, on a path that all workers have, or any URI that Spark writes to.
        bounds: what the user set, by `finding.bound`.

    Raises ConfigError for inputs, bounds and outputs that are wrong, NotZooKeeperFileError for folders.
    """
    chosen = bounds_of(rules, bounds or {})
    storage = Storage(spark, output)
    ensembles = opened(spark, given_of(inputs), output, progress)
    parts = {each.name: Part(each.converted.base_zxid) for each in ensembles}
    audited = ask(rows_of(ensembles, chroot), ensembles, parts, rules, chosen, progress)
    _write(spark, storage, audited)
    return audited


class Part(NamedTuple):
    """The part of a history that is asked about."""

    after_zxid: int
    """What its rows stand on is the tree at this zxid."""
    to_zxid: int | None = None
    """The last transaction; None for all there are."""


def ask(
    events: DataFrame,
    ensembles: Sequence[Ensemble],
    parts: Mapping[str, Part],
    rules: Sequence[AnyRule],
    bounds: Mapping[str, Bounds],
    progress: Progress = quiet,
) -> list[Audited]:
    """What the rules find in these rows of these ensembles, and in the files of those that have any.

    Args:
        parts: what the rows are of, by ensemble.
        bounds: those of each rule, as `engine.bounds_of` gives them.
    """
    progress("gathering facts", len(ensembles))
    known = facts_by_ensemble(events)
    facts = {each.name: known.get(each.name, Facts()) for each in ensembles}
    skipped = {
        each.name: [
            Skipped(rule, reason)
            for rule in rules
            if (reason := _reason_to_skip(rule, facts[each.name], each)) is not None
        ]
        for each in ensembles
    }
    asked = {
        name: frozenset(rule.name for rule in rules if isinstance(rule, Rule))
        - {each.rule.name for each in left}
        for name, left in skipped.items()
    }
    progress("looking for findings", sum(len(names) for names in asked.values()))
    found: dict[str, list[Finding]] = {each.name: [] for each in ensembles}
    wanted = {name: (facts[name], bounds, names) for name, names in asked.items()}
    for row in findings_of(events, wanted).collect():
        found[row.ensemble].append(finding_of(row))
    for each in ensembles:
        left = {one.rule.name for one in skipped[each.name]}
        whole = [rule for rule in rules if isinstance(rule, WholeRule) and rule.name not in left]
        found[each.name] += _whole(each, whole, facts[each.name], bounds, parts[each.name], progress)
    return [
        Audited(
            each.name,
            tuple(sorted(found[each.name], key=order)),
            tuple(skipped[each.name]),
            facts[each.name],
            tuple([] if each.history is None else Folders(each.history).damages()),
        )
        for each in ensembles
    ]


def _reason_to_skip(rule: AnyRule, facts: Facts, of: Ensemble) -> str | None:
    if isinstance(rule, WholeRule) and of.files is not None and not of.files.is_local:
        return _BEHIND_URI
    return reason_to_skip(rule, facts, has_files=of.files is not None)


def _whole(
    of: Ensemble,
    rules: Sequence[WholeRule],
    facts: Facts,
    bounds: Mapping[str, Bounds],
    part: Part,
    progress: Progress,
) -> list[Finding]:
    """What rules about whole histories find, on the driver: they replay, which is one thread's work."""
    found: list[Finding] = []
    if of.history is not None:
        for number, rule in enumerate(rules):
            progress(f"looking at the files of {of.name}: {rule.name}", number)
            found += within(rule.find(of.history, facts, bounds[rule.name]), part.after_zxid, part.to_zxid)
    return found


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
