"""How many files a reader passes who follows one `close()`: the figures of docs/contributing.md."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import zkgroup
from tests.waiting import PATIENCE_S
from tests.worlds.public_apis import Api, MemberWorld
from tests.worlds.records import filled, polled

HOME = Path(zkgroup.__file__).parent
SHELL, MACHINE, BELOW, DOUBLES = "the consumer", "its machine", "the packages below", "the doubles"
AT_MOST = {SHELL: 10, MACHINE: 10, BELOW: 7, DOUBLES: 5}
"""By folder; the consumer counts without its machine."""


class Passed:
    """Files of zkgroup in which a function was called, on any thread started meanwhile."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.is_counting = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if self.is_counting and event == "call":
            self.files.add(Path(frame.f_code.co_filename))

    @property
    def names(self) -> list[str]:
        """All of them, as paths below the package."""
        return sorted(str(path.relative_to(HOME)) for path in self.files if path.is_relative_to(HOME))


def part(name: str) -> str:
    """The part of the package that the file belongs to."""
    if name.startswith("consumer/"):
        return MACHINE if name.startswith("consumer/machine/") else SHELL
    return DOUBLES if name.startswith("testing/") else BELOW


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


def test_a_close_passes_few_files(passed: Passed, api: Api, world: MemberWorld) -> None:
    """Leaving with records delivered and partitions owned: every file of zkgroup from call to return."""
    consumer = api.consumer(client=world.client("a"), source=filled(2))
    consumer.__enter__()
    consumer.wait_until_assigned(PATIENCE_S)
    polled(consumer, 8)

    passed.is_counting = True
    consumer.close()
    passed.is_counting = False

    assert world.owners() == {}
    counts = Counter(part(name) for name in passed.names)
    seen = {
        "consumer/member_engine.py",
        "consumer/fetcher.py",
        "consumer/machine/scheduler.py",
        "runtime/loop.py",
    }
    assert seen <= set(passed.names)
    assert counts <= Counter(AT_MOST), (counts, passed.names)
