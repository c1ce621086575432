"""A controller is a function of its events: no thread, clock or chance of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import SteppedControllers
from zkgroup.controller.machine.events import Effect
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.model.ports import Instant
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment


def test_the_same_events_give_the_same_effects() -> None:
    """A busy time is recorded and given to another machine, which orders exactly the same (K38)."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (2, 3)})
    world.make_topic("u", {0: (3, 1)})
    received: list[tuple[object, Instant]] = []
    ordered: list[Sequence[Effect]] = []
    controller = world.new_elector()
    _record(controller.machine, received, ordered)
    world.run()
    world.stop_broker(1)
    world.start_broker(1, run=False)
    world.set_state(tp(0), isr=(2, 1))
    world.server.put(PreferredElection.path(), PreferredElection((tp(0),)).encode())
    world.mark("u")
    controller.ask_shutdown(1, 2)
    world.run()
    world.server.put(Reassignment.path(), Reassignment((Move(tp(1), (3, 1)),)).encode())
    world.advance(10_000)
    world.bump()
    world.run()

    other = ControllerMachine(controller.machine.core.config, world.settings)
    assert [other.step(event, now) for event, now in received] == ordered  # type: ignore[arg-type]
    assert len(ordered) > 100


def _record(
    elector: ControllerMachine, received: list[tuple[object, Instant]], ordered: list[Sequence[Effect]]
) -> None:
    """Notes every step of the machine."""
    step = elector.step

    def noted(event: object, now: Instant) -> Sequence[Effect]:
        effects = step(event, now)  # type: ignore[arg-type]
        received.append((event, now))
        ordered.append(effects)
        return effects

    elector.step = noted  # type: ignore[method-assign, assignment]
