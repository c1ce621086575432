"""Undoing a recorded change: the kind of change follows from its undo record."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from zkgroup.admin.changes.change import (
    AdminChange,
    counted,
    undo_record,
)
from zkgroup.admin.changes.cluster import remove_persistent_change
from zkgroup.admin.changes.offsets import OffsetsChange, offset_change
from zkgroup.admin.changes.reassign import (
    cancel_plan_change,
    cancel_reassignments_change,
    reassign_change,
    resume_plan_change,
)
from zkgroup.admin.changes.topics import alter_config_change, delete_topic_change, entity_named
from zkgroup.admin.configs import ConfigPlan
from zkgroup.admin.files import parse_reassignment
from zkgroup.admin.reassign.cancellation import Execution
from zkgroup.admin.undo import (
    Restoration,
    check_untouched,
    plan_restoration,
    plan_undo,
    restore_znodes,
)
from zkgroup.admin.undo_records import (
    UndoFolder,
    UndoRecord,
)
from zkgroup.errors import ConfigError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.znodes.admin_requests import Move
from zkgroup.znodes.config import EntityKind


def undo_change(ensemble: Ensemble, record: UndoRecord, *, force: bool = False) -> AdminChange[Any, Any, Any]:
    """Undoes a recorded change: the kind of change follows from the record.

    Raises RefusedError for one that cannot be undone, ConflictError where what it left has changed since,
    unless forced.
    """
    if record.no_undo is not None:
        raise RefusedError(f"{record.undo_id}, `{record.command}`, cannot be undone: {record.no_undo}")
    if record.undo_command:
        if not force:
            check_untouched(ensemble, record)
        return _change_of_command(ensemble, record.undo_command)
    if record.group is None:
        return restoration_change(ensemble, record)
    return undo_offsets_change(ensemble, record, force=force)


def undo_offsets_change(ensemble: Ensemble, record: UndoRecord, *, force: bool = False) -> OffsetsChange:
    """Puts the offsets of a record back. Raises as `plan_undo` and `offset_change` do."""
    plan = plan_undo(ensemble, record, force=force)
    return offset_change(ensemble, plan, subject=f"undo {record.undo_id}", force=force)


def restoration_change(ensemble: Ensemble, record: UndoRecord) -> AdminChange[Restoration, None, None]:
    """Creates the znodes of a record again where they are gone. Raises as `plan_restoration` does."""
    plan = plan_restoration(ensemble, record)
    return AdminChange(
        ensemble=ensemble,
        subject=f"undo {record.undo_id}",
        question=f"Create {counted(len(plan.missing), 'znode')} again?",
        plan=plan,
        is_effective=bool(plan.missing),
        no_undo=plan.no_undo if plan.missing else None,
        undo=undo_record(undo_command=plan.undo_command, no_undo=plan.no_undo),
        write=lambda by: restore_znodes(ensemble, plan),
    )


def executions(folder: UndoFolder, zookeeper: str) -> Iterable[Execution]:
    """Reassignments of this ensemble that have an undo record here, the latest first.

    One whose rollback file is gone or unreadable is left out. Raises ConfigError at an unreadable record.
    """
    for record in folder.latest_first():
        if record.rollback_file is None or record.zookeeper != zookeeper:
            continue
        try:
            moves = _moves_of(record.rollback_file)
        except ConfigError:
            continue
        before = {move.topic_partition: move.replicas for move in moves}
        yield Execution(record.rollback_file, before, record.targets)


def _moves_of(file: str) -> Sequence[Move]:
    try:
        return parse_reassignment(file, Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: the rollback file cannot be read: {error}") from error


def _change_of_command(ensemble: Ensemble, words: Sequence[str]) -> AdminChange[Any, Any, Any]:
    """The change that the command of an undo record makes; records hold no other commands."""
    match list(words):
        case ["topic", "delete", topic]:
            return delete_topic_change(ensemble, topic)
        case ["reassign", "execute", "--reassignment-json-file", file]:
            return reassign_change(ensemble, _moves_of(file))
        case ["doctor", "--fix"]:
            return remove_persistent_change(ensemble)
        case ["reassign", "cancel"]:
            return cancel_reassignments_change(ensemble)
        case ["plan", "cancel", plan_id]:
            return cancel_plan_change(ensemble, plan_id)
        case ["plan", "resume", plan_id] | ["reassign", "plan", "--resume", plan_id]:
            return resume_plan_change(ensemble, plan_id)
        case ["config", "alter", *options]:
            return _config_of_command(ensemble, options)
    raise ConfigError(f"undo record: no change is known for the command {shlex.join(words)!r}")


def _config_of_command(ensemble: Ensemble, options: Sequence[str]) -> AdminChange[ConfigPlan, None, None]:
    """The change of `config alter` with the options that `_config_undo` writes."""
    values: dict[str, list[str]] = {}
    flags = set()
    rest = list(options)
    while rest:
        option = rest.pop(0)
        if option in ("--entity-default", "--client-default", "--delete-empty", "--allow-unknown"):
            flags.add(option)
        else:
            values.setdefault(option, []).append(rest.pop(0))
    kind: EntityKind = values["--entity-type"][0]  # type: ignore[assignment] # written by `_config_undo`
    name = None if "--entity-default" in flags else values["--entity-name"][0]
    entity = entity_named(
        kind, name, values.get("--client", [None])[0], client_default="--client-default" in flags
    )
    settings = dict(pair.split("=", 1) for pair in values.get("--set", []))
    return alter_config_change(
        ensemble,
        entity,
        settings,
        values.get("--delete-config", []),
        allow_unknown="--allow-unknown" in flags,
        delete_empty="--delete-empty" in flags,
    )
