"""The page that says which test shows which statement about brokers and controller."""

from __future__ import annotations

from collections.abc import Sequence

from docs.tools import checklist_page, markdown
from docs.tools.checklist_page import CONTROLLER_ITEM, Test, all_tests
from docs.tools.controller_statements import ITEMS, RECIPES, SECTIONS, Kind


def page() -> str:
    """`reference/controller-checklist.md`."""
    tests = all_tests()
    named = checklist_page.by_item(tests, CONTROLLER_ITEM)
    shown = [number for number, item in ITEMS.items() if is_shown(item.kind, named.get(number, []))]
    facts = checklist_page.by_recipe(tests)
    intro = [
        "Brokers and controller of the ZooKeeper era as 80 statements, each with where it has to be shown",
        "(on a real ZooKeeper server, in bytes on a connection, or in a unit) and the tests that show it.",
        "The tool is that of Kafka 0.8.2.2 unless another release is named. A statement without a test is",
        "not shown yet.",
    ]
    blocks = [["## Shown so far", "", f"{len(shown)} of {len(ITEMS)}."]]
    for section, numbers in SECTIONS.items():
        rows = [
            (str(number), ITEMS[number].kind, ITEMS[number].text, _names(named.get(number, [])))
            for number in numbers
        ]
        blocks += [[f"## {section}"], markdown.table(["item", "against", "statement", "tests"], rows)]
    found = [
        (f"{number} {mark}", text, _names(facts.get((number, mark), [])))
        for (number, mark), text in RECIPES.items()
    ]
    blocks += [["## The recipes"], markdown.table(["recipe", "fact", "tests"], found)]
    return markdown.page("Brokers and controller: statement and test", intro, *blocks)


_ON_REAL_SERVERS = ("tests/long/", "tests/real/")


def is_shown(kind: Kind, tests: Sequence[Test]) -> bool:
    """Whether a statement has a test, on a real server where it is to be shown there."""
    return any(kind != "server" or test.file.startswith(_ON_REAL_SERVERS) for test in tests)


def _names(tests: Sequence[Test]) -> str:
    return checklist_page.names(tests) if tests else ""
