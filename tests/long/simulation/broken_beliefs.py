"""Planted bugs, second part: snapshots, plans, sessions, leases and callbacks."""

from __future__ import annotations

from typing import Any

import pytest

from zkgroup.consumer.delivery import Delivery
from zkgroup.consumer.lease import HeldLeases, LeaseTable
from zkgroup.consumer.machine.assignment import AssignmentComputer
from zkgroup.consumer.machine.claim import OwnerVerification
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader
from zkgroup.consumer.machine.machine_context import MemberContext, Ownership
from zkgroup.consumer.machine.membership import Membership, SessionLease
from zkgroup.consumer.machine.shared_results import KnownMembers
from zkgroup.model import TopicPartition
from zkgroup.model.requests import MultiRefused
from zkgroup.runtime.procedures import read_many

Patch = pytest.MonkeyPatch


def names_are_enough(patch: Patch) -> None:
    """A member that registered again under its name is taken for the former one."""
    patch.setattr(KnownMembers, "is_valid", lambda self, listing: True)


def sticky_from_what_is_owned(patch: Patch) -> None:
    """Without the plan znode, every member computes from the owners that it reads."""
    from zkgroup.assignment import assign
    from zkgroup.znodes.ids import thread_id

    def from_previous(self: AssignmentComputer, snapshot: Any, strategy: str) -> Any:
        tps = sorted(TopicPartition(t, n) for t, numbers in snapshot.partitions.items() for n in numbers)
        (owners,) = yield from read_many(self._paths.owners(tps))
        past = {tp: o.data.decode() for tp, o in zip(tps, owners, strict=True) if o is not None and o.data}
        past |= {
            tp: thread_id(self._context.config.member_id, h.thread)
            for tp, h in self._context.owned.partitions.items()
        }
        found = assign("sticky", snapshot.members, snapshot.partitions, past)
        return self._result(snapshot, "sticky", found.owners)

    patch.setattr(AssignmentComputer, "_from_previous", from_previous)


def change_is_not_read(patch: Patch) -> None:
    """The child watch of `ids` is set once and never again."""
    real = GroupSnapshotReader._list

    def list_(self: GroupSnapshotReader) -> Any:
        listing = yield from real(self)
        if self._cache.ids_watch is not None:
            self._cache.ids_watch._then = lambda: None
        return listing

    patch.setattr(GroupSnapshotReader, "_list", list_)
    patch.setattr(OwnerVerification, "_check_for_gaps", lambda self, ids, topics: None)


def refusal_is_tried_again(patch: Patch) -> None:
    """A write refused at the member's own registration is repeated, instead of ending the membership."""
    from zkgroup.runtime import procedures

    def require(outcomes: Any, transactions: Any, fence: Any) -> None:
        real_fence = () if any(isinstance(o, MultiRefused) for o in outcomes) else fence
        real(outcomes, transactions, real_fence)

    real = procedures.require_answers
    patch.setattr(procedures, "require_answers", require)
    for module in ("claim", "commit", "release"):
        patch.setattr(f"zkgroup.consumer.machine.{module}.require_answers", require)
    patch.setattr(
        SessionLease,
        "_heartbeat_answered",
        lambda self, outcome: setattr(self, "_heartbeat_under_way", False),
    )
    patch.setattr(GroupSnapshotReader, "_check_own", lambda self, znode: None)


def lease_is_too_long(patch: Patch) -> None:
    """The lease is computed as if from the requested timeout, not from the granted one."""
    real = SessionLease._timeout_ms
    patch.setattr(SessionLease, "_timeout_ms", lambda self: 4 * real(self))


def delivery_without_a_lease(patch: Patch) -> None:
    def may_deliver(self: HeldLeases, tp: TopicPartition, token: int, now_ms: int) -> bool:
        return tp not in self.stopped and tp in self.grants

    patch.setattr(HeldLeases, "may_deliver", may_deliver)


def ownership_survives_the_session(patch: Patch) -> None:
    """A lost session does not call `on_lost`: the member keeps its partitions in the new session."""
    real = MemberContext.lose

    def lose(self: MemberContext, partitions: Any, reason: str) -> None:
        if reason not in ("session_lost", "own_expiry_clock", "not_registered", "a fault", "expired"):
            real(self, partitions, reason)

    patch.setattr(MemberContext, "lose", lose)
    patch.setattr(Ownership, "clear", lambda self: self.wanted.clear())


def registration_of_another_session_is_adopted(patch: Patch) -> None:
    """A registration is adopted by its text, as a JVM member does, from any session."""
    real = Membership._wait_for

    def wait_for(self: Membership, znode: Any) -> None:
        self._registered(znode.stat.czxid) if znode.data else real(self, znode)

    patch.setattr(Membership, "_wait_for", wait_for)
    patch.setattr(GroupSnapshotReader, "_check_own", lambda self, znode: None)


def session_is_what_the_client_says(patch: Patch) -> None:
    """The member does not read its own registration back."""
    patch.setattr(GroupSnapshotReader, "_check_own", lambda self, znode: None)


def callbacks_are_not_awaited(patch: Patch) -> None:
    """Partitions are released while the application still gets records of them."""
    patch.setattr(LeaseTable, "stop", lambda self, partitions: None)
    patch.setattr(Delivery, "stop", lambda self, partitions: None)
