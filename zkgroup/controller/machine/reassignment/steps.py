"""The next step in the reassignment of one partition (steps and failover, controller.md 4.4, 4.5; recipes
17).

ZooKeeper stores only the replica list (AR), the state and the request itself. From these every controller
finds where to continue, whichever controller began; `Stage` is what one controller remembers between its own
steps, and a new one starts with `PLAN`. A decision is made on what was just read; the step's transaction
carries the versions, and one that is refused is planned again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Self

from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.leadership.selectors import NoChoice, reassigned
from zkgroup.controller.machine.open_reassignments import OpenReassignment, Stage, union
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.model import TopicPartition
from zkgroup.placement.model import brokers_named
from zkgroup.znodes.reassignment_records import Outcome


class Situation(NamedTuple):
    """A move, and what was read of its partition."""

    target: Brokers
    replicas: Brokers
    """AR, as the topic's znode has it."""
    leader: int
    isr: Brokers
    stage: Stage
    live: Collection[int]
    """Brokers that may lead this partition."""
    deleting: Collection[int] = frozenset()
    """Brokers that may still delete their replica (`PendingDeletes`)."""
    changed: bool = False
    """The request is another one than the stage was reached with."""
    drop: Brokers = ()
    """Replicas that were left out when step 8 was accepted."""
    cancelled: bool = False
    """The target is where the replicas were before; see `is_cancellation`."""
    growing: bool = False
    """The replicas are known to have been others when the move began: a list that is the target already is
    then a step 1 that only added."""
    left_out: bool = False
    """Brokers were sent a shorter list last: some of the replicas were left out, or it was the target
    alone."""
    up: Collection[int] = frozenset()
    """Brokers that are up: a replica on one of these that is not `live` is offline until it restarts."""

    @classmethod
    def of(
        cls,
        move: OpenReassignment,
        context: ControllerContext,
        pending_deletes: PendingDeletes,
        each: TopicPartition,
        now: LeaderIsrAndControllerEpoch,
        *,
        left_out: bool,
    ) -> Self:
        """A move in the context as it is; `left_out` as `OpenReassignments.was_left_out` says."""
        origin = move.origin
        return cls(
            target=move.target,
            replicas=context.replicas(each),
            leader=now.leader,
            isr=now.isr,
            stage=move.stage,
            live=context.with_online_replica(each, context.live),
            deleting=pending_deletes.of(context, each),
            drop=move.drop,
            cancelled=move.is_cancelled,
            growing=origin is not None and not set(move.target) <= set(origin),
            left_out=left_out,
            up=context.live,
        )


class Wait(NamedTuple):
    """Nothing can be done until something changes."""

    reason: str
    brokers: Brokers = ()


class WriteUnion(NamedTuple):
    """Step 1: the replica list becomes the target, then the rest of what it was (the order of 2.4)."""

    replicas: Brokers
    adding: Brokers
    removing: Brokers


class Announce(NamedTuple):
    """Step 2: leader epoch + 1, nothing else; LeaderAndIsr with these replicas to all of them."""

    replicas: Brokers


class Lead(NamedTuple):
    """Step 7: this leader, the ISR as it is, leader epoch + 1; LeaderAndIsr with the target to the target."""

    leader: int
    isr: Brokers


class Shrink(NamedTuple):
    """Step 8: this ISR, with checks of the request's version and the state's.

    `needed` is False where no broker has to leave: then it is the checks alone.
    """

    isr: Brokers
    needed: bool
    drop: Brokers
    """Brokers whose replica is to be deleted once it is accepted: those outside the target."""


class DeleteReplicas(NamedTuple):
    """Step 9: StopReplica, then StopReplica with deletion, to each; none may lead until it has answered."""

    brokers: Brokers


class Complete(NamedTuple):
    """Steps 10 and 11 in one: replica list := target, entry removed, record written, the state unchanged."""

    outcome: Outcome
    reason: str


Step = Wait | WriteUnion | Announce | Lead | Shrink | DeleteReplicas | Complete


class Decision(NamedTuple):
    """A step, where the move stands meanwhile, and where once the step is done."""

    step: Step
    stage: Stage
    then: Stage


def decide(now: Situation) -> Decision:
    """The next step of a move; a step that ZooKeeper refuses brings it back to `PLAN`."""
    if now.changed:
        now = now._replace(stage=Stage.PLAN, drop=())
    match now.stage:
        case Stage.PLAN:
            return _plan(now)
        case Stage.ANNOUNCE:
            return _announce(now)
        case Stage.CATCH_UP:
            return _catch_up(now)
        case Stage.LEAD:
            return _lead(now)
        case Stage.SHRINK:
            return _shrink(now)
        case Stage.DELETE:
            return _delete(now)
        case Stage.FINISH:
            return _finish(now)


def _plan(now: Situation) -> Decision:
    target, replicas = set(now.target), set(now.replicas)
    complete = target <= set(now.isr)
    blocking = (target | replicas) & set(now.deleting)
    if complete:
        blocking -= replicas - target
    decision = _wait_for_deletion(now, Stage.PLAN, blocking) if blocking else _planned(now, complete)
    if now.left_out and isinstance(decision.step, Wait | Complete) and _can_be_whole(now):
        # It may wait for days, or be over by this, and its replicas should follow; all other steps send it
        # anyway.
        return Decision(Announce(now.replicas), Stage.PLAN, Stage.PLAN)
    return decision


def _can_be_whole(now: Situation) -> bool:
    """Returns whether the leader can be sent all replicas: one with a pending delete would be left out."""
    return now.leader in now.live and not set(now.replicas) & set(now.deleting)


def _planned(now: Situation, complete: bool) -> Decision:
    target, replicas = set(now.target), set(now.replicas)
    if now.replicas == now.target and not set(now.isr) - target and (end := _already_there(now, complete)):
        return Decision(end, Stage.PLAN, Stage.PLAN)
    if complete:
        return _lead(now)
    if target <= replicas:
        return _announce(now)
    if target - set(now.live):
        return _wait_for_brokers(now, Stage.PLAN, target)
    step = WriteUnion(
        union(now.target, now.replicas),
        adding=tuple(each for each in now.target if each not in replicas),
        removing=tuple(each for each in now.replicas if each not in target),
    )
    return Decision(step, Stage.PLAN, Stage.PLAN)


def _already_there(now: Situation, complete: bool) -> Complete | None:
    """The list is as asked for: by a step 10 whose step 11 is missing, by a step 1 that only added, or
    from the start.

    None where it has to be announced: a leader that was sent a shorter list adds no other broker to the ISR.
    What is not in sync, and down, is waited for only where it is known to be new.
    """
    if now.cancelled:
        return Complete("cancelled", "the replicas are where they were")
    if complete:
        return Complete("done", "the replica list is the target, and all of it is in sync")
    if not now.growing and not set(now.target) - set(now.isr) <= set(now.live):
        return Complete("dropped", "the replica list is the target already")
    return None


def _announce(now: Situation) -> Decision:
    if late := set(now.target) & set(now.deleting):
        return _wait_for_deletion(now, Stage.ANNOUNCE, late)
    if now.leader not in now.live:
        return Decision(Wait("waits for a leader"), Stage.ANNOUNCE, Stage.ANNOUNCE)
    return Decision(Announce(now.replicas), Stage.ANNOUNCE, Stage.CATCH_UP)


def _catch_up(now: Situation) -> Decision:
    missing = set(now.target) - set(now.isr)
    if not missing:
        return _lead(now)
    if missing - set(now.live):
        return _wait_for_brokers(now, Stage.CATCH_UP, missing)
    return _wait(now, Stage.CATCH_UP, "replicas to be in sync", missing)


def _lead(now: Situation) -> Decision:
    """A leader of the target stays. Where none can lead: no step back, as that would bump for ever.

    Who has not announced this target himself waits in `PLAN`: the present leader may know another list, and
    once it drops a replica that stands in no list of his, only a new announcement brings it back.
    """
    if now.leader in now.target and now.leader in now.live and now.leader in now.isr:
        return Decision(Lead(now.leader, now.isr), Stage.LEAD, Stage.SHRINK)
    choice = reassigned(now.target, now.isr, now.live, now.deleting)
    if isinstance(choice, NoChoice):
        stage = Stage.PLAN if now.stage is Stage.PLAN else Stage.CATCH_UP
        return _wait(now, stage, "a live replica of the target to lead", set(now.target))
    return Decision(Lead(choice.leader, choice.isr), Stage.LEAD, Stage.SHRINK)


def _shrink(now: Situation) -> Decision:
    target = set(now.target)
    if now.leader not in target or not target <= set(now.isr):
        return _plan(now._replace(stage=Stage.PLAN))
    isr = tuple(each for each in now.isr if each in target)
    drop = tuple(dict.fromkeys(each for each in (*now.replicas, *now.isr) if each not in target))
    return Decision(Shrink(isr, len(isr) < len(now.isr), drop), Stage.SHRINK, Stage.DELETE)


def _delete(now: Situation) -> Decision:
    if not now.drop:
        return _finish(now)
    if set(now.isr) - set(now.target):  # an unclean election has brought one of them back
        return _plan(now._replace(stage=Stage.PLAN, drop=()))
    return Decision(DeleteReplicas(now.drop), Stage.DELETE, Stage.FINISH)


def _finish(now: Situation) -> Decision:
    target, isr = set(now.target), set(now.isr)
    if isr - target:
        return _plan(now._replace(stage=Stage.PLAN, drop=()))
    if fallen := target - isr:
        return _wait(now, Stage.FINISH, "replicas to be in sync again", fallen)
    step = Complete("cancelled", "asked for") if now.cancelled else Complete("done", "moved")
    return Decision(step, Stage.FINISH, Stage.PLAN)


def _wait_for_deletion(now: Situation, stage: Stage, brokers: Collection[int]) -> Decision:
    """Of what brokers may have of a former topic, or are asked to delete now."""
    named = tuple(sorted(brokers))
    gone = [broker for broker in named if broker not in now.live]
    hint = f"; if lost: zkgroup broker forget {gone[0]} --execute" if gone else ""
    return Decision(Wait(f"waits for a deletion on {brokers_named(named)}{hint}", named), stage, stage)


def _wait_for_brokers(now: Situation, stage: Stage, needed: set[int]) -> Decision:
    """Brokers that are down come first; then those that are up and whose replica is offline."""
    if down := needed - set(now.live) - set(now.up):
        return _wait(now, stage, "brokers that are down", down)
    offline = needed - set(now.live)
    return _wait(now, stage, "offline replicas, until their brokers restart", offline)


def _wait(now: Situation, stage: Stage, what: str, brokers: Collection[int]) -> Decision:
    named = tuple(sorted(brokers))
    return Decision(Wait(f"waits for {what}: {brokers_named(named)}", named), stage, stage)
