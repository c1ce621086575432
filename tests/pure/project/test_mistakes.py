"""The planted mistakes match the code; `python -m tests.programs.mistakes` shows that each is caught."""

from __future__ import annotations

import re

import pytest

from tests.programs.mistakes.catalogue import MISTAKES, PARTS
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
