"""How many files a reader passes who follows one `close()`: the figures of docs/contributing.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.waiting import PATIENCE_S
from tests.wired.consumer.records import filled, polled
from tests.worlds.files_passed import Passed, profiled
from tests.worlds.public_apis import Api, MemberWorld

SHELL, MACHINE, BELOW, DOUBLES = "the consumer", "its machine", "the packages below", "the doubles"
AT_MOST = {SHELL: 10, MACHINE: 10, BELOW: 7, DOUBLES: 5}
"""By folder; the consumer counts without its machine."""


def part(name: str) -> str:
    """The part of the package that the file belongs to."""
    if name.startswith("consumer/"):
        return MACHINE if name.startswith("consumer/machine/") else SHELL
    return DOUBLES if name.startswith("testing/") else BELOW


@pytest.fixture
def passed() -> Iterator[Passed]:
    with profiled() as passed:
        yield passed


def test_a_close_passes_few_files(passed: Passed, api: Api, world: MemberWorld) -> None:
    """Leaving with records delivered and partitions owned: every file of zkgroup from call to return."""
    consumer = api.consumer(client=world.client("a"), source=filled(2))
    consumer.__enter__()
    consumer.wait_until_assigned(PATIENCE_S)
    polled(consumer, 8)

    with passed.counting():
        consumer.close()

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
