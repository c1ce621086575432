"""Changes of leaders, brokers and the controller."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.admin.changes.change import (
    AdminChange,
    as_they_are,
    counted,
    undo_record,
)
from zkgroup.admin.cluster.brokers import ForgettingPlan, forget, plan_forgetting
from zkgroup.admin.cluster.controller import (
    Resignation,
    ResignationPlan,
    ask_to_resign,
    plan_resignation,
    wait_for_successor,
)
from zkgroup.admin.elections import (
    ElectionPlan,
    UncleanPlan,
    elect_preferred,
    elect_unclean,
    plan_preferred,
    plan_unclean,
    wait_for_election,
    wait_for_verdicts,
)
from zkgroup.admin.persistent import RemovalPlan, plan_removal, remove
from zkgroup.admin.znodes import ChrootPlan, create_chroot, plan_chroot
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import UncleanElectionDone


def elect_preferred_change(
    ensemble: Ensemble, partitions: Sequence[TopicPartition] | None = None
) -> AdminChange[ElectionPlan, None, bool]:
    """Gives partitions (None: all) back to their first replica; the wait says whether all are led by it."""
    plan = plan_preferred(ensemble, partitions)
    return AdminChange(
        ensemble=ensemble,
        subject="elect preferred",
        question=f"Change {counted(len(plan.wanted), 'leader')}?",
        plan=plan,
        notes=plan.notes,
        is_effective=bool(plan.wanted),
        no_undo="no command asks for the former leaders" if plan.wanted else None,
        write=lambda by: elect_preferred(ensemble, plan),
        wait=lambda _, longest_s: wait_for_election(ensemble, plan, longest_s)[1],
    )


def elect_unclean_change(
    ensemble: Ensemble, partitions: Sequence[TopicPartition]
) -> AdminChange[UncleanPlan, int, UncleanElectionDone | None]:
    """Lets a live replica lead partitions without a leader, in sync or not: records may be lost for good.

    What is written is the czxid of the request; the wait gives the controller's answer, None without one.
    """
    plan = plan_unclean(ensemble, partitions)
    lost = counted(len(plan.losing), "partition")
    return AdminChange(
        ensemble=ensemble,
        subject="elect unclean",
        question=f"Elect for {counted(len(plan.wanted), 'partition')}, and lose records of {lost}?",
        plan=plan,
        notes=plan.notes,
        is_effective=bool(plan.wanted),
        no_undo="other replicas truncate what the new leader does not have" if plan.wanted else None,
        write=lambda by: elect_unclean(ensemble, plan, by.user),
        wait=lambda czxid, longest_s: wait_for_verdicts(ensemble, czxid, longest_s)[1],
    )


def forget_broker_change(ensemble: Ensemble, broker: int) -> AdminChange[ForgettingPlan, None, None]:
    """Removes the records of a lost broker's stray replicas. Raises what `plan_forgetting` raises."""
    plan = plan_forgetting(ensemble, broker)
    return AdminChange(
        ensemble=ensemble,
        subject=f"broker forget {broker}",
        question=f"Forget what broker {broker} may still have?",
        plan=plan,
        notes=tuple(f"{path} cannot be read; it is removed as it is" for path in plan.unreadable),
        no_undo="if the broker returns, no controller deletes its leftover replicas",
        write=lambda by: forget(ensemble, plan),
    )


def create_chroot_change(ensemble: Ensemble, chroot: str) -> AdminChange[ChrootPlan, None, None]:
    """Creates the root of an address `HOST:PORT/CHROOT`; `ensemble` is connected above it.

    Nothing is written where it exists.
    """
    plan = plan_chroot(ensemble, chroot)
    return AdminChange(
        ensemble=ensemble,
        subject="zookeeper create-chroot",
        question=f"Create {chroot}?",
        plan=plan,
        is_effective=bool(plan.missing),
        no_undo="no zkgroup command deletes a chroot; ZooKeeper's own `delete` does, while it is empty",
        write=lambda by: create_chroot(ensemble, plan),
    )


def remove_persistent_change(ensemble: Ensemble) -> AdminChange[RemovalPlan, int, None]:
    """Removes the persistent znodes that belong to sessions; what is written is how many."""
    plan = plan_removal(ensemble)
    return AdminChange(
        ensemble=ensemble,
        subject="doctor --fix",
        question=f"Remove {counted(len(plan.znodes), 'znode')}?",
        plan=plan,
        notes=tuple(f"{path}: its ACL hides what is below it" for path in plan.hidden),
        is_effective=bool(plan.znodes),
        undo=undo_record(znodes=as_they_are(*plan.znodes)),
        write=lambda by: remove(ensemble, plan),
    )


def resign_controller_change(ensemble: Ensemble) -> AdminChange[ResignationPlan, None, Resignation]:
    """Asks the controller to give up `/controller`; the wait is for its successor."""
    plan = plan_resignation(ensemble)
    return AdminChange(
        ensemble=ensemble,
        subject="controller resign",
        question=f"Have controller {plan.controller} resign?",
        plan=plan,
        notes=plan.notes,
        no_undo="the election that follows decides which broker is controller",
        write=lambda by: ask_to_resign(ensemble, plan),
        wait=lambda _, longest_s: wait_for_successor(ensemble, plan, longest_s),
    )
