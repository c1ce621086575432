"""`AdminChange`: one change of an operator, planned, shown, applied with its undo record first, waited for.

For each kind of plan a function `..._change` makes one, in the module of the plan. Making it checks;
`AdminChange.apply` saves the undo record, writes, and waits where that is wanted.
"""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from zkgroup.admin.files import reassignment_text
from zkgroup.admin.undo_records import ChangeRecord, UndoFolder, UndoRecord, write_whole
from zkgroup.errors import ConfigError, PartlyDoneError, ZkGroupError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.model import TopicPartition, Znode

PlanT = TypeVar("PlanT")
WrittenT = TypeVar("WrittenT")
OutcomeT = TypeVar("OutcomeT")


def nothing(*_: object) -> None:
    """The progress of a wait that is reported to no caller; the check of a change that nothing refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The base of the plans of changes: nothing has been done yet."""

    as_of: AsOf
    """The moment at which what it changes was read."""
    notes: tuple[str, ...] = ()
    """Warnings for the operator, one sentence each; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult(Generic[PlanT, WrittenT, OutcomeT]):
    """The result of a change, or of its dry run."""

    plan: PlanT
    """The plan of what the change writes, or would write."""
    notes: tuple[str, ...]
    """Warnings for the operator, one sentence each; empty for none."""
    executed: bool
    """True if it was written; False for a dry run, and if there was nothing to change."""
    undo_id: str | None = None
    """Id of the undo record; None where none was saved."""
    undo_hint: str | None = None
    """The command that undoes the change, with from when on where it has to wait for something."""
    no_undo: str | None = None
    """The reason why the change cannot be undone."""
    rollback_file: str | None = None
    """Of a reassignment: the file with the replica lists as they were, in the form of Kafka's own tools."""
    written: WrittenT | None = None
    """The result of the write."""
    outcome: OutcomeT | None = None
    """The result of the wait; None without a wait."""


class UndoRecorder:
    """Saves undo records, on behalf of a program or of the command line."""

    def __init__(
        self,
        folder: UndoFolder,
        *,
        zookeeper: str,
        user: str | None = None,
        command: str | None = None,
        command_text: Callable[[Sequence[str]], str] | None = None,
        report: Callable[[str], object] | None = None,
    ) -> None:
        """Args:
        folder: where the records are kept, one file for each change.
        zookeeper: the address of the ensemble, as records name it.
        user: who makes the changes; by default the user of this process.
        command: the command line that makes the change; by default what the change is called.
        command_text: makes of the words of a command the text to type, with the options to connect.
        report: is called with each note and undo hint; by default nothing is reported.
        """
        self.folder = folder
        self.zookeeper = zookeeper
        self.user = user or _user()
        self.command = command
        self._command_text = command_text or self._zkgroup
        self.report = report or (lambda _: None)

    def new_change(self, ensemble: Ensemble, subject: str) -> ChangeRecord:
        """A new id, at the wall time of the ensemble's clock."""
        undo_id = self.folder.new_id(ensemble.clock.wall_ms())
        return ChangeRecord(undo_id=undo_id, command=self.command or subject, user=self.user)

    def hint(self, record: UndoRecord, *, force: bool) -> str | None:
        """The command that undoes a recorded change; None where it cannot be undone."""
        if record.no_undo is not None:
            return None
        words = self._command_text(["undo", record.undo_id, "--execute", *(["--force"] if force else [])])
        return f"to undo{f', {record.when}' if record.when else ''}: {words}"

    def text(self, words: Sequence[str]) -> str:
        """A command to type, to the same ensemble."""
        return self._command_text(words)

    def save_rollback(self, name: str, replicas: Mapping[TopicPartition, Sequence[int]]) -> Path:
        """Writes replica lists into a file that Kafka's tools and zkgroup take. Raises ConfigError."""
        file = self.folder.path.parent / "rollback" / f"{name}.json"
        try:
            write_whole(file, f"{reassignment_text(replicas)}\n".encode())
        except OSError as error:
            raise ConfigError(
                f"{file}: the rollback file cannot be written, so nothing was changed: {error}"
            ) from error
        return file

    def _zkgroup(self, words: Sequence[str]) -> str:
        return shlex.join(["zkgroup", "-z", self.zookeeper, *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminChange(Generic[PlanT, WrittenT, OutcomeT]):
    """A change that has been planned: what was read, what would be written, and how it is undone."""

    ensemble: Ensemble
    subject: str
    """Its effect, as the words of a command: `delete group orders`."""
    question: str
    """The question to a person before it is applied."""
    plan: PlanT
    notes: tuple[str, ...] = ()
    """Warnings that are to be known before it is applied."""
    is_effective: bool = True
    """False where everything is as wanted already: then nothing is written."""
    no_undo: str | None = None
    """The reason why it cannot be undone, for the preview; None where it can."""
    undo: UndoRecord | Callable[[ChangeRecord], UndoRecord] | None = None
    """The undo record but for its id, time, command and address (`undo_record`), or what makes it once the id
    is known; None: none is kept.
    """
    undo_is_required: bool = True
    """False where a plain command undoes it: then a record that cannot be saved is only reported."""
    undo_needs_force: bool = False
    rollback: Mapping[TopicPartition, Sequence[int]] = field(default_factory=dict)
    """Replica lists as they are, for a rollback file that undoes the change."""
    check: Callable[[], object] = nothing
    """Raises what `write` would refuse as things are. Making the change calls it, unless nothing is to be
    written: so a preview is refused what its execution would be."""
    write: Callable[[ChangeRecord], WrittenT]
    wait: Callable[[WrittenT, float], OutcomeT] | None = None
    """Waits up to so many seconds until what was asked for has happened; None: there is nothing to see."""
    made_at: Callable[[WrittenT], int | None] | None = None
    """The zxid of the write, which the undo record keeps to recognise what was made."""

    def __post_init__(self) -> None:
        if self.is_effective:
            self.check()

    def preview(self) -> ChangeResult[PlanT, WrittenT, OutcomeT]:
        """The result that shows the change; nothing is written."""
        return ChangeResult(plan=self.plan, notes=self.notes, executed=False, no_undo=self.no_undo)

    def apply(
        self, recorder: UndoRecorder, *, wait_s: float | None = None
    ) -> ChangeResult[PlanT, WrittenT, OutcomeT]:
        """Saves the undo record, writes, and waits for up to `wait_s` seconds (None: not at all).

        A change that is refused leaves no record. Where it may have been made, or in part, the record stays,
        and the error carries the undo hint as a note. Raises ConfigError where the record cannot be saved:
        then nothing was changed.
        """
        if not self.is_effective:
            return self.preview()
        by = recorder.new_change(self.ensemble, self.subject)
        record = self._save(recorder, by)
        if record is None:
            written, hint = self.write(by), None
        else:
            hint = recorder.hint(record, force=self.undo_needs_force)
            written = self._write_recorded(recorder, by, record, hint)
        result: ChangeResult[PlanT, WrittenT, OutcomeT] = ChangeResult(
            plan=self.plan,
            notes=self.notes,
            executed=True,
            undo_id=record.undo_id if record else None,
            undo_hint=hint,
            no_undo=self.no_undo,
            rollback_file=record.rollback_file if record else None,
            written=written,
        )
        if wait_s is None or self.wait is None:
            return result
        return replace(result, outcome=self.wait(written, wait_s))

    def _save(self, recorder: UndoRecorder, by: ChangeRecord) -> UndoRecord | None:
        """The record, saved; None where none is kept, or none that is not required could be saved."""
        if self.undo is None:
            return None
        record = replace(
            self.undo(by) if callable(self.undo) else self.undo,
            undo_id=by.undo_id,
            time_ms=self.ensemble.clock.wall_ms(),
            command=by.command,
            zookeeper=recorder.zookeeper,
        )
        if self.rollback:
            file = str(recorder.save_rollback(by.undo_id, self.rollback))
            record = replace(
                record,
                undo_command=("reassign", "execute", "--reassignment-json-file", file),
                when="once it has ended",
                rollback_file=file,
                no_undo=None,
            )
        try:
            recorder.folder.save(record)
        except ConfigError as error:
            if self.undo_is_required:
                raise
            words = recorder.text(record.typed_undo_command("--execute"))
            recorder.report(f"note: no record of this is kept ({error.__cause__}); to undo: {words}")
            return None
        return record

    def _write_recorded(
        self, recorder: UndoRecorder, by: ChangeRecord, record: UndoRecord, hint: str | None
    ) -> WrittenT:
        try:
            with recorder.folder.removed_if_refused(record):
                written = self.write(by)
        except BaseException as error:
            if hint is not None and recorder.folder.file(by.undo_id).exists():
                error.add_note(hint)
                recorder.report(hint)
            raise
        if self.made_at is not None:
            try:
                recorder.folder.amend(by.undo_id, made_at=self.made_at(written))
            except ConfigError as error:
                recorder.report(
                    f"note: {error}: an undo cannot distinguish what was made from the same made anew"
                )
        if hint is not None:
            recorder.report(hint)
        return written


def apply_changes(
    changes: Sequence[AdminChange[PlanT, WrittenT, OutcomeT]],
    recorder: UndoRecorder,
    *,
    wait_s: float | None = None,
) -> tuple[ChangeResult[PlanT, WrittenT, OutcomeT], ...]:
    """Applies one change after the other, each with its own undo record; then waits as `AdminChange.apply`.

    Raises PartlyDoneError, naming what was written, where one fails after others.
    """
    results: list[ChangeResult[PlanT, WrittenT, OutcomeT]] = []
    for change in changes:
        try:
            results.append(change.apply(recorder))
        except ZkGroupError as error:
            written = [one.subject for one, result in zip(changes, results, strict=False) if result.executed]
            if not written:
                raise
            raise PartlyDoneError(f"{', '.join(written)} written, then {change.subject}: {error}") from error
    if wait_s is None or not changes:
        return tuple(results)
    end_ms = changes[0].ensemble.clock.now_ms() + wait_s * 1000
    return tuple(
        replace(
            result,
            outcome=change.wait(result.written, max(0.0, end_ms - change.ensemble.clock.now_ms()) / 1000),
        )
        if result.written is not None and change.wait is not None
        else result
        for change, result in zip(changes, results, strict=True)
    )


def undo_record(**fields: Any) -> UndoRecord:
    """The fields of an `UndoRecord` that a change knows when it is planned."""
    return UndoRecord(undo_id="", time_ms=0, command="", zookeeper="", **fields)


def as_they_are(*znodes: Znode | None) -> tuple[tuple[str, bytes | None], ...]:
    """Path and data of znodes, for an undo record."""
    return tuple((znode.path, znode.data) for znode in znodes if znode is not None)


def default_undo_folder() -> UndoFolder:
    """`$XDG_STATE_HOME/zkgroup/undo`, below `~/.local/state` where the variable is not set."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return UndoFolder(Path(home) / "zkgroup" / "undo")


def zkgroup_text(words: Sequence[str]) -> str:
    """A command to type, without the options to connect."""
    return shlex.join(["zkgroup", *words])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
