"""Explores configurations of the model: `python -m tests.programs.model --list | --all | NAME...`.

Exit status 1 when an answer is not the expected one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.programs.model.configurations import CONFIGURATIONS
from tests.programs.model.exploration import explore


def run(name: str, limit_s: float) -> bool:
    """Explores one configuration and prints the result; True for the expected answer."""
    cfg, started = CONFIGURATIONS[name], time.monotonic()
    found = explore(cfg, limit_s)
    print(
        f"{name}: {found.verdict} (expected: {cfg.expect}); {found.states} states, "
        f"{found.steps} steps without fault, {time.monotonic() - started:.0f} s"
        + ("" if cfg.liveness else "; safety only"),
        flush=True,
    )
    if found.violation:
        print_trace(found.violation, found.trace)
    return found.verdict == cfg.expect


def print_trace(violation: str, trace: Sequence[str]) -> None:
    print(f"  {violation}")
    for number, step in enumerate(trace, 1):
        print(f"  {number:3} {step}")


def runner(
    configurations: Mapping[str, Any], answer: Callable[[Any, float], Any]
) -> Callable[[str, float], bool]:
    """`run` for a model whose `answer` explores one configuration."""

    def run(name: str, limit_s: float) -> bool:
        expected = configurations[name]
        found = answer(expected, limit_s)
        print(
            f"{name}: {found.verdict} (expected: {expected.verdict}); {found.states} states, "
            f"{found.edges} steps, {found.seconds:.0f} s",
            flush=True,
        )
        for text, trace in (*found.violations.items(), ("stuck", found.stuck or [])):
            if trace:
                print_trace(text, trace)
        return bool(found.verdict == expected.verdict)

    return run


def main(prog: str, configurations: Mapping[str, object], run: Callable[[str, float], bool]) -> int:
    ask = argparse.ArgumentParser(prog=f"python -m {prog}")
    ask.add_argument("names", nargs="*", metavar="NAME", choices=[[], *configurations])
    ask.add_argument("--list", action="store_true", help="name the configurations and stop")
    ask.add_argument("--all", action="store_true", help="explore every configuration")
    ask.add_argument("--limit-s", type=float, default=600, help="for each configuration")
    given = ask.parse_args()
    names = list(configurations) if given.all else given.names
    if given.list or not names:
        for name, cfg in configurations.items():
            print(f"{name}: {cfg}")
        return 0
    answers = [run(name, given.limit_s) for name in names]
    return 0 if all(answers) else 1


if __name__ == "__main__":
    sys.exit(main("tests.programs.model", CONFIGURATIONS, run))
