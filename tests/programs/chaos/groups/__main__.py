"""`python -m tests.programs.chaos.groups`: coordinators are killed and paused under fifty members."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.programs.chaos.groups.brokers import ENTRY
from tests.programs.chaos.groups.round import run_round
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


def main() -> int:
    """Runs one round; 1 where it found an error."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.chaos.groups", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long there are faults  [600]")
    parser.add_argument("--clients", type=int, default=50, help="members, five a group  [50]")
    parser.add_argument("--processes", type=int, default=5, help="processes of members  [5]")
    parser.add_argument("--keep", type=Path, help="where to keep what was written; otherwise it is removed")
    parser.add_argument(
        "--weakened", metavar="MISTAKE", help="brokers with a mistake of `weakened`, to be found"
    )
    asked = parser.parse_args()
    entry = ("-m", "tests.programs.chaos.groups.weakened", asked.weakened) if asked.weakened else ENTRY
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zkgroup-chaos-") as folder:
        home = (asked.keep or Path(folder)) / f"groups-{asked.seed}"
        with EmbeddedZooKeeper(
            1, fsync=False, config={"snapCount": "1000000"}, data_dir=home / "zookeeper"
        ) as zookeeper:
            found = run_round(
                zookeeper,
                home,
                asked.seed,
                asked.seconds,
                clients=asked.clients,
                processes=asked.processes,
                entry=entry,
                say=_say,
            )
    _say(f"seed {asked.seed}, {asked.seconds:g} s of faults, {(time.monotonic() - began_s) / 60:.1f} minutes")
    for name, count in sorted(found.figures.items()):
        _say(f"  {name}: {count}")
    for why in found.wrong:
        _say(f"WRONG: {why}")
    _say(f"wrong: {len(found.wrong)}")
    return 1 if found.wrong else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
