"""The job of `zkgroup audit run`, and of reports on Spark: convert, ask the rules, write incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from zkgroup.audit.answers.inspection import health_of
from zkgroup.audit.findings.all_rules import ALL_RULES
from zkgroup.audit.findings.buckets import find_in_sessions, find_in_tree
from zkgroup.audit.findings.engine import Found, Skipped, bounds_of, order, reason_to_skip, within
from zkgroup.audit.findings.rules import AnyRule, Bounds, Finding, Rule, WholeRule
from zkgroup.audit.incidents.attribution import numbered, only_of, with_causes
from zkgroup.audit.inputs.buckets import CLUSTER, bucket_of_group
from zkgroup.audit.inputs.converted import ConvertedSource
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.folders import Folders
from zkgroup.audit.inputs.keys import require_group
from zkgroup.audit.inputs.manifest import OutputFolder, StoredState, newest_manifest
from zkgroup.audit.inputs.rows import Columns, closes_in, columns_of_rows, facts_in, table_of
from zkgroup.audit.inputs.source import PointInTime, Progress, Source, quiet, unlogged_part
from zkgroup.audit.report.tables import Give, nowhere
from zkgroup.audit.report.writing import AuditReport, report_of
from zkgroup.audit.spark.conversion import AuditedEnsemble, opened
from zkgroup.audit.spark.evaluation import (
    Asked,
    BucketRows,
    ZxidRange,
    evaluate,
    groups_in,
    state_before,
)
from zkgroup.audit.spark.results import Audited, write_results
from zkgroup.audit.spark.session import Given, given_of, without_collector
from zkgroup.audit.spark.storage import folder_of, in_tasks, reached_by_tasks
from zkgroup.errors import ConfigError

_BEHIND_URI: Final = "needs the files on local or shared paths"


class Question(NamedTuple):
    """The rules that are asked of each ensemble, and of which part of it."""

    rules: Sequence[AnyRule] = ALL_RULES
    bounds: Mapping[str, Bounds] = bounds_of(ALL_RULES, {})
    """Those of each rule, as `engine.bounds_of` gives them."""
    chroot: str = ""
    start: PointInTime | None = None
    end: PointInTime | None = None
    group: str | None = None


@without_collector()
def run(
    spark: SparkSession,
    inputs: Sequence[str],
    output: str,
    *,
    rules: Sequence[AnyRule] = ALL_RULES,
    bounds: Mapping[str, float] | None = None,
    chroot: str = "",
    start: PointInTime | None = None,
    end: PointInTime | None = None,
    group: str | None = None,
    progress: Progress = quiet,
) -> list[Audited]:
    """Converts what is new in the inputs, asks the rules of all that was converted, and writes the answers.

    Args:
        inputs: `[NAME=]FOLDER|URI`: folders of servers, or outputs of earlier runs, where NAME is one
            ensemble of it and none stands for all.
        output: a folder of its own, on a path that all workers have, or any URI that Spark writes to.
        bounds: what the user set, by `finding.bound`.
        start, end, group: as of `engine.audit`.

    Raises ConfigError for inputs, bounds and outputs that are wrong, NotZooKeeperFileError for folders, and
    NotFoundError where there was no such group or time.
    """
    asked = rules if len(rules) == len(ALL_RULES) else with_causes(rules)
    question = Question(asked, bounds_of(asked, bounds or {}), chroot, start, end, group)
    folder = folder_of(spark, output)
    ensembles = opened(spark, list(map(given_of, inputs)), output, chroot, progress)
    audits = _audits(spark, ensembles, question, progress)
    progress("writing incidents", len(audits))
    audited = []
    for each in audits:
        found, incidents = only_of(rules, each.found, numbered(each.found))
        audited.append(Audited(each.of.name, found, incidents, each.damages()))
    write_results(folder, audited)
    return audited


@dataclass(slots=True)
class _Audit:
    """An ensemble whose findings are collected."""

    of: AuditedEnsemble
    question: Question
    part: ZxidRange
    findings: list[Finding] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    trees: list[Columns] = field(default_factory=list)
    """The rows that rules about the whole tree need, by bucket."""
    groups: set[str] = field(default_factory=set)

    @property
    def is_alone(self) -> bool:
        """True if one task has all rows: those of a group, or of another chroot than the buckets are of."""
        return self.question.group is not None or self.question.chroot != self.of.converted.chroot

    @property
    def needs_state(self) -> bool:
        """True if the part begins later than the logs, and tasks are by bucket."""
        return not self.is_alone and self.part.after_zxid > self.of.converted.base_zxid

    @property
    def skipped(self) -> list[Skipped]:
        reasons = ((rule, self._reason_to_skip(rule)) for rule in self.question.rules)
        return [Skipped(rule, reason) for rule, reason in reasons if reason is not None]

    @property
    def asked(self) -> list[AnyRule]:
        """The rules that are not skipped."""
        return [rule for rule in self.question.rules if self._reason_to_skip(rule) is None]

    @property
    def found(self) -> Found:
        return Found(sorted(self.findings, key=order), self.skipped, self.facts)

    def damages(self) -> tuple[str, ...]:
        """Files that rules about whole histories met, and where they could not be read."""
        damages = [] if self.of.history is None else Folders(self.of.history).damages()
        converted, (after_zxid, to_zxid) = self.of.converted, self.part
        hole = unlogged_part(
            converted.unlogged, converted.last_record, after_zxid + 1, to_zxid, self.question.end
        )
        return (*damages, hole.text) if hole is not None else tuple(damages)

    def _reason_to_skip(self, rule: AnyRule) -> str | None:
        files = self.of.files
        if isinstance(rule, WholeRule) and files is not None and not files.is_local:
            return _BEHIND_URI
        return reason_to_skip(rule, self.facts, has_files=files is not None)


@without_collector()
def _audits(
    spark: SparkSession, ensembles: Sequence[AuditedEnsemble], question: Question, progress: Progress
) -> list[_Audit]:
    """The findings of all rules, by bucket in tasks, and the others here."""
    audits = {
        each.name: _Audit(each, question, each.part(question.start, question.end)) for each in ensembles
    }
    states = _states_before(spark, [each for each in audits.values() if each.needs_state], progress)
    progress("reading facts", len(audits))
    asked = {name: _asked(each, states.get(name)) for name, each in audits.items()}
    rows = [one for each in audits.values() for one in _rows_of(each)]
    progress("searching for findings", len(rows))
    shared = spark.sparkContext.broadcast(asked)
    for made in in_tasks(spark, rows, partial(evaluate, shared)):
        audit = audits[made.ensemble]
        audit.findings += made.findings
        audit.groups |= made.groups
        if made.facts is not None:
            audit.facts = made.facts
        else:
            audit.trees.append(columns_of_rows(made.tree))
    for each in audits.values():
        if each.is_alone:
            _require_group(spark, each)
        else:
            rules = [rule for rule in each.asked if isinstance(rule, Rule)]
            each.findings += find_in_tree(rules, each.trees, each.facts, question.bounds)
        _find_in_files(each, progress)
    return list(audits.values())


def _asked(audit: _Audit, state: Sequence[Columns] | None) -> Asked:
    """The question for the tasks of an ensemble; where they are by bucket, facts and sessions are read here.

    Args:
        state: rows of facts among what stands before the part, by bucket; None for the beginning of all.
    """
    of, part, question = audit.of, audit.part, audit.question
    names = frozenset(rule.name for rule in question.rules)
    asked = Asked(question.chroot, question.group, names, question.bounds)
    if audit.is_alone:
        return asked
    known = of.known(part, state)
    audit.facts = facts_in(known)
    rules = [rule for rule in audit.asked if isinstance(rule, Rule)]
    audit.findings += find_in_sessions(rules, known, audit.facts, question.bounds)
    # Where a state is stored already, tasks begin with it; else with the state before, or the beginning.
    is_whole = state is None or of.stored_zxid(part) == part.after_zxid
    closes = closes_in(known) if is_whole else of.closes(of.stored_zxid(part), part.to_zxid)
    return asked._replace(
        rules=frozenset(rule.name for rule in rules), facts=audit.facts, closes=table_of(closes)
    )


def _rows_of(audit: _Audit) -> list[BucketRows]:
    of, question, rows = audit.of, audit.question, audit.of.rows(audit.part)
    if not audit.is_alone:
        return rows
    if question.group is not None and question.chroot == of.converted.chroot:
        buckets = (CLUSTER, bucket_of_group(question.group, of.converted.buckets))
        rows = [each for each in rows if each.bucket in buckets]
    seeds = tuple(file for each in rows for file in each.seeds)
    operations = tuple(file for each in rows for file in each.operations)
    return [replace(rows[0], bucket="", seeds=seeds, operations=operations)]


def _require_group(spark: SparkSession, audit: _Audit) -> None:
    """Raises NotFoundError with the names of all groups, where there was none of that name."""
    group = audit.question.group
    if group is not None and group not in audit.groups:
        groups = in_tasks(spark, audit.of.rows(audit.part), partial(groups_in, audit.question.chroot))
        require_group(group, set().union(*groups))


def _states_before(
    spark: SparkSession, later: Sequence[_Audit], progress: Progress
) -> dict[str, list[Columns]]:
    """Returns what stands before parts that begin later, the rows of facts in it by bucket.

    Of folders that are converted here it is kept, so that the next job begins with it.
    """
    if not later:
        return {}
    progress("reading the states before", len(later))
    kept = [
        each
        for each in later
        if each.of.files is not None and each.of.stored_zxid(each.part) < each.part.after_zxid
    ]
    output = (kept or later)[0].of.output
    if kept:
        output.clear()
    asked = {}
    for each in later:
        of, part = each.of, each.part
        closes = table_of(of.closes(of.stored_zxid(part), part.after_zxid))
        asked[of.name] = Asked(of.converted.chroot, None, frozenset(), {}, closes=closes)
        if each in kept:
            to = reached_by_tasks(output.folder)
            asked[of.name] = asked[of.name]._replace(output=to, batch=output.number + 1)
    rows = [one for each in later for one in each.of.rows(each.part)]
    found: dict[str, list[Columns]] = {name: [] for name in asked}
    files = []
    for made in in_tasks(spark, rows, partial(state_before, spark.sparkContext.broadcast(asked))):
        found[made.ensemble].append(columns_of_rows(made.known))
        files += [each.placed(output.folder) for each in made.written]
    if kept:
        ensembles = dict(output.ensembles)
        for each in kept:
            known = ensembles[each.of.name]
            state = StoredState(each.part.after_zxid, output.number + 1)
            states = sorted((*known.states, state), key=lambda each: each.zxid)
            ensembles[each.of.name] = replace(known, states=tuple(states))
        output.enter(ensembles, files)
    return found


def _find_in_files(audit: _Audit, progress: Progress) -> None:
    """What rules about whole histories find, on the driver: they replay, which is one thread's work."""
    of, question = audit.of, audit.question
    if of.history is not None:
        for rule in audit.asked:
            if isinstance(rule, WholeRule):
                progress(f"reading the files of {of.name}: {rule.name}")
                reported = rule.find(of.history, audit.facts, question.bounds[rule.name])
                audit.findings += within(reported, *audit.part)
    if question.group is not None:
        audit.findings = [one for one in audit.findings if one.group == question.group]


def report(
    spark: SparkSession,
    inputs: Sequence[str],
    *,
    ensemble: str | None = None,
    chroot: str = "",
    start: PointInTime | None = None,
    end: PointInTime | None = None,
    group: str | None = None,
    give: Give = nowhere,
    progress: Progress = quiet,
) -> AuditReport:
    """The report of one ensemble: the folders of its servers, or what `audit run` wrote.

    Tasks decode logs and compute findings; the driver checks files and shapes the page, in one pass over the
    rows in order; `give` takes them as `tables.TABLES` has them. Raises what the laptop's report raises, and
    ConfigError for folders on a cluster: what they are converted to lies on the driver.
    """
    given = _of_one(spark, inputs, ensemble)
    with TemporaryDirectory(prefix="zkgroup-") as place:
        (of,) = opened(spark, given, place, chroot, progress)
        source: Source = ConvertedSource(of.output, of.name, chroot, progress)
        paths: Sequence[Path] = ()
        if of.history is not None and of.files is not None:
            source, paths = Folders(of.history, chroot, progress), of.files.paths
        question = Question(chroot=chroot, start=start, end=end, group=group)
        (audit,) = _audits(spark, [of], question, progress)
        return report_of(
            source,
            inputs,
            start=start,
            end=end,
            group=group,
            give=give,
            progress=progress,
            found=audit.found,
            files=lambda: health_of(paths, of.history),
        )


def _of_one(spark: SparkSession, inputs: Sequence[str], ensemble: str | None) -> list[Given]:
    """The inputs of the one that is asked about. Raises ConfigError for those of none, and of several."""
    given = [given_of(text)._replace(name=ensemble) for text in inputs]
    tables = [folder for each in given if newest_manifest(folder := folder_of(spark, each.place))]
    if tables and len(given) > 1:
        raise ConfigError(f"{tables[0].place} is Parquet of `audit run`: expected nothing beside it")
    if tables:
        return [given[0]._replace(name=OutputFolder(tables[0]).named(ensemble))]
    if ensemble is not None:
        raise ConfigError(f"ensemble {ensemble!r}: only Parquet of `audit run` has ensembles by name")
    if not spark.sparkContext.master.startswith("local"):
        raise ConfigError(
            "a report of folders on a cluster has nowhere to convert them to: use `audit run` first, and its "
            "output as --input"
        )
    return given
