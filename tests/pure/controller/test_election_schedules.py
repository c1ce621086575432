"""Elections under any order of events: lost and late requests, ended sessions, strangers, by seed."""

from __future__ import annotations

import random

import pytest

from tests.worlds.stepped_electors import CONTROLLER, EPOCH, GRACE_AND_SPREAD_MS, SteppedElectors
from zkgroup.controller.machine.events import Elected, Resigned
from zkgroup.model.requests import Delete
from zkgroup.testing.memory_zookeeper.tree import Deleted
from zkgroup.znodes.controller import ControllerRecord

SEEDS = range(60)
STEPS = 250
FAULTS = ("lost_reply", "lost_request", "late")


@pytest.mark.parametrize("seed", SEEDS)
def test_one_is_active_in_the_end_and_every_epoch_once(seed: int) -> None:
    """Recipes 13: whatever happened, each epoch has one winner, no elector deletes another's `/controller`,
    and when the faults end exactly one is active, in the session that `/controller` belongs to."""
    chance = random.Random(seed)
    world = SteppedElectors()
    for broker in (1, 2, 3):
        world.node(broker, controller_only=broker == 3)
    for _ in range(STEPS):
        _something(world, chance)
    for node in world.nodes:
        world.server.resume(node.name)
    world.run()
    if CONTROLLER in world.server.tree():
        world.bump()  # the active controller has to give its own znode up
    world.advance(20_000)

    (controller,) = world.active_nodes
    assert world.find(CONTROLLER).stat.ephemeral_owner == controller.session_id
    assert controller.machine.election.may_send
    _check_stories(world)
    _check_deletions(world)


def _something(world: SteppedElectors, chance: random.Random) -> None:
    """One step of the server, often; a fault, seldom."""
    node = chance.choice(world.nodes)
    dice = chance.random()
    if dice < 0.02 and node.client.session is not None:
        world.server.expire(node.name)
    elif dice < 0.03 and CONTROLLER in world.server.tree():
        world.write(Delete(CONTROLLER, -1))
    elif dice < 0.04:
        world.server.cut(node.name, executed=chance.randrange(2))
    elif dice < 0.045 and EPOCH in world.server.tree():
        world.bump()
    elif dice < 0.055:
        world.clock.advance(chance.choice([100, GRACE_AND_SPREAD_MS]))
    elif steps := world.server.pending():
        step = chance.choice(steps)
        is_faulty = step.kind == "request" and chance.random() < 0.08
        world.deliver(step, chance.choice(FAULTS) if is_faulty else None)
    else:
        world.clock.advance(500)
    for each in world.nodes:
        each.loop.run_pending()
        assert not each.is_active or each.machine.core.session is not None, "it rules without a session"


def _check_stories(world: SteppedElectors) -> None:
    """Elections and resignations take turns; an epoch is won once, and has its record."""
    won: list[int] = []
    for node in world.nodes:
        kinds = [type(effect) for effect in node.story]
        assert kinds == [Elected, Resigned] * (len(kinds) // 2) + [Elected] * (len(kinds) % 2)
        won += [effect.epoch for effect in node.story if isinstance(effect, Elected)]
    assert len(won) == len(set(won))
    assert all(ControllerRecord.path(epoch) in world.server.tree() for epoch in won)


def _check_deletions(world: SteppedElectors) -> None:
    """Every accepted deletion of `/controller` by an elector is of its own session's znode."""
    owner = 0
    for entry in world.server.log:
        for change in entry.changes:
            if change.path != CONTROLLER:
                continue
            if isinstance(change, Deleted):
                assert entry.session_id in (0, owner)
            elif entry.session_id:
                owner = entry.session_id
