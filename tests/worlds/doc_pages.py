"""The examples of README and docs, executed: a page is one shell, on a tree or a server of its own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.project import ROOT
from tests.waiting import PATIENCE_S, waiting
from tests.worlds.prefork import Prefork
from zkgroup.zookeeper.embedded.ports import HeldPort

LANGUAGES = {"python": "python", "sh": "sh", "shell": "sh", "bash": "sh", "console": "sh"}

_FENCE = re.compile(
    r"(?P<before>[^\n]*)\n+```(?P<language>[a-z]+)\n(?P<code>.*?)\n```$", re.DOTALL | re.MULTILINE
)
_SKIP = re.compile(r"<!-- not executed: (?P<reason>.+?) -->")
_SETUP = re.compile(r"<!-- executed after: (?P<command>.+?) -->")


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


def examples(page: Path) -> Iterator[Example]:
    """Python and shell blocks of a page.

    A comment right before one excuses it (`not executed: reason`) or prepares it (`executed after: command`).
    """
    text = "\n" + page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        language = LANGUAGES.get(found["language"])
        if language is None:
            continue
        excuse = _SKIP.search(found["before"])
        setup = _SETUP.search(found["before"])
        yield Example(
            page=page.name,
            line=text.count("\n", 0, found.start("language")),
            language=language,
            code=found["code"],
            skip=excuse["reason"] if excuse else None,
            setup=setup["command"] if setup else None,
        )


PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
]
LONG = {"tutorial.md", "library.md", "audit.md"}
"""Sessions of seconds, with servers of their own or Spark in them."""
WITH_EXAMPLES = [page for page in PAGES if any(not example.skip for example in examples(page))]

WRAPPER = """
set -euo pipefail
set -m
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
sleep() { command sleep 0.05; }
"""
"""Where a page looks every now and then, as a reader does, the test looks more often."""
END_SESSION = ROOT / "tests" / "real" / "docs" / "end_session.py"


def run_page(page: Path, folder: Path, request: pytest.FixtureRequest, preforked: Prefork | None) -> None:
    """Runs all blocks of a page in order, in one shell; fails where one does.

    The README's commands are a user's own; those of other pages come from a process that has imported them.
    """
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
            port = HeldPort()
            stack.callback(port.release)
            zookeeper = str(port.number)
        else:
            zookeeper = request.getfixturevalue("zk_server").address.rpartition(":")[2]
        done = _run([_as_shell(block, zookeeper, folder) for block in blocks], folder, commands)

    assert done.returncode == 0, f"{page.name}: exit code {done.returncode}\n{done.stdout[-6000:]}"


def _as_shell(example: Example, zookeeper: str, folder: Path) -> str:
    """The block as shell text; the port that the pages name becomes that of the server that runs."""
    code, setup = (re.sub(r"\b2181\b", zookeeper, text or ":") for text in (example.code, example.setup))
    if example.language == "python":
        file = folder / f"line-{example.line}.py"
        file.write_text(code + "\n")
        code = f"python {file.name}"
    return f"{setup}\necho {shlex.quote(f'--- {example.page}:{example.line}')}\n{code}"


def _run(blocks: list[str], folder: Path, commands: Path) -> subprocess.CompletedProcess[str]:
    """Runs them in a session of its own, so that nothing they started outlives the time limit."""
    path = f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = "\n".join([WRAPPER, f"end_session() {{ python {shlex.quote(str(END_SESSION))} $*; }}", *blocks])
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with waiting():
        try:
            output, _ = process.communicate(timeout=2 * PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            output, _ = process.communicate()
            output += f"\nkilled after {2 * PATIENCE_S:g} s"
    return subprocess.CompletedProcess("bash", process.returncode, output, "")
