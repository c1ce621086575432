"""The results as a table in Markdown, which names tests without their parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.programs.mistakes.run import Result
from tests.programs.mistakes.tree import ROOT

PAGE: Final = ROOT / "docs" / "mistakes.md"
HEAD: Final = "| part | mistake | caught by | CPU s |"


def table(results: Iterable[Result]) -> str:
    """A row for each mistake."""
    rows = [HEAD, "| --- | --- | --- | --- |"]
    for each in results:
        file, _, test = each.caught_by.partition("[")[0].partition("::")
        caught = f"`{file}` {test}" if test else "**no test**"
        rows.append(f"| {each.mistake.part} | {each.mistake.says} | {caught} | {each.seconds:.1f} |")
    return "\n".join(rows)


def write_page(results: Iterable[Result]) -> None:
    """Puts the table in place of the one at the end of the page."""
    text, _, _ = PAGE.read_text(encoding="utf-8").partition(HEAD)
    PAGE.write_text(f"{text}{table(results)}\n", encoding="utf-8")
