"""`Consumer` and its twin: records, acknowledgements and groups, on a ZooKeeper in memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, joined
from tests.wired.consumer.records import Places, every, filled, places, polled
from tests.worlds.public_apis import Api, Application, MemberWorld, orders, settings
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import MemberClosedError
from zkgroup.sources.memory import MemorySource

(ZERO,) = orders(0)


def test_every_record_once_and_the_next_run_continues(api: Api, world: MemberWorld) -> None:
    """What was processed is committed at close, the next member starts behind it."""
    source = filled(5)
    quick = settings(consumer_timeout_ms=5000)
    with api.consumer(client=world.client("a"), source=source, settings=quick) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)
        first = [(record.partition, record.offset, record.value) for record in consumer]
        positions = [consumer.position(tp) for tp in orders(0, 1, 2, 3)]
    source.append("orders", 2, b"new")
    with api.consumer(client=world.client("b"), source=source, settings=quick) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)
        second = places(consumer)

    assert sorted(first) == [(p, n, b"%d" % n) for p in range(4) for n in range(5)]
    assert positions == [5] * 4
    assert second == [(2, 5)]
    assert world.offsets() == {0: 5, 1: 5, 2: 6, 3: 5}


def test_the_record_in_hand_is_not_processed(api: Api, world: MemberWorld) -> None:
    """Automatic mode: leaving the loop commits what came before it; the record comes again."""
    source = filled(5, [0])
    with api.consumer(client=world.client("a"), source=source) as consumer:
        for record in consumer:
            if record.offset == 2:
                break
    with api.consumer(client=world.client("b"), source=source) as consumer:
        again = next(iter(consumer))

    assert world.offsets()[0] == 2
    assert again.offset == 2


def test_ack_says_it_earlier(api: Api, world: MemberWorld) -> None:
    """So a loop that is left after its last record commits that one too."""
    source = filled(5, [0])
    with api.consumer(client=world.client("a"), source=source) as consumer:
        for record in consumer:
            consumer.ack(record)
            if record.offset == 2:
                break

    assert world.offsets()[0] == 3


def test_explicit_mode_commits_what_was_acknowledged(api: Api, world: MemberWorld) -> None:
    """In any order: the lowest contiguous position counts."""
    explicit = settings(ack_mode="explicit")
    with api.consumer(client=world.client("a"), source=filled(4, [0]), settings=explicit) as consumer:
        records = polled(consumer, 4)
        nothing = consumer.commit()
        consumer.ack(records[1])
        still_nothing = consumer.commit()
        consumer.ack(records[0])
        result = consumer.commit()

        assert (nothing.committed, still_nothing.committed) == ({}, {})
        assert result.committed == {ZERO: 2}
    assert world.offsets()[0] == 2


def test_max_unacked_pauses_a_partition(api: Api, world: MemberWorld) -> None:
    """It goes on when the oldest record is acknowledged."""
    tight = settings(ack_mode="explicit", max_unacked=2)
    with api.consumer(client=world.client("a"), source=filled(5, [0]), settings=tight) as consumer:
        first = polled(consumer, 2)
        assert consumer.poll(timeout_s=0.1) == {}

        consumer.ack(first[0])

        assert places(polled(consumer, 1)) == [(0, 2)]


def test_an_acknowledgement_after_the_loss_is_counted(api: Api, world: MemberWorld) -> None:
    """It changes nothing: the record belongs to a claim that is over."""
    app = Application()
    explicit = settings(ack_mode="explicit")
    with api.consumer(
        client=world.client("a"), source=filled(1, [0]), settings=explicit, app=app
    ) as consumer:
        (record,) = polled(consumer, 1)
        world.server.expire("a")
        app.next("lost")

        consumer.ack(record)

        assert consumer.acks_ignored == 1


def test_stop_ends_the_iteration(api: Api, world: MemberWorld) -> None:
    """From another thread, while it waits for records."""
    with api.consumer(client=world.client("a"), source=filled(1, [0])) as consumer:
        came: Places = []
        ended = threading.Event()

        def consume() -> None:
            for record in consumer:
                came.append((record.partition, record.offset))
            ended.set()

        thread = threading.Thread(target=consume)
        thread.start()
        world.until(lambda: came == [(0, 0)])
        consumer.stop()

        world.until(ended.is_set)
        world.join(thread)
        assert consumer.poll(timeout_s=0.1) == {}


def test_close_ends_a_waiting_iteration(api: Api, world: MemberWorld) -> None:
    """Quietly: the loop is over; a poll raises MemberClosedError."""
    consumer = api.consumer(client=world.client("a"), source=filled(0))
    consumer.start()
    consumer.wait_until_assigned(PATIENCE_S)
    ended = threading.Event()

    def consume() -> None:
        for _ in consumer:
            pass
        ended.set()

    thread = threading.Thread(target=consume)
    thread.start()
    consumer.close()

    world.until(ended.is_set)
    world.join(thread)
    with pytest.raises(MemberClosedError):
        consumer.poll()


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
        joined(self._thread)
        self.consumer.close()


def test_a_clean_move_repeats_and_loses_nothing(api: Api, world: MemberWorld) -> None:
    """Through a join and a leave in mid-work every record is delivered exactly once."""
    source = MemorySource()
    came: list[tuple[str, int, int]] = []

    def feed(rounds: int) -> None:
        """One record more for each partition, while the consumers are never far behind."""
        for _ in range(rounds):
            last = max(source.append("orders", partition, b"") for partition in range(4))
            world.until(lambda last=last: len(came) > 4 * last - 40, lambda: str(len(came)))

    def consumer(name: str) -> Worker:
        made = api.consumer(client=world.client(name), source=source, settings=settings(consumer_id=name))
        return Worker(made, name, came)

    with consumer("a"):
        feed(30)
        with consumer("b") as second:
            while second.state is not MemberState.STABLE:
                feed(1)
                world.clock.advance(1)  # records alone need no time, and a rebalance does
            feed(30)
        feed(30)
        each = source.bounds(ZERO).end
        world.until(lambda: len(came) >= 4 * each, lambda: str(len(came)))

    assert sorted((partition, offset) for _, partition, offset in came) == every(each)
    assert {name for name, _, _ in came} == {"a", "b"}


def test_an_application_that_does_not_poll_gives_its_partitions_back(api: Api, world: MemberWorld) -> None:
    """max_poll_interval_ms: what was acknowledged is committed, then it leaves; the next poll rejoins."""
    app = Application()
    lazy = settings(max_poll_interval_ms=2000)
    with api.consumer(client=world.client("a"), source=filled(2), settings=lazy, app=app) as consumer:
        polled(consumer, 8)
        consumer.poll(timeout_s=0.01)

        assert app.next("revoked") == orders(0, 1, 2, 3)
        world.until(lambda: world.owners() == {})
        assert world.offsets() == {0: 2, 1: 2, 2: 2, 3: 2}

        consumer.poll(timeout_s=0.01)
        world.until(lambda: consumer.poll(timeout_s=0.05) == {} and len(world.owners()) == 4)


def test_nothing_is_delivered_outside_the_lease(api: Api, world: MemberWorld) -> None:
    """With ZooKeeper away the records in the buffer stay there until it is back."""
    with api.consumer(
        client=world.client("a", session_timeout_ms=4000),
        source=filled(5, [0]),
        settings=settings(session_timeout_ms=4000, server_tick_ms=500),
    ) as consumer:
        next(iter(consumer))
        lease = consumer.lease(ZERO)
        world.server.suspend("a")
        world.until(lambda: not lease.is_valid)
        outside = consumer.poll(timeout_s=0.1)
        world.server.resume("a")

        assert outside == {}
        assert places(polled(consumer, 4)) == [(0, n) for n in range(1, 5)]
