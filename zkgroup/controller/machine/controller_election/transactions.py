"""The transactions of an election, and what its reads mean, as values (fenced elections: recipes 13, 14).

Kept apart and pure, so that a test can put them beside the operations of the exhaustive model
(`tests/programs/model/controller`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from enum import Enum
from typing import Final, NamedTuple

from zkgroup.controller.machine.fenced_writes import CONTROLLER_VERSION, Fence
from zkgroup.controller.machine.settings import ControllerAddress
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Check, Create, Delete, Operation, Outcome, Read, SetData
from zkgroup.runtime.procedures import Procedure, Query, read_done
from zkgroup.znodes.brokers import ZKGROUP_KEY, BrokerRegistration, broker_ids_path, brokers_path
from zkgroup.znodes.controller import (
    ControllerEpoch,
    ControllerRecord,
    ControllerRegistration,
    ResignRequest,
    controller_history_path,
    controller_state_path,
)
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.znodes.stray_replicas import unhosted_topics_path

NO_EPOCH = -1
"""Stands for the version of a `/controller_epoch` that does not exist."""


class ElectorState(Enum):
    """The state of an elector."""

    UNKNOWN = "unknown"
    WATCHING = "watching"
    VACANT = "vacant"
    GRACE = "grace"
    ELECTING = "electing"
    ACTIVE = "active"

    @property
    def is_waiting(self) -> bool:
        """Returns whether nothing is to be done until something changes."""
        return self in (ElectorState.WATCHING, ElectorState.ACTIVE)


class Predecessor(NamedTuple):
    """The `/controller` that was read last, and the epoch's version as read before it."""

    czxid: int
    session: int
    broker: int | None
    """None where it cannot be read."""
    is_real: bool
    """Created by a broker of Kafka, which never sets it; zkgroup sets it once."""
    epoch_version: int


NO_PREDECESSOR = Predecessor(0, 0, None, False, 0)
"""Before anything was read: as after the making of `/controller_epoch`. Any other version means that
another controller was active that this elector never read."""


class ElectionAttempt(NamedTuple):
    """The basis of one attempt."""

    epoch: int
    """As read after `/controller` went; the attempt is for the next one."""
    version: int
    foreign_epoch: int

    @property
    def fence(self) -> Fence:
        """Of the controller that this attempt makes."""
        return Fence(self.epoch + 1, self.version + 1)


class WonElection(NamedTuple):
    fence: Fence
    czxid: int
    record: ControllerRecord
    record_version: int
    foreign_epoch: int


def predecessor_of(controller: Znode, epoch: Znode | None) -> Predecessor:
    """Facts about a `/controller`; `epoch` was read before it, so that no change in between is missed."""
    try:
        broker = ControllerRegistration.decode(controller.path, controller.data).broker
    except CorruptZnodeError:
        broker = None
    stat = controller.stat
    return Predecessor(
        czxid=stat.czxid,
        session=stat.ephemeral_owner,
        broker=broker,
        is_real=stat.version != CONTROLLER_VERSION,
        epoch_version=NO_EPOCH if epoch is None else epoch.stat.version,
    )


def why_elected(predecessor: Predecessor) -> str:
    """The reason of an election for its record, where this controller was not active before."""
    return (
        "started"
        if predecessor.broker is None
        else f"broker {predecessor.broker} is no longer the controller"
    )


def needs_grace(
    predecessor: Predecessor, epoch: Znode, record: Znode | None, registration: Znode | None
) -> bool:
    """Returns whether a controller of Kafka, which cannot be fenced, may still be writing.

    A real controller whose `/controller` was deleted, and that sees another one instead, does not resign
    (replaced controller goes on, K1); nor is one noticed that won, and lost, between two reads. Where the
    epoch and its record were written in one transaction, the last controller was one of zkgroup: it is
    fenced, and it has waited, if that was necessary, for the ones before it.

    Args:
        record: that of the epoch, where another controller than the predecessor has ruled.
        registration: of the predecessor's broker, if it is a real one.
    """
    is_zkgroups = record is not None and record.stat.czxid == epoch.stat.mzxid
    if epoch.stat.version != predecessor.epoch_version and not is_zkgroups:
        return True
    if not predecessor.is_real:
        return False
    if predecessor.broker is None:
        return True
    return registration is not None and registration.stat.ephemeral_owner == predecessor.session


def zkgroup_epochs_up_to(epoch: int, recorded: Collection[int]) -> list[int]:
    """The epochs of zkgroup controllers from this one down to the first without a record, newest first."""
    known = set(recorded)
    lowest = epoch
    while lowest > 0 and lowest in known:
        lowest -= 1
    return list(range(epoch, max(lowest, 0), -1))


def recorded_foreign_epoch(epoch: int, record: Znode | None) -> int | None:
    """The last epoch before this one that a controller of Kafka had, as its record says; None where it does
    not, as those of earlier versions, or cannot be read."""
    if record is None:
        return None
    try:
        foreign = ControllerRecord.decode(record.path, record.data).foreign_epoch
    except CorruptZnodeError:
        return None
    return foreign if foreign is not None and foreign < epoch else None


def elect(
    attempt: ElectionAttempt,
    controller: ControllerRegistration,
    record: ControllerRecord,
    registration: Operation | None,
) -> tuple[Operation, ...]:
    """`/controller`, created and set once, which gives it zkgroup's data version; epoch; record;
    registration."""
    data, fence = controller.encode(), attempt.fence
    operations: list[Operation] = [
        Create(ControllerRegistration.path(), data, ephemeral=True),
        SetData(ControllerRegistration.path(), data, 0),
        SetData(ControllerEpoch.path(), ControllerEpoch(fence.epoch).encode(), attempt.version),
        Create(ControllerRecord.path(fence.epoch), record.encode()),
    ]
    return tuple(operations if registration is None else [*operations, registration])


def register_broker(broker: int, address: ControllerAddress, wall_ms: int) -> Operation:
    """The registration of a controller-only process."""
    extensions = {ZKGROUP_KEY: {"role": "controller"}}
    registration = (
        BrokerRegistration.of(address.listeners, wall_ms, extensions=extensions)
        if address.listeners
        else BrokerRegistration(address.host, address.port, 1, wall_ms, extensions=extensions)
    )
    return Create(BrokerRegistration.path(broker), registration.encode(), ephemeral=True)


def withdraw(
    controller: Znode | None, epoch: Znode | None, greatest_epoch: int, others: Iterable[Znode | None]
) -> tuple[Operation, ...]:
    """Deletes the znodes of this elector's session. `epoch` was read before `controller`.

    `/controller` could be replaced by that of another zkgroup controller, with the same data version, before
    this arrives; that controller raises the epoch, so the epoch is checked. Where it was deleted it is made
    again, with the greatest that was seen.
    """
    operations: list[Operation] = []
    if controller is not None:
        path = ControllerEpoch.path()
        if epoch is None:
            operations.append(Create(path, ControllerEpoch(greatest_epoch).encode()))
        else:
            operations.append(Check(path, epoch.stat.version))
        operations.append(Delete(controller.path, controller.stat.version))
    operations += [Delete(znode.path, znode.stat.version) for znode in others if znode is not None]
    return tuple(operations)


def end_records(found: Iterable[Znode | None], ended: ControllerRecord) -> tuple[Operation, ...]:
    """Notes the end in records of the same session that say nothing of one; `ended` says when and why.

    The controller may have been writing when it resigned: how long loading took, or a new epoch, whose
    record is then the open one.
    """
    assert ended.until_ms is not None
    assert ended.ended is not None
    operations: list[Operation] = []
    for znode in filter(None, found):
        with suppress(CorruptZnodeError):
            record = ControllerRecord.decode(znode.path, znode.data)
            if record.session == ended.session and record.until_ms is None:
                over = record.over(ended.until_ms, ended.ended)
                operations.append(SetData(znode.path, over.encode(), znode.stat.version))
    return tuple(operations)


def parents(controller_only: bool) -> tuple[str, ...]:
    """The parents that an election needs; that of the marks shows which topics are older (ADR 0029)."""
    paths = (zkgroup_path(), unhosted_topics_path(), controller_state_path(), controller_history_path())
    return (*paths, brokers_path(), broker_ids_path()) if controller_only else paths


def asks_to_resign(request: Znode, czxid: int) -> bool:
    """Returns whether a request to resign means this `/controller`. One that cannot be read means none."""
    try:
        return ResignRequest.decode(request.path, request.data).czxid == czxid
    except CorruptZnodeError:
        return False


def epoch_of(epoch: Znode | None) -> int | None:
    """The epoch, or None where there is none or none that can be read."""
    if epoch is None:
        return None
    try:
        return ControllerEpoch.decode(epoch.path, epoch.data).epoch
    except CorruptZnodeError:
        return None


def reason_lost(won: WonElection, epoch: Znode | None, controller: Znode | None) -> str | None:
    """Returns why this controller is no longer active, or None."""
    if controller is None:
        return f"{ControllerRegistration.path()} was deleted"
    if controller.stat.czxid != won.czxid:
        return f"{ControllerRegistration.path()} was replaced"
    if controller.stat.version != CONTROLLER_VERSION:
        return f"{ControllerRegistration.path()} was written"
    if epoch is None:
        return f"{ControllerEpoch.path()} was deleted"
    if epoch.stat.version != won.fence.version:
        return f"{ControllerEpoch.path()} was changed"
    return None


def is_won(tried: ElectionAttempt, epoch: Znode | None, controller: Znode) -> bool:
    """Returns whether the attempt was applied; `/controller` is of this session."""
    return (
        epoch is not None
        and epoch.stat.version == tried.fence.version
        and epoch_of(epoch) == tried.fence.epoch
        and controller.stat.version == CONTROLLER_VERSION
    )


READ_AT_ONCE: Final = 100
"""Records read together, once the newest has not said it."""

RunQueries = Callable[..., Procedure[tuple[Outcome, ...]]]
"""Carries out queries, as `procedures.ask` does."""


def last_foreign_epoch(asked: RunQueries, epoch: int, recorded: Collection[int]) -> Procedure[int]:
    """The greatest epoch up to this one that a controller of Kafka had; 0 for none. `recorded`: those with a
    record."""
    zkgroup = zkgroup_epochs_up_to(epoch, recorded)
    begin, count = 0, 1
    while begin < len(zkgroup):
        some = zkgroup[begin : begin + count]
        outcomes = yield from asked(*(Query(Read(ControllerRecord.path(each))) for each in some))
        for each, outcome in zip(some, outcomes, strict=True):
            if (foreign := recorded_foreign_epoch(each, read_done(outcome))) is not None:
                return foreign
        begin, count = begin + count, READ_AT_ONCE
    return epoch - len(zkgroup)
