"""The structure of the code: sizes, and one module for each kind of thing. Import rules: `lint-imports`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import ROOT, files_below, parsed, python_files, walked

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60

SHIPPED = ("zkgroup", "cli")
KAFKA_ROOTS = ("/consumers", "/brokers", "/admin", "/controller", "/config/", "/zkgroup")


def _relative(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_files_and_their_functions_can_be_read_in_one_go() -> None:
    """No file has more than 600 lines, no function more than 60."""
    files = [
        f"{_relative(file)}: {lines} lines"
        for file in python_files(*SHIPPED)
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    ]
    functions = [
        f"{_relative(file)} {node.name}: {length} lines"
        for file in python_files(*SHIPPED)
        for node in walked(parsed(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert files == []
    assert functions == []


def _path_literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings that have the form of a znode path of Kafka or zkgroup; docstrings are not code."""
    docstrings = {
        id(node.value)
        for node in walked(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in walked(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith(KAFKA_ROOTS)
            and id(node) not in docstrings
        ):
            yield node.lineno, node.value


def test_znode_paths_are_spelled_in_znodes_only() -> None:
    """Only `zkgroup.znodes` builds znode paths: no other package builds one from a literal.

    The test doubles may: an audit that used our own paths could not detect a wrong one.
    """
    offences = [
        f"{_relative(file)}:{line} {text!r}"
        for file in python_files(*SHIPPED)
        if file.relative_to(ROOT).parts[:2] not in (("zkgroup", "znodes"), ("zkgroup", "testing"))
        for line, text in _path_literals(parsed(file))
    ]

    assert offences == []


def _sleeps(tree: ast.Module) -> bool:
    """Whether the module itself calls `time.sleep` (the code of a child process is a string)."""
    return any(
        isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", None)) == "sleep"
        and ast.unparse(node.func) in ("time.sleep", "sleep")
        for node in walked(tree)
    )


def test_no_test_sleeps() -> None:
    """Tests wait for events, with a deadline; the bounded polls in `leaks` and `waiting` may sleep.

    The program of a child process may sleep too, to simulate long work.
    """
    may_sleep = ("leaks.py", "waiting.py", "member.py")
    offences = [
        _relative(file)
        for file in python_files("tests")
        if file.name not in may_sleep and "benchmarks" not in file.parts and _sleeps(parsed(file))
    ]

    assert offences == []


def test_every_test_says_what_it_shows() -> None:
    """Each test function has a docstring, which is the sentence that people read when the test fails."""
    offences = [
        f"{_relative(file)}::{node.name}"
        for file in python_files("tests")
        for node in walked(parsed(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and file.name.startswith("test_")
        and not ast.get_docstring(node)
    ]

    assert offences == []


def _undocumented(file: Path) -> Iterator[str]:
    tree = parsed(file)
    if not ast.get_docstring(tree):
        yield _relative(file)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        plain_value = isinstance(node, ast.ClassDef) and not any(
            isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body
        )
        kind_of_another = isinstance(node, ast.ClassDef) and bool(node.bases)
        excused = node.name.startswith("_") or plain_value or kind_of_another
        if not (excused or ast.get_docstring(node)):
            yield f"{_relative(file)}:{node.lineno} {node.name}"


def test_public_things_are_documented() -> None:
    """Every shipped module, public function and public class with methods has a docstring.

    A subclass may leave the explanation to its base class.
    """
    assert [line for file in python_files(*SHIPPED) for line in _undocumented(file)] == []


@pytest.mark.parametrize("folder", ["zkgroup", "cli", "tests", "docs", ".ci"])
def test_nothing_names_a_machine(folder: str) -> None:
    """No file contains an absolute path of the machine where it was written."""
    pattern = re.compile(r"/(?:work|home/\w+|Users/\w+|root)/(?!\.|<)")
    suffixes = {".py", ".md", ".cfg", ".toml", ".yml", ".yaml", ".sh", ".java", ".svg", ".json", ""}

    offences = [
        f"{_relative(file)}: {found.group()}"
        for file in files_below(folder)
        if file.suffix in suffixes
        and file.name != "test_architecture.py"
        and (found := pattern.search(file.read_text(encoding="utf-8", errors="replace")))
    ]

    assert offences == []
