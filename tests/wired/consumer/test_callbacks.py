"""The application's callbacks on a ZooKeeper in memory: what they may do; stuck, slow and broken ones."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.waiting import PATIENCE_S
from tests.wired.consumer.records import filled, polled
from tests.worlds.public_apis import (
    Api,
    Application,
    AsyncListener,
    Listener,
    MemberWorld,
    orders,
    settings,
)
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import MemberFailedError, NotOwnerError
from zkgroup.model import TopicPartition

ZERO, ONE, TWO, THREE = orders(0, 1, 2, 3)


def test_on_revoked_is_still_the_owner(api: Api, world: MemberWorld) -> None:
    """What the callback commits is committed before the release."""
    app = Application()
    with api.member(client=world.client("a"), app=app, settings=settings(consumer_id="a")) as first:
        app.on["revoked"] = lambda partitions: first.commit(dict.fromkeys(partitions, 5))
        first.wait_until_assigned(PATIENCE_S)
        with api.member(client=world.client("b"), settings=settings(consumer_id="b")) as second:
            second.wait_until_stable(PATIENCE_S)

            assert [lease.offset for lease in second.leases()] == [5, 5]
    assert world.offsets() == {0: 5, 1: 5, 2: 5, 3: 5}


def test_a_stuck_on_revoked_delays_no_other_member(api: Api, world: MemberWorld) -> None:
    """After revoke_timeout_ms the lease is over, the other member goes on, commits are refused."""
    app = Application()
    release = app.hold("revoked")
    quick = settings(consumer_id="a", revoke_timeout_ms=300)
    try:
        with api.member(client=world.client("a"), app=app, settings=quick) as first:
            first.wait_until_assigned(PATIENCE_S)
            with api.member(client=world.client("b"), settings=settings(consumer_id="b")) as second:
                second.wait_until_stable(PATIENCE_S)

                assert [lease.topic_partition for lease in first.leases()] == [ZERO, ONE]
                with pytest.raises(NotOwnerError):
                    first.commit({TWO: 1})
                world.server.expire("a")
                assert app.next("lost") == [ZERO, ONE]
    finally:
        release.set()


def test_later_callbacks_run_on_a_fresh_worker(world: MemberWorld) -> None:
    """The stuck one keeps its thread to itself."""
    api = Api("blocking")
    app = Application()
    release = app.hold("revoked")
    try:
        with api.member(
            client=world.client("a"), app=app, settings=settings(revoke_timeout_ms=200)
        ) as member:
            member.wait_until_assigned(PATIENCE_S)
            member.hand_back([ZERO])
            app.next("revoked")
            world.server.expire("a")
            app.next("lost")

            assert set(app.threads["lost"]).isdisjoint(app.threads["revoked"])
    finally:
        release.set()


def test_a_slow_on_assigned_keeps_its_leases(api: Api, world: MemberWorld) -> None:
    """It is left behind so that later callbacks run, but the partitions stay this member's."""
    app = Application()
    release = app.hold("assigned")
    try:
        with api.member(
            client=world.client("a"), app=app, settings=settings(revoke_timeout_ms=200)
        ) as member:
            member.wait_until_assigned(PATIENCE_S)
            app.next("assigned")
            member.hand_back([ZERO])

            assert app.next("revoked", "lost") == [ZERO]
            assert [lease.topic_partition for lease in member.leases()] == [ONE, TWO, THREE]
            assert member.lease(ONE).is_valid
    finally:
        release.set()


def test_each_claim_waits_for_its_own_on_assigned(api: Api, world: MemberWorld) -> None:
    """Lost and claimed again while the first one runs: its return delivers nothing of the new claim."""
    app = Application()
    first = app.hold("assigned")
    second = threading.Event()
    try:
        with api.consumer(client=world.client("a"), source=filled(1, [0]), app=app) as consumer:
            (lease, *_) = app.next("assigned")
            app.held["assigned"] = second
            world.server.expire("a")
            world.until(lambda: any(each.token > lease.token for each in consumer.leases()))
            first.set()
            (again, *_) = app.next("assigned")
            before = consumer.poll(timeout_s=1.0)
            second.set()

            assert again.token > lease.token
            assert before == {}
            assert [record.token for record in polled(consumer, 1)] == [again.token]
    finally:
        first.set()
        second.set()


def test_an_error_in_a_callback_ends_the_member(api: Api, world: MemberWorld) -> None:
    """State failed; the next call and close() raise with the cause; the partitions are free."""
    app = Application()

    def broken(_: object) -> None:
        raise ValueError("cannot handle this")

    app.on["assigned"] = broken
    member = api.member(client=world.client("a"), app=app)
    member.start()
    world.until(lambda: member.state is MemberState.FAILED)

    with pytest.raises(MemberFailedError, match="cannot handle this") as failed:
        member.leases()
    assert isinstance(failed.value.__cause__, ValueError)
    with pytest.raises(MemberFailedError, match="cannot handle this"):
        member.close()
    assert world.owners() == {}


def test_the_error_of_the_body_is_the_one_seen(api: Api, world: MemberWorld) -> None:
    """A failed member does not hide what the application itself raised."""
    app = Application()
    app.on["assigned"] = lambda _: 1 / 0

    def body() -> None:
        with api.member(client=world.client("a"), app=app) as member:
            world.until(lambda: member.state is MemberState.FAILED)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        body()


def test_on_revoked_also_runs_on_close(api: Api, world: MemberWorld) -> None:
    """Still the owner: it may commit."""
    app = Application()
    with api.member(client=world.client("a"), app=app) as member:
        app.on["revoked"] = lambda partitions: member.commit(dict.fromkeys(partitions, 3))
        member.wait_until_assigned(PATIENCE_S)

    assert app.next("revoked") == orders(0, 1, 2, 3)
    assert world.offsets() == {0: 3, 1: 3, 2: 3, 3: 3}


def _warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the listeners an `on_prepare`."""

    def on_prepare(self: Listener, partitions: Sequence[TopicPartition]) -> None:
        self._application.call("prepare", list(partitions))

    async def prepares(self: AsyncListener, partitions: Sequence[TopicPartition]) -> None:
        await self._call("prepare", list(partitions))

    monkeypatch.setattr(Listener, "on_prepare", on_prepare)
    monkeypatch.setattr(AsyncListener, "on_prepare", prepares)


def test_on_prepare_runs_beside_the_other_callbacks_while_the_old_owner_works(
    api: Api, world: MemberWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old owner keeps its leases until it returns; meanwhile other callbacks run (recipes 27)."""
    _warms_up(monkeypatch)
    app = Application()
    ready = app.hold("prepare")
    try:
        with api.member(client=world.client("a"), settings=settings(consumer_id="a")) as first:
            first.wait_until_stable(PATIENCE_S)
            with api.member(client=world.client("b"), app=app, settings=settings(consumer_id="b")) as second:
                assert app.next("prepare") == [TWO, THREE]
                assert [lease.topic_partition for lease in first.leases()] == [ZERO, ONE, TWO, THREE]
                assert second.leases() == ()

                ready.set()
                assert [lease.topic_partition for lease in app.next("assigned")] == [TWO, THREE]
                first.wait_until_stable(PATIENCE_S)
                assert [lease.topic_partition for lease in first.leases()] == [ZERO, ONE]
    finally:
        ready.set()


def test_an_error_of_on_prepare_ends_the_member(
    api: Api, world: MemberWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of any other callback; the old owner keeps everything."""
    _warms_up(monkeypatch)
    app = Application(on={"prepare": lambda partitions: 1 / 0})
    with api.member(client=world.client("a"), settings=settings(consumer_id="a")) as first:
        first.wait_until_stable(PATIENCE_S)
        second = api.member(client=world.client("b"), app=app, settings=settings(consumer_id="b"))
        second.start()
        world.until(lambda: second.state is MemberState.FAILED)

        with pytest.raises(MemberFailedError, match="division"):
            second.close()
        first.wait_until_stable(PATIENCE_S)
        assert [lease.topic_partition for lease in first.leases()] == [ZERO, ONE, TWO, THREE]
