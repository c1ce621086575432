"""Every mark that docstrings and comments cite exists on a page of the repository."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.project import ROOT, files_below, parsed, python_files, walked

DOCS = ROOT / "docs"
_NUMBERS = r"\d+(?:\.\d+)?(?:(?:,? and |, | to |-)\d+(?:\.\d+)?)*"


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _found(page: str, pattern: str) -> frozenset[str]:
    return frozenset(re.findall(pattern, _page(page), re.MULTILINE))


def _steps(section: str) -> frozenset[str]:
    """The numbered rows of a section about the controller."""
    text = _page("protocol/controller.md").partition(f"\n### {section} ")[2].partition("\n##")[0]
    return frozenset(re.findall(r"^\| (\d+) \|", text, re.MULTILINE))


_SECTIONS = _found("protocol/controller.md", r"^##+ (\d+(?:\.\d+)?)")
CITED: Mapping[str, tuple[str, frozenset[str]]] = {
    "recipe": (rf"(?i:\brecipes(?:\.md)?) ({_NUMBERS})", _found("protocol/recipes.md", r"^### (\d+)\. ")),
    "section": (rf"\bcontroller\.md (?:sections? )?({_NUMBERS})", _SECTIONS),
    "decision": (r"\bcontroller\.md (D\d+)", _found("protocol/controller.md", r"^\| (D\d+) \|")),
    "fence": (r"\b[Ff]ence (F\d+)", _found("protocol/controller.md", r"^\| (F\d+) ")),
    "step of a move": (rf"(?<!\d\.\d )\b[Ss]teps? ({_NUMBERS})", _steps("4.4")),
    "step of a take-over": (rf"\bcontroller\.md 2\.3 steps? ({_NUMBERS})", _steps("2.3")),
    "rule": (r"\breplica-host\.md rule (\d+)", _found("protocol/replica-host.md", r"^(\d+)\. ")),
    "invariant": (r"\b([SL]\d{1,2})\b", _found("reference/invariants.md", r"^\| ([SL]\d+) \|")),
    "defect": (r"\b(K\d{1,2})\b", _found("reference/known-defects.md", r"^\| (K\d+) \|")),
    "fault": (r"(?<![Ff]ence )\b(F\d{1,2})\b", _found("reference/faults.md", r"^\| (F\d+) \|")),
    "finding": (r"\bfinding (\d+)\b", _found("reference/faults.md", r"^\| (\d+) \|")),
}
"""How each kind of mark is written, and the marks that its page has."""

ELSEWHERE = re.compile(
    r"\b[Rr]eliability (?:\d|finding|F\d)|\binterfaces, \"|\bspec(?:/| \d)|\bshared/|\bR\d\d\b"
    r"|fault catalogue|\b[Ii]ssue \d|(?<!controller\.md )\bD\d\b"
)
"""Marks of papers that are not in the repository."""
_COMMENT = re.compile(r"(?:^|\s)# .*")


def _said_in(tree: ast.Module, text: str) -> Iterator[str]:
    """The docstrings of all kinds and the comments of a module, each on one line."""
    for node in walked(tree):
        match node:
            case ast.Expr(ast.Constant(str(words))):
                yield " ".join(words.split())
    yield from (found[0].strip() for found in map(_COMMENT.search, text.splitlines()) if found)


@functools.cache
def _said() -> tuple[tuple[str, str], ...]:
    """File, docstrings and comments of every module except this one; each of them on a line of its own."""
    return tuple(
        (
            path.relative_to(ROOT).as_posix(),
            "\n".join(_said_in(parsed(path), path.read_text(encoding="utf-8"))),
        )
        for path in python_files("tests", "zkgroup", "cli")
        if path != Path(__file__)
    )


def test_what_is_cited_stands_on_a_page() -> None:
    """A cited mark must exist on its page, and a page must have marks."""
    pages = {path.name for path in files_below("docs", ending=".md")} | {"README.md", "CHANGELOG.md"}
    kinds = {**CITED, "page": (r"(?<![\w/*.-])([a-z][\w-]*\.md)\b", frozenset(pages))}
    missing, kept = [], dict.fromkeys(kinds, 0)
    for file, text in _said():
        for kind, (pattern, there) in kinds.items():
            for found in re.finditer(pattern, text):
                marks = [found[1]] if kind == "page" else re.findall(r"[A-Z]?\d+(?:\.\d+)?", found[1])
                kept[kind] += len(marks)
                missing += [(file, kind, mark) for mark in marks if mark not in there]

    assert missing == []
    assert [kind for kind, count in kept.items() if not count] == []


def test_tests_that_pages_name_exist() -> None:
    """Such as those of the table on the page on security."""
    named = {
        (file, test)
        for page in DOCS.rglob("*.md")
        for file, test in re.findall(r"`([\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8"))
    }
    missing = [
        f"{file}::{test}"
        for file, test in sorted(named)
        if f"def {test}(" not in (ROOT / "tests" / file).read_text(encoding="utf-8")
    ]
    assert len(named) > 20
    assert missing == []


def test_nothing_outside_the_repository_is_cited() -> None:
    """A clone of the repository has everything that is cited."""
    assert [(file, found) for file, text in _said() for found in ELSEWHERE.findall(text)] == []


def test_every_invariant_that_is_reported_is_explained() -> None:
    """Each invariant that a checker names in a violation has a row on a page, with how it is decided."""
    text = "".join(path.read_text(encoding="utf-8") for path in python_files("zkgroup/history"))

    named = set(re.findall(r"\"([SL]\d+)\"", text))
    assert len(named) > 20
    assert named - CITED["invariant"][1] == set()


def test_docstrings_and_comments_are_read() -> None:
    """Docstrings and comments count; strings that are values do not."""
    text = '"""S1."""\nX = "S2"  # S3\n\n\ndef f():\n    """S4\n    S5."""\n    return "S6"\n'

    assert list(_said_in(ast.parse(text), text)) == ["S1.", "S4 S5.", "# S3"]
