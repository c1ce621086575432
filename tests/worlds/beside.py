"""What somebody else does while a command runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.waiting import outcome


@contextmanager
def beside(act: Callable[[], object]) -> Iterator[None]:
    """`act` runs on a thread of its own meanwhile; the block ends when it has. What it raises is raised."""
    with ThreadPoolExecutor(1, "beside") as pool:
        acting = pool.submit(act)
        yield
        outcome(acting, what="the end of what is done beside the command")
