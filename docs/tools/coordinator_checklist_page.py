"""The page that says which test shows which statement about the group coordinator."""

from __future__ import annotations

from docs.tools import checklist_page, markdown
from docs.tools.checklist_page import COORDINATOR_ITEM, all_tests
from docs.tools.coordinator_statements import ITEMS, RECIPES, SECTIONS


def page() -> str:
    """`reference/coordinator-checklist.md`."""
    named = checklist_page.by_item(all_tests(), COORDINATOR_ITEM)
    facts = checklist_page.by_recipe(all_tests())
    intro = [
        "The group coordinator of Kafka 2.8.2 as 85 statements, each with the tests that show it.",
        "D is the initial delay, ST a member's session timeout, RT its rebalance timeout; numbers are error",
        "codes. A statement without a test is not shown yet: most of them need the server around the",
        "coordinator.",
    ]
    blocks = [["## Shown so far", "", f"{len(named)} of {len(ITEMS)}."]]
    for section, numbers in SECTIONS.items():
        rows = [
            (str(number), ITEMS[number], checklist_page.names(named[number]) if number in named else "")
            for number in numbers
        ]
        blocks += [[f"## {section}"], markdown.table(["item", "statement", "tests"], rows)]
    found = [
        (f"{number} {mark}", text, checklist_page.names(facts.get((number, mark), [])))
        for (number, mark), text in RECIPES.items()
    ]
    blocks += [["## The recipes"], markdown.table(["recipe", "fact", "tests"], found)]
    return markdown.page("Group coordinator: statement and test", intro, *blocks)
