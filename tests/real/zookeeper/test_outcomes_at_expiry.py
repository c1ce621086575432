"""What was under way when the session ended: one outcome each, in time, and nothing is sent later.

kazoo as it is can drop a request at expiry without ever completing it, and sends what was asked while
suspended later (recipes 10).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.conftest import CountingZooKeeper
from tests.waiting import becomes, eventually
from tests.worlds.clients import MINE, gone, opener, session_events
from zkgroup.model.requests import (
    Create,
    CreateMissing,
    CreateMissingDone,
    Lost,
    Multi,
    MultiDone,
    NotSent,
    Read,
    SetData,
    Suspended,
    Unanswered,
)
from zkgroup.testing.conformance import Caller, Target

MANY = 50


@pytest.fixture
def target(zk_chaos_server: CountingZooKeeper) -> Iterator[Target]:
    """Clients through a network that can be broken."""
    with Target(opener(zk_chaos_server.address)) as target:
        yield target


@pytest.fixture
def other(zk_chaos_server: CountingZooKeeper) -> Iterator[Caller]:
    """A client past it."""
    with Target(opener(zk_chaos_server.direct_address)) as target:
        yield target.connect(20_000)


@pytest.mark.parametrize("reaches_server", [True, False], ids=["answers withheld", "requests withheld"])
def test_requests_under_way_when_the_session_ends_have_one_outcome_each(
    zk_chaos_server: CountingZooKeeper, target: Target, other: Caller, reaches_server: bool
) -> None:
    """Unknown, in order, once; what the server never saw is not sent in the next session (recipes 10)."""
    caller = target.connect(20_000)
    caller.make("/n")
    caller.ask(MINE, MultiDone)
    session_id = caller.session().session_id
    zk_chaos_server.swallow(to_server=not reaches_server, to_client=reaches_server)
    writes = [caller.submit(Multi((SetData("/n", b"", -1),))) for _ in range(MANY)]
    reads = [caller.submit(Read("/n", watch=True)) for _ in range(MANY)]
    eventually(zk_chaos_server.most_unanswered, lambda sent: sent >= len(writes) + len(reads))
    if reaches_server:
        other.catch_up()
        becomes(lambda: other.stat("/n").version, MANY)
    zk_chaos_server.expire_session(session_id)
    zk_chaos_server.heal()
    caller.await_event(Lost, 1)

    assert {type(one.outcome()) for one in (*writes, *reads)} == {Unanswered}
    caller.session(2)
    assert gone(other, "/mine")
    assert other.stat("/n").version == (MANY if reaches_server else 0)
    assert {len(one.outcomes) for one in (*writes, *reads)} == {1}
    assert [one.watched for one in reads] == [[]] * MANY


def test_a_request_that_is_never_answered_has_its_outcome_in_time(
    zk_chaos_server: CountingZooKeeper, target: Target, other: Caller
) -> None:
    """Nobody tells that the session is over, and no connection breaks; the deadline does (recipes 10)."""
    caller = target.connect(3000)
    caller.make("/n")
    zk_chaos_server.swallow()
    zk_chaos_server.most_unanswered()
    write = caller.submit(Multi((SetData("/n", b"", -1),)))
    eventually(zk_chaos_server.most_unanswered)

    assert isinstance(write.outcome(), Unanswered)
    caller.await_event(Suspended)
    caller.ask(Multi((SetData("/n", b"late", -1),)), NotSent)
    zk_chaos_server.heal(cut=True)
    becomes(lambda: session_events(caller)[-1][0], "Connected")
    other.catch_up()
    assert other.stat("/n").version == 0


def test_what_was_asked_before_close_is_still_answered(target: Target, other: Caller) -> None:
    """The goodbye waits for those that a call of several packets holds back, and goes behind them."""
    caller = target.connect(20_000)
    parents = caller.submit(CreateMissing(("/p", "/p/q")))
    behind = caller.submit(Multi((Create("/p/q/r", b"last"),)))
    caller.store.close()

    assert isinstance(parents.outcome(), CreateMissingDone)
    assert isinstance(behind.outcome(), MultiDone)
    other.catch_up()
    assert other.stat("/p/q/r").data_length == 4
