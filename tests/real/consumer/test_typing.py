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


def check(program: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        *AS_INSTALLED,
        "--cache-dir",
        str(cache),
    ]
    return subprocess.run(
        [*command, str(program)],
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(HERE.parents[2]), "PATH": ""},
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def test_a_users_program_is_strictly_typed(cache: Path) -> None:
    """Every public name of both APIs, used as the documentation says, passes mypy --strict."""
    done = check(HERE / "typed_program.py", cache)

    assert done.returncode == 0, done.stdout + done.stderr


def test_misuse_is_an_error_of_types(cache: Path, tmp_path: Path) -> None:
    """The types are not so loose that everything passes."""
    program = tmp_path / "misuse.py"
    program.write_text(MISUSE)

    done = check(program, cache)

    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert lines == {4, 5, 6, 7, 8, 9}, done.stdout
