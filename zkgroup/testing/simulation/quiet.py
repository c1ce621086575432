"""The end of a schedule: no more faults. Whoever lives must arrive at the goal and stay there."""

from __future__ import annotations

import random

from zkgroup.testing.simulation.consuming import ConsumingActor
from zkgroup.testing.simulation.goal import Goal
from zkgroup.testing.simulation.setup import GROUP
from zkgroup.testing.simulation.world import World
from zkgroup.znodes.consumers import Offset

CONVERGE_MS = 60_000
STAY_MS = 15_000
ROUNDS_MAX = 10_000


class Quiet:
    """Lets everything happen in a drawn order, without faults."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def converge(self) -> int:
        """Milliseconds until the goal was reached. Raises AssertionError where it is not, or not kept."""
        self.calm_down()
        goal, clock = Goal(self._world.server, GROUP), self._world.clock
        started_ms = clock.now_ms()
        in_a_row = 0
        while in_a_row < 2:  # what has just changed may have to be heard of
            reason = goal.missing(self._world.living())
            in_a_row = in_a_row + 1 if reason is None else 0
            assert clock.now_ms() - started_ms <= CONVERGE_MS, f"not converged: {reason}"
            self._pass(200)
        took_ms, owners = clock.now_ms() - started_ms, goal.owners()
        self._pass(STAY_MS)
        reason = goal.missing(self._world.living())
        assert reason is None, f"did not stay: {reason}"
        assert goal.owners() == owners, f"owners changed at rest: {owners}, {goal.owners()}"
        self._require_what_is_believed()
        self._last_commits()
        return took_ms

    def calm_down(self) -> None:
        """The faults end, and nothing else is done: what they have left must be mended by the members."""
        self._world.wake_all()
        self._pass(500)

    def _pass(self, ms: int) -> None:
        clock = self._world.clock
        end_ms = clock.now_ms() + ms
        while True:
            self.drain()
            due_ms = self._world.next_due_ms()
            next_ms = min(end_ms, clock.now_ms() + 1000, due_ms if due_ms is not None else end_ms)
            self._world.advance(max(0, next_ms - clock.now_ms()))
            if clock.now_ms() >= end_ms and not any(actor.has_work for actor in self._world.living()):
                return

    def drain(self) -> None:
        """Everything that can happen without time passing. Raises AssertionError where it never ends."""
        for _ in range(ROUNDS_MAX):
            for step in self._world.pending():
                self._world.server.deliver(step)
            living = self._world.living()
            acted = [self._act(actor) for actor in self._rng.sample(living, len(living))]
            acted += [jvm.act() for jvm in self._world.jvm]
            self._world.audit.look()
            if not any(acted) and not self._world.server.pending():
                return
        raise AssertionError("something goes on for ever without time passing")

    @staticmethod
    def _act(actor: ConsumingActor) -> bool:
        did = actor.has_work and actor.run() > 0
        if actor.runner.can_begin:
            actor.begin_callback()
            did = True
        if actor.runner.can_return:
            actor.end_callback()
            did = True
        if actor.runner.can_return_late:
            actor.end_late_callback()
            did = True
        if actor.can_fetch:
            actor.fetch()
            did = True
        did |= actor.finished is None and actor.application.calm()
        if did:
            actor.check()
        return did

    def _require_what_is_believed(self) -> None:
        """At rest an offset that nobody else has written is what its owner takes it for."""
        for actor in self._world.living():
            picture = actor.describe()
            for tp, grant in picture.held.items():
                znode = self._world.server.find(Offset.path(GROUP, tp))
                if znode is not None and znode.stat.version == picture.fences[tp]:
                    believed = -1 if grant.offset is None else grant.offset
                    stands = int(znode.data or b"-1")
                    assert max(stands, -1) == believed, f"{tp} stands at {stands}, not at {believed}"

    def _last_commits(self) -> None:
        """At rest every owner delivers what comes and commits it, and nothing is refused (L5).

        The first time a commit may still find what a stranger wrote to an owned offset.
        """
        for is_second in (False, True):
            for tp in Goal(self._world.server, GROUP).owners():
                self._world.log.append(tp)
            self.drain()
            for actor in self._world.living():
                for tp in sorted(set(actor.application.owned) - self._world.dead):
                    reached, end = actor.application.reached.get(tp), self._world.log.end(tp)
                    assert reached == end, f"{tp} is delivered by {actor.member_id} up to {reached} of {end}"
                before = len(actor.application.results)
                actor.application.commit()
                self.drain()
                actor.application.check_ended()
                for result in actor.application.results[before:]:
                    assert not (is_second and result.refused), f"refused at rest: {result.refused}"
