"""How far one partition is processed: acknowledgements in any order. Pure.

Records are delivered in some order of offsets (rising, with gaps). The position to commit is the
offset after the last record of the unbroken run of acknowledged ones, counted in *delivery* order:
nothing is ever committed that was not acknowledged (Kafka's meaning: the next offset to consume).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from zkgroup.model import TopicPartition


class AckTracker:
    """Delivered and acknowledged records of one partition, for one claim. Not thread-safe."""

    __slots__ = ("_acked", "_order", "next_offset", "position", "topic_partition", "unacked_max")

    def __init__(self, topic_partition: TopicPartition, start: int, unacked_max: int) -> None:
        self.topic_partition = topic_partition
        self.position = start
        """Everything before this offset is processed: what a commit writes."""
        self.next_offset = start
        """Offset from which the next record is delivered."""
        self.unacked_max = unacked_max
        self._order: OrderedDict[int, bool] = OrderedDict()  # cheap removal at the head
        self._acked = 0

    def delivered(self, offset: int) -> None:
        """A record goes to the application."""
        if offset < self.next_offset:
            raise ValueError(f"{self.topic_partition}: offset {offset} after {self.next_offset - 1}")
        self._order[offset] = False
        self.next_offset = offset + 1

    def is_waiting(self, offset: int) -> bool:
        """Whether a record was delivered and is not acknowledged."""
        return self._order.get(offset) is False

    def ack(self, offset: int) -> bool:
        """Acknowledges a delivered record; False where it is none that waits for it (ignored)."""
        if not self.is_waiting(offset):
            return False
        self._order[offset] = True
        self._acked += 1
        self._advance()
        return True

    def _advance(self) -> None:
        """Moves the position over the acknowledged head of the delivery order."""
        while self._order:
            offset = next(iter(self._order))
            if not self._order[offset]:
                return
            del self._order[offset]
            self._acked -= 1
            self.position = offset + 1

    def seek(self, offset: int) -> None:
        """Starts anew from here; acknowledgements of what was delivered before are ignored."""
        self._order.clear()
        self._acked = 0
        self.position = self.next_offset = offset

    @property
    def unacked(self) -> int:
        """Number of records delivered and not acknowledged."""
        return len(self._order) - self._acked

    @property
    def held(self) -> int:
        """Number of records remembered: unacknowledged ones and acknowledged ones behind them."""
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """True while nothing more is delivered until the oldest unacknowledged record is (`max_unacked`).

        Acknowledged records behind it count too: they must be remembered until it is.
        """
        return len(self._order) >= self.unacked_max

    def outstanding(self) -> Iterator[int]:
        """Offsets delivered and not acknowledged, in delivery order."""
        return (offset for offset, acked in self._order.items() if not acked)
