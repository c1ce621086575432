"""Members that share a client share its session: heartbeats, lease, and what they read (recipes 3, 9)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.worlds.stepped_group import GROUP, Member, SteppedGroup, is_stable, multis
from zkgroup.consumer.machine.membership import SharedSession
from zkgroup.consumer.machine.shared_results import KnownMembers
from zkgroup.model.requests import Check, ReadMany
from zkgroup.znodes.consumers import Registration

T_MS = 6000
CLIENT = "shared"


@pytest.fixture
def stage() -> SteppedGroup:
    return SteppedGroup({"t": 10})


def joined(stage: SteppedGroup, count: int) -> list[Member]:
    """So many members on one client, joined one after another."""
    return [stage.join(f"{number}", client=CLIENT) for number in range(count)]


def heartbeats(member: Member) -> int:
    check = (Check(Registration.path(GROUP, member.member_id), 0),)
    return sum(ops == check for ops in multis(member.asked))


def test_one_heartbeat_renews_the_leases_of_all_members(stage: SteppedGroup) -> None:
    """Six in T for the session, and one in T of each member, which finds a registration that is gone."""
    members = joined(stage, 10)
    stage.run(2 * T_MS)
    for member in members:
        member.asked.clear()

    stage.run(10 * T_MS)

    found = [heartbeats(member) for member in members]
    assert sum(found) <= 10 * (6 + len(members))
    assert min(found) >= 10
    assert stage.notes("lease.expired") == []
    assert all(is_stable(member) for member in members)


@pytest.mark.parametrize("cut_ms", [0, 4000])
def test_a_loop_that_stands_still_does_not_end_the_session_of_the_others(
    stage: SteppedGroup, cut_ms: int
) -> None:
    """Its own last write is older than T, but the server has acknowledged others of the session. Its lease
    has ended only if the connection was cut for longer than that."""
    still, other = joined(stage, 2)
    tokens = {grant.token for grant in (*still.grants().values(), *other.grants().values())}
    if cut_ms:
        stage.server.suspend(CLIENT)
        stage.run(cut_ms)
    stage.actors.pop("0")
    stage.server.resume(CLIENT)
    stage.run(3 * T_MS)
    stage.actors["0"] = still

    stage.run(1000)

    assert len(stage.notes("lease.expired")) == (2 if cut_ms else 0)
    assert {grant.token for grant in (*still.grants().values(), *other.grants().values())} == tokens
    assert is_stable(still)
    assert is_stable(other)


def test_leases_end_when_no_write_of_the_session_is_acknowledged(stage: SteppedGroup) -> None:
    """No member counts what another has only sent."""
    joined(stage, 3)
    stage.run(T_MS)
    stage.server.suspend(CLIENT)

    stage.run(T_MS)

    assert len(stage.notes("lease.expired")) == 3


def test_members_of_one_client_read_a_registration_once(stage: SteppedGroup) -> None:
    """Who passes later reads what is new since: in a crowd all members would read all of it."""
    for name in ("x", "y"):
        stage.join(name)
    members = joined(stage, 5)
    reads = Counter(
        path
        for member in members
        for request in member.asked
        if isinstance(request, ReadMany)
        for path in request.paths
    )

    assert [reads[Registration.path(GROUP, f"{GROUP}_{name}")] for name in "xy"] == [1, 1]
    assert all(is_stable(member) for member in members)


def test_writes_of_another_session_count_for_nothing() -> None:
    """Of two sessions of a client the newer one counts, whatever comes late."""
    shared = SharedSession()
    shared.acknowledged(1, 500)
    shared.acknowledged(2, 400)
    shared.acknowledged(1, 900)

    assert [shared.acknowledged_ms(incarnation) for incarnation in (1, 2, 3)] == [0, 400, 0]


def test_the_newest_listing_is_kept() -> None:
    """Also after `ids` was deleted and created, which restarts `cversion`."""
    shared = SharedSession()
    for known in (KnownMembers(1, 8), KnownMembers(5, 2), KnownMembers(5, 1), KnownMembers(1, 9)):
        shared.learn("/ids", known)

    assert shared.known_members["/ids"] == KnownMembers(5, 2)
