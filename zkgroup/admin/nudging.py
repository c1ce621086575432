"""Nudges a group: every member looks at the group again, and nothing else changes.

For a JVM member that has given up claiming and waits for an event that may never come (KAFKA-4228): it is
registered and idle. A child of `ids` is created and deleted in one transaction, so every watch on `ids`
fires and nobody can read the child. The generation grows; the assignment has no reason to change.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.errors import ConflictError, NotFoundError, OperationRefusedError, RefusedError
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.znodes.consumers import Registration, group_path, ids_path, views_path
from zkgroup.znodes.ids import validate_group

NUDGE_EVERY_MS = 10_000
"""A group is not nudged again before: each nudge costs a JVM member all its partitions for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NudgePlan:
    """Whom a nudge would reach. Nothing has been done."""

    group: str
    as_of: AsOf
    members: tuple[str, ...]
    views_version: int
    """Data version of `views`, which counts the nudges; -1 where it is not there yet."""
    last_ms: int | None
    """Wall time of the last nudge; None: never."""


def plan_nudge(ensemble: Ensemble, group: str) -> NudgePlan:
    """Reads who would look again. Raises NotFoundError where the group has no members."""
    validate_group(group)
    ensemble.zk.sync("/")
    members = ensemble.zk.list_many([ids_path(group)])[ids_path(group)]
    if not members:
        found = "no group of this name" if members is None else "no member"
        raise NotFoundError(f"{group_path(group)}: expected members to nudge, found {found}")
    views = ensemble.zk.find(views_path(group))
    version = -1 if views is None else views.stat.version
    return NudgePlan(
        group=group,
        as_of=ensemble.as_of(),
        members=tuple(sorted(members)),
        views_version=version,
        last_ms=views.stat.mtime if views is not None and version > 0 else None,
    )


def nudge(ensemble: Ensemble, plan: NudgePlan) -> None:
    """Makes every member look again.

    Raises RefusedError within `NUDGE_EVERY_MS` of the last nudge, ConflictError where another one, or the
    end of the group, came between.
    """
    now_ms = ensemble.clock.wall_ms()
    if plan.last_ms is not None and abs(now_ms - plan.last_ms) < NUDGE_EVERY_MS:
        raise RefusedError(
            f"{views_path(plan.group)}: group {plan.group} was nudged less than {NUDGE_EVERY_MS // 1000} s "
            "ago; its members need that time to settle"
        )
    if plan.views_version < 0:
        ensemble.zk.create_missing(views_path(plan.group))
    try:
        ensemble.zk.multi(*nudge_operations(plan.group, max(plan.views_version, 0)))
    except OperationRefusedError as error:
        raise ConflictError(
            f"{error.path}: changed since it was read ({error.code}); somebody else nudged the group, or it "
            f"was deleted: see `zkgroup group describe {plan.group}`"
        ) from error


def nudge_operations(group: str, views_version: int) -> tuple[Operation, ...]:
    """The transaction of a nudge; `views` must exist, in this data version."""
    child = Registration.path(group, f"{group}_nudge")
    return SetData(views_path(group), b"", views_version), Create(child, b""), Delete(child, 0)
