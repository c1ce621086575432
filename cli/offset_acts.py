"""Changes of offsets carried out: preview, consent, undo file, transactions, report."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.guards import living_group_error
from zkgroup.admin.offset_plans import OffsetPlan
from zkgroup.admin.offsets import apply_plan, missing_parents
from zkgroup.admin.undo import UndoRecord
from zkgroup.admin.undoing import plan_restoration, plan_undo, restore_znodes
from zkgroup.errors import PartlyDoneError, RefusedError, ZkGroupError

from . import documents, offset_tables
from .connection import target
from .consent import is_wanted, new_act, say_way_back, undo_folder
from .frame import shared
from .output import Output, say
from .units import counted


def carry_out(
    ensemble: Ensemble,
    out: Output,
    plans: Sequence[OffsetPlan],
    *,
    force: bool,
    execute: bool,
    yes: bool,
) -> None:
    """Shows the plans, and with consent writes them, the undo files first.

    Raises RefusedError for a group with members unless forced, before anything is shown as possible; where
    offsets would be deleted, forced as well.
    """
    for plan in plans:
        removes = any(change.removes for change in plan.effective)
        if plan.members and (removes or not force):
            error = living_group_error(plan.group, plan.members)
            raise error if removes else type(error)(f"{error}, or --force: their owners then obey")
        for note in plan.notes:
            say(f"note: {note}")
    count = sum(len(plan.effective) for plan in plans)
    groups = ", ".join(plan.group for plan in plans)
    wanted = bool(count) and is_wanted(
        execute,
        yes,
        f"Change {counted(count, 'offset')} of {groups}?",
        lambda aside: offset_tables.plan(aside, plans, executed=False),
    )
    undo_ids = _write_all(ensemble, plans, force=force) if wanted else [None] * len(plans)
    _report(out, plans, undo_ids, executed=wanted)


def undo_record(
    ensemble: Ensemble,
    out: Output,
    undo_id: str | None,
    *,
    force: bool,
    execute: bool,
    yes: bool,
) -> None:
    """Shows what a record would put back, and with consent does."""
    folder, where = undo_folder(), target(shared()).zookeeper
    record = folder.load(undo_id) if undo_id else folder.newest(lambda one: one.zookeeper == where)
    if undo_id is None:
        say(f"the last act on {where}: {record.undo_id}, `{record.command}`")
    if record.zookeeper != where:
        say(f"note: {record.undo_id} was done on {record.zookeeper}, this is {where}")
    if record.way_back is not None:
        raise RefusedError(f"{record.undo_id}, `{record.command}`: {record.way_back}")
    if record.group is None:
        _restore(ensemble, out, record, execute=execute, yes=yes)
    else:
        plan = plan_undo(ensemble, record, force=force)
        carry_out(ensemble, out, [plan], force=force, execute=execute, yes=yes)


def _restore(ensemble: Ensemble, out: Output, record: UndoRecord, *, execute: bool, yes: bool) -> None:
    """Creates the znodes of a record again where they are gone, with consent."""
    plan = plan_restoration(ensemble, record)
    paths = [path for path, _ in plan.missing]
    count = counted(len(paths), "znode")
    named = f"again {count}: {', '.join(paths[:3])}" + (" ..." if len(paths) > 3 else "")
    wanted = bool(paths) and is_wanted(
        execute, yes, f"Create {count} again?", lambda aside: aside.line(f"would create {named}")
    )
    if wanted:
        restore_znodes(ensemble, plan)
    document = documents.document(
        "restoration", plan.as_of, undone=record.undo_id, executed=wanted, znodes=paths
    )
    if out.document(document):
        return
    if not paths:
        out.line("every znode is there already: nothing to create")
    else:
        out.line(f"{'created' if wanted else 'would create'} {named}")


def _write_all(ensemble: Ensemble, plans: Sequence[OffsetPlan], *, force: bool) -> list[str | None]:
    undo_ids: list[str | None] = []
    for plan in plans:
        try:
            undo_ids.append(_write(ensemble, plan, force=force) if plan.effective else None)
        except ZkGroupError as error:
            written = [one.group for one, undo_id in zip(plans, undo_ids, strict=False) if undo_id]
            if not written:
                raise
            raise PartlyDoneError(f"{', '.join(written)} written, then {plan.group}: {error}") from error
    return undo_ids


def _write(ensemble: Ensemble, plan: OffsetPlan, *, force: bool) -> str:
    act, parents = new_act(), missing_parents(ensemble, plan)
    record = UndoRecord(
        undo_id=act.undo_id,
        time_ms=ensemble.clock.wall_ms(),
        command=act.command,
        zookeeper=target(shared()).zookeeper,
        group=plan.group,
        offsets={
            change.topic_partition: (-1 if change.before is None else change.before, change.after)
            for change in plan.effective
        },
        created=frozenset(change.topic_partition for change in plan.effective if change.version is None),
        parents=parents,
        originals={
            change.topic_partition: change.original
            for change in plan.effective
            if change.original is not None
        },
    )
    undo_folder().save(record)
    say_way_back(act.undo_id, force=bool(plan.members))
    apply_plan(ensemble, plan, act, force=force, parents=parents)
    return act.undo_id


def _report(
    out: Output, plans: Sequence[OffsetPlan], undo_ids: Sequence[str | None], *, executed: bool
) -> None:
    if out.is_table:
        offset_tables.plan(out, plans, executed=executed)
        return
    shown = [
        documents.offset_changes(plan.as_of, plan.group, plan.changes, executed=executed, undo=undo)
        for plan, undo in zip(plans, undo_ids, strict=True)
    ]
    if out.format == "json":
        many = documents.document("offset_changes_list", plans[-1].as_of, groups=shown)
        whole = shown[0] if len(shown) == 1 else many
        out.document(whole)
        return
    rows = [{"group": one["group"], **row} for one in shown for row in one["changes"]]
    out.document({"changes": rows}, "changes", offset_tables.CHANGE_KEYS)
