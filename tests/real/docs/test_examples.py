"""The examples of README and docs are executed; those of the long pages in `tests/long/docs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.doc_pages import LONG, PAGES, WITH_EXAMPLES, Example, compare, examples, run_page
from tests.worlds.prefork import Prefork


def test_pages_have_examples() -> None:
    """The search finds the pages that are meant to be executed."""
    assert {"README.md", *LONG} < {page.name for page in WITH_EXAMPLES}


def test_examples_that_are_not_executed_say_why() -> None:
    """An excuse is a reason that a reader would accept, and there are few."""
    excused = [example for page in PAGES for example in examples(page) if example.skip]

    assert [example for example in excused if len(str(example.skip)) < 20] == []
    assert len(excused) <= 6


def example(output: str | None, varies: bool = False) -> Example:
    """A block of a page with this output."""
    return Example("page.md", 1, "sh", "zkgroup status", None, None, output, varies)


def test_outputs_are_compared_but_for_their_numbers() -> None:
    """Another offset, another width and another line are allowed; another word is not."""
    printed = "a note\nGROUP    OFFSET  AGE\nbilling    1200   3s"

    compare(example("GROUP  OFFSET  AGE\nbilling     7  20ms"), printed)
    with pytest.raises(AssertionError, match="something else"):
        compare(example("GROUP  LAG  AGE\nbilling     7  20ms"), printed)


def test_what_a_block_prints_is_on_the_page() -> None:
    """Without it the page has to be recorded anew; one run's output stands for others."""
    compare(example(None), "")
    compare(example("of another run", varies=True), "of this run")
    with pytest.raises(AssertionError, match="has no output"):
        compare(example(None), "printed")


@pytest.mark.parametrize(
    "page", [page for page in WITH_EXAMPLES if page.name not in LONG], ids=lambda page: page.name
)
def test_examples_of_a_page_run(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest, preforked: Prefork | None
) -> None:
    """All blocks of a page run in order, in one shell, without an error."""
    run_page(page, tmp_path, request, preforked)
