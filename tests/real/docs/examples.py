"""The examples of a page: what can be executed, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = {"python": "python", "sh": "sh", "shell": "sh", "bash": "sh", "console": "sh"}

_FENCE = re.compile(
    r"(?P<before>[^\n]*)\n+```(?P<language>[a-z]+)\n(?P<code>.*?)\n```$", re.DOTALL | re.MULTILINE
)
_SKIP = re.compile(r"<!-- not executed: (?P<reason>.+?) -->")
_SETUP = re.compile(r"<!-- executed after: (?P<command>.+?) -->")


@dataclass(frozen=True)
class Example:
    """One code block."""

    page: str
    line: int
    language: str
    code: str
    skip: str | None
    """The reason why it is not executed, if any."""
    setup: str | None
    """A shell command that a reader of the page does not need to see."""


def examples(page: Path) -> Iterator[Example]:
    """Python and shell blocks of a page.

    A comment right before one excuses it (`not executed: reason`) or prepares it (`executed after: command`).
    """
    text = "\n" + page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        language = LANGUAGES.get(found["language"])
        if language is None:
            continue
        excuse = _SKIP.search(found["before"])
        setup = _SETUP.search(found["before"])
        yield Example(
            page=page.name,
            line=text.count("\n", 0, found.start("language")),
            language=language,
            code=found["code"],
            skip=excuse["reason"] if excuse else None,
            setup=setup["command"] if setup else None,
        )
