"""Pages generated from the code: committed, fresh, complete."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, fields
from importlib import import_module
from typing import get_args

import pytest

import zkgroup
from docs.tools import (
    api,
    checklist_page,
    controller_checklist_page,
    controller_statements,
    coordinator_statements,
    errors_page,
    file_columns_page,
    known_defects_page,
    library_pages,
    znodes_page,
)
from docs.tools.generate import DOCS, PAGES
from docs.tools.known_defects import DEFECTS
from docs.tools.statements import ITEMS, RECIPES
from tests.project import files_below
from tests.pure.simulation.scenarios import SCENARIOS
from zkgroup.audit.findings import ALL_RULES
from zkgroup.settings import GroupSettings
from zkgroup.zkfiles import schemas


def test_generated_page_is_fresh() -> None:
    """The committed page is what the code says now; `python -m docs.tools.generate` writes it anew."""
    stale = [name for name, made in PAGES.items() if (DOCS / name).read_text(encoding="utf-8") != made()]

    assert stale == []


def test_every_setting_says_what_it_does() -> None:
    """The reference is made of the metadata, so none may be empty or end without a full stop."""
    docs = {setting.name: setting.metadata["doc"] for setting in fields(GroupSettings)}

    assert [name for name, doc in docs.items() if not doc.rstrip().endswith((".", ")"))] == []


def test_every_error_says_what_to_do() -> None:
    """Each error has a cause of its own and a remedy, and no remedy is for an error that is gone."""
    kinds = [kind for kind, _ in errors_page.below(errors_page.errors.ZkGroupError)]

    assert {kind.__name__ for kind in kinds} == set(errors_page.WHAT_TO_DO)
    assert [kind.__name__ for kind in kinds if "__doc__" not in vars(kind)] == []


def test_every_column_of_files_says_what_it_means() -> None:
    """Each has a row with a sentence, and each type is told in the words of lists, Arrow and Spark."""
    text = (DOCS / "reference/file-columns.md").read_text(encoding="utf-8")

    for column in (*schemas.LOG, *schemas.SNAPSHOT):
        assert column.meaning.endswith(".")
        assert f"| `{column.name}` | `{column.type}` |" in text
    assert set(file_columns_page.TYPES) == set(get_args(schemas.ColumnType))


PUBLIC_MODULES = sorted({"zkgroup.admin", *(one for many in library_pages.PAGES.values() for one in many)})


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_is_described(module: str) -> None:
    """Each has a heading on its page, and all but those of `zkgroup.admin` are in the list of all names."""
    names = library_pages.public_names(module)
    pages = {
        name: "admin" if module == "zkgroup.admin" else library_pages.described_on(module, name)[0]
        for name in names
    }
    texts = {page: (DOCS / f"reference/{page}.md").read_text(encoding="utf-8") for page in pages.values()}
    listed = (DOCS / "reference/api.md").read_text(encoding="utf-8").split("\n")

    assert [name for name, page in pages.items() if f"\n### `{name}`\n" not in texts[page]] == []
    row = next(line for line in listed if line.startswith(f"| `{module}` |"))
    assert [name for name in names if module != "zkgroup.admin" and f"`{name}`" not in row] == []


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_has_docstrings(module: str) -> None:
    """The name, the arguments of its constructor, its attributes or values, its methods."""
    if module in library_pages.WITHOUT_IMPORT:
        assert all(ast.get_docstring(node) for node in library_pages.unimported(module).values())
        return
    loaded = import_module(module)
    names = [name for name in library_pages.public_names(module) if name != "__version__"]

    assert [
        gap
        for name in names
        for gap in api.gaps(name, api.home_of(loaded, name), library_pages.LIKE.get(name))
    ] == []


@dataclass
class Described:
    """A value with a field that says nothing."""

    known: int
    """Known."""
    unknown: int


class Undescribed:
    def __init__(self, given: int) -> None:
        self.given = given

    def method(self) -> int:
        return self.given


def _described() -> None:
    """Nothing."""


SILENT = 1
SPOKEN = 1
"""One."""


def test_what_has_no_docstring_is_found() -> None:
    """Else the test of the public names could not fail."""
    here = sys.modules[__name__]

    assert api.gaps("Described", here) == ["Described.unknown"]
    assert api.gaps("Undescribed", here) == ["Undescribed", "Undescribed(given)", "Undescribed.method()"]
    assert [api.gaps(name, here) for name in ("SILENT", "SPOKEN", "_described")] == [["SILENT"], [], []]


def test_every_public_module_is_on_a_page() -> None:
    """Each module of the table in the package's docstring."""
    listed = set(re.findall(r"`(zkgroup[\w.]*)`", str(zkgroup.__doc__)))

    on_pages = {module for modules in library_pages.PAGES.values() for module in modules}
    assert listed == on_pages | set(library_pages.WITH_OWN_PAGE)


def test_every_znode_has_a_page_of_its_own() -> None:
    """Each dataclass with a path is described, and no two claim the same path."""
    paths = [znodes_page.path_of(kind) for kind in znodes_page.kinds()]

    assert "/consumers/<group>/owners/<topic>/<partition>" in paths
    assert "/brokers/topics/<topic>" in paths
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", [3]), ("1, 2 and 5", [1, 2, 5]), ("62-64", [62, 63, 64]), ("7 to 9", [7, 8, 9])],
)
def test_numbers_of_a_docstring_are_read(text: str, expected: list[int]) -> None:
    """Docstrings may name one statement, several, or a range."""
    assert list(checklist_page.numbers(text)) == expected


def test_tests_name_statements_that_exist() -> None:
    """A docstring that names a statement beyond the list is a mistake."""
    tests = checklist_page.all_tests()

    assert set(checklist_page.by_item(tests)) <= set(ITEMS)
    recipes = {*RECIPES, *controller_statements.RECIPES, *coordinator_statements.RECIPES}
    assert set(checklist_page.by_recipe(tests)) <= recipes
    assert set(checklist_page.by_item(tests, checklist_page.CONTROLLER_ITEM)) <= set(
        controller_statements.ITEMS
    )
    assert set(checklist_page.by_item(tests, checklist_page.COORDINATOR_ITEM)) <= set(
        coordinator_statements.ITEMS
    )


def test_statements_about_the_controller_are_separate_from_the_protocols() -> None:
    """One docstring may name both lists; a number counts for the list before it only."""
    test = checklist_page.Test("f", "t", "Shows it (items 1 and 2), and more (controller items 3-5; item 7).")

    assert set(checklist_page.by_item([test])) == {1, 2, 7}
    assert set(checklist_page.by_item([test], checklist_page.CONTROLLER_ITEM)) == {3, 4, 5}


def test_every_statement_about_the_controller_has_a_test() -> None:
    """Those about a real server on one; the facts of the recipes where their mark says, or by a search."""
    tests = checklist_page.all_tests()
    named, facts = (
        checklist_page.by_item(tests, checklist_page.CONTROLLER_ITEM),
        checklist_page.by_recipe(tests),
    )
    statements = controller_statements.ITEMS.items()

    assert [
        number
        for number, item in statements
        if not controller_checklist_page.is_shown(item.kind, named.get(number, []))
    ] == []
    assert [fact for fact in controller_statements.RECIPES if fact not in facts] == []
    on_servers = [fact for fact in controller_statements.RECIPES if fact[1] == "T"]
    assert [fact for fact in on_servers if not checklist_page.is_shown("T", facts[fact])] == []


def test_a_statement_about_a_server_is_not_shown_without_one() -> None:
    """The command line's tests run on a real server; other kinds of statements take any test."""
    unit, real, cli = (
        checklist_page.Test(f"tests/{folder}/test_a.py", "f", "") for folder in ("pure", "long", "real")
    )

    is_shown = controller_checklist_page.is_shown
    assert [is_shown("server", [one]) for one in (unit, real, cli)] == [False, True, True]
    assert [is_shown(kind, [unit]) for kind in ("wire", "unit")] == [True, True]
    assert not is_shown("unit", [])


def test_sections_hold_every_statement_about_the_controller_once() -> None:
    """None is left out of the page."""
    numbers = [number for section in controller_statements.SECTIONS.values() for number in section]

    assert numbers == list(controller_statements.ITEMS) == list(range(1, 81))


def test_tests_name_known_defects_that_exist() -> None:
    """All forty of the list, and none beyond it; numbers of issues and proposals are no rows of it."""
    test = checklist_page.Test("f", "t", "As K7 and K12 have it (KAFKA-6082, KIP-101).")

    assert list(DEFECTS) == list(range(1, 41))
    assert set(known_defects_page.by_defect([test])) == {7, 12}
    assert set(known_defects_page.by_defect(checklist_page.all_tests())) <= set(DEFECTS)


def test_every_known_defect_has_a_test() -> None:
    """Whatever is said to be done instead is shown, where there is no cure as well."""
    shown = known_defects_page.by_defect(checklist_page.all_tests())

    assert sorted(set(DEFECTS) - set(shown)) == []


def test_every_statement_has_a_test() -> None:
    """The table has no gap: each statement of the protocol and each fact behind a recipe is shown."""
    tests = checklist_page.all_tests()

    assert sorted(set(ITEMS) - set(checklist_page.by_item(tests))) == []
    assert sorted(set(RECIPES) - set(checklist_page.by_recipe(tests))) == []


def test_facts_are_shown_where_their_mark_says() -> None:
    """T on a real server, M by a scenario of the production machine; another kind of test is not enough."""
    tests = checklist_page.by_recipe(checklist_page.all_tests())

    assert [fact for fact in RECIPES if not checklist_page.is_shown(fact[1], tests.get(fact, []))] == []


def test_a_fact_is_not_shown_by_a_test_of_another_kind() -> None:
    """A unit test shows neither kind; a real server does not show what a search found."""
    unit, real, scenario = (
        checklist_page.Test(file, "f", "")
        for file in ("tests/pure/test_a.py", "tests/long/interop/test_a.py", checklist_page.SCENARIOS)
    )

    assert [checklist_page.is_shown("T", [one]) for one in (unit, real, scenario)] == [False, True, False]
    assert [checklist_page.is_shown("M", [one]) for one in (unit, real, scenario)] == [False, False, True]


def test_every_scenario_that_names_a_fact_is_played() -> None:
    """One that is in no list would show nothing."""
    played = {scenario.__name__ for scenario in SCENARIOS}
    written = [test for test in checklist_page.all_tests() if test.file == checklist_page.SCENARIOS]

    assert played <= {test.name for test in written}
    assert checklist_page.by_recipe([test for test in written if test.name not in played]) == {}


def test_no_page_has_a_line_that_says_it_is_missing() -> None:
    """Prose pages carry no leftovers of writing."""
    pattern = re.compile(r"\b(TODO|TBD|FIXME|XXX)\b")

    assert [
        page.name
        for page in files_below("docs", ending=".md")
        if pattern.search(page.read_text(encoding="utf-8"))
    ] == []


def test_every_finding_says_what_it_is_asks_and_wants_done() -> None:
    """The page is made of the modules, so none may leave a part empty."""
    text = PAGES["reference/findings.md"]()
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])

    assert list(sections) == [rule.name for rule in ALL_RULES]
    for rule in ALL_RULES:
        question, what, act, *bounds = sections[rule.name].strip().split("\n\n")
        assert question == f"*{rule.question}*"
        assert "?" in question
        assert what.endswith(".")
        assert act.startswith("What to do: ")
        assert act.endswith(".")
        assert len(bounds) == bool(rule.bounds), rule.name
