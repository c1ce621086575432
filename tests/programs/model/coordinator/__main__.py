"""Explores the model of the coordinator: `python -m tests.programs.model.coordinator --list | --all | NAME`.

Exit status 1 when an answer is not the expected one.
"""

from __future__ import annotations

import sys

from tests.programs.model.__main__ import main, print_trace
from tests.programs.model.coordinator.configurations import CONFIGURATIONS, answer


def run(name: str, limit_s: float) -> bool:
    """Explores one configuration and prints what was found; True for the expected answer."""
    expected = CONFIGURATIONS[name]
    found = answer(expected, limit_s)
    print(
        f"{name}: {found.verdict} (expected: {expected.verdict}); {found.states} states, "
        f"{found.edges} steps, {found.seconds:.0f} s",
        flush=True,
    )
    for text, trace in (*found.violations.items(), ("stuck", found.stuck or [])):
        if trace:
            print_trace(text, trace)
    return found.verdict == expected.verdict


if __name__ == "__main__":
    sys.exit(main("tests.programs.model.coordinator", CONFIGURATIONS, run))
