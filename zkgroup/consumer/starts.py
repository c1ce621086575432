"""When the source is asked, again, for the bounds of partitions that have no position yet. Pure."""

from __future__ import annotations

from collections.abc import Collection

from zkgroup.model import TopicPartition

UNAVAILABLE_PAUSE_S = 0.2
UNAVAILABLE_PAUSE_MAX_S = 5.0
RESOLVE_S = 1.0
"""For the bounds of all partitions that have no position, so long the others wait for their records."""
RESOLVE_AGAIN_S = 0.1
"""The same for those that could not be had before, after an attempt in vain."""
AGAIN_MAX = 4
"""So many short attempts; then a long one, for sources that answer slowly."""
RESOLVE_MAX_S = 10.0
"""Where no other partition waits, after some attempts in vain."""


class Starts:
    """Partitions whose bounds could not be had, and when they are asked for again."""

    def __init__(self) -> None:
        self._unavailable: dict[TopicPartition, None] = {}
        """In the order in which they were asked for last."""
        self._pause_s = UNAVAILABLE_PAUSE_S
        self._in_vain = 0
        """Attempts in a row that found nothing."""
        self.again_ms = 0

    def due(self, unresolved: Collection[TopicPartition], now_ms: int) -> list[TopicPartition]:
        """Those to ask for now: new ones at once, the others later, whoever waits longest first."""
        self._unavailable = dict.fromkeys(tp for tp in self._unavailable if tp in unresolved)
        new = [tp for tp in unresolved if tp not in self._unavailable]
        return [*new, *self._unavailable] if now_ms >= self.again_ms else new

    def limit_s(self, due: Collection[TopicPartition], *, others_wait: bool) -> float:
        """How long the source may look for them, while the others wait for their records."""
        if not others_wait:
            return min(RESOLVE_MAX_S, RESOLVE_S * 2.0 ** min(self._in_vain, AGAIN_MAX))
        is_again = self._unavailable.keys() >= set(due)
        return RESOLVE_AGAIN_S if is_again and self._in_vain % (AGAIN_MAX + 1) else RESOLVE_S

    def tried(
        self, asked: Collection[TopicPartition], unavailable: Collection[TopicPartition], now_ms: int
    ) -> float:
        """How an attempt went; seconds until the next one."""
        self._in_vain = self._in_vain + 1 if len(unavailable) == len(asked) else 0
        if not self._unavailable:
            self._pause_s = UNAVAILABLE_PAUSE_S
        for tp in asked:
            self._unavailable.pop(tp, None)
        self._unavailable.update(dict.fromkeys(unavailable))
        pause_s = self._pause_s
        if unavailable:
            self.again_ms = now_ms + int(pause_s * 1000)
            self._pause_s = min(2 * pause_s, UNAVAILABLE_PAUSE_MAX_S)
        return pause_s
