"""The job of `zkgroup audit run`, and of reports on Spark: convert, run the rules, write incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from zkgroup.audit.findings import engine
from zkgroup.audit.findings.buckets import CLUSTER, bucket_of_group, find_in_sessions, find_in_tree
from zkgroup.audit.findings.engine import KNOWN_RULES, Found, Skipped, order
from zkgroup.audit.findings.rules import AnyRule, WholeRule
from zkgroup.audit.incidents.attribution import numbered, only_of, with_causes
from zkgroup.audit.inputs import manifest, rows
from zkgroup.audit.inputs.converted import ConvertedSource, parquet_of
from zkgroup.audit.inputs.events import require_group
from zkgroup.audit.inputs.found_files import SkippedFile, health_of
from zkgroup.audit.inputs.opening import Folders
from zkgroup.audit.inputs.series_source import SeriesSource
from zkgroup.audit.inputs.source import PointInTime, Progress, Source, quiet, without_collector
from zkgroup.audit.inputs.stored_series import snapshots_in
from zkgroup.audit.report.tables import Give, nowhere
from zkgroup.audit.report.writing import Audited, AuditReport, report_of, write_results
from zkgroup.audit.spark.conversion import convert
from zkgroup.audit.spark.evaluation import Asked, Audit, BucketTask, Question, evaluate, state_before
from zkgroup.audit.spark.series import Files, FoundInSeries, convert_series, files_of, found_in, tidy
from zkgroup.audit.spark.session import Given, given_of, inputs_of
from zkgroup.audit.spark.storage import folder_of, in_tasks, reached_by_tasks
from zkgroup.errors import ConfigError, NotFoundError


@without_collector()
def run(
    spark: SparkSession,
    inputs: Sequence[str],
    output: str,
    *,
    rules: Sequence[AnyRule] = engine.ALL_RULES,
    bounds: Mapping[str, float] | None = None,
    chroot: str = "",
    start: PointInTime | None = None,
    end: PointInTime | None = None,
    group: str | None = None,
    keep_ms: int | None = None,
    progress: Progress = quiet,
) -> list[Audited]:
    """Converts what is new in the inputs, runs the rules on all that was converted, and writes findings.

    Args:
        inputs: `[NAME=]PATH|URI`: folders of servers, or tree snapshots, folders of them and globs, or
            outputs of earlier runs, of which NAME is one ensemble; without a NAME all are meant.
        output: a folder of its own, on a path that all workers have, or any URI that Spark writes to.
        bounds: the values that the user set, by `finding.bound`.
        start, end, group: as of `engine.audit`.
        keep_ms: what is so much older than the last record or tree snapshot is left out from now on.

    Raises ConfigError for inputs, bounds and outputs that are wrong, NotZooKeeperFileError for folders, and
    NotFoundError where there was no such group or time.
    """
    is_all = len(rules) == len(engine.ALL_RULES)
    asked = rules if is_all else with_causes(rules)
    question = Question(asked, engine.bounds_of(asked, bounds or {}), chroot, start, end, group)
    folder = folder_of(spark, output)
    with ExitStack() as stack:
        ensembles = _opened(spark, list(map(given_of, inputs)), output, question, stack, progress)
        for each in ensembles:
            if each.files is not None:
                each.skipped = convert_series(spark, each.output, each.files, chroot, progress)
                _keep(spark, each, keep_ms, progress)
        progress("searching for findings")
        for each in ensembles:
            each.search_series(spark)
        _find(spark, [each.audit for each in ensembles if each.audit is not None], progress)
        audited = []
        for each in ensembles:
            found = each.found
            shown = only_of(KNOWN_RULES if is_all else rules, found, numbered(found))
            audited.append(Audited(each.name, *shown, tuple(each.damages(end))))
    progress("writing incidents", len(audited))
    write_results(folder, audited)
    return audited


@dataclass
class _Ensemble:
    """An ensemble: the output that has or gets it, and its files, where not only Parquet is given."""

    name: str
    output: manifest.OutputFolder
    question: Question
    files: Files | None
    skipped: Sequence[SkippedFile] = ()
    audit: Audit | None = None
    """That of its logs; None where they have nothing of the range."""
    _series: tuple[FoundInSeries, SeriesSource] | None = None

    @property
    def source(self) -> ConvertedSource:
        """Its Parquet."""
        return ConvertedSource(self.output, self.name, self.question.chroot)

    def search_series(self, spark: SparkSession) -> None:
        """Finds what tree snapshots show, and opens the logs where they tell of the range."""
        converted, shown = self.output.ensembles[self.name], None
        if converted.series:
            self._series = found_in(spark, self.source, self.question)
            shown = self._series[1]
            self.skipped = shown.skipped
        if shown is None or shown.is_logged(self.question.start, self.question.end):
            logs = None if self.files is None else self.files.logs
            self.audit = Audit(self.name, self.question, self.output, logs, bool(shown and shown.series))
            self.audit.groups |= self._series[0].groups if self._series else set()

    @property
    def found(self) -> Found:
        """The findings, in order, as `engine.audit` joins them."""
        shown = self._series and self._series[0]
        if self.audit is not None:
            found = self.audit.found
            if shown is not None:
                both = engine.joined(found.findings, shown.findings, found.facts)
                found = found._replace(findings=sorted(both, key=order))
        else:
            assert shown is not None
            rules = {rule.name: rule for rule in KNOWN_RULES}
            left = [Skipped(rules[name], reason) for name, reason in shown.skipped]
            found = Found(shown.findings, left, shown.facts)
        return found._replace(files=self.skipped)

    def damages(self, end: PointInTime | None) -> list[str]:
        """The places at which files could not be read."""
        damages = [f"{each.path}: {each.reason}" for each in self.skipped]
        if self.audit is None:
            return damages
        history, (after_zxid, to_zxid) = self.audit.history, self.audit.part
        source = self.source if history is None else Folders(history)
        source.note_unlogged(self.audit.converted, (after_zxid + 1, to_zxid), end)
        return [*source.damages(), *damages]


def _opened(
    spark: SparkSession,
    given: Sequence[Given],
    output: str,
    question: Question,
    stack: ExitStack,
    progress: Progress,
) -> list[_Ensemble]:
    """The ensembles, whose new records are converted into `output`; tree snapshots are not yet.

    Outputs of `audit run` are taken as they are. Raises ConfigError for inputs and outputs that are wrong,
    NotZooKeeperFileError for folders.
    """
    if not given:
        raise ConfigError("expected at least one folder as input")
    inputs_of(given)  # wrong names are reported before any filesystem is read
    found, folders = list[_Ensemble](), list[Given]()
    for each in given:
        folder = folder_of(spark, each.place)
        if manifest.newest_manifest(folder) is None:
            folders.append(each)
            continue
        before = manifest.OutputFolder(folder)
        names = list(before.ensembles) if each.name is None else [before.named(each.name)]
        found += [_Ensemble(name, before, question, None) for name in names]
    converted = manifest.OutputFolder(folder_of(spark, output))
    for one in inputs_of(folders):
        files = stack.enter_context(files_of(spark, converted, one))
        found.append(_Ensemble(one.name, converted, question, files))
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"expected each ensemble once, found {', '.join(twice)} in several inputs")
    new = [each.files.logs for each in found if each.files is not None and each.files.logs is not None]
    if new:
        convert(spark, converted, new, question.chroot, progress)
    return found


@without_collector()
def _find(spark: SparkSession, audits: Sequence[Audit], progress: Progress) -> None:
    """Runs all rules: those by bucket in tasks, the others here."""
    by_name = {each.name: each for each in audits}
    states = _states_before(spark, audits, progress)
    progress("reading facts", len(audits))
    asked = {each.name: _asked(each, states.get(each.name)) for each in audits}
    tasks = [one for each in audits for one in _tasks_of(each)]
    progress("searching for findings", len(tasks))
    shared = spark.sparkContext.broadcast(asked)
    for made in in_tasks(spark, tasks, partial(evaluate, shared)):
        audit = by_name[made.ensemble]
        audit.findings += made.findings
        audit.groups |= made.groups
        if made.facts is not None:
            audit.facts = made.facts
        else:
            audit.trees.append(rows.columns_of_rows(made.tree))
    for each in audits:
        if each.is_alone:
            _require_group(spark, each)
        else:
            each.findings += find_in_tree(each.rules, each.trees, each.facts, each.question.bounds)
        _find_in_files(each, progress)


def _asked(audit: Audit, state: Sequence[rows.Columns] | None) -> Asked:
    """The question for the tasks of an ensemble; where each has a bucket, facts and sessions are read here.

    Args:
        state: rows of facts of the tree before the part, by bucket; None for the beginning of the history.
    """
    question = audit.question
    names = frozenset(rule.name for rule in question.rules)
    asked = Asked(question.chroot, question.group, names, question.bounds)
    if audit.is_alone:
        return asked
    known = audit.known(state)
    audit.facts = rows.facts_in(known)
    audit.findings += find_in_sessions(audit.rules, known, audit.facts, question.bounds)
    # Tasks begin with the tree if it is stored already, else with the tree before, or the beginning.
    is_whole = state is None or audit.stored_zxid == audit.part.after_zxid
    closes = rows.closes_in(known) if is_whole else audit.closes(audit.part.to_zxid)
    names = frozenset(rule.name for rule in audit.rules)
    return asked._replace(rules=names, facts=audit.facts, closes=rows.table_of(closes))


def _tasks_of(audit: Audit) -> list[BucketTask]:
    question, tasks = audit.question, audit.tasks()
    if not audit.is_alone:
        return tasks
    if question.group is not None and question.chroot == audit.converted.chroot:
        buckets = (CLUSTER, bucket_of_group(question.group, audit.converted.buckets))
        tasks = [each for each in tasks if each.bucket in buckets]
    return [replace(tasks[0], bucket="", files=tuple(file for each in tasks for file in each.files))]


def _require_group(spark: SparkSession, audit: Audit) -> None:
    group = audit.question.group
    if group is not None and group not in audit.groups:
        asked = {audit.name: Asked(audit.question.chroot, None, frozenset(), {})}
        shared = spark.sparkContext.broadcast(asked)
        everything = in_tasks(spark, audit.tasks(), partial(evaluate, shared))
        require_group(group, {name for made in everything for name in made.groups})


def _states_before(
    spark: SparkSession, audits: Sequence[Audit], progress: Progress
) -> dict[str, list[rows.Columns]]:
    """The trees before parts that begin later: the rows of facts in them, by bucket.

    The trees of folders that are converted here are kept, so that the next job begins with them.
    """
    later = [each for each in audits if not each.is_alone and each.part.after_zxid > each.converted.base_zxid]
    if not later:
        return {}
    progress("reading the states before", len(later))
    kept = [each for each in later if each.files is not None and each.stored_zxid < each.part.after_zxid]
    output = (kept or later)[0].output
    if kept:
        output.clear()
    asked = {}
    for each in later:
        closes = rows.table_of(each.closes(each.part.after_zxid))
        asked[each.name] = Asked(each.converted.chroot, None, frozenset(), {}, closes=closes)
        if each in kept:
            to = reached_by_tasks(output.folder)
            asked[each.name] = asked[each.name]._replace(output=to, batch=output.number + 1)
    tasks = [one for each in later for one in each.tasks()]
    found: dict[str, list[rows.Columns]] = {name: [] for name in asked}
    files: list[manifest.StoredFile] = []
    shared = spark.sparkContext.broadcast(asked)
    for name, made, known in in_tasks(spark, tasks, partial(state_before, shared)):
        found[name].append(rows.columns_of_rows(known))
        files += [each.placed(output.folder) for each in made]
    if kept:
        ensembles = dict(output.ensembles)
        for each in kept:
            state = manifest.StoredState(each.part.after_zxid, output.number + 1)
            states = sorted((*each.converted.states, state), key=lambda one: one.zxid)
            ensembles[each.name] = replace(each.converted, states=tuple(states))
        output.enter(ensembles, files)
    return found


def _keep(spark: SparkSession, one: _Ensemble, keep_ms: int | None, progress: Progress) -> None:
    """Leaves out what is so much older than the last record or tree snapshot; None keeps all."""
    output, converted = one.output, one.output.ensembles[one.name]
    since_ms = None
    if keep_ms is not None:
        times = [each.snapshot.time_ms for each in snapshots_in(output, one.name)]
        since_ms = max([*times, one.source.last_ms or 0]) - keep_ms
    if converted.series:
        tidy(output, one.name, since_ms)
    zxid = -1
    with suppress(NotFoundError):
        zxid = one.source.zxid_at(since_ms - 1) if since_ms is not None and converted.logs else -1
    if zxid <= converted.base_zxid or one.files is None or one.files.logs is None:
        return
    question = Question(chroot=converted.chroot, start=PointInTime(zxid + 1))
    audit = Audit(one.name, question, output, one.files.logs)
    facts = rows.sorted_seeds(
        rows.joined([rows.columns_of(()), *_states_before(spark, [audit], progress)[one.name]])
    )
    converted, batch = output.ensembles[one.name], output.number + 1
    output.clear()
    place = f"{manifest.FACTS}/batch={batch}/ensemble={one.name}/seeds.parquet"
    output.folder.write(place, parquet_of(rows.table_of(facts)))
    file = manifest.StoredFile(place, manifest.FACTS, one.name, "", -1, len(facts), -1, zxid)
    old = {log.start for log in converted.logs if log.last_zxid <= zxid}
    gone = [
        each
        for table in (manifest.OPERATIONS, manifest.FACTS, manifest.SEEDS, manifest.STATES)
        for each in output.files(table, one.name)
        if each.log in old or (each.log < 0 and each.last_zxid < zxid)
    ]
    logs = tuple(replace(log, batches=()) if log.start in old else log for log in converted.logs)
    states = tuple(each for each in converted.states if each.zxid >= zxid)
    converted = replace(
        converted, base_zxid=zxid, first_zxid=zxid + 1, seed_batch=batch, logs=logs, states=states
    )
    output.enter({**output.ensembles, one.name: converted}, [file])
    for each in gone:
        output.folder.delete(each.name)


def _find_in_files(audit: Audit, progress: Progress) -> None:
    """Runs the rules about whole histories, on the driver: they replay, which is one thread's work."""
    question = audit.question
    for rule, reason in audit.reasons:
        if audit.history is not None and isinstance(rule, WholeRule) and reason is None:
            progress(f"reading the files of {audit.name}: {rule.name}")
            reported = rule.find(audit.history, audit.facts, question.bounds[rule.name])
            audit.findings += engine.within(reported, *audit.part)
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

    Tasks decode logs and compute findings; the driver checks files and makes the page, in one pass over the
    rows in order; `give` gets them as `tables.TABLES` has them. Raises what `report_of` raises, and
    ConfigError for folders on a cluster: their Parquet lies on the driver.
    """
    given = _of_one(spark, inputs, ensemble)
    with TemporaryDirectory(prefix="zkgroup-") as place, ExitStack() as stack:
        question = Question(chroot=chroot, start=start, end=end, group=group)
        (one,) = _opened(spark, given, place, question, stack, progress)
        files = one.files
        has_series = files is not None and bool(files.found.snapshots or files.found.skipped)
        if has_series or (files is None and one.source.converted.series):
            raise ConfigError(
                f"{inputs[0]}: expected logs for a report on Spark, found tree snapshots: leave --spark out"
            )
        one.search_series(spark)
        audit = one.audit
        assert audit is not None
        source: Source = ConvertedSource(audit.output, audit.name, chroot, progress)
        paths: Sequence[Path] = ()
        if audit.history is not None and audit.files is not None:
            source, paths = Folders(audit.history, chroot, progress), audit.files.paths
        _find(spark, [audit], progress)
        return report_of(
            source,
            inputs,
            start=start,
            end=end,
            group=group,
            give=give,
            progress=progress,
            found=audit.found,
            files=lambda: health_of(paths),
        )


def _of_one(spark: SparkSession, inputs: Sequence[str], ensemble: str | None) -> list[Given]:
    """The inputs of the only ensemble. Raises ConfigError for inputs of none, and of several."""
    given = [given_of(text)._replace(name=ensemble) for text in inputs]
    tables = [folder for each in given if manifest.newest_manifest(folder := folder_of(spark, each.place))]
    if tables and len(given) > 1:
        raise ConfigError(f"{tables[0].place} is Parquet of `audit run`: expected nothing beside it")
    if tables:
        return [given[0]._replace(name=manifest.OutputFolder(tables[0]).named(ensemble))]
    if ensemble is not None:
        raise ConfigError(f"ensemble {ensemble!r}: only Parquet of `audit run` has ensembles by name")
    if not spark.sparkContext.master.startswith("local"):
        raise ConfigError(
            "a report of folders on a cluster has nowhere to convert them to: use `audit run` first, and its "
            "output as --input"
        )
    return given
