"""The job of `zkgroup audit run`, and of reports on Spark: convert, fold, bring together incidents, write.

OUTPUT/findings.json, OUTPUT/findings.parquet, OUTPUT/incidents.parquet    all ensembles
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from zkgroup.audit.answers.inspection import inspected
from zkgroup.audit.findings.all_rules import ALL_RULES, RULES
from zkgroup.audit.findings.buckets import find_in_sessions, find_in_tree
from zkgroup.audit.findings.engine import Found, Skipped, bounds_of, order, reason_to_skip, within
from zkgroup.audit.findings.rules import AnyRule, Bounds, Finding, Rule, WholeRule
from zkgroup.audit.incidents.attribution import with_causes
from zkgroup.audit.inputs.buckets import CLUSTER, bucket_of_group
from zkgroup.audit.inputs.converted import ConvertedSource, StoredTables
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.folders import Folders
from zkgroup.audit.inputs.keys import require_group
from zkgroup.audit.inputs.manifest import Converted, StoredState
from zkgroup.audit.inputs.rows import Columns, closes_in, columns_of_rows, facts_in, table_of
from zkgroup.audit.inputs.source import PointInTime, Progress, Source, quiet, unlogged_part
from zkgroup.audit.report.tables import Give, nowhere
from zkgroup.audit.report.writing import AuditReport, report_of
from zkgroup.audit.spark.collector import without_collector
from zkgroup.audit.spark.conversion import AuditedEnsemble, closes_between, known_of, opened, part_of
from zkgroup.audit.spark.folding import Asked, Together, ZxidRange, fold, fold_alone, groups_in, roll
from zkgroup.audit.spark.results import Audited, FoundRows, merged, rows_beside, unpacked, write_results
from zkgroup.audit.spark.session import given_of
from zkgroup.audit.spark.storage import TaskFile, TaskOutput, storage_of
from zkgroup.audit.spark.tables import Tables, is_converted
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.health import FileHealth
from zkgroup.zkfiles.names import list_files

_BEHIND_URI: Final = "needs the files on local or shared paths"


class Question(NamedTuple):
    """Holds what is asked of each ensemble."""

    rules: Sequence[AnyRule] = ALL_RULES
    bounds: Mapping[str, Bounds] = bounds_of(ALL_RULES, {})
    """Those of each rule, as `engine.bounds_of` gives them."""
    chroot: str = ""
    start: PointInTime | None = None
    end: PointInTime | None = None
    group: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """Of the rules about the rows of a key."""
        return frozenset(rule.name for rule in self.rules if isinstance(rule, Rule))


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
    storage = storage_of(spark, output)
    ensembles = opened(spark, given_of(inputs), output, chroot, progress)
    search = _searched(ensembles, question, progress, brings_together=True)
    progress("writing incidents", len(ensembles))
    audited = [_audited(each, search).only(rules) for each in ensembles]
    write_results(storage, audited)
    return audited


@without_collector()
def ask(ensembles: Sequence[AuditedEnsemble], question: Question, progress: Progress = quiet) -> list[Found]:
    """Returns what the rules find in each ensemble, and in its files where it has any on paths."""
    search = _searched(ensembles, question, progress)
    return [
        Found(
            sorted(search.found[each.name], key=order),
            _skipped(each, search.facts[each.name], question),
            search.facts[each.name],
        )
        for each in ensembles
    ]


@dataclass(frozen=True, slots=True)
class _Search:
    """Holds what is asked of the ensembles of a job, and what tasks have found; both by the ensemble's
    name."""

    question: Question
    parts: Mapping[str, ZxidRange]
    progress: Progress
    brings_together: bool
    """True if tasks bring together what they find."""
    found: dict[str, list[Finding]] = field(default_factory=dict)
    """Holds what no task brought together."""
    rows: dict[str, list[FoundRows]] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)


def _searched(
    ensembles: Sequence[AuditedEnsemble],
    question: Question,
    progress: Progress,
    *,
    brings_together: bool = False,
) -> _Search:
    """The findings of all rules."""
    parts = {each.name: part_of(each, question.start, question.end) for each in ensembles}
    search = _Search(question, parts, progress, brings_together)
    by_tables: dict[int, list[AuditedEnsemble]] = {}
    for each in ensembles:
        by_tables.setdefault(id(each.tables), []).append(each)
    for some in by_tables.values():
        alone = [each for each in some if _is_alone(each, question)]
        _fold_alone(alone, search)
        _fold([each for each in some if each not in alone], search)
    for each in ensembles:
        _find_in_files(each, search)
    return search


def _is_alone(of: AuditedEnsemble, question: Question) -> bool:
    """Returns whether one task has all rows: those of a group, or of another chroot than the buckets are
    of."""
    return question.group is not None or question.chroot != of.converted.chroot


def _fold_alone(ensembles: Sequence[AuditedEnsemble], search: _Search) -> None:
    if not ensembles:
        return
    search.progress("searching for findings", len(ensembles))
    question, parts = search.question, search.parts
    tables, rows = ensembles[0].tables, []
    for each in ensembles:
        buckets = None
        if question.group is not None and question.chroot == each.converted.chroot:
            buckets = [CLUSTER, bucket_of_group(question.group, each.converted.buckets)]
        rows.append(tables.together(each.name, parts[each.name], buckets))
    bounds, names, chroot, group = question.bounds, question.names, question.chroot, question.group
    for made in tables.map(rows, lambda each, source: fold_alone(each, bounds, names, chroot, group, source)):
        if group is not None and group not in made.groups:
            whole = tables.rows(made.ensemble, parts[made.ensemble])
            groups = tables.map(whole, lambda each, source: groups_in(each, chroot, source))
            require_group(group, set().union(*groups))
        search.found[made.ensemble], search.facts[made.ensemble] = made.findings, made.facts


def _fold(ensembles: Sequence[AuditedEnsemble], search: _Search) -> None:
    if not ensembles:
        return
    question, parts, found = search.question, search.parts, search.found
    tables, asked = ensembles[0].tables, {}
    states = _states_before(ensembles, parts, search.progress)
    search.progress("reading facts", len(ensembles))
    for each in ensembles:
        known = known_of(each, parts[each.name], states.get(each.name))
        of = search.facts[each.name] = facts_in(known)
        names = question.names - {one.rule.name for one in _skipped(each, of, question)}
        rules = [rule for rule in RULES if rule.name in names]
        part = parts[each.name]
        is_rolled = each.name not in states or _has_state(each.converted, part)
        closes = table_of(
            closes_in(known)
            if is_rolled
            else closes_between(each, tables.stored_zxid(each.name, part), part.to_zxid)
        )
        of_sessions = list(find_in_sessions(rules, known, of, question.bounds))
        together = None
        if search.brings_together:
            together = Together(each.converted.buckets, [one for one in of_sessions if one.group is not None])
            of_sessions = [one for one in of_sessions if one.group is None]
        found[each.name], search.rows[each.name] = of_sessions, []
        asked[each.name] = Asked(of, closes, question.bounds, names, question.chroot, together)
    rows = [one for each in ensembles for one in tables.rows(each.name, parts[each.name])]
    search.progress("searching for findings", len(rows))
    trees: dict[str, list[Columns]] = {each.name: [] for each in ensembles}
    shared = tables.shared(asked)
    for made in tables.map(rows, lambda each, source: fold(each, shared.value[each.ensemble], source)):
        found[made.ensemble] += made.findings
        if made.rows is not None:
            search.rows[made.ensemble].append(unpacked(*made.rows))
        trees[made.ensemble].append(columns_of_rows(made.tree))
    for name, made_trees in trees.items():
        rules = [rule for rule in RULES if rule.name in asked[name].rules]
        found[name] += find_in_tree(rules, made_trees, search.facts[name], question.bounds)


def _states_before(
    ensembles: Sequence[AuditedEnsemble], parts: Mapping[str, ZxidRange], progress: Progress
) -> dict[str, list[Columns]]:
    """Returns what stands before parts that begin later, the rows of facts in it by bucket.

    Of folders that are converted here it is kept, so that the next job begins with it.
    """
    later = [each for each in ensembles if parts[each.name].after_zxid > each.converted.base_zxid]
    if not later:
        return {}
    progress("reading the states before", len(later))
    tables = later[0].tables
    number = tables.manifest.number + 1
    kept = {
        each.name
        for each in later
        if each.files is not None and not _has_state(each.converted, parts[each.name])
    }
    if kept:
        tables.clear(number)
    closes = tables.shared({each.name: table_of(_closes_before(each, parts[each.name])) for each in later})
    chroots = {each.name: each.converted.chroot for each in later}
    rows = [one for each in later for one in tables.rows(each.name, parts[each.name])]
    output: TaskOutput = tables.output
    found: dict[str, list[Columns]] = {each.name: [] for each in later}
    written: list[TaskFile] = []
    for made in tables.map(
        rows,
        lambda each, source: roll(
            each,
            closes.value[each.ensemble],
            number,
            chroots[each.ensemble],
            source,
            output if each.ensemble in kept else None,
        ),
    ):
        found[made.ensemble].append(columns_of_rows(made.known))
        written += map(tables.placed, made.written)
    if kept:
        ensembles_now = dict(tables.manifest.ensembles)
        for name in kept:
            of = ensembles_now[name]
            state = StoredState(parts[name].after_zxid, number)
            ensembles_now[name] = replace(
                of, states=tuple(sorted((*of.states, state), key=lambda each: each.zxid))
            )
        tables.enter(ensembles_now, written)
    return found


def _closes_before(of: AuditedEnsemble, part: ZxidRange) -> Columns:
    """The ends of sessions between the last stored state and a part."""
    return closes_between(of, of.tables.stored_zxid(of.name, part), part.after_zxid)


def _has_state(of: Converted, part: ZxidRange) -> bool:
    return any(state.zxid == part.after_zxid for state in of.states)


def _skipped(of: AuditedEnsemble, facts: Facts, question: Question) -> list[Skipped]:
    return [
        Skipped(rule, reason)
        for rule in question.rules
        if (reason := _reason_to_skip(rule, facts, of)) is not None
    ]


def _reason_to_skip(rule: AnyRule, facts: Facts, of: AuditedEnsemble) -> str | None:
    if isinstance(rule, WholeRule) and of.files is not None and not of.files.is_local:
        return _BEHIND_URI
    return reason_to_skip(rule, facts, has_files=of.files is not None)


def _find_in_files(of: AuditedEnsemble, search: _Search) -> None:
    """What rules about whole histories find, on the driver: they replay, which is one thread's work."""
    question, part, facts = search.question, search.parts[of.name], search.facts[of.name]
    left = {one.rule.name for one in _skipped(of, facts, question)}
    findings = search.found[of.name]
    if of.history is not None:
        for rule in question.rules:
            if isinstance(rule, WholeRule) and rule.name not in left:
                search.progress(f"reading the files of {of.name}: {rule.name}")
                reported = rule.find(of.history, facts, question.bounds[rule.name])
                findings += within(reported, part.after_zxid, part.to_zxid)
    if question.group is not None:
        search.found[of.name] = [one for one in findings if one.group == question.group]


def _audited(of: AuditedEnsemble, search: _Search) -> Audited:
    """All that was found, brought together."""
    facts, rows = search.facts[of.name], search.rows.get(of.name, [])
    beside = rows_beside(of.name, search.found[of.name], facts, rows)
    damages = [] if of.history is None else Folders(of.history).damages()
    part, converted = search.parts[of.name], of.converted
    unlogged = unlogged_part(
        converted.unlogged, converted.last_record, part.after_zxid + 1, part.to_zxid, search.question.end
    )
    if unlogged is not None:
        damages.append(unlogged.text)
    return Audited(
        of.name,
        merged([beside, *rows], facts),
        tuple(_skipped(of, facts, search.question)),
        facts,
        tuple(damages),
    )


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

    Tasks decode logs, compute findings and check files; the driver shapes the page, in one pass over the rows
    in order; `give` takes them as `tables.TABLES` has them. Raises what the laptop's report raises, and
    ConfigError for folders on a cluster: what they are converted to lies on the driver.
    """
    with _opened(spark, inputs, ensemble, chroot, progress) as of:
        source = _source(of, chroot, progress)
        question = Question(chroot=chroot, start=start, end=end, group=group)
        (found,) = ask([of], question, progress)
        return report_of(
            source,
            inputs,
            start=start,
            end=end,
            group=group,
            give=give,
            progress=progress,
            found=found,
            files=lambda: _files(spark, of),
        )


def _source(of: AuditedEnsemble, chroot: str, progress: Progress) -> Source:
    """The rows of the page: out of the files where they are on paths, else out of Parquet."""
    if of.history is not None:
        return Folders(of.history, chroot, progress)
    tables = of.tables
    stored = StoredTables(tables.storage.place, of.name, of.converted, tables.source, tables.storage.read)
    return ConvertedSource(stored, chroot, progress)


def _files(spark: SparkSession, of: AuditedEnsemble) -> list[FileHealth]:
    """Returns how far each file is good, one a task; none where there are no files on paths."""
    if of.history is None or of.files is None:
        return []
    files = [
        (file.path, file.kind)
        for listed in map(list_files, of.files.paths)
        for file in sorted((*listed.snapshots, *listed.logs))
    ]
    return spark.sparkContext.parallelize(files, len(files)).map(_inspected).collect()  # type: ignore[no-any-return]


def _inspected(file: tuple[Path, str]) -> FileHealth:
    return inspected(*file)


@contextmanager
def _opened(
    spark: SparkSession, inputs: Sequence[str], ensemble: str | None, chroot: str, progress: Progress
) -> Iterator[AuditedEnsemble]:
    """The one that is asked about; folders are converted for as long as the block lasts."""
    given = [each._replace(name=ensemble) for each in given_of(inputs)]
    tables = [each for each in given if is_converted(storage_of(spark, each.place))]
    if tables and len(given) > 1:
        raise ConfigError(f"{tables[0].place} is Parquet of `audit run`: expected nothing beside it")
    if tables:
        (one,) = tables
        name = Tables(spark, one.place).manifest.named(one.place, ensemble)
        yield opened(spark, [one._replace(name=name)], one.place, chroot, progress)[0]
        return
    if ensemble is not None:
        raise ConfigError(f"ensemble {ensemble!r}: only Parquet of `audit run` has ensembles by name")
    if not spark.sparkContext.master.startswith("local"):
        raise ConfigError(
            "a report of folders on a cluster has nowhere to convert them to: use `audit run` first, and its "
            "output as --input"
        )
    with TemporaryDirectory(prefix="zkgroup-") as place:
        yield opened(spark, given, place, chroot, progress)[0]
