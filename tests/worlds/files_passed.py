"""The files of zkgroup that a reader passes who follows one call, on any thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import zkgroup

HOME = Path(zkgroup.__file__).parent


class Passed:
    """Files in which a function was called, on any thread started meanwhile."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.is_counting = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if self.is_counting and event == "call":
            self.files.add(Path(frame.f_code.co_filename))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts anew, what is called within the block."""
        self.files = set()
        self.is_counting = True
        try:
            yield
        finally:
            self.is_counting = False

    @property
    def names(self) -> list[str]:
        """All of them, as paths below the package."""
        return sorted(str(path.relative_to(HOME)) for path in self.files if path.is_relative_to(HOME))


@contextmanager
def profiled() -> Iterator[Passed]:
    hook, before = Passed(), sys.getprofile()
    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        yield hook
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
