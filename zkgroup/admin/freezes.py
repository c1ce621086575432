"""Freezes a group, and ends a freeze: nothing moves but by leaving and death while its marker stands.

The transaction of a freeze counts it in the data version of `owners`, which members check when they claim or
release, and wakes every member (recipes 26). For a group of Kafka's protocol it sets the group's slot: the
coordinator loads its groups again, and finds the marker. The end does the same.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zkgroup.admin.change import AdminChange, ChangePlan, undo_record
from zkgroup.admin.guards import are_gone, changed_error, transact, write
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, OperationRefusedError, RefusedError
from zkgroup.groups.coordinated import CoordinatedView
from zkgroup.groups.descriptions import FreezeDescription
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.freezes import describe_freeze, disobeying, freeze_text
from zkgroup.groups.membership import STABLE, LiveReader
from zkgroup.groups.reader import read_snapshot
from zkgroup.groups.reads import coordinated_views
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.groups.verify import expected_ownership
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.model.text import counted, duration_text, named, typed
from zkgroup.znodes.consumers import Owner, Registration, ids_path, owners_path
from zkgroup.znodes.group_records import Freeze

REASON_LENGTH_MAX: Final = 1000
FOR_MS_MAX: Final = 2**31 - 1
"""The longest freeze, as long as the longest duration of the command line."""
REQUEST_BYTES_MAX: Final = 900_000
"""Most bytes of a transaction, below ZooKeeper's limit of a request."""
OPERATION_BYTES: Final = 64
"""Bytes of an operation without its path, rounded up."""


def freeze_operations(
    group: str, freeze: Freeze, owners: Znode, owned: Iterable[TopicPartition]
) -> tuple[Operation, ...]:
    """The transaction of a freeze. `owners`: as read; `owned`: partitions that must have an owner."""
    child = Registration.path(group, f"{group}_freeze")
    return (
        *(Check(Owner.path(group, tp), -1) for tp in owned),
        Create(Freeze.path(group), freeze.encode()),
        SetData(owners.path, owners.data or b"", owners.stat.version),
        Create(child, b""),
        Delete(child, 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezePlan(ChangePlan):
    """A freeze that an operator wants, and the group as it is. Nothing has been done."""

    group: str
    """The group."""
    reason: str
    """The reason, for everybody who looks at the group."""
    for_ms: int
    """How long it would last, in milliseconds."""
    allow_takeover: bool
    """True if partitions without an owner may be claimed meanwhile."""
    members: tuple[str, ...]
    """Its members, sorted."""
    owned: tuple[TopicPartition, ...]
    """The partitions of subscribed topics that have an owner, which would keep it."""
    unowned: tuple[TopicPartition, ...]
    """Those that have none."""
    fence: Znode | None
    """The znode whose version counts the freezes, as it was read: `owners`, or the slot of a group of Kafka's
    protocol."""
    is_coordinated: bool
    """True for a group of Kafka's protocol."""
    refusal: RefusedError | None
    """The reason why the group cannot be frozen; None where it can."""


def plan_freeze(
    ensemble: Ensemble,
    group: str,
    *,
    reason: str,
    for_ms: int,
    allow_takeover: bool = False,
    live: LiveReader | None = None,
) -> FreezePlan:
    """Reads the group, and what a freeze of it would keep.

    Raises NotFoundError where there is no such group, ConfigError for a reason or a time that cannot be.
    """
    if not reason.strip():
        raise ConfigError("reason: expected some words for those who look at the group, found none")
    if len(reason) > REASON_LENGTH_MAX:
        raise ConfigError(
            f"reason: expected at most {REASON_LENGTH_MAX} characters, found {len(reason)}: every member and "
            "every command reads them"
        )
    if operator.index(for_ms) not in range(1, FOR_MS_MAX + 1):
        raise ConfigError(f"for_ms {for_ms}: expected milliseconds from 1 to {FOR_MS_MAX} (24 days)")
    snapshot = read_snapshot(ensemble, group)
    view = coordinated_views(ensemble, [snapshot], live).get(group)
    if view is None:
        topics = expected_ownership(snapshot).topics
        wanted = [TopicPartition(topic, number) for topic in topics for number in snapshot.partitions(topic)]
        owners: Container[TopicPartition] = snapshot.owners
        members = tuple(sorted(snapshot.registrations))
        fence = ensemble.zk.find(owners_path(group))
    else:
        wanted, owners = list(view.wanted), view.membership.owners
        members = tuple(sorted(member.member_id for member in view.membership.members))
        fence = view.slot.owner.znode if view.slot.owner else None
    plan = FreezePlan(
        group=group,
        as_of=snapshot.as_of,
        reason=reason.strip(),
        for_ms=for_ms,
        allow_takeover=allow_takeover,
        members=members,
        owned=tuple(sorted(tp for tp in wanted if tp in owners)),
        unowned=tuple(sorted(tp for tp in wanted if tp not in owners)),
        fence=fence,
        is_coordinated=view is not None,
        refusal=None,
    )
    return replace(plan, refusal=_refusal(plan, snapshot, view))


def _refusal(plan: FreezePlan, snapshot: GroupSnapshot, view: CoordinatedView | None) -> RefusedError | None:
    """The reason why the group cannot be frozen as it is."""
    group, where = plan.group, ids_path(plan.group)
    if snapshot.frozen is not None:
        unfreeze = f"`{typed('group unfreeze', group, options='--execute')}` ends it"
        return RefusedError(f"{Freeze.path(group)}: {freeze_text(snapshot.frozen)}; {unfreeze}")
    if view is not None and view.protocol_state != STABLE:
        found = view.protocol_state or "no answer of its coordinator"
        return RefusedError(
            f"{view.stored.path}: expected {group} to be {STABLE}, found {found}; {_wait(group)}"
        )
    if not plan.members or plan.fence is None:
        return RefusedError(f"{where}: expected members of {group} that keep partitions, found none")
    if view is not None and plan.allow_takeover:
        return RefusedError(
            f"{view.stored.path}: {group} is a group of Kafka's protocol: each assignment is made for all "
            "its members, so a takeover would move everything; freeze it without"
        )
    if view is None and (strangers := disobeying(snapshot)):
        return RefusedError(
            f"{where}: {named(strangers)} would not obey: JVM consumers, and members of earlier versions of "
            "zkgroup, do not know freezes; stop them first"
        )
    if plan.unowned and not plan.allow_takeover:
        takeover = ", or freeze it with --allow-takeover" if view is None else ""
        return RefusedError(
            f"{owners_path(group)}: expected an owner of each partition, found none of "
            f"{named(plan.unowned)}; until the end there would be none; {_wait(group)}{takeover}"
        )
    return None


def _wait(group: str) -> str:
    return f"`{typed('group verify', group, options='--wait')}` waits until it is stable"


def check_freeze(plan: FreezePlan) -> None:
    """Raises RefusedError where the group cannot be frozen."""
    if plan.refusal is not None:
        raise plan.refusal


def freeze_group(ensemble: Ensemble, plan: FreezePlan, user: str) -> int:
    """Freezes the group; the result is the end by ZooKeeper's clock, in epoch milliseconds.

    Raises what `check_freeze` raises, and ConflictError where the group has changed since it was read.
    """
    return _freeze(plan, user).until_ms(_write_freeze(ensemble, plan, user))


def _freeze(plan: FreezePlan, user: str) -> Freeze:
    return Freeze(reason=plan.reason, by=user, for_ms=plan.for_ms, allows_takeover=plan.allow_takeover)


def _write_freeze(ensemble: Ensemble, plan: FreezePlan, user: str) -> ZnodeStat:
    """Freezes the group; the result is of the marker."""
    check_freeze(plan)
    assert plan.fence is not None
    freeze = _freeze(plan, user)
    if plan.is_coordinated:
        operations: Sequence[Operation] = (
            Create(Freeze.path(plan.group), freeze.encode()),
            SetData(plan.fence.path, plan.fence.data or b"", plan.fence.stat.version),
        )
    else:
        owned = () if plan.allow_takeover else plan.owned
        operations = freeze_operations(plan.group, freeze, plan.fence, owned)
    if sum(len(each.path) + OPERATION_BYTES for each in operations) > REQUEST_BYTES_MAX:
        raise RefusedError(
            f"{owners_path(plan.group)}: {len(plan.owned)} owners are more than one transaction can check; "
            "freeze it with --allow-takeover, which checks none"
        )
    path = Freeze.path(plan.group)
    write(ensemble, operations, path, freeze.encode(), refusal=lambda error: _changed(plan.group, error))
    return ensemble.zk.read(path).stat


def _changed(group: str, error: OperationRefusedError) -> Exception:
    if error.path.startswith(f"{owners_path(group)}/"):
        return ConflictError(
            f"{error.path}: has just been released; {_wait(group)}, then run the command again"
        )
    return changed_error(error)


def freeze_group_change(ensemble: Ensemble, plan: FreezePlan) -> AdminChange[FreezePlan, int, None]:
    """Freezes a group; what is written is the end, in epoch milliseconds. Raises RefusedError.

    The undo record keeps the marker: once that has gone, another freeze of the group is not its to end.
    """
    notes = []
    made: list[ZnodeStat] = []

    def frozen(by: ChangeRecord) -> int:
        made.append(_write_freeze(ensemble, plan, by.user))
        return _freeze(plan, by.user).until_ms(made[-1])

    if plan.is_coordinated:
        notes.append("clients that join meanwhile wait for the end, or for their own deadline")
    if plan.unowned:
        notes.append(f"{counted(len(plan.unowned), 'partition')} without an owner will be claimed")
    return AdminChange(
        ensemble=ensemble,
        subject=f"group freeze {plan.group}",
        question=f"Freeze {plan.group} for {duration_text(plan.for_ms)}?",
        plan=plan,
        notes=tuple(notes),
        undo=lambda by: undo_record(
            undo_command=("group", "unfreeze", plan.group),
            left=((Freeze.path(plan.group), _freeze(plan, by.user).encode()),),
        ),
        undo_is_required=False,
        check=lambda: check_freeze(plan),
        write=frozen,
        made_at=lambda until_ms: made[-1].czxid,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfreezePlan(ChangePlan):
    """The freeze that would end. Nothing has been done."""

    group: str
    """The group."""
    frozen: FreezeDescription
    """The freeze."""
    marker: Znode
    """Its znode, as it was read."""
    fence: Znode | None
    """As in `FreezePlan`."""
    is_coordinated: bool
    """True for a group of Kafka's protocol."""


def plan_unfreeze(ensemble: Ensemble, group: str) -> UnfreezePlan:
    """Reads the freeze. Raises NotFoundError where there is no such group, or it is not frozen."""
    snapshot = read_snapshot(ensemble, group)
    frozen = describe_freeze(snapshot.frozen)
    if snapshot.frozen is None or frozen is None:
        raise NotFoundError(f"{Freeze.path(group)}: {group} is not frozen")
    view = coordinated_views(ensemble, [snapshot]).get(group)
    if view is None:
        fence = ensemble.zk.find(owners_path(group))
    else:
        fence = view.slot.owner.znode if view.slot.owner else None
    return UnfreezePlan(
        group=group,
        as_of=snapshot.as_of,
        frozen=frozen,
        marker=snapshot.frozen.znode,
        fence=fence,
        is_coordinated=view is not None,
    )


def unfreeze_group(ensemble: Ensemble, plan: UnfreezePlan) -> None:
    """Ends the freeze. Raises ConflictError where it is another one, or none, by now."""
    operations: list[Operation] = []
    if plan.fence is not None:
        path, version = plan.fence.path, plan.fence.stat.version
        is_slot = plan.is_coordinated  # its coordinator loads the group again
        operations.append(SetData(path, plan.fence.data or b"", version) if is_slot else Check(path, version))
    operations.append(Delete(plan.marker.path, -1))
    transact(ensemble, operations, lambda: are_gone(ensemble, [plan.marker]))


def unfreeze_group_change(ensemble: Ensemble, plan: UnfreezePlan) -> AdminChange[UnfreezePlan, None, None]:
    """Ends the freeze of a group."""
    return AdminChange(
        ensemble=ensemble,
        subject=f"group unfreeze {plan.group}",
        question=f"Let the partitions of {plan.group} move again?",
        plan=plan,
        no_undo="what moves then has moved; `zkgroup group freeze` again keeps the rest",
        write=lambda by: unfreeze_group(ensemble, plan),
    )
