"""Copies of the source tree, and pytest in them: the tree that this program stands in is never changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
COPIED: Final = (
    "zkgroup",
    "cli",
    "tests",
    "docs",
    "setup.cfg",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)
LIMIT_S: Final = 600.0
"""For one run of pytest; a test that hangs is ended earlier, by `TEST_LIMIT_S`."""
TEST_LIMIT_S: Final = 240
"""A test of half a minute must also end on a machine that is several times as slow."""
PATIENCE_WITH_MISTAKE_S: Final = 20
"""Of `tests.waiting`, where a test is meant to fail.

What a failed test left open stays open with its traceback, and the search for leaks waits for that just as
long.
"""
_NOT_COPIED: Final = shutil.ignore_patterns("*-pytest-*.pyc", "_build")
"""Bytecode is copied, with the times of its sources: else each copy compiles everything once more.

Pytest's has the paths of the tree that it was made in.
"""
TESTS_FAILED: Final = 1
"""Exit status of pytest where tests failed; another one says that they could not be run."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a pytest run."""

    passed: bool
    failed: str
    """The first test that failed; empty where none did."""
    seconds: float
    """Of CPU: what else the machine does plays no part."""
    output: str

    @property
    def caught(self) -> bool:
        """Whether a test failed, and not merely an import or the collection."""
        return not self.passed and bool(self.failed)


class Copy:
    """A copy of the tree in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=_NOT_COPIED)
            else:
                shutil.copy(source, folder / name)
        # An editable install maps zkgroup_cli to the folder `cli` of the tree it was made in.
        (folder / "zkgroup_cli").symlink_to("cli")
        self._require_own_imports()

    def pytest(self, tests: Sequence[str], patience_s: float | None = None) -> Run:
        """Runs these tests up to the first failure. patience_s: in place of the one patience of all tests."""
        options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0"]
        options += [f"--timeout={TEST_LIMIT_S}", "--hypothesis-seed=0"]
        patience = {} if patience_s is None else {"ZKGROUP_TEST_PATIENCE_S": str(patience_s)}
        status, output, seconds = self._python("-m", "pytest", *options, *tests, **patience)
        found = _FAILED.search(output) if status == TESTS_FAILED else None
        return Run(status == 0, found[1] if found else "", seconds, output)

    def _python(self, *arguments: str, **variables: str) -> tuple[int, str, float]:
        """Exit status (negative for a signal), output and seconds of CPU, with more environment variables."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.root,
                env={**kept, "PYTHONPATH": str(self.root), "PYTHONHASHSEED": "0", **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            limit = threading.Timer(LIMIT_S, child.kill)
            limit.daemon = True
            limit.start()
            try:
                _, status, usage = os.wait4(child.pid, 0)
            finally:
                limit.cancel()
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read().decode(errors="replace")
        return child.returncode, text, usage.ru_utime + usage.ru_stime

    def _require_own_imports(self) -> None:
        code = "import zkgroup as a, zkgroup_cli as b, tests as c; print(a.__file__, b.__file__, c.__file__)"
        _, output, _ = self._python("-c", code)
        files = [Path(each) for each in output.split()]
        if len(files) != 3 or not all(each.is_relative_to(self.root) for each in files):
            raise RuntimeError(f"imports do not come from the copy: {output}")
