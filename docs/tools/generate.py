"""Writes the generated pages and pictures: `python -m docs.tools.generate`, from the project's folder.

They are committed, so that they can be read without building anything; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.tools import (
    admin_page,
    cli_page,
    errors_page,
    file_columns_page,
    findings_page,
    json_page,
    library_pages,
    pictures,
    settings_page,
    wire_page,
    znodes_page,
)

DOCS = Path(__file__).resolve().parent.parent

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/settings.md": settings_page.page,
    "reference/cli.md": cli_page.page,
    "reference/admin.md": admin_page.page,
    **library_pages.pages(),
    "reference/json.md": json_page.page,
    "reference/errors.md": errors_page.page,
    "reference/file-columns.md": file_columns_page.page,
    "reference/findings.md": findings_page.page,
    "reference/znodes.md": znodes_page.page,
    "reference/wire.md": wire_page.page,
    **pictures.FILES,
}


def main() -> None:
    """Writes every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
