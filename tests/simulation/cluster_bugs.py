"""Mistakes that one could make in a controller or a broker, each with the rule that notices it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from zkgroup.broker.machine import leading
from zkgroup.broker.receiver import Receiver
from zkgroup.controller.machine import candidacy, fence, move_writes, moving, reign
from zkgroup.controller.machine.lease import Lease
from zkgroup.controller.machine.outbox import Outbox
from zkgroup.controller.machine.picture import Standing
from zkgroup.testing.cluster_simulation import ClusterSetup
from zkgroup.testing.cluster_simulation.controller import ControllerProcess
from zkgroup.znodes.partitions import PartitionState

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Bug:
    """What to break, and by which rules it may be noticed."""

    plant: Callable[[Patch], None]
    noticed_by: tuple[str, ...]
    seed: int = 0
    """Of a schedule that noticed it when this was written: it is tried first."""
    setup: ClusterSetup | None = None
    """Of that schedule, where it is not drawn."""


def _no_checks(patch: Patch) -> None:
    """K3: writes without a fence."""
    patch.setattr(fence.Fence, "checks", lambda self: ())
    patch.setattr(fence, "_HEAD", 0)


def _epoch_check_only(patch: Patch) -> None:
    """As Kafka since 2.1: a write passes after `/controller` was deleted."""
    whole = fence.Fence.checks
    patch.setattr(fence.Fence, "checks", lambda self: whole(self)[1:])
    patch.setattr(fence, "_HEAD", 1)


def _no_record(patch: Patch) -> None:
    """An epoch of ours that cannot be told from a real controller's."""
    elect = candidacy.elect
    patch.setattr(candidacy, "elect", lambda *args: elect(*args)[:3])


def _leader_epoch_stays(patch: Patch) -> None:
    """A new leader in the old term."""
    decided = Standing.decided

    def wrong(self: Standing, *args: Any, **kwargs: Any) -> PartitionState:
        state = decided(self, *args, **kwargs)
        return PartitionState(state.leader, self.leader_epoch, state.isr, state.controller_epoch)

    patch.setattr(Standing, "decided", wrong)


def _deaf(patch: Patch) -> None:
    """Who has caught up joins whatever was acknowledged meanwhile."""
    counted = leading.Leading.counted
    patch.setattr(leading.Leading, "counted", lambda self, batch, behind: counted(self, batch, ()))


def _forgets_to_tell(patch: Patch) -> None:
    """What was written is not told (K9)."""
    patch.setattr(reign.Reign, "tell", lambda self, batch: None)


def _no_wait_for_the_isr(patch: Patch) -> None:
    """Step 7 before the target is in sync."""
    decide = moving.decide

    def hasty(now: moving.Situation) -> moving.Decision:
        if now.stage is moving.Stage.CATCH_UP:
            return decide(now._replace(isr=tuple(dict.fromkeys((*now.isr, *now.target)))))
        return decide(now)

    patch.setattr(moving, "decide", hasty)


def _no_ending(patch: Patch) -> None:
    """The entry goes, and nobody can tell what became of the move."""
    patch.setattr(move_writes, "_record", lambda ending, epoch: b"{}")


def _drops_dead_targets(patch: Patch) -> None:
    """K12: an entry whose target is down is dropped, and its list stays at the union."""
    plan = moving._plan

    def impatient(now: moving.Situation) -> moving.Decision:
        if set(now.target) - set(now.live):
            return moving.Decision(moving.Finish("done", "given up"), moving.Stage.PLAN, moving.Stage.PLAN)
        return plan(now)

    patch.setattr(moving, "_plan", impatient)


def _lease_never_ends(patch: Patch) -> None:
    """An expired controller goes on sending."""
    patch.setattr(Lease, "is_valid", property(lambda self: True))
    send = ControllerProcess._send

    def careless(self: ControllerProcess, *args: Any) -> None:
        self._lease_until_ms = 1 << 60
        send(self, *args)

    patch.setattr(ControllerProcess, "_send", careless)


def _no_fence_of_brokers(patch: Patch) -> None:
    """A broker obeys every controller."""
    patch.setattr(Receiver, "_is_stale", _remembers)


def _remembers(self: Receiver, controller_epoch: int) -> bool:
    self._controller_epoch = controller_epoch
    return False


def _sends_once(patch: Patch) -> None:
    """What was in flight when a connection broke is never sent again."""

    def connected(self: Outbox) -> Any:
        self._connected = True
        self._flying = None
        return self.next()

    patch.setattr(Outbox, "connected", connected)


FEW_OPERATIONS = ClusterSetup(
    kind="ours",
    brokers=(1, 2, 3, 4),
    candidates=(1, 2, 3),
    topics={"t0": ((2, 4), (1, 4))},
    stale=True,
    weights={
        "expire": 3.0,
        "isolate": 8.0,
        "pause": 8.0,
        "kill_controller": 3.0,
        "kill_broker": 3.0,
        "lose_broker": 3.0,
        "break_disk": 3.0,
        "create_topic": 12.0,
        "delete_topic": 4.0,
        "reassign": 4.0,
        "cancel": 12.0,
        "prefer": 4.0,
        "shut_down": 4.0,
    },
)
"""Drawn once, with seed 44: it takes many schedules to meet another one that loses a line like that."""

BUGS = {
    "no checks": Bug(_no_checks, ("S11",), seed=16),
    "epoch check only": Bug(_epoch_check_only, ("S11",), seed=16),
    "no record of the epoch": Bug(_no_record, ("S11",)),
    "leader epoch stays": Bug(_leader_epoch_stays, ("S12",), seed=3),
    "joins without a look": Bug(_deaf, ("lines",), seed=44, setup=FEW_OPERATIONS),
    "forgets to tell": Bug(_forgets_to_tell, ("L7",)),
    "does not wait for the isr": Bug(_no_wait_for_the_isr, ("S14", "S16"), seed=2),
    "no record of the end": Bug(_no_ending, ("S14",)),
    "drops dead targets": Bug(_drops_dead_targets, ("S14",), seed=8),
}
"""Noticed in drawn schedules."""
RARE_BUGS = {
    "lease never ends": (_lease_never_ends, "test_no_request_is_sent_after_the_own_lease"),
    "brokers obey everybody": (_no_fence_of_brokers, "test_a_replica_with_an_unanswered_deletion_is_held"),
    "sends once": (_sends_once, "test_a_replica_with_an_unanswered_deletion_is_held"),
}
"""Noticed by a scenario, which has to be played just so."""
