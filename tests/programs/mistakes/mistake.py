"""A planted mistake: which lines of which file become which, and which tests have to notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class StaleError(Exception):
    """The lines that a mistake replaces are not there exactly once: the mistake has to follow the code."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """Lines that somebody could have written so by mistake."""

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
        """Writes the mistake into the tree below `root`; returns the source as it was. Raises StaleError."""
        path = root / self.file
        source = path.read_text(encoding="utf-8")
        _replace(path, self.applied(source))
        return source

    def take_out(self, root: Path, source: str) -> None:
        """Writes the source back."""
        _replace(root / self.file, source)


def _replace(path: Path, source: str) -> None:
    """Writes a source and removes its bytecode: Python knows that by size and whole seconds alone."""
    path.write_text(source, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
