"""zkgroup with a planted mistake: its controller does not check that the controller epoch is still its own.

`python -m tests.programs.chaos.weakened broker run ...`; the fence of each of its writes is `/controller`
alone, which has the same version whichever broker created it (faults.md, finding 1).
"""

from __future__ import annotations

from zkgroup_cli.app import main

from zkgroup.controller.machine.fenced_writes import CONTROLLER_VERSION, Fence
from zkgroup.model.requests import Check
from zkgroup.znodes.controller import ControllerRegistration


def _without_epoch(_: Fence) -> tuple[Check]:
    return (Check(ControllerRegistration.path(), CONTROLLER_VERSION),)


if __name__ == "__main__":
    Fence.checks = _without_epoch  # type: ignore[method-assign, assignment]
    main()
