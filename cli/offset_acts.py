"""Changes of offsets carried out: preview, consent, undo file, transactions, report."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.guards import living_group_error
from zkgroup.admin.offset_plans import OffsetPlan
from zkgroup.admin.offsets import apply_plan, missing_parents
from zkgroup.errors import PartlyDoneError, ZkGroupError

from . import documents, offset_tables
from .consent import is_wanted, recorded
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
    changes, parents = plan.effective, missing_parents(ensemble, plan)
    before = {
        change.topic_partition: (-1 if change.before is None else change.before, change.after)
        for change in changes
    }
    originals = {change.topic_partition: change.original for change in changes if change.original is not None}
    with recorded(
        ensemble,
        force=bool(plan.members),
        group=plan.group,
        offsets=before,
        created=frozenset(change.topic_partition for change in changes if change.version is None),
        parents=parents,
        originals=originals,
    ) as act:
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
