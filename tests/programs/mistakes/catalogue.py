"""All planted mistakes: lines of a file, their wrong replacement, and the tests that must fail.

There is one TOML file of this folder for each part of the protocol, with the part's tests.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final


class StaleError(Exception):
    """The lines that a mistake replaces do not occur exactly once: the mistake must follow the code."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A realistic mistake in the code, planted by replacing lines."""

    name: str
    """Short; unique."""
    part: str
    """Which part of the protocol it is in."""
    file: str
    """Below the root, with forward slashes."""
    says: str
    """What is wrong, as one sentence for the table."""
    old: str
    """Exact text, once in the file."""
    new: str
    tests: tuple[str, ...]
    """Files and folders below the root, as pytest takes them."""

    def applied(self, source: str) -> str:
        """The source with the mistake. Raises StaleError."""
        found = source.count(self.old)
        if found != 1:
            raise StaleError(f"expected once in {self.file}, found {found} times:\n{self.old.rstrip()}")
        return source.replace(self.old, self.new)

    def put_in(self, root: Path) -> str:
        """Writes the mistake into the tree below `root`; returns the former source. Raises StaleError."""
        path = root / self.file
        source = path.read_text(encoding="utf-8")
        _replace(path, self.applied(source))
        return source

    def take_out(self, root: Path, source: str) -> None:
        """Writes the former source back."""
        _replace(root / self.file, source)


def _replace(path: Path, source: str) -> None:
    """Writes a source and removes its bytecode, which Python recognises by size and whole seconds alone."""
    path.write_text(source, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


FOLDER: Final = Path(__file__).parent
PARTS: Final = (
    *("claim", "commit", "delivery", "lease", "overload", "fence"),
    *("strategies", "static", "freeze", "moves", "take-over"),
    *(
        "ISR",
        "epochs",
        "high watermark",
        "fetch",
        "produce",
        "requests",
        "slots",
        "order",
        "codecs",
        "rights",
    ),
    *("groups", "coordinator", "history", "logins", "listeners", "quotas", "authorizer"),
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
