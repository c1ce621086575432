"""Sources as a user writes them, and consumers whose source is away, fails or hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, happened, outcome
from tests.wired.consumer.records import filled, places, polled
from tests.worlds.public_apis import Api, MemberWorld, settings
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import (
    MemberFailedError,
    OffsetOutOfRangeError,
    SourceError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Sleeper
from zkgroup.sources.files import FileSource
from zkgroup.sources.memory import MemorySource
from zkgroup.sources.port import Bounds, RecordSource, SourceRecord
from zkgroup.znodes.consumers import Offset

Make = Callable[[Path], RecordSource]


class Table(RecordSource):
    """A source of one's own: two methods, and an `__init__` that owes the base class nothing."""

    def __init__(self, rows: Mapping[int, Sequence[bytes]]) -> None:
        self._rows = rows
        self.failures: list[Exception] = []

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        return Bounds(0, len(self._rows.get(topic_partition.partition, ())))

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        if self.failures:
            raise self.failures.pop()
        topic, partition = topic_partition.topic, topic_partition.partition
        rows = self._rows.get(partition, ())[offset : offset + max_records]
        return [SourceRecord(topic, partition, offset + i, row) for i, row in enumerate(rows)]


def test_a_source_of_ones_own(api: Api, world: MemberWorld) -> None:
    """Two methods are enough."""
    source = Table({0: [b"a", b"b"], 3: [b"c"]})
    with api.consumer(client=world.client("a"), source=source) as consumer:
        assert places(polled(consumer, 3)) == [(0, 0), (0, 1), (3, 0)]


def test_a_source_that_is_away_is_asked_again(api: Api, world: MemberWorld) -> None:
    """SourceUnavailableError is a pause, not an end; so is ZooKeeper's absence, which sources ask too."""
    source = Table({0: [b"a"]})
    source.failures = [SourceUnavailableError("away"), StoreUnavailableError("ZooKeeper is away")]
    with api.consumer(client=world.client("a"), source=source) as consumer:
        assert places(polled(consumer, 1)) == [(0, 0)]


class PartlyAway(MemorySource):
    """Of some partitions neither bounds nor records can be had."""

    def __init__(self) -> None:
        super().__init__()
        self.away: set[int] = set()
        self.asked: list[tuple[int, ...]] = []
        """Partitions of each question for bounds."""
        self.limits_s: list[float] = []
        """How long each may take."""

    def bounds_of(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, Bounds | SourceUnavailableError]:
        self.asked.append(tuple(sorted(each.partition for each in partitions)))
        self.limits_s.append(timeout_s)
        return super().bounds_of(partitions, timeout_s)

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        if topic_partition.partition in self.away:
            raise SourceUnavailableError(f"{topic_partition} has no leader")
        return super().bounds(topic_partition)


def test_a_partition_without_a_start_delays_no_other(api: Api, world: MemberWorld) -> None:
    """All are asked for in one question; what has no leader is asked for again, alone, until it has one.

    After an attempt in vain the others wait a shorter time for it.
    """
    source = PartlyAway()
    source.away = {1}
    for partition in range(4):
        source.append("orders", partition, b"x")
    with api.consumer(client=world.client("a"), source=source) as consumer:
        others = places(polled(consumer, 3))
        world.until(lambda: len(source.asked) >= 3)
        source.away.clear()

        assert others == [(0, 0), (2, 0), (3, 0)]
        assert source.asked[:3] == [(0, 1, 2, 3), (1,), (1,)]
        assert source.limits_s[1] > source.limits_s[2]
        assert places(polled(consumer, 1)) == [(1, 0)]


class SlowlyAway(PartlyAway):
    """It takes a while to find that a partition is away."""

    def wait_with(self, sleeper: Sleeper) -> None:
        super().wait_with(sleeper)
        self._sleeper = sleeper

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        if topic_partition.partition in self.away:
            over = threading.Event()
            self._sleeper.sleep(self._sleeper.after(1.5), over.wait, over.set, over.is_set)
        return super().bounds(topic_partition)


def test_a_start_that_takes_all_the_time_keeps_no_other_from_being_asked(
    api: Api, world: MemberWorld
) -> None:
    """Beside one that is read already: what was not come to is asked for next, without what failed."""
    source = SlowlyAway()
    source.away = {0}
    for partition in range(4):
        source.append("orders", partition, b"x")
    world.server.put(Offset.path("g", TopicPartition("orders", 3)), b"0")
    with api.consumer(client=world.client("a"), source=source) as consumer:
        assert places(polled(consumer, 3)) == [(1, 0), (2, 0), (3, 0)]
        world.until(lambda: len(source.asked) >= 3)
        assert source.asked[:3] == [(0, 1, 2), (1, 2), (0,)]


def test_a_partition_that_cannot_be_read_delays_no_other(
    api: Api, world: MemberWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Its reads fail beside others that do not: one warning, and it goes on when it is back."""
    source = PartlyAway()
    for partition in range(4):
        source.append("orders", partition, b"x")
    with api.consumer(client=world.client("a"), source=source) as consumer:
        polled(consumer, 4)
        source.away = {1}
        for _ in range(3):
            for partition in range(4):
                source.append("orders", partition, b"y")
        others = places(polled(consumer, 9))
        source.away.clear()

        assert others == [(n, offset) for n in (0, 2, 3) for offset in (1, 2, 3)]
        assert places(polled(consumer, 3)) == [(1, 1), (1, 2), (1, 3)]
    warnings = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert warnings == ["orders-1 cannot be read now: orders-1 has no leader"]


def _lines(folder: Path, count: int) -> None:
    (folder / "orders").mkdir(exist_ok=True)
    (folder / "orders" / "0.jsonl").write_bytes(b"x\n" * count)


def _files(folder: Path) -> RecordSource:
    _lines(folder, 2)
    return FileSource(folder)


def _memory(folder: Path) -> RecordSource:
    return filled(2, [0])


def _table(folder: Path) -> RecordSource:
    return Table({0: [b"x", b"x"]})


@pytest.mark.parametrize("make", [_files, _memory, _table])
def test_the_policy_decides_about_a_position_beyond_the_end(
    api: Api, world: MemberWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Make
) -> None:
    """Nothing would ever come there: a warning, or with "error" the end, also if `read` returns nothing."""
    for partition, position in enumerate((b"5", b"0", b"0", b"0")):
        world.server.put(Offset.path("g", TopicPartition("orders", partition)), position)
    failing = api.consumer(
        client=world.client("a"), source=make(tmp_path), settings=settings(auto_offset_reset="error")
    )
    failing.start()
    world.until(lambda: failing.state is MemberState.FAILED)
    with pytest.raises(OffsetOutOfRangeError, match="orders-0: offset 5 is out of range"):
        failing.close()

    with api.consumer(client=world.client("b"), source=make(tmp_path)) as consumer:
        assert places(polled(consumer, 2)) == [(0, 0), (0, 1)]
        consumer.commit({TopicPartition("orders", 0): 2})
    assert world.offsets()[0] == 2
    assert "offset 5 is out of range" in caplog.text
    assert "the reset policy 'earliest' decides" in caplog.text


def test_a_file_that_is_replaced_while_it_is_read(api: Api, world: MemberWorld, tmp_path: Path) -> None:
    """The consumer waits at its end, and reads the new one from its beginning."""
    _lines(tmp_path, 3)
    with api.consumer(client=world.client("a"), source=FileSource(tmp_path)) as consumer:
        first = places(polled(consumer, 3))
        _lines(tmp_path, 2)
        assert (first, places(polled(consumer, 2))) == ([(0, 0), (0, 1), (0, 2)], [(0, 0), (0, 1)])
        consumer.commit({TopicPartition("orders", 0): 2})
    assert world.offsets()[0] == 2


def test_a_source_that_fails_ends_the_consumer(api: Api, world: MemberWorld) -> None:
    """State failed, raised by the next call and by close; its partitions are free for others."""
    source = Table({0: [b"a"]})
    source.failures = [SourceError("the disk is gone")]
    consumer = api.consumer(client=world.client("a"), source=source)
    consumer.start()
    world.until(lambda: consumer.state is MemberState.FAILED)

    with pytest.raises(SourceError, match="the disk is gone"):
        consumer.poll()
    with pytest.raises(SourceError):
        consumer.close()
    assert world.owners() == {}


def test_a_source_that_was_closed_is_asked_nothing(api: Api, world: MemberWorld) -> None:
    """Past bug: a question beside the failure was put to the closed source, which connected anew."""
    asked: list[Future[Bounds]] = []

    class Closing(Table):
        def close(self) -> None:
            super().close()
            ask()

    def ask() -> None:
        partition = TopicPartition("orders", 0)
        asked.append(consumer._consuming.fetcher.ask(lambda source: source.bounds(partition)))

    source = Closing({0: [b"a"]})
    source.failures = [SourceError("the disk is gone")]
    consumer = api.consumer(client=world.client("a"), source=source)
    consumer.start()
    world.until(lambda: consumer.state is MemberState.FAILED and asked)
    with pytest.raises(SourceError):
        consumer.close()
    ask()

    for future in asked:
        with pytest.raises(SourceError, match="the disk is gone"):
            outcome(future)


def test_a_programming_error_in_a_source_keeps_its_cause(api: Api, world: MemberWorld) -> None:
    """MemberFailedError, with the original as __cause__."""
    source = Table({0: [b"a"]})
    source.failures = [ZeroDivisionError("oops")]
    consumer = api.consumer(client=world.client("a"), source=source)
    consumer.start()
    world.until(lambda: consumer.state is MemberState.FAILED)

    with pytest.raises(MemberFailedError, match="oops") as failed:
        consumer.poll()
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_an_answer_after_the_end_is_no_warning(
    api: Api, world: MemberWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Past bug: what a source could not ask the closed client was logged, with "trying again"."""
    asked, released = threading.Event(), threading.Event()

    class Away(MemorySource):
        def wake(self) -> None:
            if asked.is_set() and not world.owners():
                released.set()

        def bounds(self, topic_partition: TopicPartition) -> Bounds:
            asked.set()
            happened(released)
            raise StoreUnavailableError("the client was closed")

    with api.consumer(client=world.client("a"), source=Away()):
        happened(asked)

    assert "trying again" not in caplog.text


def test_close_does_not_wait_for_a_hanging_source(api: Api, world: MemberWorld) -> None:
    """A source that does not come back keeps its thread, not the consumer."""
    release = threading.Event()

    class Hanging(MemorySource):
        def read(
            self, topic_partition: TopicPartition, offset: int, max_records: int
        ) -> Sequence[SourceRecord]:
            with world.clock.aside():
                happened(release)
            return []

    try:
        consumer = api.consumer(client=world.client("a"), source=Hanging())
        consumer.start()
        consumer.wait_until_assigned(PATIENCE_S)
        consumer.close(timeout_s=0.5)

        assert consumer.state is MemberState.CLOSED
        assert world.owners() == {}
    finally:
        release.set()
