"""The examples of the pages whose sessions are long: a tutorial, the library, an audit with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.docs.doc_pages import LONG, WITH_EXAMPLES, run_page
from tests.worlds.prefork import Prefork


@pytest.mark.parametrize(
    "page", [page for page in WITH_EXAMPLES if page.name in LONG], ids=lambda page: page.name
)
def test_examples_of_a_page_run(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest, preforked: Prefork | None
) -> None:
    """All blocks of a page run in order, in one shell, without an error."""
    run_page(page, tmp_path, request, preforked)
