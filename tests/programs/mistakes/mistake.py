"""A planted mistake: the lines of a file, their wrong replacement, and the tests that must fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
