"""How reliably drawn schedules find the mistakes that `tests/long/simulation/cluster_bugs.py` plants.

    python -m tests.programs.planted [--only NAME...] [--batches 10] [--first 1000000] [--jobs 1]

Each mistake is planted, and batches of schedules with fresh seeds are run until one fails by its expected
invariant. Prints a table; exit code 1 where more than one batch of ten missed a mistake.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from tests.long.simulation.cluster_bugs import BUGS
from tests.long.simulation.test_cluster_bugs import broken_by
from tests.pure.simulation.batches import BATCH

LEAST = 0.9
"""Of the batches, at least, find each mistake."""


def schedules_until_found(name: str, seeds: range) -> int | None:
    """How many schedules ran until one failed; None where none of them did."""
    logging.disable(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        BUGS[name].plant(patch)
        for count, seed in enumerate(seeds, 1):
            if broken_by(seed).intersection(BUGS[name].noticed_by):
                return count
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures each mistake and prints its row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=BUGS, default=list(BUGS), metavar="NAME")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--first", type=int, default=1_000_000, help="first seed")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args(arguments)
    batches = [range(asked.first + i * BATCH, asked.first + (i + 1) * BATCH) for i in range(asked.batches)]
    print(f"| mistake | noticed by | batches of {BATCH} | schedules until found, median and most |")
    print("| --- | --- | --- | --- |")
    missed = False
    with ProcessPoolExecutor(asked.jobs) as pool:
        for name in asked.only:
            found = list(pool.map(partial(schedules_until_found, name), batches))
            counts = [count for count in found if count is not None]
            took = f"{statistics.median(counts):.0f}, {max(counts)}" if counts else ""
            is_active = ", ".join(BUGS[name].noticed_by)
            print(f"| {name} | {is_active} | {len(counts)} of {len(found)} | {took} |", flush=True)
            missed |= len(counts) < LEAST * len(found)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
