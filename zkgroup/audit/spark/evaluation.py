"""The second step: the ensembles of a job, and tasks, one for each bucket, which run rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from zkgroup.audit.findings import engine
from zkgroup.audit.findings.buckets import CLUSTER, find_in_bucket, names_of
from zkgroup.audit.findings.rules import AnyRule, Bounds, Finding, Rule, WholeRule
from zkgroup.audit.findings.tables import ScreenTables, known_rows
from zkgroup.audit.inputs import manifest, rows
from zkgroup.audit.inputs.converted import ConvertedSource, OpenFile, operations_in, rows_in
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.logs import with_ends
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.audit.spark.session import EnsembleInput
from zkgroup.audit.spark.storage import TaskFile, written
from zkgroup.zkfiles.history import History

_COST_OF_CLUSTER: Final = 8
"""The cost of a row of the cluster; that of a row of a group is 1."""
_BEHIND_URI: Final = "needs the files on local or shared paths"


class ZxidRange(NamedTuple):
    """The part of a history that the job is about."""

    after_zxid: int
    """Its rows follow the tree at this zxid."""
    to_zxid: int | None = None
    """The last transaction; None for all."""


@dataclass(frozen=True, slots=True)
class FilesTask:
    """The files with the rows of a bucket, or of several together."""

    place: str
    """The output folder."""
    bucket: str
    """The bucket; empty for several."""
    files: tuple[manifest.StoredFile, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.name for file in self.files)

    @property
    def cost(self) -> int:
        """The weighted number of rows: rules see most of those of the cluster, and few of those of groups."""
        weight = _COST_OF_CLUSTER if self.bucket == CLUSTER else 1
        return weight * sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class BucketTask(FilesTask):
    """Those of operations, behind those of the tree before them."""

    ensemble: str
    seeds_zxid: int
    """The zxid of that tree."""
    part: ZxidRange

    def columns(self, source: OpenFile, closes: Any = None) -> rows.Columns:
        """The rows of the part behind its seeds, with the paths that servers have.

        Args:
            closes: the ends of sessions as a pyarrow.Table, for only the bucket of the cluster has them.
        """
        seeds = [file for file in self.files if file.table != manifest.OPERATIONS]
        operations = [file for file in self.files if file.table == manifest.OPERATIONS]
        logged = operations_in(operations, source, self.seeds_zxid, self.part.to_zxid)
        if closes is not None and self.bucket != CLUSTER:
            ends = rows.between(rows.columns_of_rows(closes), self.seeds_zxid, self.part.to_zxid)
            logged = rows.joined([logged, ends])
        whole = with_ends([rows.in_order(logged)], rows_in(seeds, source))
        return whole if self.part.after_zxid <= self.seeds_zxid else rows.behind(whole, self.part.after_zxid)


class Question(NamedTuple):
    """The rules that run on each ensemble, and the part of it that they run on."""

    rules: Sequence[AnyRule] = engine.ALL_RULES
    bounds: Mapping[str, Bounds] = engine.bounds_of(engine.ALL_RULES, {})
    """The bounds of each rule, as of `engine.bounds_of`."""
    chroot: str = ""
    start: PointInTime | None = None
    end: PointInTime | None = None
    group: str | None = None


@dataclass(slots=True)
class Audit:
    """An ensemble of the job, and its findings."""

    name: str
    question: Question
    output: manifest.OutputFolder
    files: EnsembleInput | None
    """Its folders; None where only its Parquet is given."""
    has_series: bool = False
    """True if rules of series run on its tree snapshots."""
    findings: list[Finding] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    trees: list[rows.Columns] = field(default_factory=list)
    """The rows that rules about the whole tree need, for each bucket."""
    groups: set[str] = field(default_factory=set)
    history: History | None = field(init=False)
    """The history in its folders, where they are on paths."""
    part: ZxidRange = field(init=False)
    """The part between the moments of the question, both included."""

    def __post_init__(self) -> None:
        """Raises ConfigError and NotFoundError for moments outside the history."""
        files, question = self.files, self.question
        self.history = History(*files.paths) if files is not None and files.is_local else None
        source = ConvertedSource(self.output, self.name)
        from_zxid, to_zxid = source.zxid_range(question.start, question.end)
        self.part = ZxidRange(max(self.converted.base_zxid, from_zxid - 1), to_zxid)

    @property
    def converted(self) -> manifest.Converted:
        """Its entry in the manifest of the output."""
        return self.output.ensembles[self.name]

    @property
    def is_alone(self) -> bool:
        """True if one task has all rows: those of a group, or of a chroot that is not that of the buckets."""
        return self.question.group is not None or self.question.chroot != self.converted.chroot

    @property
    def stored_zxid(self) -> int:
        """The zxid of the last stored tree at or before the part, or that of the seeds."""
        stored = (state.zxid for state in self.converted.states if state.zxid <= self.part.after_zxid)
        return max(stored, default=self.converted.base_zxid)

    @property
    def reasons(self) -> list[tuple[AnyRule, str | None]]:
        """Each rule with the reason why it cannot run; None where it can."""
        known = engine.reasons(
            self.question.rules, self.facts, has_files=self.files is not None, has_series=self.has_series
        )
        is_remote = self.files is not None and self.history is None
        return [
            (rule, _BEHIND_URI if is_remote and isinstance(rule, WholeRule) else reason)
            for rule, reason in known
        ]

    @property
    def rules(self) -> list[Rule]:
        """The rules about rows that can run."""
        return [rule for rule, reason in self.reasons if reason is None and isinstance(rule, Rule)]

    @property
    def found(self) -> engine.Found:
        """The findings so far, in order, and the rules that could not run."""
        skipped = [engine.Skipped(rule, reason) for rule, reason in self.reasons if reason is not None]
        names = {rule.name for rule, _ in self.reasons}
        findings = [one for one in self.findings if one.finding in names]
        return engine.Found(sorted(engine.based(findings, self.facts), key=engine.order), skipped, self.facts)

    def tasks(self) -> list[BucketTask]:
        """The files with the rows of each bucket, from the last stored tree on."""
        zxid, place = self.stored_zxid, self.output.folder.place
        seeds = self.output.seeds(self.name, zxid)
        operations = [
            each for each in self._stored(manifest.OPERATIONS) if each.has_any(zxid, self.part.to_zxid)
        ]
        files = (*seeds, *operations)
        buckets = names_of(self.converted.buckets)
        parts = [tuple(each for each in files if each.bucket == bucket) for bucket in buckets]
        return [
            BucketTask(place, *part, self.name, zxid, self.part) for part in zip(buckets, parts, strict=True)
        ]

    def known(self, state: Sequence[rows.Columns] | None) -> rows.Columns:
        """The rows that make the facts of the part, and those of its sessions, behind its seeds.

        Args:
            state: such rows of the tree before the part, by bucket; None for the beginning of the history.
        """
        source, facts, part = self.output.folder.source, self._stored(manifest.FACTS), self.part
        if state is None:
            zxid = self.converted.base_zxid
            before = rows_in([each for each in facts if each.log < 0 and each.last_zxid == zxid], source)
        else:
            before = rows.sorted_seeds(rows.joined([rows.columns_of(()), *state]))
        # The beginning of the history cuts no log.
        bounds = [part.to_zxid] if part.after_zxid <= self.converted.base_zxid else part
        cut = {
            log.start
            for log in self.converted.logs
            if any(bound is not None and log.start <= bound < log.last_zxid for bound in bounds)
        }
        files = [each for each in facts if each.log not in cut and each.has_any(*part)]
        parts = [rows.between(rows_in(files, source), *part)]
        for start in sorted(cut):
            of_log = [each for each in self._stored(manifest.OPERATIONS) if each.log == start]
            seen = rows.inside(rows.in_order(operations_in(of_log, source, *part)), self.converted.chroot)
            parts.append(seen.take(known_rows(seen)))
        return with_ends([rows.in_order(rows.joined(parts))], before)

    def closes(self, to_zxid: int | None) -> rows.Columns:
        """The ends of sessions behind the last stored tree, up to a transaction or all."""
        after_zxid = self.stored_zxid
        files = [each for each in self._stored(manifest.FACTS) if each.has_any(after_zxid, to_zxid)]
        closes = rows.closes_in(rows_in(files, self.output.folder.source))
        return rows.in_order(rows.between(closes, after_zxid, to_zxid))

    def _stored(self, table: str) -> list[manifest.StoredFile]:
        return self.output.files(table, self.name)


class Asked(NamedTuple):
    """The question about an ensemble, as its tasks get it."""

    chroot: str
    group: str | None
    rules: frozenset[str]
    bounds: Mapping[str, Bounds]
    facts: Facts | None = None
    """The facts of the part; None where one task has all rows."""
    closes: Any = None
    """The ends of sessions, as a pyarrow.Table of rows."""
    output: manifest.Folder | None = None
    batch: int | None = None
    """The batch in which tasks store trees; None where none is stored."""


class Evaluated(NamedTuple):
    """The findings of a task."""

    ensemble: str
    findings: list[Finding]
    tree: Any = None
    """The rows of this bucket that rules about the whole tree need, as a pyarrow.Table."""
    facts: Facts | None = None
    """The facts, where the task had all rows; the names of the groups follow."""
    groups: frozenset[str] = frozenset()


def evaluate(shared: Any, task: BucketTask, source: OpenFile) -> Evaluated:
    """Runs the rules whose keys are in one bucket; all rules, where a task has all rows.

    Args:
        shared: the broadcast of `Asked`, by ensemble.
    """
    asked: Asked = shared.value[task.ensemble]
    rules = [rule for rule in engine.RULES if rule.name in asked.rules]
    columns = rows.inside(task.columns(source, asked.closes), asked.chroot)
    if asked.facts is not None:
        findings, tree = find_in_bucket(rules, columns, asked.facts, asked.bounds)
        return Evaluated(task.ensemble, findings, rows.table_of(tree))
    groups = frozenset(rows.groups_of_paths(columns.paths)[0])
    if asked.group is not None:
        columns = rows.of_group(columns, asked.group)
    facts = rows.facts_in(columns)
    if not facts.has_log:
        rules = [rule for rule in rules if "log" not in rule.needs]
    findings = list(ScreenTables(columns, facts).find(rules, asked.bounds))
    return Evaluated(task.ensemble, findings, facts=facts, groups=groups)


def state_before(shared: Any, task: BucketTask, source: OpenFile) -> tuple[str, list[TaskFile], Any]:
    """Makes, and stores, the tree in a bucket before the part that the job is about.

    Returns the ensemble, the files, and the rows of the tree that make facts, as a pyarrow.Table.

    Args:
        shared: the broadcast of `Asked`, by ensemble.
    """
    asked: Asked = shared.value[task.ensemble]
    zxid = task.part.after_zxid
    seeds = replace(task, part=ZxidRange(zxid, zxid)).columns(source, asked.closes)
    files: list[TaskFile] = []
    if len(seeds) and asked.batch is not None:
        folder = f"{manifest.STATES}/batch={asked.batch}/ensemble={task.ensemble}/bucket={task.bucket}"
        of, name = (task.ensemble, task.bucket), f"{folder}/state.parquet"
        file = manifest.StoredFile(name, manifest.STATES, *of, -1, len(seeds), zxid, zxid)
        files.append(written(rows.table_of(seeds), file, asked.output))
    seen = rows.inside(seeds, asked.chroot)
    return task.ensemble, files, rows.table_of(seen.take(known_rows(seen)))
