"""Plans that undo a recorded change: offsets written again, or znodes created again where they are gone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zkgroup.admin.access import access_change, plan_access
from zkgroup.admin.acls import AclPlan, undo_acl_change
from zkgroup.admin.change import AdminChange, undo_record
from zkgroup.admin.cluster.controller import has_controller
from zkgroup.admin.configs import ConfigPlan, alter_config_change, entity_named, plan_config
from zkgroup.admin.files import parse_reassignment
from zkgroup.admin.freezes import plan_unfreeze, unfreeze_group_change
from zkgroup.admin.group_access import GroupRights, group_access_change, plan_group_access
from zkgroup.admin.group_copies import plan_rename, rename_group_change
from zkgroup.admin.offsets.changes import OffsetsChange, offset_change
from zkgroup.admin.offsets.planning import NONE, OffsetChange, OffsetPlan, plan_values
from zkgroup.admin.persistent import plan_removal, remove_persistent_change
from zkgroup.admin.reassign.cancellation import Execution, cancel_reassignments_change, plan_cancel
from zkgroup.admin.reassign.execution import reassign_change
from zkgroup.admin.reassign.stored_plans import cancel_plan_change, resume_plan_change
from zkgroup.admin.reassign.submission import plan_reassignment, topics_named
from zkgroup.admin.topics.deletion import delete_topic_change, plan_topic_deletion, texts_of_lists
from zkgroup.admin.undo_records import UndoFolder, UndoRecord
from zkgroup.admin.users import undo_user_change
from zkgroup.errors import (
    ConfigError,
    ConflictError,
    OperationRefusedError,
    PartlyDoneError,
    RefusedError,
    ZkGroupError,
)
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.reader import snapshot_or_empty
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import Znode
from zkgroup.model.requests import Create
from zkgroup.model.text import counted, named, typed
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.config import EntityKind
from zkgroup.znodes.consumers import Offset
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.sessions import effect_without_session

ZNODES_AT_ONCE = 500

NO_UNDO_COMMAND = "no command removes only what is restored here"


@dataclass(frozen=True, slots=True)
class Restoration:
    """Znodes that would be created again. Nothing has been."""

    as_of: AsOf
    missing: tuple[tuple[str, bytes | None], ...]
    """Path and data, parents first."""

    @property
    def undo_command(self) -> tuple[str, ...]:
        """The command that removes again what is restored: a topic, a request for moves, or znodes of
        sessions, which come back as persistent ones. Or none."""
        for path, _ in self.missing:
            parent, _, name = path.rpartition("/")
            if parent == topics_path():
                return "topic", "delete", name
            if path == Reassignment.path():
                return "reassign", "cancel"
            if effect_without_session(path) is not None:
                return "doctor", "--fix"
        return ()

    @property
    def no_undo(self) -> str | None:
        """The reason why there is none."""
        return None if self.undo_command else NO_UNDO_COMMAND


def plan_undo(ensemble: Ensemble, record: UndoRecord, *, force: bool = False) -> OffsetPlan:
    """The plan that puts the offsets of a record back.

    Offset znodes get the very bytes that they had; those that the change created are deleted, and what it
    created above them where nothing else is there. Raises ConflictError where one is neither as the change
    left it nor as it was before, unless forced: something else has changed it since. Raises RefusedError for
    bytes that are no offset where the group has members, whose owners could not obey them.
    """
    assert record.group is not None
    snapshot = snapshot_or_empty(ensemble, record.group, sorted({tp.topic for tp in record.offsets}))
    values = {tp: before for tp, (before, _) in record.offsets.items()}
    plan = plan_values(snapshot, values, record.originals, allow_missing=True)
    if record.created:
        plan = _without_created(plan, record)
    moved = []
    for change in plan.changes:
        tp = change.topic_partition
        before, after = record.offsets[tp]
        now = _held_now(change)
        is_left = now == after or (after == NONE and change.before is None)
        if change.changes and now != before and not is_left:
            moved.append(f"{tp} is at {now}, was left at {after}")
        elif change.removes and change.version:
            moved.append(f"{tp} is at {now} as it was left, but was written since")
    if moved and not force:
        raise ConflictError(
            f"offsets of {record.group} have moved since {record.undo_id}: {named(moved, 3, '; ')}; "
            "--force puts them back all the same"
        )
    if plan.members:
        _refuse_offsets_of_members(plan)
    return plan


def _without_created(plan: OffsetPlan, record: UndoRecord) -> OffsetPlan:
    """The plan, with offsets that the change made deleted instead of written; a made one has version 0.

    In a group with members they are only set back to -1: the version of an owner's offset is its fence.
    """
    made = [
        change
        for change in plan.changes
        if change.topic_partition in record.created and change.version is not None
    ]
    others = [change for change in plan.changes if change.topic_partition not in record.created]
    if plan.members:
        stay = named(change.topic_partition for change in made)
        notes = (f"{plan.group} has members, so the created offsets stay, as -1: {stay}",) if made else ()
        return replace(plan, changes=_in_order([*others, *made]), notes=(*plan.notes, *notes))
    made = [replace(change, removes=True, exactly=None) for change in made]
    return replace(plan, changes=_in_order([*others, *made]), sweep=record.parents)


def _in_order(changes: Sequence[OffsetChange]) -> tuple[OffsetChange, ...]:
    return tuple(sorted(changes, key=lambda change: change.topic_partition))


def _held_now(change: OffsetChange) -> int | str:
    if change.before is not None:
        return change.before
    return NONE if change.original is None else repr(change.original)


def _refuse_offsets_of_members(plan: OffsetPlan) -> None:
    for change in plan.effective:
        if change.exactly is not None and change.after == NONE:
            raise RefusedError(
                f"{Offset.path(plan.group, change.topic_partition)}: held {change.exactly!r} before, which "
                f"is no offset, and {plan.group} has members: stop them first"
            )


def check_untouched(ensemble: Ensemble, record: UndoRecord) -> None:
    """Raises ConflictError where what the change left has been changed since.

    What it left is compared byte by byte. ACLs may also be as they were before: the command was killed before
    it wrote them. Partitions that it moved have to be where it asked them to be; while a reassignment runs,
    that cannot be said yet.
    """
    ensemble.zk.sync("/")
    found = ensemble.zk.read_many([path for path, _ in record.left])
    before = dict(record.znodes)
    for path, data in record.left:
        znode = found[path]
        is_unwritten = record.is_of_acls and (znode and znode.data) == before.get(path)
        if not is_unwritten and not _is_as_left(znode, data, record.made_at):
            raise ConflictError(f"{path}: has changed since {record.undo_id}; --force undoes it all the same")
    if not record.targets or ensemble.zk.exists(Reassignment.path()) is not None:
        return
    topics = topics_named(ensemble, sorted({tp.topic for tp in record.targets}))
    for tp, replicas in sorted(record.targets.items()):
        now = topics[tp.topic].partitions.get(tp.partition) if tp.topic in topics else None
        if now != replicas:
            raise ConflictError(
                f"{Topic.path(tp.topic)}: {tp} is on {list(now or ())}, {record.undo_id} asked for "
                f"{list(replicas)}; --force moves it back all the same"
            )


def _is_as_left(znode: Znode | None, data: bytes | None, made_at: int | None) -> bool:
    """True if it is that znode, with the data that the change left; to a topic a controller may add an id."""
    if znode is None or (made_at is not None and znode.stat.czxid != made_at):
        return False
    if (znode.data or b"") == (data or b""):
        return True
    if znode.path.rpartition("/")[0] != topics_path():
        return False
    now = decode_or_error(znode, Topic.decode).value
    return now is not None and replace(now, topic_id=None, version=1) == Topic.decode(znode.path, data)


def plan_restoration(ensemble: Ensemble, record: UndoRecord) -> Restoration:
    """The znodes of the record that are gone and would be created again.

    Raises ConflictError where one exists with other data: another program made it. Raises RefusedError
    beside a living controller for a topic whose partitions had leaders: Kafka's controller (0.8.2.2,
    `PartitionStateMachine.initializeLeaderAndIsrForPartition`) fails at partition states that it has not
    made, and the topic would never be led.
    """
    found = ensemble.zk.read_many([path for path, _ in record.znodes])
    missing = []
    for path, data in record.znodes:
        present = found[path]
        if present is None:
            missing.append((path, data))
        elif (present.data or b"") != (data or b""):
            raise ConflictError(
                f"{path}: expected it gone or as it was, found other data; nothing was changed"
            )
    _refuse_beside_a_controller(ensemble, missing)
    return Restoration(ensemble.as_of(), tuple(missing))


def _refuse_beside_a_controller(ensemble: Ensemble, missing: Sequence[tuple[str, bytes | None]]) -> None:
    led = {path.split("/")[3] for path, _ in missing if path.endswith("/state")}
    if not led or not has_controller(ensemble):
        return
    hints = []
    for path, data in missing:
        topic = path.rpartition("/")[2]
        if topic in led and path == Topic.path(topic):
            lists = texts_of_lists(Topic.decode(path, data))
            create = typed("topic create", topic, options=f"--replica-assignment {lists}")
            hints.append(f"; `{create}` creates it again, empty")
    raise RefusedError(
        f"{ControllerRegistration.path()}: expected no controller, found one, which would fail at partitions "
        f"of {', '.join(sorted(led))} that it has not made itself{''.join(hints)}"
    )


def restore_znodes(ensemble: Ensemble, plan: Restoration) -> None:
    """Creates the znodes of the plan.

    Raises ConflictError where one has been created since, PartlyDoneError when that happens after the first
    of several transactions.
    """
    for start in range(0, len(plan.missing), ZNODES_AT_ONCE):
        batch = plan.missing[start : start + ZNODES_AT_ONCE]
        try:
            ensemble.zk.multi(*(Create(path, data) for path, data in batch))
        except ZkGroupError as error:
            message = str(error)
            if isinstance(error, OperationRefusedError):
                message = f"{error.path}: changed since it was read ({error.code}); run again"
            if start:
                raise PartlyDoneError(
                    f"{start} of {len(plan.missing)} znodes are created, then: {message}"
                ) from error
            if isinstance(error, OperationRefusedError):
                raise ConflictError(message) from error
            raise


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
    if record.user is not None:
        return undo_credentials_change(ensemble, record, force=force)
    if record.is_of_acls:
        return undo_acls_change(ensemble, record, force=force)
    if record.group is None:
        return restoration_change(ensemble, record)
    return undo_offsets_change(ensemble, record, force=force)


def undo_credentials_change(
    ensemble: Ensemble, record: UndoRecord, *, force: bool = False
) -> AdminChange[ConfigPlan, None, None]:
    """Gives a user the credentials of a record again. Raises ConflictError as `undo_change` does."""
    if not force:
        check_untouched(ensemble, record)
    return undo_user_change(ensemble, record)


def undo_acls_change(
    ensemble: Ensemble, record: UndoRecord, *, force: bool = False
) -> AdminChange[AclPlan, None, None]:
    """Brings the ACLs of a record back. Raises ConflictError as `undo_change` does."""
    if not force:
        check_untouched(ensemble, record)
    return undo_acl_change(ensemble, record)


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


def _change_of_command(ensemble: Ensemble, words: Sequence[str]) -> AdminChange[Any, Any, Any]:  # noqa: C901 - one case a command
    """The change that the command of an undo record makes; records hold no other commands."""
    match list(words):
        case ["group", "rename", group, to]:
            return rename_group_change(ensemble, plan_rename(ensemble, group, to))
        case ["topic", "delete", topic]:
            return delete_topic_change(ensemble, plan_topic_deletion(ensemble, topic))
        case ["reassign", "execute", "--reassignment-json-file", file]:
            return reassign_change(ensemble, plan_reassignment(ensemble, _moves_of(file)))
        case ["group", "unfreeze", group]:
            return unfreeze_group_change(ensemble, plan_unfreeze(ensemble, group))
        case ["doctor", "--fix"]:
            return remove_persistent_change(ensemble, plan_removal(ensemble))
        case ["reassign", "cancel"]:
            return cancel_reassignments_change(ensemble, plan_cancel(ensemble))
        case ["plan", "cancel", plan_id]:
            return cancel_plan_change(ensemble, plan_id)
        case ["plan", "resume", plan_id] | ["reassign", "plan", "--resume", plan_id]:
            return resume_plan_change(ensemble, plan_id)
        case ["zookeeper", "secure"]:
            return access_change(ensemble, plan_access(ensemble, "closed"))
        case ["zookeeper", "open"]:
            return access_change(ensemble, plan_access(ensemble, "open"))
        case ["acl", "zookeeper", "apply", group, *options]:
            rights = GroupRights.from_options(options)
            return group_access_change(ensemble, plan_group_access(ensemble, group, rights))
        case ["config", "alter", *options]:
            return _config_of_command(ensemble, options)
    raise ConfigError(f"undo record: no change is known for the command {shlex.join(words)!r}")


def _config_of_command(ensemble: Ensemble, options: Sequence[str]) -> AdminChange[ConfigPlan, None, None]:
    """The change of `config alter` with the options that `config_undo` writes."""
    values: dict[str, list[str]] = {}
    flags = set()
    rest = list(options)
    while rest:
        option = rest.pop(0)
        if option in ("--entity-default", "--client-default", "--delete-empty", "--allow-unknown"):
            flags.add(option)
        else:
            values.setdefault(option, []).append(rest.pop(0))
    kind: EntityKind = values["--entity-type"][0]  # type: ignore[assignment] # written by `config_undo`
    name = None if "--entity-default" in flags else values["--entity-name"][0]
    entity = entity_named(
        kind, name, values.get("--client", [None])[0], client_default="--client-default" in flags
    )
    settings = dict(pair.split("=", 1) for pair in values.get("--set", []))
    plan = plan_config(
        ensemble,
        entity,
        settings,
        values.get("--delete-config", []),
        allow_unknown="--allow-unknown" in flags,
        delete_empty="--delete-empty" in flags,
    )
    return alter_config_change(ensemble, plan)
