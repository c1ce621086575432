"""All planted mistakes: one file of this folder for each part of the protocol, with the part's tests."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.programs.mistakes.mistake import Mistake

FOLDER: Final = Path(__file__).parent
PARTS: Final = (
    *("claim", "commit", "delivery", "lease", "fence", "take-over"),
    *("ISR", "epochs", "high watermark", "fetch", "produce", "requests", "slots", "order", "codecs"),
    *("groups", "coordinator"),
)
_FILE_NAME: Final = str.maketrans(" -", "__")


def _read(part: str) -> Iterator[Mistake]:
    """The mistakes of one part. `old` and `new` are whole lines; `tests` of a mistake replace the part's."""
    with (FOLDER / f"{part.lower().translate(_FILE_NAME)}.toml").open("rb") as file:
        found = tomllib.load(file)
    assert found["part"] == part, found["part"]
    for each in found["mistake"]:
        tests = each.pop("tests", found["tests"])
        yield Mistake(part=part, tests=tuple(tests), **each)


MISTAKES: Final = tuple(mistake for part in PARTS for mistake in _read(part))
