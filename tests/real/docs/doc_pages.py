"""Executes the examples of README and docs: each page in one shell, on its own tree or server."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.project import ROOT
from tests.waiting import PATIENCE_S, waiting
from tests.worlds.prefork import Prefork
from zkgroup.zookeeper.embedded.server import ReservedPort

LANGUAGES = {"python": "python", "sh": "sh", "shell": "sh", "bash": "sh", "console": "sh"}

_FENCE = re.compile(
    r"^(?P<before>[^\n]*)\n+```(?P<language>[a-z]+)\n(?P<code>.*?)\n```$", re.DOTALL | re.MULTILINE
)
_SKIP = re.compile(r"<!-- not executed: (?P<reason>.+?) -->")
_SETUP = re.compile(r"<!-- executed after: (?P<command>.+?) -->")
_OUTPUT = re.compile(r"<!-- output(?P<varies> of one run)? -->")


@dataclass(frozen=True)
class Example:
    """One code block."""

    page: str
    line: int
    language: str
    code: str
    skip: str | None
    """The reason why it is not executed, if any."""
    setup: str | None
    """A shell command that a reader of the page does not need to see."""
    output: str | None = None
    """The output that the page shows for it."""
    varies: bool = False
    """The output is that of one run, so another run's is not compared with it."""


def examples(page: Path) -> Iterator[Example]:
    """Python and shell blocks of a page.

    A comment right before one excuses it (`not executed: reason`) or prepares it (`executed after: command`).
    The text block behind it, after a comment `output` or `output of one run`, is what it prints.
    """
    text = "\n" + page.read_text(encoding="utf-8")
    blocks = list(_FENCE.finditer(text))
    for found, after in zip_longest(blocks, blocks[1:]):
        language = LANGUAGES.get(found["language"])
        if language is None:
            continue
        output = _OUTPUT.search(after["before"]) if after and after["language"] == "text" else None
        excuse = _SKIP.search(found["before"])
        setup = _SETUP.search(found["before"])
        yield Example(
            page=page.name,
            line=text.count("\n", 0, found.start("language")),
            language=language,
            code=found["code"],
            skip=excuse["reason"] if excuse else None,
            setup=setup["command"] if setup else None,
            output=after["code"] if after and output else None,
            varies=bool(output and output["varies"]),
        )


PAGE_TIMEOUT_S = 840
"""Of one page: ends before pytest's own limit, which would leave the page's processes behind."""

SPARK = "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
"""What every Spark session of a page is started with: the little data of a page repays no more compiling."""
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
]
LONG = {
    "cookbook.md",
    "tutorial.md",
    "library.md",
    "audit.md",
    "audit-on-spark.md",
    "nightly-audit.md",
    "brokers.md",
    "concepts.md",
    "deployment.md",
    "from-set-partitioner.md",
    "groups.md",
    "records.md",
    "reassignments.md",
    "security.md",
    "testing-kafka-code.md",
}
"""Pages with long sessions: their own servers, brokers or Spark."""
WITH_EXAMPLES = [page for page in PAGES if any(not example.skip for example in examples(page))]

WRAPPER = """
set -euo pipefail
set -m
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
sleep() { command sleep 0.05; }
"""
"""A page that polls slowly, as a reader does; the test polls faster."""
END_SESSION = ROOT / "tests" / "real" / "docs" / "end_session.py"


def run_page(page: Path, folder: Path, request: pytest.FixtureRequest, preforked: Prefork | None) -> None:
    """Runs all blocks of a page in order, in one shell; fails where a block fails or prints other output.

    The README's commands are a user's own; those of other pages come from a process that has imported them.
    With `ZKGROUP_DOCS_RECORD` set, what the blocks print is written into the page instead of being compared.
    """
    record = os.environ.get("ZKGROUP_DOCS_RECORD")
    blocks = [example for example in examples(page) if not example.skip]
    commands = folder / "commands"
    commands.mkdir()
    if preforked is not None and page.name != "README.md":
        preforked.commands(commands)
    else:
        (commands / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        (commands / "python").chmod(0o755)
    with ExitStack() as stack:
        if any("zookeeper start" in block.code for block in blocks):
            port = ReservedPort()
            stack.callback(port.release)
            zookeeper = str(port.number)
        else:
            zookeeper = request.getfixturevalue("zk_server").address.rpartition(":")[2]
        done = _run([_as_shell(block, zookeeper, folder) for block in blocks], folder, commands)

    assert done.returncode == 0, f"{page.name}: exit code {done.returncode}\n{done.stdout[-6000:]}"
    printed = _printed(
        done.stdout, page, {zookeeper: "2181", str(folder): "~", socket.gethostname(): "host1"}
    )
    if record == "named" or (record and any(differs(block, printed[block.line]) for block in blocks)):
        text = page.read_text(encoding="utf-8")
        page.write_text(recorded(text, blocks, printed), encoding="utf-8")
    elif not record:
        for block in blocks:
            compare(block, printed[block.line])


def _printed(output: str, page: Path, names: Mapping[str, str]) -> dict[int, str]:
    """The output of each block by its line, with the names of this machine replaced by the page's."""
    for name, readers in names.items():
        output = renamed(output, name, readers)
    parts = re.split(rf"^--- {re.escape(page.name)}:(\d+)\n", output, flags=re.MULTILINE)
    blocks = zip(parts[1::2], parts[2::2], strict=True)
    return {int(line): "\n".join(_lines(text)) for line, text in blocks}


def renamed(output: str, name: str, readers: str) -> str:
    """The output with another name; a column of a table that holds it gets the width of the new one."""
    whole = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return "\n\n".join(_renamed_table(part, whole, readers) for part in output.split("\n\n"))


def _renamed_table(part: str, name: re.Pattern[str], readers: str) -> str:
    lines = part.split("\n")
    row = next((line for line in lines if re.search(rf"  {name.pattern}  +\S", line)), None)
    if row is None:
        return name.sub(readers, part)
    start = re.search(rf"  {name.pattern}  +", row)
    assert start is not None
    begin, end = start.start() + 2, start.end()
    of_table = [line[begin - 2 : begin] == "  " and line[end - 2 : end] == "  " for line in lines]
    cells = [name.sub(readers, line[begin:end].rstrip()) for line in lines]
    width = max(len(cell) for cell, inside in zip(cells, of_table, strict=True) if inside) + 2
    return "\n".join(
        line[:begin] + cell.ljust(width) + name.sub(readers, line[end:])
        if inside
        else name.sub(readers, line)
        for line, cell, inside in zip(lines, cells, of_table, strict=True)
    )


def _lines(text: str) -> list[str]:
    """The output without the shell's messages about jobs, and without trailing blanks."""
    shell = re.compile(r"^(bash|\S+): line \d+: +\d+ (Killed|Terminated)|^\[\d+\][+-]? +\w+ ")
    lines = [line.rstrip() for line in text.splitlines() if not shell.match(line)]
    return "\n".join(lines).strip("\n").splitlines()


def compare(block: Example, printed: str) -> None:
    """Compares outputs with the page's, without numbers and widths; every block that prints needs an
    output."""
    where = f"{block.page}:{block.line}"
    record = "`python -m docs.tools.record_outputs` records it"
    assert block.output is not None or not printed, (
        f"{where} prints, the page has no output; {record}\n{printed}"
    )
    if block.output is None or block.varies:
        return
    shapes = _shapes(printed)
    missing = [line for line in block.output.splitlines() if shape(line) not in shapes]
    assert missing == [], f"{where} prints something else than the page shows; {record}\n{printed}"


def shape(line: str) -> str:
    """A line without what differs between runs: numbers with units, ids, and column widths."""
    line = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "#", line)
    line = re.sub(r"(\b[0-9a-f-]+)?…[0-9a-f-]+\b", "#", line)  # an id that was shortened
    line = re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b", "#", line)
    # a minute and more: zkgroup writes 3m12s or 5h07m, pytest 83.28s (0:01:23)
    line = re.sub(r"\b\d+[mh]\d\d[sm]\b", "1s", line)
    line = re.sub(r"(?<=\ds) \(\d+:\d\d:\d\d\)$", "", line)
    line = re.sub(r"\d[\d.,:TZ-]*( ?(ms|s|min|m|h)\b)?", "#", line)
    return re.sub(r"([\s─━-])[\s─━-]*", r"\1", line).strip()


def _shapes(text: str) -> list[str]:
    return [shape(line) for line in text.splitlines()]


def differs(block: Example, printed: str) -> bool:
    """Whether the page's output differs, without numbers and widths; an output that varies is only
    required."""
    if block.varies and block.output is not None:
        return not printed
    return _shapes(block.output or "") != _shapes(printed)


def recorded(text: str, blocks: list[Example], printed: Mapping[int, str]) -> str:
    """The page with the recorded outputs of one run in place of the present ones."""
    lines = ("\n" + text).split("\n")
    for block in reversed(blocks):
        end = lines.index("```", block.line + 1) + 1
        after = end
        if block.output is not None:
            after = lines.index("```", lines.index("```text", end)) + 1
        marker = "<!-- output of one run -->" if block.varies else "<!-- output -->"
        shown = printed[block.line]
        lines[end:after] = ["", marker, "```text", *shown.split("\n"), "```"] if shown else []
    return "\n".join(lines[1:])


def _as_shell(example: Example, zookeeper: str, folder: Path) -> str:
    """The block as shell text, with the port of the running server and the patience of a slow machine."""
    replaced = {
        r"\b2181\b": zookeeper,
        r"--timeout 60s\b": f"--timeout {PATIENCE_S:g}s",
        r"\btimeout(_s|)=[123]0\b": rf"timeout\1={PATIENCE_S:g}",
        r"\bconsumer_timeout_ms=1000\b": f"consumer_timeout_ms={10_000 if example.page in LONG else 3_000}",
    }
    code, setup = example.code, example.setup or ":"
    for here, there in replaced.items():
        code, setup = re.sub(here, there, code), re.sub(here, there, setup)
    if example.language == "python":
        file = folder / f"line-{example.line}.py"
        file.write_text(code + "\n")
        code = f"python {file.name}"
    return f"{setup}\necho {shlex.quote(f'--- {example.page}:{example.line}')}\n{code}"


def _run(blocks: list[str], folder: Path, commands: Path) -> subprocess.CompletedProcess[str]:
    """Runs them in a new session, so that no process outlives the time limit."""
    path = f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = "\n".join([WRAPPER, f"end_session() {{ python {shlex.quote(str(END_SESSION))} $*; }}", *blocks])
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
            "PATH": path,
            "COLUMNS": "110",
            "PYTHONUNBUFFERED": "1",
            "LOGNAME": "operator",
            "PYSPARK_SUBMIT_ARGS": SPARK,
            "XDG_STATE_HOME": str(folder / ".local" / "state"),
            "XDG_CONFIG_HOME": str(folder / ".config"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with waiting():
        try:
            output, _ = process.communicate(timeout=PAGE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            output, _ = process.communicate()
            output += f"\nkilled after {PAGE_TIMEOUT_S:g} s"
    return subprocess.CompletedProcess("bash", process.returncode, output, "")
