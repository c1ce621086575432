"""The examples of README and docs are executed; those of the long pages in `tests/long/docs`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.real.docs.doc_pages import (
    LONG,
    PAGES,
    WITH_EXAMPLES,
    Example,
    compare,
    differs,
    examples,
    recorded,
    renamed,
    run_page,
)
from tests.worlds.prefork import Prefork


def test_pages_have_examples() -> None:
    """The search finds the pages that are meant to be executed."""
    assert {"README.md", *LONG} < {page.name for page in WITH_EXAMPLES}


def test_examples_that_are_not_executed_say_why() -> None:
    """An excuse is a reason that a reader would accept, and there are few; the package's own code is none."""
    excused = [example for page in PAGES for example in examples(page) if example.skip]
    of_package = [one for one in excused if str(one.skip).endswith(" of the package")]

    assert [example for example in excused if len(str(example.skip)) < 20] == []
    assert {example.page for example in of_package} <= {"contributing.md"}
    assert len(excused) - len(of_package) <= 4


def example(output: str | None, varies: bool = False) -> Example:
    """A block of a page with this output."""
    return Example("page.md", 1, "sh", "zkgroup status", None, None, output, varies)


def test_outputs_are_compared_but_for_their_numbers() -> None:
    """Another offset, another width and another line are allowed; another word is not."""
    printed = "a note\nGROUP    OFFSET  AGE\nbilling    1200   3s"

    compare(example("GROUP  OFFSET  AGE\nbilling     7  20ms"), printed)
    with pytest.raises(AssertionError, match="something else"):
        compare(example("GROUP  LAG  AGE\nbilling     7  20ms"), printed)


def test_outputs_may_have_taken_a_minute_or_more() -> None:
    """Durations are written in another form then, by pytest and by zkgroup."""
    compare(example("1 passed in 8.84s"), "1 passed in 83.28s (0:01:23)")
    compare(example("billing  3s"), "billing  1m03s")


def test_what_a_block_prints_is_on_the_page() -> None:
    """Without it the page has to be recorded anew; one run's output stands for others."""
    compare(example(None), "")
    compare(example("of another run", varies=True), "of this run")
    with pytest.raises(AssertionError, match="has no output"):
        compare(example(None), "printed")


def test_a_page_is_recorded_whole() -> None:
    """Also where only the numbers of a block differ, so that they fit those of the other blocks."""
    page = "First:\n\n```sh\na\n```\n\n<!-- output -->\n```text\nat 1\n```\n\nThen:\n\n```sh\nb\n```\n"
    a = Example("page.md", 3, "sh", "a", None, None, "at 1")
    b = Example("page.md", 14, "sh", "b", None, None)

    assert recorded(page, [a, b], {3: "at 7", 14: "after 7"}) == (
        page.replace("at 1", "at 7") + "\n<!-- output -->\n```text\nafter 7\n```\n"
    )


def test_numbers_do_not_make_a_page_differ() -> None:
    """So a page is recorded again where a word has changed, or where an output is missing or too much."""
    assert not differs(example("at 1"), "at 7")
    assert not differs(example("one run", varies=True), "another run")
    assert differs(example("at 1"), "after 1")
    assert differs(example("at 1"), "")
    assert differs(example("one run", varies=True), "")
    assert differs(example(None), "at 1")


def test_columns_keep_their_place_beside_another_host_name() -> None:
    """The name of the machine that records is longer or shorter than the one on the page."""
    table = "note: on {0}\n\nMEMBER  HOST{1}  SESSION\nada     {0}{2}  0x1\n"

    short = renamed(table.format("vm", "", "  "), "vm", "host1")
    long = renamed(table.format("build-agent-7", "         ", ""), "build-agent-7", "host1")

    assert short == long == table.format("host1", " ", "")


_MOMENT = re.compile(r"\b(\d{4})-?(\d\d)-?(\d\d)[T-](\d\d):?(\d\d):?(\d\d)(?=\.\d{3}Z|-[0-9a-f]{4}\b)")
_SESSION = re.compile(r"\b0x[0-9a-f]{15,17}\b")


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_outputs_of_a_page_fit_together(page: Path) -> None:
    """Times and ids of undo records lie within ten minutes, and session ids are of one server."""
    shown = "\n".join(one.output for one in examples(page) if one.output)
    moments = [datetime(*map(int, found.groups()), tzinfo=UTC) for found in _MOMENT.finditer(shown)]
    starts = {found[:-4] for found in _SESSION.findall(shown)}

    assert not moments or max(moments) - min(moments) < timedelta(minutes=10)
    assert len(starts) <= 1


@pytest.mark.parametrize(
    "page", [page for page in WITH_EXAMPLES if page.name not in LONG], ids=lambda page: page.name
)
def test_examples_of_a_page_run(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest, preforked: Prefork | None
) -> None:
    """All blocks of a page run in order, in one shell, without an error."""
    run_page(page, tmp_path, request, preforked)
