"""`python -m tests.programs.real_day`: a group under faults for half an hour, then all accounts of it."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.programs.real_day.day import Day, run_day
from tests.programs.real_day.faults import draw
from tests.programs.real_day.judge import judge


def main() -> int:
    """1 where an invariant was violated or the records disagree."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.real_day", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="no fault begins after that  [30]")
    parser.add_argument("--seed", type=int, default=1, help="what happens, and when  [1]")
    parser.add_argument("--keep", type=Path, help="where to keep what was written; otherwise it is removed")
    parser.add_argument("--judge", type=Path, metavar="KEPT", help="only check a day that was kept")
    asked = parser.parse_args()

    logging.basicConfig(level=logging.ERROR)  # connections break all the time
    with tempfile.TemporaryDirectory(prefix="zkgroup-day-") as folder:
        home = asked.judge or asked.keep or Path(folder)
        if asked.judge is None:
            if home.exists() and any(home.iterdir()):
                parser.error(f"{home}: expected an empty folder, found files")
            run_day(home, asked.seed, draw(asked.seed), asked.minutes, _say)
        day = Day.kept(home)
        verdict = judge(home, day)
    _say(f"seed {day.seed}, {day.minutes:.1f} minutes")
    for name, count in sorted(day.bitten.items()):
        _say(f"  {name}: {count}")
    for name, count in verdict.figures.items():
        _say(f"  {name}: {count}")
    for why in verdict.wrong:
        _say(f"WRONG: {why}")
    _say(f"wrong: {len(verdict.wrong) or 'none'}")
    return 1 if verdict.wrong else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
