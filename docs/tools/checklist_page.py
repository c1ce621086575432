"""The page that says which test shows which statement of the protocol, from the tests' docstrings."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from docs.tools import markdown
from docs.tools.statements import ITEMS, RECIPES

ROOT = Path(__file__).resolve().parent.parent.parent

_NUMBERS = r"\d+(?:\s*(?:[-–,]|and|to)\s*\d+)*"
ITEM = re.compile(rf"(?<!controller\s)(?<!coordinator\s)\bitems?\s+({_NUMBERS})", re.IGNORECASE)
CONTROLLER_ITEM = re.compile(rf"\bcontroller\s+items?\s+({_NUMBERS})", re.IGNORECASE)
"""Names a statement about brokers and controller, which `docs.tools.controller_statements` lists."""

COORDINATOR_ITEM = re.compile(rf"\bcoordinator\s+items?\s+({_NUMBERS})", re.IGNORECASE)
"""Names a statement about the group coordinator, which `docs.tools.coordinator_statements` lists."""

_RECIPE = re.compile(r"\brecipes\s+(\d+)\s*\[([TM])\]", re.IGNORECASE)


class Test(NamedTuple):
    """A test function: its file below `tests`, its name, its docstring."""

    file: str
    name: str
    text: str


def page() -> str:
    """`reference/checklist.md`."""
    tests = all_tests()
    items, recipes = by_item(tests), by_recipe(tests)
    intro = [
        "The protocol of a Kafka 0.8.2.2 consumer group as 74 statements, and the facts about ZooKeeper on which",
        "the recipes are based, each with the tests that show it. 71 to 74 run against Kafka 0.8.2.2.",
        "Facts marked T are shown on a real server, those marked M by the exhaustive model and by a scenario of",
        "the production code under simulation.",
    ]
    rows = [(str(number), text, names(items.get(number, []))) for number, text in ITEMS.items()]
    facts = [
        (f"{number} {mark}", text, names(recipes.get((number, mark), [])))
        for (number, mark), text in RECIPES.items()
    ]
    return markdown.page(
        "Statement and test",
        intro,
        ["## The protocol"],
        markdown.table(["item", "statement", "tests"], rows),
        ["## The recipes"],
        markdown.table(["recipe", "fact", "tests"], facts),
    )


SCENARIOS = "tests/pure/simulation/scenarios.py"
"""Its functions are the tests' as well: `test_scenarios` plays each by itself."""

_ON_REAL_SERVERS = ("tests/long/", "tests/real/")


@functools.cache
def all_tests() -> tuple[Test, ...]:
    """Every test function and scenario below `tests`, in order of file and line. Read once a process."""
    return tuple(_read_tests())


def _read_tests() -> Iterator[Test]:
    for file in sorted([*(ROOT / "tests").rglob("test_*.py"), ROOT / SCENARIOS]):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        module = ast.get_docstring(tree) or ""
        where = file.relative_to(ROOT).as_posix()
        for node in _outside_functions(tree.body):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                node.name.startswith("test_") or where == SCENARIOS
            ):
                text = ast.get_docstring(node)
                yield Test(where, node.name, module if text is None and where != SCENARIOS else text or "")


def _outside_functions(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module and its classes: a walk through all functions takes as long as the parser."""
    for node in body:
        yield node
        if isinstance(node, ast.ClassDef):
            yield from _outside_functions(node.body)
        elif isinstance(node, ast.If):
            yield from _outside_functions([*node.body, *node.orelse])


def is_shown(mark: str, tests: Sequence[Test]) -> bool:
    """Whether a fact is shown where its mark says: T on a real server, M by a scenario of the production code."""
    if mark == "T":
        return any(test.file.startswith(_ON_REAL_SERVERS) for test in tests)
    return any(test.file == SCENARIOS for test in tests)


def by_item(tests: Sequence[Test], item: re.Pattern[str] = ITEM) -> Mapping[int, list[Test]]:
    """Tests that name `item N`, `items N, M and K` or `items N-M`, or the same of the controller."""
    found: dict[int, list[Test]] = {}
    for test in tests:
        for match in item.finditer(test.text):
            for number in numbers(match.group(1)):
                if test not in found.setdefault(number, []):
                    found[number].append(test)
    return found


def by_recipe(tests: Sequence[Test]) -> Mapping[tuple[int, str], list[Test]]:
    """Tests that name `recipes N [T]` or `recipes N [M]`."""
    found: dict[tuple[int, str], list[Test]] = {}
    for test in tests:
        for number, mark in _RECIPE.findall(test.text):
            if test not in found.setdefault((int(number), mark), []):
                found[int(number), mark].append(test)
    return found


def numbers(text: str) -> Iterator[int]:
    """`1, 2 and 5-7` as single numbers."""
    for part in re.split(r"\s*(?:,|and)\s*", text):
        ends = [int(number) for number in re.findall(r"\d+", part)]
        if ends:
            yield from range(ends[0], ends[-1] + 1)


def names(tests: Sequence[Test]) -> str:
    """The tests as one cell of a table."""
    return "<br>".join(f"`{test.file}` {test.name}" for test in tests) or "**none**"
