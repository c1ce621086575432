"""What to ask leaders for next, and what their answers mean. Pure.

A reader gets lines below the high watermark, so lines that it was given are gone only where a replica outside
the ISR was elected (unclean). It notices: the leader's log parts from what was read (`diverging`), or ends
before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from zkgroup.errors import CorruptRecordError
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode, describe
from zkgroup.wire.replica_host import (
    CONSUMER,
    NO_BROKER_EPOCH,
    NO_EPOCH,
    FetchLinesRequest,
    FetchLinesResponse,
    LineBatch,
    batches_in,
)


def lines_in(records: bytes) -> tuple[bytes, ...]:
    """The lines of record batches, in order. Raises CorruptRecordError."""
    return tuple(line for batch in batches_in(records) for line in batch.lines)


class FetchedLine(NamedTuple):
    """One line, without its newline."""

    topic_partition: TopicPartition
    offset: int
    line: bytes


class Verdict(Enum):
    """What an answer means."""

    LINES = "lines"
    NOTHING = "none"
    """There is nothing new, or the answer is to a question that no longer stands."""
    DOUBT = "doubt"
    """Its leader is to be looked for again."""
    OUT_OF_RANGE = "out_of_range"
    """The log does not have what stood before the position, or ends before it."""


@dataclass(slots=True)
class _Place:
    """How far one partition has been read."""

    position: int
    """Offset of the next line to be given."""
    held: deque[bytes] = field(default_factory=deque)
    """Lines that came and are not given yet; the first is at `position`."""
    last_epoch: int = NO_EPOCH
    """Of the last line that came; -1 where none came since the position was set."""
    under_way: FetchLinesRequest | None = None
    asked: int = 0
    """When it was asked for last; a count of questions."""
    refused: bool = False
    """A leader has said before that the position is out of range."""
    trouble: str = ""

    @property
    def next_offset(self) -> int:
        return self.position + len(self.held)


class Fetching:
    """Positions of one reader, and what came for them."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` of lines for one answer; at least one batch comes, however large."""
        self._max_bytes = max_bytes
        self._places: dict[TopicPartition, _Place] = {}
        self._wanted: Mapping[TopicPartition, int] = {}
        self._questions = 0

    def want(self, positions: Mapping[TopicPartition, int]) -> None:
        """What shall be read now, each from this offset on.

        What came for other partitions is kept as long as their questions are under way or their position
        comes again unchanged.
        """
        self._wanted = dict(positions)
        for tp, position in positions.items():
            place = self._places.get(tp)
            if place is None:
                self._places[tp] = _Place(position)
            elif place.position != position:
                self._places[tp] = _Place(position, under_way=place.under_way, asked=place.asked)

    def forget(self, tp: TopicPartition) -> None:
        """Its position has been given up."""
        self._places[tp] = _Place(-1, under_way=self._places[tp].under_way)

    def ready(self) -> list[TopicPartition]:
        """Wanted, nothing held, not under way; the one that waits longest first."""
        found = [
            (place.asked, tp)
            for tp in self._wanted
            if (place := self._places[tp]).under_way is None and not place.held
        ]
        return [tp for _, tp in sorted(found)]

    @property
    def under_way(self) -> int:
        """How many of the wanted partitions are asked for just now."""
        return sum(self._places[tp].under_way is not None for tp in self._wanted)

    def request(self, tp: TopicPartition, leader_epoch: int, max_wait_ms: int) -> FetchLinesRequest:
        """The question for a partition that is ready, under way from now on; its end must be told."""
        place = self._places[tp]
        self._questions += 1
        place.asked = self._questions
        place.under_way = FetchLinesRequest(
            replica_id=CONSUMER,
            broker_epoch=NO_BROKER_EPOCH,
            topic=tp.topic,
            partition=tp.partition,
            leader_epoch=leader_epoch,
            last_fetched_epoch=place.last_epoch,
            offset=place.next_offset,
            max_bytes=self._max_bytes,
            max_wait_ms=max_wait_ms,
        )
        return place.under_way

    def unanswered(self, tp: TopicPartition) -> None:
        """There is no answer to what is under way."""
        self._places[tp].under_way = None

    def answered(self, tp: TopicPartition, response: FetchLinesResponse) -> Verdict:
        """The leader's answer to what is under way; `trouble` says what is behind `DOUBT`."""
        place = self._places[tp]
        request, place.under_way = place.under_way, None
        if request is None or (request.offset, request.last_fetched_epoch) != (
            place.next_offset,
            place.last_epoch,
        ):
            return Verdict.NOTHING
        if response.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Believed when a leader says so that was looked for anew: this one may be of former times.
            refused, place.refused = place.refused, True
            place.trouble = f"{tp}: offset {request.offset} is out of range, its leader says"
            return Verdict.OUT_OF_RANGE if refused else Verdict.DOUBT
        if response.error != ErrorCode.NONE:
            place.trouble = f"{tp}: its leader answers {describe(response.error)}"
            return Verdict.DOUBT
        place.refused = False
        if response.diverging is not None:
            return Verdict.OUT_OF_RANGE
        return self._take(tp, place, response)

    def trouble(self, tp: TopicPartition) -> str:
        """Why its leader was doubted last."""
        return self._places[tp].trouble

    def take(self, max_lines: int) -> list[FetchedLine]:
        """What came for the wanted partitions, up to so many lines each; positions move behind it."""
        taken: list[FetchedLine] = []
        for tp in self._wanted:
            place = self._places[tp]
            for _ in range(min(max_lines, len(place.held))):
                taken.append(FetchedLine(tp, place.position, place.held.popleft()))
                place.position += 1
        return taken

    def _take(self, tp: TopicPartition, place: _Place, response: FetchLinesResponse) -> Verdict:
        try:
            for batch in batches_in(response.records):
                if place.next_offset >= response.high_watermark:
                    break
                if not batch.base_offset <= place.next_offset < batch.end_offset:
                    place.trouble = (
                        f"{tp}: the batch of {len(batch.lines)} lines at {batch.base_offset} does not hold "
                        f"line {place.next_offset}"
                    )
                    return Verdict.DOUBT
                self._take_batch(place, batch, response.high_watermark)
        except CorruptRecordError as error:
            place.trouble = f"{tp}: the records at {place.next_offset} are damaged: {error}"
            return Verdict.DOUBT
        return Verdict.LINES if place.held else Verdict.NOTHING

    @staticmethod
    def _take_batch(place: _Place, batch: LineBatch, high_watermark: int) -> None:
        first = place.next_offset - batch.base_offset
        readable = min(len(batch.lines), high_watermark - batch.base_offset)
        lines = batch.lines[first : max(first, readable)]
        if lines:
            place.held.extend(lines)
            place.last_epoch = batch.leader_epoch
