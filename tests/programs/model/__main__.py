"""Explores configurations of the model: `python -m tests.programs.model --list | --all | NAME...`.

Exit status 1 when an answer is not the expected one.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.programs.model.configurations import CONFIGURATIONS
from tests.programs.model.exploration import explore


def run(name: str, limit_s: float, limit_states: int) -> bool:
    """Explores one configuration and tells what was found; True for the expected answer."""
    cfg, started = CONFIGURATIONS[name], time.monotonic()
    found = explore(cfg, limit_s, limit_states)
    print(
        f"{name}: {found.verdict} (expected: {cfg.expect}); {found.states} states, "
        f"{found.steps} steps without fault, {time.monotonic() - started:.0f} s"
        + ("" if cfg.liveness else "; safety only"),
        flush=True,
    )
    if found.violation:
        print(f"  {found.violation}")
        for number, step in enumerate(found.trace, 1):
            print(f"  {number:3} {step}")
    return found.verdict == cfg.expect


def main() -> int:
    ask = argparse.ArgumentParser(
        prog="python -m tests.programs.model", description=__doc__.partition("\n")[0]
    )
    ask.add_argument("names", nargs="*", metavar="NAME", choices=[[], *CONFIGURATIONS])
    ask.add_argument("--list", action="store_true", help="name the configurations and stop")
    ask.add_argument("--all", action="store_true", help="explore every configuration")
    ask.add_argument("--limit-s", type=float, default=600, help="for each configuration")
    ask.add_argument("--limit-states", type=int, default=4_000_000)
    given = ask.parse_args()
    names = list(CONFIGURATIONS) if given.all else given.names
    if given.list or not names:
        for name, cfg in CONFIGURATIONS.items():
            print(f"{name}: {cfg}")
        return 0
    answers = [run(name, given.limit_s, given.limit_states) for name in names]
    return 0 if all(answers) else 1


if __name__ == "__main__":
    sys.exit(main())
