"""The examples of README and docs are executed: a page is one session, with a ZooKeeper of its own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT
from tests.real.docs.examples import Example, examples
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
]
WITH_EXAMPLES = [page for page in PAGES if any(not example.skip for example in examples(page))]

PAGE_TIMEOUT_S = 400

WRAPPER = """
set -euo pipefail
set -m
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
"""


def test_pages_have_examples() -> None:
    """The search finds the pages that are meant to be executed."""
    assert {"README.md", "tutorial.md"} <= {page.name for page in WITH_EXAMPLES}


def test_examples_that_are_not_executed_say_why() -> None:
    """An excuse is a reason that a reader would accept, and there are few."""
    excused = [example for page in PAGES for example in examples(page) if example.skip]

    assert [example for example in excused if len(str(example.skip)) < 20] == []
    assert len(excused) <= 6


@pytest.mark.timeout(PAGE_TIMEOUT_S + 60)
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """All blocks of a page run in order, in one shell, without an error."""
    blocks = [example for example in examples(page) if not example.skip]
    starts_its_own = any("zookeeper start" in block.code for block in blocks)
    with EmbeddedZooKeeper(fsync=False) as server:
        port = server.address.rpartition(":")[2]
        if starts_its_own:
            server.stop()
        lines = [_as_shell(block, port, tmp_path / f"example-{n}.py") for n, block in enumerate(blocks)]
        done = _run("\n".join([WRAPPER, *lines]), tmp_path)

    assert done.returncode == 0, f"{page.name}: exit code {done.returncode}\n{done.stdout[-6000:]}"


def _as_shell(example: Example, port: str, file: Path) -> str:
    """The block as shell text; the port that the pages name becomes that of the server that runs."""
    code, setup = (re.sub(r"\b2181\b", port, text or ":") for text in (example.code, example.setup))
    if example.language == "python":
        file.write_text(code + "\n")
        code = f"{shlex.quote(sys.executable)} {file.name}"
    return f"{setup}\necho {shlex.quote(f'--- {example.page}:{example.line}')}\n{code}"


def _run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs it in a session of its own, so that nothing it started outlives the time limit."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=PAGE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        output += f"\nkilled after {PAGE_TIMEOUT_S} s"
    return subprocess.CompletedProcess("bash", process.returncode, output, "")
