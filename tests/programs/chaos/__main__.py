"""`python -m tests.programs.chaos`: rounds of faults on real servers, by seed, until the time is over."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.programs.chaos.round import Round, run_round
from tests.programs.chaos.schedule import OTHERS, PAIRED, draw
from zkgroup.testing.proxies import PeerLinks
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

CONFIG = {"snapCount": "1000000"}
"""Servers keep one long log: nothing is left out of it."""


def main() -> int:
    """Runs rounds of consecutive seeds; 1 where one of them found an error."""
    asked = _arguments()
    logging.basicConfig(level=logging.ERROR)  # connections break all the time
    began_s = time.monotonic()
    totals = Totals()
    seed = asked.seed
    while True:
        totals.add(seed, _round(asked, seed))
        seed += 1
        if seed - asked.seed >= (asked.rounds or sys.maxsize):
            break
        if asked.rounds is None and time.monotonic() - began_s > asked.minutes * 60:
            break
    minutes = (time.monotonic() - began_s) / 60
    _say(f"{seed - asked.seed} rounds, seeds {asked.seed} to {seed - 1}, {minutes:.1f} minutes")
    totals.show()
    return 1 if totals.failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first round's seed")
    parser.add_argument("--rounds", type=int, help="so many rounds; otherwise by time")
    parser.add_argument("--minutes", type=float, default=20.0, help="no round begins after that  [20]")
    parser.add_argument("--slots", type=int, default=8, help="pairs of faults in a round  [8]")
    parser.add_argument(
        "--pair",
        action="append",
        type=_pair,
        metavar="F1+F2",
        help="these pairs in each round; may be repeated",
    )
    parser.add_argument(
        "--calm", type=float, default=10.0, help="seconds at rest at the end of a round  [10]"
    )
    parser.add_argument("--keep", type=Path, help="where to keep what was written; otherwise it is removed")
    return parser.parse_args()


def _round(asked: argparse.Namespace, seed: int) -> Round:
    """One round on servers of its own."""
    with tempfile.TemporaryDirectory(prefix="zkgroup-chaos-") as folder:
        home = (asked.keep or Path(folder)) / f"seed-{seed}"
        with (
            PeerLinks() as links,
            EmbeddedZooKeeper(
                3, fsync=False, route=links.route, config=CONFIG, data_dir=home / "zookeeper"
            ) as zookeeper,
        ):
            slots = draw(seed, len(asked.pair or range(asked.slots)), asked.pair)
            return run_round(zookeeper, links, home, seed, slots, calm_s=asked.calm, say=_say)


class Totals:
    """What all rounds together have shown."""

    def __init__(self) -> None:
        self.failed: list[int] = []
        """The seeds of rounds that found an error."""
        self._figures: Counter[str] = Counter()
        self._rests: list[float] = []
        self._decided: set[str] = set()

    def add(self, seed: int, done: Round) -> None:
        """Counts a round, and prints its errors."""
        self._figures += done.figures + Counter({f"bitten {name}": n for name, n in done.bitten.items()})
        if done.report is not None:
            self._figures += Counter(dataclasses.asdict(done.report.figures))
            self._rests.append(done.rest_s)
            self._decided |= done.report.decided
        if done.group is not None:
            self._decided |= done.group.decided
            figures = dataclasses.asdict(done.group.figures)
            self._figures += Counter(
                {f"group {name}": n for name, n in figures.items() if isinstance(n, int)}
            )
        for why in done.wrong:
            _say(f"seed {seed} WRONG: {why}")
        if done.wrong:
            self.failed.append(seed)

    def show(self) -> None:
        """Prints the figures, and which seeds failed."""
        for name, count in sorted(self._figures.items()):
            _say(f"  {name}: {count}")
        _say(f"  decided: {', '.join(sorted(self._decided))}")
        if self._rests:
            _say(f"  seconds to rest: {min(self._rests):.1f} to {max(self._rests):.1f}")
        _say(f"wrong: {self.failed or 'none'}")


def _pair(text: str) -> tuple[str, str]:
    one, _, other = text.partition("+")
    if not {one, other} <= {*PAIRED, *OTHERS}:
        raise argparse.ArgumentTypeError(f"expected two of {', '.join((*PAIRED, *OTHERS))}, found {text!r}")
    return one, other


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
