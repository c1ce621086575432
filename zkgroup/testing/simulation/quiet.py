"""The end of a schedule: no more faults. Whoever lives must arrive at the goal and stay there."""

from __future__ import annotations

import random

from zkgroup.model.requests import Create, Delete
from zkgroup.testing.simulation.actor import Actor
from zkgroup.testing.simulation.goal import Goal
from zkgroup.testing.simulation.setup import GROUP
from zkgroup.testing.simulation.world import World
from zkgroup.znodes.consumers import Registration, ids_path

CONVERGE_MS = 60_000
STAY_MS = 15_000
ROUNDS_MAX = 100_000
IDLE_MEMBER = b'{"version":1,"subscription":{},"pattern":"static","timestamp":"1","zkgroup":"sim"}'


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
        while (reason := goal.missing(self._world.living())) is not None:
            assert clock.now_ms() - started_ms <= CONVERGE_MS, f"not converged: {reason}"
            self._pass(200)
        took_ms, owners = clock.now_ms() - started_ms, goal.owners()
        self._pass(STAY_MS)
        reason = goal.missing(self._world.living())
        assert reason is None, f"did not stay: {reason}"
        assert goal.owners() == owners, f"owners changed at rest: {owners}, {goal.owners()}"
        self._last_commits()
        return took_ms

    def calm_down(self) -> None:
        """The faults end. A member without wishes comes and goes, so that what was handed back is planned."""
        self._world.wake_all()
        self._pass(500)
        if self._world.server.find(ids_path(GROUP)) is None:
            return
        path = Registration.path(GROUP, f"{GROUP}_idle")
        self._world.server.write(Create(path, _like_the_others(self._world)))
        self._pass(500)
        self._world.server.write(Delete(path, -1))

    def _pass(self, ms: int) -> None:
        clock = self._world.clock
        end_ms = clock.now_ms() + ms
        while True:
            self.drain()
            due_ms = self._world.next_due_ms()
            next_ms = min(end_ms, clock.now_ms() + 1000, due_ms if due_ms is not None else end_ms)
            self._world.advance(max(0, next_ms - clock.now_ms()))
            if clock.now_ms() >= end_ms and not any(actor.due_timers() for actor in self._world.living()):
                return

    def drain(self) -> None:
        """Everything that can happen without time passing. Raises AssertionError where it never ends."""
        for _ in range(ROUNDS_MAX):
            for step in self._world.server.pending():
                self._world.server.deliver(step)
            living = self._world.living()
            acted = [self._act(actor) for actor in self._rng.sample(living, len(living))]
            acted += [jvm.act() for jvm in self._world.jvm]
            self._world.audit.look()
            if not any(acted) and not self._world.server.pending():
                return
        raise AssertionError("something goes on for ever without time passing")

    @staticmethod
    def _act(actor: Actor) -> bool:
        actor.fire_timers()
        for call in actor.application.open_calls:
            actor.answer_call(call)
        if not actor.inbox:
            return False
        actor.take_event()
        return True

    def _last_commits(self) -> None:
        """At rest every owner delivers and commits, and nothing is refused (L5).

        The first time a commit may still find what a stranger wrote to an owned offset.
        """
        for is_second in (False, True):
            for actor in self._world.living():
                for tp in actor.application.deliverable(self._world.clock.now_ms()):
                    actor.application.deliver(tp)
                before = len(actor.application.results)
                actor.commit()
                self.drain()
                for result in actor.application.results[before:]:
                    assert not (is_second and result.refused), f"refused at rest: {result.refused}"


def _like_the_others(world: World) -> bytes:
    """A registration without topics that leaves the group's strategy as it is."""
    extra = f',"strategy":"{world.setup.strategy}"}}'.encode()
    return IDLE_MEMBER[:-1] + extra
