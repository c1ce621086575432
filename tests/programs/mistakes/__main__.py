"""Puts each planted mistake into a copy of the tree: `python -m tests.programs.mistakes`.

Exit status 1 when a mistake was not caught, or is stale; 2 when the tests fail without one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.programs.mistakes.catalogue import MISTAKES, PARTS, Mistake
from tests.programs.mistakes.run import Result, SuiteError, run, table


def chosen(words: Sequence[str]) -> list[Mistake]:
    """The mistakes of these parts or names; all where there are no words."""
    known = {*PARTS, *(each.name for each in MISTAKES)}
    if unknown := [word for word in words if word not in known]:
        sys.exit(f"no such part or mistake: {', '.join(map(repr, unknown))}; --list names them")
    return [each for each in MISTAKES if not words or each.part in words or each.name in words]


class Screen:
    """Prints a line for each result; on a terminal a progress bar below them."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        self.progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self.progress.add_task("suites without a mistake", total=total)
        self._total, self._done = total, 0

    def begun(self, line: str) -> None:
        self.progress.console.print(line, markup=False)

    def told(self, result: Result) -> None:
        self._done += 1
        self.progress.update(self._task, completed=self._done, description=result.mistake.part)
        self.progress.console.print(f"{self._done:3}/{self._total} {result.line}", markup=False)


@contextmanager
def screen(total: int) -> Iterator[Screen]:
    made = Screen(total)
    with made.progress:
        yield made


def main() -> int:
    ask = argparse.ArgumentParser(
        prog="python -m tests.programs.mistakes", description=__doc__.partition("\n")[0]
    )
    ask.add_argument("--only", nargs="+", default=(), metavar="PART|NAME", help="these alone")
    ask.add_argument("--list", action="store_true", help="name the mistakes and stop")
    ask.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at a time")
    ask.add_argument("--table", action="store_true", help="print the results as a table in Markdown")
    given = ask.parse_args()
    mistakes = chosen(given.only)
    if given.list:
        for each in mistakes:
            print(f"{each.part}: {each.name}: {each.says}")
        return 0
    started = time.monotonic()
    try:
        with screen(len(mistakes)) as shown:
            results = run(mistakes, max(1, given.jobs), shown.told, shown.begun)
    except SuiteError as error:
        print(f"mistakes: the tests fail {error}", file=sys.stderr)
        return 2
    if given.table:
        print(table(results))
    missed = [each for each in results if each.trouble]
    caught, took_s = len(results) - len(missed), time.monotonic() - started
    print(f"{caught} of {len(results)} mistakes caught, in {took_s:.0f} s", file=sys.stderr)
    for each in missed:
        print(each.line, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
