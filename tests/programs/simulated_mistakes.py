"""How soon schedules find the mistakes that are planted in simulated members.

`python -m tests.programs.simulated_mistakes [NAME...]` takes ten batches of 250 seeds that no test uses,
plants each mistake and prints in how many batches it is found, and after how many schedules.
"""

from __future__ import annotations

import re
import statistics
import sys

import pytest

from tests.long.simulation.bugs import BUGS, Bug
from tests.simulation import Simulation, SimulationError
from tests.simulation.group.setup import GroupSetup

FIRST = 10_000
BATCHES = 10
SEEDS = 250


def schedules_until_found(bug: Bug, first: int) -> int | None:
    """How many schedules of a batch ran until one failed; None where none did."""
    assert isinstance(bug.where, GroupSetup)
    for seed in range(first, first + SEEDS):
        try:
            Simulation(seed, setup=bug.where).run()
        except SimulationError as error:
            if re.search(bug.caught_by, str(error).splitlines()[0]):
                return seed - first + 1
    return None


def main(names: list[str]) -> None:
    """Prints a row for each mistake of schedules, or for those named."""
    print("| mistake | batches | schedules until found: median, most |")
    print("| --- | --- | --- |")
    for bug in BUGS:
        if not isinstance(bug.where, GroupSetup) or (names and bug.name not in names):
            continue
        with pytest.MonkeyPatch.context() as patch:
            bug.put_in(patch)
            counts = [schedules_until_found(bug, FIRST + SEEDS * number) for number in range(BATCHES)]
        found = [count for count in counts if count is not None]
        times = f"{statistics.median(found):g}, {max(found)}" if found else "never"
        print(f"| {bug.name} | {len(found)} of {BATCHES} | {times} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
