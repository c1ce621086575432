"""The types that users see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
AS_INSTALLED = ["--follow-imports=silent"]
"""Errors are reported for the program alone, as with a library in site-packages."""
MISUSE = """
from zkgroup import AsyncRebalanceListener, Consumer, GroupMember, TopicPartition
member = GroupMember("host:2181", group="g", topics=["orders"])
member.commit({"orders": 42})
Consumer("host:2181", group="g", topics=["orders"])
member.leases()[0].token.upper()
member.no_such_method()
GroupMember("host:2181", group="g", topics=["orders"], listener=AsyncRebalanceListener())
Consumer("host:2181", group="g", topics=["orders"], source=7)
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """What mypy says of both programs, by file and line."""
    folder = tmp_path_factory.mktemp("mypy")
    misuse = folder / "misuse.py"
    misuse.write_text(MISUSE)
    strict = ["--strict", "--config-file=", *AS_INSTALLED, "--cache-dir", str(folder / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *strict, str(HERE / "typed_program.py"), str(misuse)],
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(HERE.parents[2]), "PATH": ""},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, dict[int, str]] = {}
    for line in done.stdout.splitlines():
        if ": error:" in line:
            place, _, error = line.partition(": error:")
            file, number = place.split(":")[:2]
            found.setdefault(Path(file).name, {})[int(number)] = error
    return found


def test_a_users_program_is_strictly_typed(errors: dict[str, dict[int, str]]) -> None:
    """Every public name of both APIs, used as the documentation says, passes mypy --strict."""
    assert errors.get("typed_program.py") is None


def test_misuse_is_an_error_of_types(errors: dict[str, dict[int, str]]) -> None:
    """The types are not so loose that everything passes."""
    assert errors["misuse.py"].keys() == {4, 5, 6, 7, 8, 9}, errors
