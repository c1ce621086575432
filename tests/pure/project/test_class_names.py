"""One class name, one meaning: which names are defined in more than one module, and why."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.project import ROOT, parsed, python_files

DOUBLES = {
    "Broker": "the broker that a program starts, and a broker of a placement model (docs/library.md)",
    "Record": "the public record of a Consumer, and Kafka's Record in a batch (kafka.common.record.Record)",
}
"""Class name to the reason why two modules may define it."""


def _definitions() -> dict[str, list[str]]:
    """Each class name to the files that define it at module level."""
    found = defaultdict(list)
    for file in python_files("zkgroup", "cli"):
        name = file.relative_to(ROOT).as_posix()
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    return found


def test_two_modules_define_one_class_name_only_for_a_reason() -> None:
    """A class that has the name of another one gets a more exact name, or a row in `DOUBLES`."""
    doubles = {name: files for name, files in _definitions().items() if len(files) > 1}

    assert {name: files for name, files in doubles.items() if name not in DOUBLES} == {}


def test_every_reason_for_a_double_name_is_still_needed() -> None:
    """A row of `DOUBLES` whose name is defined at most once must go."""
    definitions = _definitions()

    assert [name for name in DOUBLES if len(definitions[name]) < 2] == []
