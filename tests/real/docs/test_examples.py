"""The examples of README and docs are executed; those of the long pages in `tests/long/docs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.doc_pages import LONG, PAGES, WITH_EXAMPLES, examples, run_page
from tests.worlds.prefork import Prefork


def test_pages_have_examples() -> None:
    """The search finds the pages that are meant to be executed."""
    assert {"README.md", *LONG} < {page.name for page in WITH_EXAMPLES}


def test_examples_that_are_not_executed_say_why() -> None:
    """An excuse is a reason that a reader would accept, and there are few."""
    excused = [example for page in PAGES for example in examples(page) if example.skip]

    assert [example for example in excused if len(str(example.skip)) < 20] == []
    assert len(excused) <= 6


@pytest.mark.parametrize(
    "page", [page for page in WITH_EXAMPLES if page.name not in LONG], ids=lambda page: page.name
)
def test_examples_of_a_page_run(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest, preforked: Prefork | None
) -> None:
    """All blocks of a page run in order, in one shell, without an error."""
    run_page(page, tmp_path, request, preforked)
