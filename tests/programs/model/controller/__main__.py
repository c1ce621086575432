"""Explores the two models: `python -m tests.programs.model.controller --list | --all | NAME...`.

Exit status 1 when an answer is not the expected one.
"""

from __future__ import annotations

import argparse
import sys

from tests.programs.model.controller.configurations import CONFIGURATIONS, answer


def run(name: str, limit_s: float) -> bool:
    """Explores one configuration and tells what was found; True for the expected answer."""
    expected = CONFIGURATIONS[name]
    found = answer(expected, limit_s)
    print(
        f"{name}: {found.verdict} (expected: {expected.verdict}); {found.states} states, "
        f"{found.edges} steps, {found.seconds:.0f} s",
        flush=True,
    )
    for text, trace in (*found.violations.items(), ("stuck", found.stuck or [])):
        if trace:
            print(f"  {text}")
        for number, step in enumerate(trace, 1):
            print(f"  {number:3} {step}")
    return found.verdict == expected.verdict


def main() -> int:
    ask = argparse.ArgumentParser(
        prog="python -m tests.programs.model.controller", description=__doc__.partition("\n")[0]
    )
    ask.add_argument("names", nargs="*", metavar="NAME", choices=[[], *CONFIGURATIONS])
    ask.add_argument("--list", action="store_true", help="name the configurations and stop")
    ask.add_argument("--all", action="store_true", help="explore every configuration")
    ask.add_argument("--limit-s", type=float, default=600, help="for each configuration")
    given = ask.parse_args()
    names = list(CONFIGURATIONS) if given.all else given.names
    if given.list or not names:
        for name, expected in CONFIGURATIONS.items():
            print(f"{name}: {expected}")
        return 0
    answers = [run(name, given.limit_s) for name in names]
    return 0 if all(answers) else 1


if __name__ == "__main__":
    sys.exit(main())
