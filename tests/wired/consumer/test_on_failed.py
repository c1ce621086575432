"""`on_failed`: a member that has failed says so, whatever made it fail."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.waiting import PATIENCE_S
from tests.wired.consumer.records import filled
from tests.worlds.public_apis import Api, Application, MemberWorld, settings
from zkgroup.consumer.group_reads import group_reads
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import (
    AccessDeniedError,
    AuthenticationError,
    MemberFailedError,
    MemberIdInUseError,
    RebalanceFailedError,
    SourceError,
    StoreUnavailableError,
    ZkGroupError,
)
from zkgroup.model.requests import Create, Lost
from zkgroup.testing.memory_zookeeper.client import ClientLink
from zkgroup.znodes.consumers import Registration
from zkgroup.zookeeper import Acl

Arrange = Callable[[Application, MemberWorld], None]


def a_callback_raises(app: Application, world: MemberWorld) -> None:
    app.on["assigned"] = lambda _: 1 / 0


def credentials_are_refused(app: Application, world: MemberWorld) -> None:
    client = world.server.clients["a"]

    def refuse(_: object) -> None:
        with world.server.locked():
            fatal = AuthenticationError("wrong password")
            client.become(ClientLink.CLOSED, Lost(client.incarnation, "auth failed", fatal))

    app.on["assigned"] = refuse


def the_client_is_closed(app: Application, world: MemberWorld) -> None:
    app.on["assigned"] = lambda _: world.server.clients["a"].close()


def _created_by_another(world: MemberWorld, path: str, data: bytes) -> None:
    world.server.put(path.rpartition("/")[0])
    session = world.server.leader.create_session("other", 10**9)
    world.server.write(Create(path, data, ephemeral=True), session_id=session.session_id)


def the_name_is_taken(app: Application, world: MemberWorld) -> None:
    _created_by_another(world, Registration.path("g", "g_a"), b"{}")


def claims_are_refused(app: Application, world: MemberWorld) -> None:
    for partition in range(4):
        path = f"/consumers/g/owners/orders/{partition}"
        _created_by_another(world, path, b"g_stranger-0")


def an_acl_refuses(app: Application, world: MemberWorld) -> None:
    world.server.put("/consumers/g/ids")
    world.server.set_acl("/consumers/g/ids", Acl("rwda", "world", "anyone"))


@pytest.mark.parametrize("kind", ["member", "consumer"])
@pytest.mark.parametrize(
    ("arrange", "expected"),
    [
        (a_callback_raises, MemberFailedError),
        (credentials_are_refused, AuthenticationError),
        (the_client_is_closed, StoreUnavailableError),
        (the_name_is_taken, MemberIdInUseError),
        (claims_are_refused, RebalanceFailedError),
        (an_acl_refuses, AccessDeniedError),
    ],
)
def test_every_failure_is_told(
    api: Api, world: MemberWorld, kind: str, arrange: Arrange, expected: type[ZkGroupError]
) -> None:
    """Once, at the end, with the error that the next call raises; `stopped` ends the application's loops."""
    app = Application()
    named = {"source": filled(2)} if kind == "consumer" else {}
    member = getattr(api, kind)(
        client=world.client("a"),
        app=app,
        settings=settings(consumer_id="a", rebalance_max_retries=3),
        **named,
    )
    arrange(app, world)
    assert not member.stopped
    member.start()

    error = app.next("failed")
    assert isinstance(error, expected)
    assert (member.state, member.stopped) == (MemberState.FAILED, True)
    for call in (member.leases, member.close):
        with pytest.raises(expected) as raised:
            call()
        assert str(raised.value) == str(error)
    assert app.seen.empty()


def test_the_end_of_the_source_is_told(api: Api, world: MemberWorld) -> None:
    """The iteration ends with the same error."""
    source, app = filled(2), Application()
    source.read = lambda *_: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    consumer = api.consumer(client=world.client("a"), app=app, source=source)
    consumer.start()

    error = app.next("failed")
    assert isinstance(error.__cause__, ZeroDivisionError)
    with pytest.raises(MemberFailedError):
        next(iter(consumer))
    with pytest.raises(MemberFailedError):
        consumer.close()


class Noted(threading.Event):
    """An event that knows whether a wait for it is over."""

    has_returned = False

    def wait(self, timeout: float | None = None) -> bool:
        try:
            return super().wait(timeout)
        finally:
            self.has_returned = True


def test_a_callback_that_hangs_does_not_hide_it(api: Api, world: MemberWorld) -> None:
    """It is abandoned at its deadline; another member of that name can be started in `on_failed`."""
    app, again = Application(), []
    let_go = Noted()
    app.held["assigned"] = let_go
    member = api.member(
        client=world.client("a"), app=app, settings=settings(consumer_id="a", revoke_timeout_ms=100)
    )
    other = api.member(client=world.client("b"), settings=settings(consumer_id="a"))
    app.on["failed"] = lambda error: again.append(threading.Thread(target=other.start))
    try:
        member.start()
        app.next("assigned")
        getattr(member, "_target", member)._engine_made.fail(SourceError("the source is gone"))

        assert isinstance(app.next("failed"), SourceError)
        assert not let_go.has_returned
    finally:
        let_go.set()
    (starting,) = again
    starting.start()
    world.join(starting)
    other.wait_until_assigned(PATIENCE_S)
    other.close()


def test_a_read_that_ends_with_the_client_of_a_failed_member_raises_its_failure(
    api: Api, world: MemberWorld
) -> None:
    """A failed member closes its client, perhaps while `wait_until_stable` reads the group."""
    app = Application()
    a_callback_raises(app, world)
    member = api.member(client=world.client("a"), app=app)
    member.start()
    app.next("failed")
    engine = getattr(member, "_target", member)._engine_made
    world.server.clients["a"].close()
    with pytest.raises(MemberFailedError), group_reads(engine) as reads:
        reads.verify()
    with pytest.raises(MemberFailedError):
        member.close()


def test_nothing_is_told_of_a_close(api: Api, world: MemberWorld) -> None:
    """It is no failure; `stopped` is true, too."""
    app = Application()
    with api.member(client=world.client("a"), app=app) as member:
        member.wait_until_assigned(PATIENCE_S)
    assert member.stopped
    assert {name for name, _ in app.seen.queue} == {"assigned", "revoked"}
