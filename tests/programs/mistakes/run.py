"""Plants mistakes, one after another, checks whether their tests fail, and writes the table of results."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.programs.mistakes.catalogue import Mistake, StaleError
from tests.programs.mistakes.tree import PATIENCE_WITH_MISTAKE_S, Copy, Run

TAIL: Final = 30
"""Lines of pytest that are shown where it did not do what it should."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one mistake."""

    mistake: Mistake
    caught_by: str
    """A test; empty where none failed."""
    seconds: float
    """Of CPU."""
    trouble: str = ""
    """Why it does not count as caught."""

    @property
    def line(self) -> str:
        if self.trouble:
            return f"NOT CAUGHT  {self.mistake.part}: {self.mistake.name}: {self.trouble}"
        return f"{self.seconds:5.1f} s  {self.mistake.part}: {self.mistake.name}: {self.caught_by}"


class SuiteError(Exception):
    """The tests fail without any mistake, so they show nothing."""


class Copies:
    """One copy of the tree for each job."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._free: queue.Queue[Copy] = queue.Queue()
        for number in range(jobs):
            self._free.put(Copy(folder / f"tree-{number}"))

    @contextmanager
    def one(self) -> Iterator[Copy]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def run(
    mistakes: Sequence[Mistake],
    jobs: int,
    told: Callable[[Result], None] = lambda result: None,
    begun: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """The results, in the order of the mistakes. Raises SuiteError.

    told: called with each result as it comes; begun: with a line on each suite without a mistake.
    """
    with tempfile.TemporaryDirectory(prefix="zkgroup-mistakes-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies = Copies(Path(folder), jobs)
        for line in pool.map(lambda tests: _without(copies, tests), _suites(mistakes, jobs)):
            begun(line)
        waiting = {pool.submit(_with, copies, mistake): mistake for mistake in mistakes}
        found: dict[str, Result] = {}
        for done in as_completed(waiting):
            result = found[waiting[done].name] = done.result()
            told(result)
    return [found[mistake.name] for mistake in mistakes]


def _suites(mistakes: Sequence[Mistake], jobs: int) -> list[tuple[str, ...]]:
    """The tests of all mistakes, for one run of pytest in each job: its start costs more than most tests."""
    paths = sorted({path for each in mistakes for path in each.tests})
    return [tuple(paths[job::jobs]) for job in range(min(jobs, len(paths)))]


def _without(copies: Copies, tests: tuple[str, ...]) -> str:
    with copies.one() as copy:
        run = copy.pytest(tests)
    if not run.passed:
        raise SuiteError(f"without any mistake: {' '.join(tests)}\n{_tail(run)}")
    return f"{run.seconds:5.1f} s  without a mistake: {' '.join(tests)}"


def _with(copies: Copies, mistake: Mistake) -> Result:
    with copies.one() as copy:
        return with_mistake(copy, mistake)


def with_mistake(copy: Copy, mistake: Mistake) -> Result:
    """What the tests of a mistake find in a copy that has it; afterwards the copy is as before."""
    try:
        source = mistake.put_in(copy.root)
    except StaleError as error:
        return Result(mistake, "", 0.0, f"stale: {error}")
    try:
        run = copy.pytest(mistake.tests, PATIENCE_WITH_MISTAKE_S)
    finally:
        mistake.take_out(copy.root, source)
    if run.caught:
        return Result(mistake, run.failed, run.seconds)
    trouble = "no test failed" if run.passed else f"pytest ended otherwise:\n{_tail(run)}"
    return Result(mistake, "", run.seconds, trouble)


def _tail(run: Run) -> str:
    return "\n".join(run.output.splitlines()[-TAIL:])


HEAD: Final = "| part | mistake | caught by | CPU s |"


def table(results: Iterable[Result]) -> str:
    """A row for each mistake."""
    rows = [HEAD, "| --- | --- | --- | --- |"]
    for each in results:
        file, _, test = each.caught_by.partition("[")[0].partition("::")
        caught = f"`{file}` {test}" if test else "**no test**"
        rows.append(f"| {each.mistake.part} | {each.mistake.says} | {caught} | {each.seconds:.1f} |")
    return "\n".join(rows)
