"""The cost of `zkgroup audit` by operation, on a healthy day of groups.

    python -m tests.programs.benchmarks.audit_measurements OPERATIONS [EARLIER [COMMAND ...]]

measures this many operations instead of the million of `python -m tests.programs.benchmarks audit`. EARLIER
is a checkout of an earlier commit (`git worktree add`), measured in turn with this one; COMMAND is one of
those to measure, such as report, by default all. Each command is a process of its own, its start and its
imports included; modules are compiled already. CPU counts, for it is meaningful on a shared machine; the
goals are Python calls of one more operation, which are the same on every machine.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.programs.benchmarks.calls import calls_of
from tests.programs.benchmarks.group_days import write_logs
from tests.programs.benchmarks.report import Line, Plan, Report
from zkgroup.audit.answers.snapshots import partition_rows, session_views
from zkgroup.audit.findings.engine import ALL_RULES
from zkgroup.audit.findings.engine import audit as audited
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.report.writing import report_of
from zkgroup.errors import NotFoundError

LOGS = 5
NOW = "now"
HERE = Path(__file__).parents[3]
_RUN = """
import sys

sys.path.insert(0, sys.argv.pop(1))
from cli.entry import main
sys.exit(main())
"""
_COMMANDS = {
    "findings": (),
    "owners": ("--group", "group-1", "--partition", "topic-1:0"),
    "offsets": ("--group", "group-1"),
    "sessions": ("--group", "group-1"),
    "report": (),
}
MOST_CALLS = {"findings": 13.0, "offsets of one group": 1.5, "sessions": 1.5, "report": 24.0}
"""Python calls that one more operation costs, with the compiled kernel. Most of those of findings are of
the rows of members and owners that rebalances are made of."""
FEWEST, FEW, MANY = 2_000, 20_000, 40_000
TIMEOUT_S = 3600
CHROOT = "/kafka"


def audit(plan: Plan, report: Report) -> None:
    """Lines of CPU for each command, and goals in calls."""
    count_calls(report)
    if not plan.short:
        measure(report, 1_000_000, {NOW: HERE})


def measure(
    report: Report, operations: int, trees: dict[str, Path], commands: Sequence[str] = tuple(_COMMANDS)
) -> None:
    """One run of each command with each tree of sources, in turn."""
    with tempfile.TemporaryDirectory(prefix="zkgroup-audit-") as name:
        place = Path(name)
        few = Asked("few", (write_logs(place / "few" / "version-2", FEWEST, LOGS, groups=2),), FEWEST)
        for command in commands:
            for asked in _asked(place, operations):
                for side, tree in trees.items():
                    _line(command, side, tree, few, place)  # compiles the modules
                    report.lines.append(_line(command, side, tree, asked, place))


class Asked(NamedTuple):
    """What a command is asked about."""

    what: str
    folders: tuple[Path, ...]
    operations: int
    chroot: str = ""


def _asked(place: Path, operations: int) -> list[Asked]:
    """A server of clients without a chroot, and one and three of an ensemble whose clients have one."""
    alone, *servers = (place / name / "version-2" for name in ("alone", "a", "b", "c"))
    if not alone.exists():
        write_logs(alone, operations, LOGS)
        write_logs(servers[0], operations, LOGS, chroot=CHROOT)
        for other in servers[1:]:
            shutil.copytree(servers[0], other)
    return [
        Asked("one server", (alone,), operations),
        Asked(f"one below {CHROOT}", (servers[0],), operations, CHROOT),
        Asked(f"three below {CHROOT}", tuple(servers), operations, CHROOT),
    ]


def _line(command: str, side: str, tree: Path, asked: Asked, place: Path) -> Line:
    page = (str(place / "report.html"), "--overwrite") if command == "report" else ()
    inputs = [text for folder in asked.folders for text in ("--input", str(folder))]
    root = ("--chroot", asked.chroot) if asked.chroot else ()
    command_line = ["--format", "json", "audit", command, *page, *inputs, *root, *_COMMANDS[command]]
    before, start = _children_cpu_s(), time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, str(tree), *command_line],
        cwd=tree,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(place / "compiled")},
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode in (0, 3), command_line
    seconds, cpu_s = time.monotonic() - start, _children_cpu_s() - before
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    note = (
        f"{1e6 * cpu_s / asked.operations:.1f} µs of CPU an operation; this command or one before: {peak} MiB"
    )
    line = Line(
        f"audit {command}, {asked.operations} operations, {asked.what}",
        side,
        seconds,
        client_cpu_s=cpu_s,
        note=note,
    )
    print(json.dumps([line.what, side, round(cpu_s, 2), os.getloadavg()[0]]), file=sys.stderr, flush=True)
    return line


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def count_calls(report: Report) -> None:
    """The Python calls of one more operation, by two sizes of the same day."""
    with tempfile.TemporaryDirectory(prefix="zkgroup-audit-") as name:
        folders = [write_logs(Path(name) / f"{size}", size, 2, groups=2) for size in (FEW, MANY)]
        for what, act in _QUESTIONS.items():
            act(folders[0])  # all imports
            few, many = (calls_of(lambda act=act, folder=folder: act(folder)) for folder in folders)  # type: ignore[misc]
            cost = (many - few) / (MANY - FEW)
            report.at_most(f"audit {what}, of one more operation", MOST_CALLS[what], cost, "calls")


def _offsets_of_another(folder: Path) -> None:
    """Reads all and makes no objects: the group is not there."""
    with suppress(NotFoundError):
        partition_rows(open_source([folder]).rows(), "absent")


_QUESTIONS: dict[str, Callable[[Path], object]] = {
    "findings": lambda folder: audited(open_source([folder]), ALL_RULES),
    "offsets of one group": _offsets_of_another,
    "sessions": lambda folder: session_views(open_source([folder]).rows()),
    "report": lambda folder: report_of(open_source([folder]), [folder]),
}


def main(arguments: Sequence[str]) -> None:
    report = Report()
    trees = {"as it was": Path(arguments[1]).resolve()} if len(arguments) > 1 else {}
    measure(report, int(arguments[0]), {**trees, NOW: HERE}, arguments[2:] or tuple(_COMMANDS))
    print(report.as_table())


if __name__ == "__main__":
    main(sys.argv[1:])
