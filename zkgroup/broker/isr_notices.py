"""When the controller is told that ISRs have changed. Pure.

Each notification makes the controller send UpdateMetadata to every broker, and the return of one broker
changes thousands of ISRs: so changes are collected. Source: kafka/server/ReplicaManager.scala@0.9.0.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Multi
from zkgroup.znodes.notifications import IsrChange


@dataclass(frozen=True, slots=True)
class NoticeTiming:
    """Kafka's own constants, in milliseconds."""

    every_ms: int = 2_500
    """Between two looks."""
    quiet_ms: int = 5_000
    """Without a change, before the changes are told."""
    waiting_max_ms: int = 60_000
    """The longest that a change waits while others keep coming. Kafka counts from the last notification, so
    that the first change after an idle minute is told alone."""


class IsrNotices:
    """The changes that wait to be told."""

    def __init__(self, now_ms: int, timing: NoticeTiming | None = None) -> None:
        self._timing = timing or NoticeTiming()
        self._waiting: set[TopicPartition] = set()
        self._first_ms = self._last_ms = now_ms
        self._look_ms = now_ms + self._timing.every_ms

    @property
    def next_look_ms(self) -> int:
        """When to call `look` next."""
        return self._look_ms

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """Whose change is not told yet."""
        return frozenset(self._waiting)

    def changed(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """An ISR was written; or it was not certain that a notification of it was."""
        found = set(partitions)
        if not found:
            return
        if not self._waiting:
            self._first_ms = now_ms
        self._waiting |= found
        self._last_ms = now_ms

    def look(self, now_ms: int) -> tuple[IsrChange, ...]:
        """What is to be told now, mostly nothing; one notification, several where it would be too big.

        What it returns counts as told: give it back by `changed` where the create failed or is in doubt.
        To tell a change twice does no harm.
        """
        timing = self._timing
        if now_ms < self._look_ms:
            return ()
        self._look_ms = now_ms + timing.every_ms
        quiet = now_ms - self._last_ms >= timing.quiet_ms
        if not self._waiting or not (quiet or now_ms - self._first_ms >= timing.waiting_max_ms):
            return ()
        told, self._waiting = self._waiting, set()
        return IsrChange.split(told)


def notice_request(change: IsrChange) -> Multi:
    """The create of one notification. Raises ConfigError where it is too big."""
    return Multi((Create(IsrChange.prefix(), change.encode(), sequential=True),))
