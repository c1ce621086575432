"""`Consumer` and its twin: records, acknowledgements, positions, on a ZooKeeper in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from tests.faces.support import TIMEOUT_S, Application, Face, World, orders, settings
from zkgroup.consumer.effects import MemberState
from zkgroup.consumer.records import Record, SourceRecord
from zkgroup.consumer.sources.memory import MemorySource
from zkgroup.consumer.sources.port import Bounds, RecordSource
from zkgroup.errors import (
    ConfigError,
    MemberClosedError,
    MemberFailedError,
    NoOffsetError,
    NotOwnerError,
    OffsetConflictError,
    SourceError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.testing.clock import wait_until
from zkgroup.znodes.consumers import Offset, Reset

ZERO, ONE, TWO, THREE = orders(0, 1, 2, 3)
Places = list[tuple[int, int]]


def filled(each: int, partitions: Iterable[int] = range(4)) -> MemorySource:
    source = MemorySource()
    for partition in partitions:
        for number in range(each):
            source.append("orders", partition, b"%d" % number)
    return source


def places(records: Iterable[Record]) -> Places:
    return sorted((record.partition, record.offset) for record in records)


def every(each: int, partitions: Iterable[int] = range(4)) -> Places:
    return [(partition, offset) for partition in partitions for offset in range(each)]


def polled(consumer: Any, count: int) -> list[Record]:
    """Polls until so many records have come."""
    came: list[Record] = []

    def enough() -> bool:
        for records in consumer.poll(timeout_s=0.2).values():
            came.extend(records)
        return len(came) >= count

    wait_until(enough, TIMEOUT_S, lambda: f"{len(came)} of {count}")
    return came


# --- iteration and acknowledgements ---------------------------------------------------------------


def test_every_record_once_and_the_next_run_goes_on(face: Face, world: World) -> None:
    """item 53: what was processed is committed at close, the next member starts behind it."""
    source = filled(5)
    quick = settings(consumer_timeout_ms=300)
    with face.consumer(client=world.client("a"), source=source, settings=quick) as consumer:
        first = [(record.partition, record.offset, record.value) for record in consumer]
        positions = [consumer.position(tp) for tp in orders(0, 1, 2, 3)]
    source.append("orders", 2, b"new")
    with face.consumer(client=world.client("b"), source=source, settings=quick) as consumer:
        second = places(consumer)

    assert sorted(first) == [(p, n, b"%d" % n) for p in range(4) for n in range(5)]
    assert positions == [5] * 4
    assert second == [(2, 5)]
    assert world.offsets() == {0: 5, 1: 5, 2: 6, 3: 5}


def test_the_record_in_hand_is_not_processed(face: Face, world: World) -> None:
    """Automatic mode: leaving the loop commits what came before it; the record comes again."""
    source = filled(5, [0])
    with face.consumer(client=world.client("a"), source=source) as consumer:
        for record in consumer:
            if record.offset == 2:
                break
    with face.consumer(client=world.client("b"), source=source) as consumer:
        again = next(iter(consumer))

    assert world.offsets()[0] == 2
    assert again.offset == 2


def test_ack_says_it_earlier(face: Face, world: World) -> None:
    """So a loop that is left after its last record commits that one too."""
    source = filled(5, [0])
    with face.consumer(client=world.client("a"), source=source) as consumer:
        for record in consumer:
            consumer.ack(record)
            if record.offset == 2:
                break

    assert world.offsets()[0] == 3


def test_explicit_mode_commits_what_was_acknowledged(face: Face, world: World) -> None:
    """In any order: the lowest contiguous position counts."""
    explicit = settings(ack_mode="explicit")
    with face.consumer(client=world.client("a"), source=filled(4, [0]), settings=explicit) as consumer:
        records = polled(consumer, 4)
        nothing = consumer.commit()
        consumer.ack(records[1])
        still_nothing = consumer.commit()
        consumer.ack(records[0])
        result = consumer.commit()

        assert (nothing.committed, still_nothing.committed) == ({}, {})
        assert result.committed == {ZERO: 2}
    assert world.offsets()[0] == 2


def test_max_unacked_pauses_a_partition(face: Face, world: World) -> None:
    """It goes on when the oldest record is acknowledged."""
    tight = settings(ack_mode="explicit", max_unacked=2)
    with face.consumer(client=world.client("a"), source=filled(5, [0]), settings=tight) as consumer:
        first = polled(consumer, 2)
        assert consumer.poll(timeout_s=0.1) == {}

        consumer.ack(first[0])

        assert places(polled(consumer, 1)) == [(0, 2)]


def test_an_acknowledgement_after_the_loss_is_counted(face: Face, world: World) -> None:
    """It changes nothing: the record belongs to a claim that is over."""
    app = Application()
    explicit = settings(ack_mode="explicit")
    with face.consumer(
        client=world.client("a"), source=filled(1, [0]), settings=explicit, app=app
    ) as consumer:
        (record,) = polled(consumer, 1)
        world.server.expire("a")
        app.next("lost")

        consumer.ack(record)

        assert consumer.acks_ignored == 1


def test_stop_ends_the_iteration(face: Face, world: World) -> None:
    """From another thread, while it waits for records."""
    with face.consumer(client=world.client("a"), source=filled(1, [0])) as consumer:
        came: Places = []
        ended = threading.Event()

        def consume() -> None:
            for record in consumer:
                came.append((record.partition, record.offset))
            ended.set()

        thread = threading.Thread(target=consume)
        thread.start()
        wait_until(lambda: came == [(0, 0)], TIMEOUT_S)
        consumer.stop()

        assert ended.wait(TIMEOUT_S)
        thread.join(TIMEOUT_S)
        assert consumer.poll(timeout_s=0.1) == {}


def test_close_ends_a_waiting_iteration(face: Face, world: World) -> None:
    """Quietly: the loop is over; a poll raises MemberClosedError."""
    consumer = face.consumer(client=world.client("a"), source=filled(0))
    consumer.start()
    consumer.wait_until_assigned(TIMEOUT_S)
    ended = threading.Event()

    def consume() -> None:
        for _ in consumer:
            pass
        ended.set()

    thread = threading.Thread(target=consume)
    thread.start()
    consumer.close()

    assert ended.wait(TIMEOUT_S)
    thread.join(TIMEOUT_S)
    with pytest.raises(MemberClosedError):
        consumer.poll()


# --- positions ------------------------------------------------------------------------------------


def test_pause_and_resume(face: Face, world: World) -> None:
    """A paused partition delivers nothing; the others go on."""
    with face.consumer(client=world.client("a"), source=filled(3, [0, 1])) as consumer:
        consumer.pause(ZERO)
        others = polled(consumer, 3)

        consumer.resume(ZERO)

        assert places(others) == every(3, [1])
        assert places(polled(consumer, 3)) == every(3, [0])


def test_a_seek_back_is_obeyed_and_may_be_committed(face: Face, world: World) -> None:
    """item 59: it is the only way back."""
    with face.consumer(client=world.client("a"), source=filled(5, [0])) as consumer:
        polled(consumer, 5)
        consumer.poll(timeout_s=0.05)
        consumer.commit()
        with pytest.raises(OffsetConflictError):
            consumer.commit({ZERO: 3})

        consumer.seek(ZERO, 2)

        assert consumer.position(ZERO) == 2
        assert consumer.commit().committed == {ZERO: 2}
        assert places(polled(consumer, 3)) == [(0, 2), (0, 3), (0, 4)]
        with pytest.raises(NotOwnerError):
            consumer.seek(TopicPartition("orders", 9), 0)
        with pytest.raises(ConfigError, match="orders-0: expected an offset of 0 or more, found -1"):
            consumer.seek(ZERO, -1)
        with pytest.raises(ConfigError, match="max_records"):
            consumer.poll(max_records=0)


def test_an_operators_reset_moves_an_idle_owner(face: Face, world: World) -> None:
    """recipes 6: the marker is obeyed at once, and the next commit continues from it."""
    with face.consumer(client=world.client("a"), source=filled(10, [0])) as consumer:
        polled(consumer, 10)
        consumer.poll(timeout_s=0.05)
        consumer.commit()
        offset = world.server.find(Offset.path("g", ZERO))
        assert offset is not None
        world.server.put("/consumers/g/resets")
        world.server.write(
            SetData(offset.path, Offset(4).encode(), offset.stat.version),
            Create(Reset.path("g", ZERO), Reset(offset=4, time_ms=1, by="test").encode()),
        )

        again = polled(consumer, 6)
        consumer.poll(timeout_s=0.05)
        consumer.commit()

        assert places(again) == [(0, n) for n in range(4, 10)]
    assert world.offsets()[0] == 10


def test_auto_commit_by_timer(face: Face, world: World) -> None:
    """item 60: processed positions only, one interval after the start, without being asked."""
    quick = settings(auto_commit_interval_ms=50)
    with face.consumer(client=world.client("a"), source=filled(3, [0]), settings=quick) as consumer:
        polled(consumer, 3)
        consumer.poll(timeout_s=0.01)

        wait_until(lambda: world.offsets().get(0) == 3, TIMEOUT_S)


def test_without_auto_commit_only_commit_commits(face: Face, world: World) -> None:
    """Not the timer, not a revocation, not close (R-24)."""
    manual = settings(auto_commit_enable=False, auto_commit_interval_ms=10)
    with face.consumer(client=world.client("a"), source=filled(3, [0]), settings=manual) as consumer:
        polled(consumer, 3)
        consumer.poll(timeout_s=0.05)
        before_close = world.offsets()[0]

    assert before_close == 0
    assert world.offsets()[0] == 0


# --- where to start -------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "start"), [("earliest", 2), ("smallest", 2), ("latest", 5), (None, 2)])
def test_the_policy_decides_where_nothing_is_committed(
    face: Face, world: World, policy: str | None, start: int
) -> None:
    """item 61: the position is committed before the first record is delivered."""
    source = filled(5, [0])
    source.drop_before(ZERO, 2)
    with face.consumer(
        client=world.client("a"), source=source, settings=settings(auto_offset_reset=policy)
    ) as consumer:
        wait_until(lambda: world.offsets().get(0) == start, TIMEOUT_S)
        source.append("orders", 0, b"new")

        assert polled(consumer, 6 - start)[0].offset == start


def test_the_policy_error_fails_the_consumer(face: Face, world: World) -> None:
    """It names the partition and what to do; nothing is left behind."""
    consumer = face.consumer(
        client=world.client("a"), source=filled(1), settings=settings(auto_offset_reset="error")
    )
    consumer.start()
    wait_until(lambda: consumer.state is MemberState.FAILED, TIMEOUT_S)

    with pytest.raises(NoOffsetError, match="no offset to start from"):
        consumer.poll()
    with pytest.raises(NoOffsetError):
        consumer.close()
    assert world.owners() == {}


def test_a_position_that_the_source_no_longer_has(face: Face, world: World) -> None:
    """The policy decides as well, and the new position is committed first."""
    source = filled(9, [0])
    with face.consumer(client=world.client("a"), source=source) as consumer:
        consumer.wait_until_assigned(TIMEOUT_S)
        consumer.commit({ZERO: 3})
    source.drop_before(ZERO, 6)

    with face.consumer(client=world.client("b"), source=source) as consumer:
        assert polled(consumer, 3)[0].offset == 6
    assert world.offsets()[0] >= 6


# --- groups ---------------------------------------------------------------------------------------


class Worker:
    """A consumer in a thread that writes down what it gets."""

    def __init__(self, consumer: Any, name: str, came: list[tuple[str, int, int]]) -> None:
        self.consumer = consumer
        self._name = name
        self._came = came
        self._thread = threading.Thread(target=self._consume, name=f"worker-{name}")

    def _consume(self) -> None:
        for record in self.consumer:
            self._came.append((self._name, record.partition, record.offset))

    def __enter__(self) -> Any:
        self.consumer.__enter__()
        self._thread.start()
        return self.consumer

    def __exit__(self, *error: object) -> None:
        self.consumer.stop()
        self._thread.join(TIMEOUT_S)
        self.consumer.close()


def test_a_clean_move_repeats_and_loses_nothing(face: Face, world: World) -> None:
    """item 36: through a join and a leave in mid-work every record is delivered exactly once."""
    source = MemorySource()
    came: list[tuple[str, int, int]] = []

    def feed(rounds: int) -> None:
        """One record more for each partition, while the consumers are never far behind."""
        for _ in range(rounds):
            last = max(source.append("orders", partition, b"") for partition in range(4))
            wait_until(lambda last=last: len(came) > 4 * last - 40, TIMEOUT_S, lambda: str(len(came)))

    def consumer(name: str) -> Worker:
        made = face.consumer(client=world.client(name), source=source, settings=settings(consumer_id=name))
        return Worker(made, name, came)

    with consumer("a"):
        feed(30)
        with consumer("b") as second:
            while second.state is not MemberState.STABLE:
                feed(1)
            feed(30)
        feed(30)
        each = source.bounds(ZERO).end
        wait_until(lambda: len(came) >= 4 * each, TIMEOUT_S, lambda: str(len(came)))

    assert sorted((partition, offset) for _, partition, offset in came) == every(each)
    assert {name for name, _, _ in came} == {"a", "b"}


def test_an_application_that_does_not_poll_gives_its_partitions_back(face: Face, world: World) -> None:
    """max_poll_interval_ms: what was acknowledged is committed, then it leaves; the next poll rejoins."""
    app = Application()
    lazy = settings(max_poll_interval_ms=200)
    with face.consumer(client=world.client("a"), source=filled(2), settings=lazy, app=app) as consumer:
        polled(consumer, 8)
        consumer.poll(timeout_s=0.01)

        assert app.next("revoked") == orders(0, 1, 2, 3)
        wait_until(lambda: world.owners() == {}, TIMEOUT_S)
        assert world.offsets() == {0: 2, 1: 2, 2: 2, 3: 2}

        consumer.poll(timeout_s=0.01)
        wait_until(lambda: consumer.poll(timeout_s=0.05) == {} and len(world.owners()) == 4, TIMEOUT_S)


def test_nothing_is_delivered_outside_the_lease(face: Face, world: World) -> None:
    """item 50: with ZooKeeper away the records in the buffer stay there until it is back."""
    with face.consumer(
        client=world.client("a", session_timeout_ms=1500),
        source=filled(5, [0]),
        settings=settings(session_timeout_ms=1500, server_tick_ms=200),
    ) as consumer:
        next(iter(consumer))
        lease = consumer.lease(ZERO)
        world.server.suspend("a")
        wait_until(lambda: not lease.is_valid, TIMEOUT_S)
        outside = consumer.poll(timeout_s=0.1)
        world.server.resume("a")

        assert outside == {}
        assert places(polled(consumer, 4)) == [(0, n) for n in range(1, 5)]


# --- sources --------------------------------------------------------------------------------------


class Table(RecordSource):
    """A source of one's own: two methods."""

    def __init__(self, rows: Mapping[int, Sequence[bytes]]) -> None:
        super().__init__()
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


def test_a_source_of_ones_own(face: Face, world: World) -> None:
    """Two methods are enough."""
    source = Table({0: [b"a", b"b"], 3: [b"c"]})
    with face.consumer(client=world.client("a"), source=source) as consumer:
        assert places(polled(consumer, 3)) == [(0, 0), (0, 1), (3, 0)]


def test_a_source_that_is_away_is_asked_again(face: Face, world: World) -> None:
    """SourceUnavailableError is a pause, not an end; so is ZooKeeper's absence, which sources ask too."""
    source = Table({0: [b"a"]})
    source.failures = [SourceUnavailableError("away"), StoreUnavailableError("ZooKeeper is away")]
    with face.consumer(client=world.client("a"), source=source) as consumer:
        assert places(polled(consumer, 1)) == [(0, 0)]


def test_a_source_that_fails_ends_the_consumer(face: Face, world: World) -> None:
    """State failed, raised by the next call and by close; its partitions are free for others."""
    source = Table({0: [b"a"]})
    source.failures = [SourceError("the disk is gone")]
    consumer = face.consumer(client=world.client("a"), source=source)
    consumer.start()
    wait_until(lambda: consumer.state is MemberState.FAILED, TIMEOUT_S)

    with pytest.raises(SourceError, match="the disk is gone"):
        consumer.poll()
    with pytest.raises(SourceError):
        consumer.close()
    assert world.owners() == {}


def test_a_programming_error_in_a_source_keeps_its_cause(face: Face, world: World) -> None:
    """MemberFailedError, with the original as __cause__."""
    source = Table({0: [b"a"]})
    source.failures = [ZeroDivisionError("oops")]
    consumer = face.consumer(client=world.client("a"), source=source)
    consumer.start()
    wait_until(lambda: consumer.state is MemberState.FAILED, TIMEOUT_S)

    with pytest.raises(MemberFailedError, match="oops") as failed:
        consumer.poll()
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_close_does_not_wait_for_a_hanging_source(face: Face, world: World) -> None:
    """A source that does not come back keeps its thread, not the consumer."""
    release = threading.Event()

    class Hanging(MemorySource):
        def read(
            self, topic_partition: TopicPartition, offset: int, max_records: int
        ) -> Sequence[SourceRecord]:
            release.wait(TIMEOUT_S)
            return []

    try:
        consumer = face.consumer(client=world.client("a"), source=Hanging())
        consumer.start()
        consumer.wait_until_assigned(TIMEOUT_S)
        consumer.close(timeout_s=0.5)

        assert consumer.state is MemberState.CLOSED
        assert world.owners() == {}
    finally:
        release.set()
