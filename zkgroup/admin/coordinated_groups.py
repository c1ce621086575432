"""Changes of a coordinator's groups by an operator: the marker taken off, and a group deleted.

A broker that leads the slot of a group is asked. Where no live broker does, ZooKeeper is written, with the
fence of the slot set in the same transaction: a coordinator that starts meanwhile is refused, and loads again
(coordinator slots, recipes 20).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zkgroup.admin.change import AdminChange, ChangePlan
from zkgroup.admin.cluster.brokers import readable, registrations
from zkgroup.admin.guards import clients_error, write
from zkgroup.clients import coordinators
from zkgroup.clients.leaders import find_brokers
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import AuthorizationError, ConflictError, NotFoundError, OutcomeUnknownError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.group_ids import validate_group_id
from zkgroup.groups.reader import read_snapshots
from zkgroup.groups.slots import SlotView, read_slot_count, read_slots
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import Znode
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.model.text import counted, typed
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.consumers import group_path
from zkgroup.znodes.coordinated_groups import GroupHeader, ProtocolMarker, SlotOwner, slots_path
from zkgroup.znodes.deletions import in_transactions
from zkgroup.znodes.paths import zkgroup_path

ASK_MS: Final = 5_000
"""Longest wait for a coordinator that is to delete a group."""
OPERATOR: Final = -1
"""The owner of a slot that an operator has fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlan(ChangePlan):
    """The marker that would be taken off. Nothing has been."""

    group: str
    """The group."""
    slot: int
    """Its slot."""
    leader: int | None
    """The broker that led it and is not registered any more; None for none."""
    members: tuple[str, ...]
    """Ids of the stored members, which are removed from the group."""
    marker: Znode | None
    """As it was read; None for none."""
    header: Znode | None
    """The stored group without its members, as it was read; None for none, and where it has no data."""
    state: Znode | None
    """The state of the partition that is the slot, as it was read; None for none."""
    owner: Znode | None
    """The fence of the slot, as it was read; None for none."""


def plan_release(ensemble: Ensemble, group: str) -> ReleasePlan:
    """Reads who coordinated the group, and which members are stored.

    Raises NotFoundError where nothing keeps ZooKeeper consumers out, RefusedError where a live broker leads
    the slot, CorruptZnodeError where the header cannot be read.
    """
    validate_group_id(group)
    snapshot = read_snapshots(ensemble, [group])[group]
    found = snapshot.coordinated if snapshot else None
    if found is None or not found.has_members:
        raise NotFoundError(
            f"{ProtocolMarker.path(group)}: there is no marker of Kafka's group protocol: ZooKeeper "
            f"consumers can join {group}"
        )
    if found.header is not None and found.header.error is not None:
        raise found.header.error
    slot = read_slots(ensemble, [found.slot])[found.slot]
    if slot.is_led:
        raise RefusedError(
            f"{found.path}: broker {slot.leader} leads slot {slot.slot} and takes the marker off when the "
            f"last member has left; stop the members: `{typed('coordinator describe', group)}` "
            "names them"
        )
    return ReleasePlan(
        group=group,
        as_of=ensemble.as_of(),
        slot=slot.slot,
        leader=slot.leader,
        members=found.names,
        marker=found.marker.znode if found.marker else None,
        header=found.header.znode if found.header and found.header.value else None,
        state=slot.state.znode if slot.state else None,
        owner=slot.owner.znode if slot.owner else None,
    )


def release_group(ensemble: Ensemble, plan: ReleasePlan) -> None:
    """Takes the marker off, and the stored members out of the group.

    Raises ConflictError where something has changed since it was read, as a broker that leads the slot now.
    """
    ensemble.zk.create_missing(zkgroup_path(), slots_path())
    operations = list(_fence(plan.slot, plan.state, plan.owner))
    header, marker = plan.header, plan.marker
    if header is not None:
        without_members = replace(
            GroupHeader.decode(header.path, header.data),
            protocol=None,
            leader=None,
            state_timestamp_ms=ensemble.clock.wall_ms(),
            first_chunk=0,
            chunks=0,
            checksum=0,
        )
        operations.append(SetData(header.path, without_members.encode(), header.stat.version))
    if marker is not None:
        operations.append(Delete(marker.path, marker.stat.version))
    path, data, above = _mark_of(operations[-1])
    write(ensemble, operations, path, data, above)


def _mark_of(operation: Operation) -> tuple[str, bytes | None, int]:
    """Returns what shows that such a transaction was applied: a path, and its data in a version above."""
    if isinstance(operation, SetData):
        return operation.path, operation.data, operation.version
    return operation.path, None, -1


def _fence(slot: int, state: Znode | None, owner: Znode | None) -> Iterable[Operation]:
    """The operations that a coordinator which starts meanwhile notices, and that refuse if it was first."""
    epoch = -1
    if state is not None:
        yield Check(state.path, state.stat.version)
        decoded = decode_or_error(state, PartitionState.decode).value
        epoch = decoded.leader_epoch if decoded else -1
    path, data = SlotOwner.path(slot), SlotOwner(OPERATOR, epoch).encode()
    yield Create(path, data) if owner is None else SetData(path, data, owner.stat.version)


def stored_znodes(ensemble: Ensemble, group: str) -> tuple[Znode, ...]:
    """Returns what the slot of a group has of it, parents first; empty for nothing."""
    slots = read_slot_count(ensemble)
    if slots is None:
        return ()
    found: list[Znode] = []
    level = [GroupHeader.path(slot_of(group, slots), group)]
    while level:
        znodes = [znode for znode in ensemble.zk.read_many(level).values() if znode is not None]
        found += sorted(znodes)
        listed = ensemble.zk.list_many([znode.path for znode in znodes])
        level = [f"{znode.path}/{name}" for znode in znodes for name in sorted(listed[znode.path] or ())]
    return tuple(found)


def delete_stored_group(ensemble: Ensemble, group: str) -> int:
    """Deletes what the slot of a group has of it, and returns the number of znodes.

    The broker that leads the slot is asked to; where no live one does, the znodes are deleted behind a fence.
    Raises RefusedError where the group has members, ConflictError where the broker cannot do it now or
    something has changed, OutcomeUnknownError where the broker does not answer.
    """
    snapshot = read_snapshots(ensemble, [group])[group]
    found = snapshot.coordinated if snapshot else None
    if found is not None and found.has_members:
        raise clients_error(group, found.names)
    znodes = stored_znodes(ensemble, group)
    slots = read_slot_count(ensemble)
    if not znodes or slots is None:
        return 0
    number = slot_of(group, slots)
    slot = read_slots(ensemble, [number])[number]
    if slot.is_led:
        assert slot.leader is not None
        _ask_coordinator(ensemble, group, slot.leader)
    else:
        _delete_behind_fence(ensemble, slot, list(reversed(znodes)))
    return len(znodes)


def _ask_coordinator(ensemble: Ensemble, group: str, leader: int) -> None:
    broker = find_brokers(readable(registrations(ensemble)), ensemble.access).get(leader)
    if broker is None:
        raise ConflictError(f"{group_path(group)}: broker {leader} has just gone; run the command again")
    answer = coordinators.delete_group(broker, group, ASK_MS)
    if isinstance(answer, str):
        raise OutcomeUnknownError(
            f"{group_path(group)}: broker {leader}, its coordinator, was asked to delete it: {answer}"
        )
    if answer == ErrorCode.NON_EMPTY_GROUP:
        raise clients_error(group, ())
    if answer == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        raise AuthorizationError(
            f"{group_path(group)}: {AuthorizationError.WORDS}: broker {leader}, which coordinates {group}, "
            "does not let the user delete it; `zkgroup acl add --operation delete --group "
            f"{shlex.quote(group)}` gives the right"
        )
    if answer not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise ConflictError(
            f"{group_path(group)}: broker {leader}, which coordinates {group}, does not delete it now: "
            f"{ErrorCode(answer).name}; run the command again"
        )


def _delete_behind_fence(ensemble: Ensemble, slot: SlotView, leaves_first: Sequence[Znode]) -> None:
    ensemble.zk.create_missing(zkgroup_path(), slots_path())
    state = slot.state.znode if slot.state else None
    owner = slot.owner.znode if slot.owner else None
    guard = list(_fence(slot.slot, state, owner))
    version = 0 if slot.owner is None else slot.owner.stat.version + 1
    done = 0
    for paths in in_transactions([znode.path for znode in leaves_first]):
        batch = leaves_first[done : done + len(paths)]
        done += len(paths)
        deletes: list[Operation] = [Delete(znode.path, znode.stat.version) for znode in batch]
        write(ensemble, [*guard, *deletes], paths[-1], None)
        guard = [Check(SlotOwner.path(slot.slot), version)]


def release_group_change(ensemble: Ensemble, plan: ReleasePlan) -> AdminChange[ReleasePlan, None, None]:
    """Takes the marker of Kafka's group protocol off where no live broker leads the group's slot."""
    group = plan.group
    members = counted(len(plan.members), "stored member")
    return AdminChange(
        ensemble=ensemble,
        subject=f"coordinator release {group}",
        question=f"Take {members} out of {group}, and let ZooKeeper consumers join it?",
        plan=plan,
        no_undo="the members that it takes out of the group join again when a broker coordinates it",
        write=lambda by: release_group(ensemble, plan),
    )
