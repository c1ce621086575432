"""The planted mistakes match the code; `python -m tests.programs.mistakes` shows that each is caught."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.programs.mistakes.catalogue import MISTAKES, PARTS, Mistake, StaleError
from tests.programs.mistakes.run import Result, table, with_mistake
from tests.programs.mistakes.tree import Copy
from tests.project import ROOT, setup_cfg

LEAST = 60


def default_folders() -> tuple[str, ...]:
    """The folders that the plain test command runs."""
    return tuple(setup_cfg()["tool:pytest"]["testpaths"].split())


@pytest.mark.parametrize("part", PARTS)
def test_each_mistake_fits_one_place_and_compiles(part: str) -> None:
    """The lines that it replaces occur once in their file, and the changed file is valid Python."""
    found = [each for each in MISTAKES if each.part == part]
    sources = {each.file: (ROOT / each.file).read_text(encoding="utf-8") for each in found}

    assert found
    for each in found:
        wrong = each.applied(sources[each.file])
        assert wrong != sources[each.file], each.name
        compile(wrong, each.file, "exec")


def test_each_mistake_is_in_shipped_code_and_for_tests_of_the_plain_command() -> None:
    """There are enough mistakes, each with its own name and one sentence on what is wrong."""
    assert len(MISTAKES) >= LEAST
    assert len({each.name for each in MISTAKES}) == len(MISTAKES)
    for each in MISTAKES:
        assert each.file.startswith("zkgroup/"), each.name
        assert re.fullmatch(r"[A-Z`][^|\n]*\.", each.says), each.name
        for test in each.tests:
            assert (ROOT / test).exists(), f"{each.name}: there is no {test}"
            assert test.startswith(default_folders()), f"{each.name}: {test}"


def test_mistake_whose_lines_are_gone_or_there_twice_is_stale() -> None:
    """The error names the file, the number of matches, and the lines."""
    mistake = Mistake("m", "claim", "zkgroup/m.py", "Wrong.", "a = 1\n", "a = 2\n", ())

    assert mistake.applied("b\na = 1\n") == "b\na = 2\n"
    for source, times in (("b\n", 0), ("a = 1\na = 1\n", 2)):
        with pytest.raises(StaleError, match=rf"once in zkgroup/m.py, found {times} times:\na = 1$"):
            mistake.applied(source)


def test_mistake_that_is_put_in_can_be_taken_out(tmp_path: Path) -> None:
    """The bytecode is removed too: with equal size and the same second Python would import the old one."""
    (tmp_path / "zkgroup" / "__pycache__").mkdir(parents=True)
    source, compiled = (
        tmp_path / "zkgroup" / "m.py",
        tmp_path / "zkgroup" / "__pycache__" / "m.cpython-311.pyc",
    )
    source.write_text("a = 1\n")
    compiled.touch()
    mistake = Mistake("m", "claim", "zkgroup/m.py", "Wrong.", "a = 1\n", "a = 2\n", ())
    before = mistake.put_in(tmp_path)
    assert (source.read_text(), compiled.exists()) == ("a = 2\n", False)

    compiled.touch()
    mistake.take_out(tmp_path, before)
    assert (source.read_text(), compiled.exists()) == ("a = 1\n", False)


@pytest.mark.parametrize("status", [0, 1])
def test_with_a_mistake_tests_wait_less(tmp_path: Path, status: int) -> None:
    """A failed test keeps open what its traceback holds, and the search for leaks waits for that."""
    (tmp_path / "pytest.py").write_text(
        f"import os\nprint('FAILED t.py::test_of_' + os.environ['ZKGROUP_TEST_PATIENCE_S'])\nexit({status})\n"
    )
    (tmp_path / "m.py").write_text("a = 1\n")
    copy = Copy.__new__(Copy)  # without the tree
    copy.root = tmp_path
    mistake = Mistake("m", "claim", "m.py", "It is wrong.", "a = 1\n", "a = 2\n", ("t.py",))

    found = with_mistake(copy, mistake)

    assert found.caught_by == ("t.py::test_of_20" if status else "")


def test_table_names_what_caught_each_mistake() -> None:
    """One row for each mistake; a mistake that no test caught is marked."""
    mistake = Mistake("m", "claim", "zkgroup/m.py", "It is wrong.", "a = 1\n", "a = 2\n", ())
    rows = table([Result(mistake, "t.py::test_a[x|y]", 1.24), Result(mistake, "", 2, "no test failed")])

    assert rows.splitlines()[2:] == [
        "| claim | It is wrong. | `t.py` test_a | 1.2 |",
        "| claim | It is wrong. | **no test** | 2.0 |",
    ]
