"""The page of what Kafka's own controllers got wrong, and which tests show that a zkgroup controller does not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from docs.tools import checklist_page, markdown
from docs.tools.checklist_page import Test, all_tests
from docs.tools.known_defects import DEFECTS

KNOWN_DEFECT = re.compile(r"\bK(\d+)\b")
"""Names a row of the table; `KAFKA-1120` and `KIP-380` do not."""


def page() -> str:
    """`reference/known-defects.md`."""
    shown = by_defect(all_tests())
    intro = [
        "What Kafka's ZooKeeper controllers got wrong, what a zkgroup controller does instead, and the tests that",
        "repeat the events that lead to the defect. `partly`: wire version 0 or Kafka's own tools set a limit;",
        "`left`: there is no cure without a worse defect. A test names its rows in its docstring.",
    ]
    rows = [
        (f"K{number}", each.what, each.where, each.extent, each.instead, _names(shown.get(number, [])))
        for number, each in DEFECTS.items()
    ]
    counts = [f"{len(shown.keys() & DEFECTS.keys())} of {len(DEFECTS)} have a test."]
    table = markdown.table(["", "defect", "releases", "zkgroup", "instead", "tests"], rows)
    return markdown.page("Known defects of Kafka's controllers", intro, counts, table)


def by_defect(tests: Sequence[Test]) -> Mapping[int, list[Test]]:
    """Row to the tests whose docstrings name it."""
    found: dict[int, list[Test]] = {}
    for test in tests:
        for number in sorted({int(text) for text in KNOWN_DEFECT.findall(test.text)}):
            found.setdefault(number, []).append(test)
    return found


def _names(tests: Sequence[Test]) -> str:
    return checklist_page.names(tests) if tests else ""
