"""Ends: close from anywhere, callbacks and signal handlers included, and forked processes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from tests.wired.consumer.records import Places, filled, places
from tests.worlds.public_apis import Api, Application, Listener, MemberWorld, orders, settings
from zkgroup.consumer.aio import AsyncConsumer, AsyncGroupMember
from zkgroup.consumer.callbacks import AsyncRebalanceListener
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.machine.events import MemberState
from zkgroup.consumer.sync import Consumer, GroupMember
from zkgroup.errors import ConfigError, ForkedClientError, MemberClosedError
from zkgroup.model import TopicPartition
from zkgroup.runtime.loop import MachineLoop
from zkgroup.sources.memory import MemorySource
from zkgroup.znodes.group_records import StaticMember


def test_close_is_idempotent_and_ends_every_call(api: Api, world: MemberWorld) -> None:
    """MemberClosedError afterwards, and before the start."""
    member = api.member(client=world.client("a"))
    with pytest.raises(MemberClosedError, match="start"):
        member.leases()
    member.start()
    member.wait_until_assigned(PATIENCE_S)

    member.close()
    member.close()

    with pytest.raises(MemberClosedError):
        member.commit({orders(0)[0]: 1})
    with pytest.raises(MemberClosedError):
        member.start()


def test_close_ends_a_waiting_call(api: Api, world: MemberWorld) -> None:
    """A call that waits in another thread gets MemberClosedError rather than a timeout."""
    world.server.remove("/brokers/topics/orders")
    errors: list[BaseException] = []
    member = api.member(client=world.client("a"), settings=settings(require_brokers=True))
    member.start()

    def wait() -> None:
        try:
            member.wait_until_assigned(PATIENCE_S)
        except MemberClosedError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    world.topic("orders", 4)
    waiting.start()
    member.close()
    world.join(waiting)

    assert [type(error) for error in errors] == [MemberClosedError]


def test_close_returns_while_zookeeper_is_away(api: Api, world: MemberWorld) -> None:
    """In time; znodes in the session of a shared client are deleted after a reconnect."""
    member = api.member(client=world.client("a"))
    member.start()
    member.wait_until_assigned(PATIENCE_S)
    world.server.suspend("a")

    member.close(timeout_s=0.5)
    states = {member.state}
    world.server.resume("a")

    assert states <= {MemberState.CLOSING, MemberState.CLOSED}
    world.until(lambda: member.state is MemberState.CLOSED)
    assert world.owners() == {}


def test_close_inside_a_callback_schedules_and_returns(world: MemberWorld) -> None:
    """The callback goes on; on_revoked follows; close() from outside waits for the end."""
    app, closed = Application(), threading.Event()
    member = GroupMember(
        client=world.client("a"),
        group="g",
        topics=["orders"],
        clock=world.clock,
        settings=settings(),
        listener=Listener(app),
    )

    def leave(_: object) -> None:
        member.close()
        closed.set()

    app.on["assigned"] = leave
    member.start()

    world.until(closed.is_set)
    assert app.next("revoked") == orders(0, 1, 2, 3)
    member.close()
    assert member.state is MemberState.CLOSED


def test_a_callback_may_use_the_member_before_start_has_returned(
    world: MemberWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past bug: the first callback came before start() returned, and its close() found no member to close."""
    app, called = Application(), threading.Event()
    member = GroupMember(
        client=world.client("a"),
        group="g",
        topics=["orders"],
        clock=world.clock,
        settings=settings(),
        listener=Listener(app),
    )
    start = MachineLoop.start

    def start_and_wait(loop: MachineLoop) -> None:
        start(loop)
        assert called.wait(PATIENCE_S)

    def leave(_: object) -> None:
        assert member.commit({TopicPartition("orders", 0): 7}).committed == {TopicPartition("orders", 0): 7}
        member.close()
        called.set()

    monkeypatch.setattr(MachineLoop, "start", start_and_wait)
    app.on["assigned"] = leave
    member.start()

    assert app.next("revoked") == orders(0, 1, 2, 3)
    member.close()
    assert member.state is MemberState.CLOSED


@pytest.mark.parametrize("kind", ["member", "consumer"])
def test_stop_before_start_is_not_lost(api: Api, world: MemberWorld, kind: str) -> None:
    """A signal handler may run first; the start returns at once, and waiting callers are notified."""
    client = world.client("a")
    world.server.cut("a")
    named = {"source": filled(1)} if kind == "consumer" else {}
    patient = settings(connection_timeout_ms=200_000)
    made = getattr(api, kind)(client=client, settings=patient, **named)
    made.stop()

    with made:
        for wait in (made.wait_until_assigned, made.wait_until_stable):
            with pytest.raises(MemberClosedError, match="stop\\(\\) was called"):
                wait(PATIENCE_S)

    assert (made.stopped, made.state) == (True, MemberState.CLOSED)


def test_close_inside_a_coroutine_of_the_listener(world: MemberWorld) -> None:
    """The same on the asyncio API."""
    seen: list[str] = []

    class Leaving(AsyncRebalanceListener):
        async def on_assigned(self, leases: Sequence[Lease]) -> None:
            await member.close()
            seen.append("assigned")

        async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            seen.append("revoked")

    async def main() -> None:
        nonlocal member
        member = AsyncGroupMember(
            client=world.client("a"),
            group="g",
            topics=["orders"],
            clock=world.clock,
            settings=settings(),
            listener=Leaving(),
        )
        await member.start()
        async with asyncio.timeout(PATIENCE_S):
            while "revoked" not in seen:
                await asyncio.sleep(0)
        await member.close()

    member: AsyncGroupMember
    asyncio.run(main())

    assert seen == ["assigned", "revoked"]


def test_stop_in_a_signal_handler_ends_the_iteration(world: MemberWorld) -> None:
    """The handler interrupts the very thread that waits for records; nothing is locked twice."""
    source = MemorySource()
    with Consumer(
        client=world.client("a"),
        group="g",
        topics=["orders"],
        clock=world.clock,
        source=source,
        settings=settings(),
    ) as consumer:
        source.append("orders", 0, b"")
        former = signal.signal(signal.SIGUSR1, lambda *_: consumer.stop())
        try:
            came = 0
            for _ in consumer:
                came += 1
                threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        finally:
            signal.signal(signal.SIGUSR1, former)

    assert came == 1
    assert world.offsets()[0] == 1


def test_stop_ends_the_wait_for_a_connection(api: Api, world: MemberWorld) -> None:
    """A consumer that is stopped before it has connected delivers nothing, and leaves without an error."""
    client = world.client("a")
    world.server.cut("a")
    patient = settings(connection_timeout_ms=200_000)
    consumer = api.consumer(client=client, source=filled(1), settings=patient)
    came: list[Places] = []

    def consume() -> None:
        with consumer:
            came.append(places(consumer))

    thread = threading.Thread(target=consume)
    thread.start()
    consumer.stop()
    world.join(thread)

    assert (came, thread.is_alive()) == ([[]], False)


@pytest.mark.parametrize("kind", ["member", "consumer"])
def test_stop_only_asks_and_close_leaves(api: Api, world: MemberWorld, kind: str) -> None:
    """Past bug: `stop` of a member began to leave, a consumer's did not. Both own on, and commit."""
    named = {"source": filled(0)} if kind == "consumer" else {}
    with getattr(api, kind)(client=world.client("a"), **named) as made:
        made.wait_until_stable(PATIENCE_S)
        (first, *_) = made.leases()

        made.stop()
        made.wait_until_assigned(PATIENCE_S)  # is so: nothing has been left
        made.commit({first.topic_partition: 7})

        assert (made.stopped, made.state, len(world.owners())) == (True, MemberState.STABLE, 4)

    assert (made.state, world.owners(), world.offsets()[0]) == (MemberState.CLOSED, {}, 7)


@pytest.mark.parametrize("kind", [GroupMember, Consumer])
def test_stop_in_a_signal_handler_ends_a_wait(
    world: MemberWorld, monkeypatch: pytest.MonkeyPatch, kind: type[GroupMember | Consumer]
) -> None:
    """The handler interrupts the very thread that begins to wait; nothing is locked twice."""
    world.server.remove("/brokers/topics/orders")
    post, waiting = MachineLoop.post, threading.Event()

    def interrupted(loop: MachineLoop[Any, Any], entry: Any) -> None:
        if waiting.is_set() and threading.current_thread() is threading.main_thread():
            waiting.clear()
            signal.raise_signal(signal.SIGUSR1)
        post(loop, entry)

    monkeypatch.setattr(MachineLoop, "post", interrupted)
    named: dict[str, Any] = {"source": MemorySource()} if kind is Consumer else {}
    patient = settings(require_brokers=True)
    with kind(
        client=world.client("a"), group="g", topics=["orders"], clock=world.clock, settings=patient, **named
    ) as member:
        former = signal.signal(signal.SIGUSR1, lambda *_: member.stop())
        waiting.set()
        try:
            with pytest.raises(MemberClosedError, match="stop\\(\\) was called"):
                member.wait_until_assigned(PATIENCE_S)
        finally:
            signal.signal(signal.SIGUSR1, former)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_must_make_its_own_member(world: MemberWorld, tmp_path: Path) -> None:
    """Every call but close() and stop() raises there; the parent's member does not notice."""
    told = tmp_path / "told"
    with GroupMember(
        client=world.client("a"), group="g", topics=["orders"], clock=world.clock, settings=settings()
    ) as member:
        member.wait_until_assigned(PATIENCE_S)
        (lease, *_) = member.leases()
        child = os.fork()
        if child == 0:
            told.write_text("; ".join(_in_the_child(member, lease)))
            os._exit(0)
        os.waitpid(child, 0)

        assert told.read_text() == "commit; leases; describe; wait_until_stable; lease False 0"
        assert lease.is_valid
        member.commit({lease.topic_partition: 1})


def _in_the_child(member: GroupMember, lease: Lease) -> list[str]:
    raised: list[str] = []
    calls = {
        "commit": lambda: member.commit({lease.topic_partition: 1}),
        "leases": member.leases,
        "describe": member.describe,
        "wait_until_stable": member.wait_until_stable,
    }
    for name, call in calls.items():
        try:
            call()
        except ForkedClientError:
            raised.append(name)
    member.stop()
    member.close()
    return [*raised, f"lease {lease.is_valid} {lease.remaining_ms}"]


def test_cancelling_a_commit_does_not_lose_its_outcome(world: MemberWorld) -> None:
    """The wait ends, the commit goes on, and what became of it can be asked for."""

    async def main() -> None:
        async with AsyncGroupMember(
            client=world.client("a"), group="g", topics=["orders"], clock=world.clock, settings=settings()
        ) as member:
            await member.wait_until_assigned(PATIENCE_S)
            (zero, one) = orders(0, 1)
            commit = asyncio.create_task(member.commit({zero: 42, TopicPartition("orders", 9): 1}))
            await asyncio.sleep(0)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            async with asyncio.timeout(PATIENCE_S):
                while not member.cancelled_commits:
                    await asyncio.sleep(0)
            (outcome,) = member.cancelled_commits

            assert outcome.committed == {zero: 42}
            assert list(outcome.refused) == [TopicPartition("orders", 9)]
            assert await member.committed([zero, one]) == {zero: 42, one: None}

    asyncio.run(main())


def test_awaiting_costs_no_thread(world: MemberWorld) -> None:
    """A hundred coroutines that wait for records, commits and assignments share the member's threads."""

    async def main() -> None:
        source = MemorySource()
        async with AsyncConsumer(
            client=world.client("a"),
            group="g",
            topics=["orders"],
            clock=world.clock,
            source=source,
            settings=settings(),
        ) as consumer:
            await consumer.wait_until_assigned(PATIENCE_S)
            before = set(threading.enumerate())
            polls = [asyncio.create_task(consumer.poll(timeout_s=PATIENCE_S)) for _ in range(100)]
            waits = [asyncio.create_task(consumer.wait_until_assigned()) for _ in range(100)]
            commits = [asyncio.create_task(consumer.commit()) for _ in range(100)]
            await asyncio.gather(*waits, *commits)

            assert set(threading.enumerate()) <= before

            consumer.stop()
            assert await asyncio.gather(*polls) == [{}] * 100

    asyncio.run(main())


def test_a_busy_iteration_lets_other_tasks_run(world: MemberWorld) -> None:
    """Records that are there already are handed out without waiting, but not for ever."""

    async def main() -> int:
        source, turns = MemorySource(), 0
        for _ in range(1000):
            source.append("orders", 0, b"")

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with AsyncConsumer(
            client=world.client("a"),
            group="g",
            topics=["orders"],
            clock=world.clock,
            source=source,
            settings=settings(),
        ) as consumer:
            await consumer.poll(timeout_s=PATIENCE_S, max_records=1)
            other = asyncio.create_task(count())
            before, came = 0, 0
            async for _ in consumer:
                came += 1
                if came == 1:
                    before = turns
                if came == 400:
                    break
            other.cancel()
            return turns - before

    assert asyncio.run(main()) >= 3


def test_a_stuck_coroutine_is_cancelled_when_the_member_has_ended(world: MemberWorld) -> None:
    """It was left behind, and keeps nothing alive."""
    ends: list[str] = []

    class Stuck(AsyncRebalanceListener):
        async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

    async def main() -> None:
        async with AsyncGroupMember(
            client=world.client("a"),
            group="g",
            topics=["orders"],
            settings=settings(revoke_timeout_ms=100),
            listener=Stuck(),
        ) as member:
            await member.wait_until_assigned(PATIENCE_S)

    asyncio.run(main())

    assert ends == ["cancelled"]


def test_close_keeps_the_partitions_of_a_static_member_or_gives_them_up(api: Api, world: MemberWorld) -> None:
    """`leave=False` and an exception keep them for the grace, a leave does not, and only a static one can."""
    client, static = world.client("a"), settings(consumer_id="a", restart_grace_ms=60_000)

    def kept() -> bool:
        return bool((world.server.find(StaticMember.path("g", "g_a")) or pytest.fail("no entry")).data)

    def fail() -> None:
        with api.member(client=client, settings=static) as member:
            member.wait_until_assigned(PATIENCE_S)
            raise KeyError

    with api.member(client=client, settings=static) as member:
        member.wait_until_assigned(PATIENCE_S)
        member.close(leave=False)
    assert (kept(), world.owners()) == (True, {})
    with api.member(client=client, settings=static) as member:
        member.wait_until_assigned(PATIENCE_S)
    assert not kept()
    with pytest.raises(KeyError):
        fail()
    assert kept()
    with api.member(client=world.client("b")) as other, pytest.raises(ConfigError, match="restart_grace_ms"):
        other.close(leave=False)
