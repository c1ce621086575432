"""Offsets of a time, by brokers that know the times of records, and by those that know segments only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from zkgroup.clients.broker_queries import QueryClient
from zkgroup.clients.log_ends import TimeOffset, _time_offsets
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode, Request
from zkgroup.wire.records import (
    EARLIEST,
    LATEST,
    ListedPartition,
    ListedTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

START, END, TIME_MS = 10, 90, 1_000
PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
OLD_FORMAT = int(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)


class Broker(QueryClient):
    """Answers by partition number: `times` in version 1 (an offset, or an error), `segments` in version 0."""

    def __init__(
        self, times: Mapping[int, tuple[int, int]] | None, segments: Mapping[int, tuple[int, ...]]
    ) -> None:
        self._times, self._segments = times, segments

    async def version(self, kind: type[Request]) -> int:
        return 0 if self._times is None else 1

    async def ask(self, request: Request, kind: type, *, version: int | None = None) -> ListOffsetsResponse:  # type: ignore[override]
        assert isinstance(request, ListOffsetsRequest)
        is_old = (await self.version(ListOffsetsRequest) if version is None else version) == 0
        (topic,) = request.topics
        answers = []
        for one in topic.partitions:
            error, offset, offsets = 0, -1, tuple[int, ...]()
            if one.time_ms in (EARLIEST, LATEST):
                offset = START if one.time_ms == EARLIEST else END
                offsets = (offset,)
            elif is_old:
                offsets = self._segments[one.partition]
            else:
                error, offset = (self._times or {})[one.partition]
            listed = (
                ListedPartition(one.partition, error, offsets)
                if is_old
                else ListedPartition(one.partition, error, offset=offset)
            )
            answers.append(listed)
        return ListOffsetsResponse(topics=(ListedTopic("orders", tuple(answers)),))


@pytest.mark.parametrize(
    ("times", "segments", "expected"),
    [
        (None, {0: (40,), 1: (), 2: (END,)}, [(40, True), (START, True), (END, True)]),
        (
            {0: (0, 33), 1: (0, -1), 2: (OLD_FORMAT, -1)},
            {2: (40,)},
            [(33, False), (END, False), (40, True)],
        ),
    ],
    ids=["0.8.2.2", "2.8.2 with a topic in an older message format"],
)
def test_a_time_before_all_segments_is_the_start_and_one_after_all_records_is_the_end(
    times: Mapping[int, tuple[int, int]] | None,
    segments: Mapping[int, tuple[int, ...]],
    expected: list[tuple[int, bool]],
) -> None:
    """Past bug: old brokers were refused, and a topic in an old format would have lost its records."""
    found = asyncio.run(_time_offsets(Broker(times, segments), PARTITIONS, TIME_MS))

    assert found == {tp: TimeOffset(*one) for tp, one in zip(PARTITIONS, expected, strict=True)}
