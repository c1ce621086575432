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
from docs.tools import api, errors_page, file_columns_page, library_pages, znodes_page
from docs.tools.generate import DOCS, PAGES
from tests.project import files_below
from zkgroup.audit.findings.engine import KNOWN_RULES, STATE_RULES
from zkgroup.settings import GroupSettings
from zkgroup.zkfiles import arrow


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

    for column in (*arrow.LOG, *arrow.SNAPSHOT):
        assert column.meaning.endswith(".")
        assert f"- `{column.name}: {column.type}{'?' if column.nullable else ''}`: " in text
    assert set(file_columns_page.TYPES) == set(get_args(arrow.ColumnType))


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

    shown = {rule.name: rule for rule in STATE_RULES}
    assert list(sections) == [rule.name for rule in KNOWN_RULES]
    for rule in KNOWN_RULES:
        question, what, *more = sections[rule.name].strip().split("\n\n")
        of_series = shown.get(rule.name, rule)
        if of_series is not rule:
            in_series, *more = more
            assert in_series.startswith("In a series of snapshots: ")
            assert in_series.endswith(".")
        act, *bounds = more
        assert question == f"*{rule.question}*"
        assert "?" in question
        assert what.endswith(".")
        assert act.startswith("What to do: ")
        assert act.endswith(".")
        assert len(bounds) == bool(rule.bounds or of_series.bounds), rule.name
