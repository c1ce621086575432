"""The page about real Kafka: what was run is what the tests run now."""

from __future__ import annotations

import ast
import re

from docs.tools.generate import DOCS
from tests.long.interop.matrix import BEGIN, END, FILES, ROOT, TABLES, operation


def test_every_operation_with_real_kafka_has_its_row() -> None:
    """After a new test `python -m tests.long.interop.matrix --write` has to be run again."""
    text = (DOCS / "interop.md").read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    shown = [(table.splitlines()[0], table) for table in text.strip().split("\n\n")]
    assert [head.split(" | ")[0].removeprefix("| ") for head, _ in shown] == list(TABLES.values())

    tests = {name: {operation(test) for test in _tests(name)} for name in FILES}
    rows = [set(re.findall(r"^\| ([^|]+?) \|", table, re.M)[2:]) for _, table in shown]
    *by_file, ours, kafkas, commands = rows
    assert [ours | kafkas, commands, *by_file] == [tests[name] for name in FILES]
    assert "| fails" not in text
    assert "| not run" not in text


def _tests(name: str) -> list[str]:
    tree = ast.parse((ROOT / "tests" / "long" / "interop" / name).read_text(encoding="utf-8"))
    found = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [one for one in found if one.startswith("test_")]
