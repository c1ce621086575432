"""How many files a reader passes who follows one `close()`: the limit of docs/contributing.md."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import zkgroup.consumer
from tests.waiting import PATIENCE_S
from tests.worlds.faces import Face, MemberWorld
from tests.worlds.records import filled, polled

HOME = Path(zkgroup.consumer.__file__).parent
SHELL_MAX = 14
"""Public class, engine, delivery, fetcher, callbacks ...: 23 before the files were cut by subject."""
MACHINE_MAX = 14
"""The pure machine: 20 before."""


class Passed:
    """Files of the consumer in which a function was called, on any thread started meanwhile."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.is_counting = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if self.is_counting and event == "call":
            self.files.add(Path(frame.f_code.co_filename))

    def of(self, folder: str) -> list[str]:
        below = [path.relative_to(HOME) for path in self.files if path.is_relative_to(HOME)]
        return sorted(str(path) for path in below if (path.parts[0] == "machine") == (folder == "machine"))


@pytest.fixture
def passed() -> Iterator[Passed]:
    with profiled() as passed:
        yield passed


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


def test_a_close_passes_few_files(passed: Passed, face: Face, world: MemberWorld) -> None:
    """Leaving with records delivered and partitions owned, from the public call to the last release."""
    consumer = face.consumer(client=world.client("a"), source=filled(2))
    consumer.__enter__()
    consumer.wait_until_assigned(PATIENCE_S)
    polled(consumer, 8)

    passed.is_counting = True
    consumer.close()
    passed.is_counting = False

    assert world.owners() == {}
    assert {"engine.py", "delivery.py", "fetcher.py"} <= set(passed.of("shell"))
    assert {"machine/leave.py", "machine/release.py"} <= set(passed.of("machine"))
    assert len(passed.of("shell")) <= SHELL_MAX, passed.of("shell")
    assert len(passed.of("machine")) <= MACHINE_MAX, passed.of("machine")
