"""Revocations that wait until the records in the application's hands are acknowledged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zkgroup.model import TopicPartition


class Drains:
    """The waiting ones; each is finished once. Guarded by its user's lock."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[frozenset[TopicPartition], Callable[[], None]]] = {}
        self._last = 0
        self._closed = False

    def add(self, partitions: frozenset[TopicPartition], finish: Callable[[], None]) -> int:
        self._last += 1
        self._waiting[self._last] = (partitions, finish)
        return self._last

    def take(self, number: int) -> bool:
        """Takes one off; False where it has been finished already."""
        return self._waiting.pop(number, None) is not None

    @property
    def is_closed(self) -> bool:
        """Nobody acknowledges any more: a drain is over as soon as it begins."""
        return self._closed

    def ready(self, is_drained: Callable[[Iterable[TopicPartition]], bool]) -> list[Callable[[], None]]:
        """What finishes those that need not wait any longer."""
        return [finish for partitions, finish in self._waiting.values() if is_drained(partitions)]

    def close(self) -> list[Callable[[], None]]:
        """What finishes all of them; none waits until `reopen`."""
        self._closed = True
        return [finish for _, finish in self._waiting.values()]

    def reopen(self) -> None:
        self._closed = False
