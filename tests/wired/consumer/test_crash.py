"""A member that ends because of a bug in zkgroup: other members on its shared client continue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.public_apis import Api, MemberWorld, orders, settings
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.consumer import orphan_cleanup
from zkgroup.consumer.machine.events import MemberState
from zkgroup.consumer.orphan_cleanup import remove_orphans
from zkgroup.errors import MemberFailedError
from zkgroup.model.requests import Create, Delete, Multi, SetData
from zkgroup.znodes.consumers import Offset, Owner, Registration

GROUP, SHARED = "g", "shared"


def _crash(member: Any) -> None:
    """An error on the member's own thread, where none may be."""
    engine = getattr(member, "_target", member)._engine_made

    def bug() -> None:
        raise AssertionError("a bug of ours")

    engine.call_soon(bug)
    assert engine.finished.wait(PATIENCE_S)


def _ids(world: MemberWorld) -> set[str]:
    prefix = "/consumers/g/ids/"
    return {path.removeprefix(prefix) for path in world.server.tree() if path.startswith(prefix)}


def test_a_neighbour_on_the_same_client_takes_over(api: Api, world: MemberWorld) -> None:
    """Owners, view and registration of the crashed one are gone at once; the session lives on."""
    client = world.client(SHARED)
    first = api.member(client=client, settings=settings(consumer_id="a"))
    first.start()
    with api.member(client=client, settings=settings(consumer_id="b")) as second:
        second.wait_until_stable(PATIENCE_S)
        first.wait_until_stable(PATIENCE_S)
        kept = {tp.partition: lease.token for lease in second.leases() for tp in [lease.topic_partition]}
        first.commit({lease.topic_partition: 7 for lease in first.leases()})

        _crash(first)

        world.until(lambda: len(second.leases()) == 4)
        second.wait_until_stable(PATIENCE_S)
        assert _ids(world) == {"g_b"}
        assert set(world.owners().values()) == {"g_b-0"}
        tokens = {lease.partition: lease.token for lease in second.leases()}
        assert kept.items() <= tokens.items()  # nothing of the neighbour was touched
        assert sorted(world.offsets().values()) == [-1, -1, 7, 7]
        assert first.state is MemberState.FAILED
        with pytest.raises(MemberFailedError, match="a bug of ours"):
            first.leases()
        with pytest.raises(MemberFailedError):
            first.close()
        with api.member(client=client, settings=settings(consumer_id="a")) as again:
            again.wait_until_stable(PATIENCE_S)  # its name is free again


def _claimed(world: MemberWorld, name: str, session_id: int, *partitions: int) -> None:
    """A member's claims as recipes 5 leaves them, each offset bumped and each owner at version 1."""
    for tp in orders(*partitions):
        owner, offset = Owner.path(GROUP, tp), Offset.path(GROUP, tp)
        if world.server.find(offset) is None:
            world.server.put(offset, b"5")
        found = world.server.find(offset)
        assert found is not None
        world.server.write(
            Create(owner, f"{name}-0".encode(), ephemeral=True),
            SetData(owner, f"{name}-0".encode(), 0),
            SetData(offset, b"5", found.stat.version),
            session_id=session_id,
        )


@pytest.fixture
def session_id(world: MemberWorld) -> int:
    """The session of the shared client, with the registration of `g_a` and of its neighbour `g_b`."""
    found: list[int] = []
    client = world.client(SHARED)
    unlisten = client.listen(lambda event: found.append(event.session.session_id))
    world.until(lambda: bool(found))
    unlisten()
    for path in ("/consumers/g/ids", "/consumers/g/owners/orders"):
        world.server.put(path)
    for name in ("g_a", "g_b"):
        registration = Create(Registration.path(GROUP, name), b"{}", ephemeral=True)
        world.server.write(registration, session_id=found[0])
    return found[0]


def test_a_successors_claim_between_reading_and_deleting_stays(world: MemberWorld, session_id: int) -> None:
    """Its claim has bumped the offset; the others go without that one (recipes 7)."""
    _claimed(world, "g_a", session_id, 0, 1)
    _claimed(world, "g_b", session_id, 2)

    def succeed() -> None:
        world.server.write(Delete(Owner.path(GROUP, orders(0)[0]), 1), session_id=session_id)
        _claimed(world, "g_b", session_id, 0)

    store = MeddledStore(world.server.clients[SHARED], before_nth(Multi, 1, succeed))
    remove_orphans(store, world.clock, GROUP, "g_a")

    assert world.owners() == {0: "g_b-0", 2: "g_b-0"}
    assert _ids(world) == {"g_b"}


def test_what_is_not_this_sessions_is_left_to_its_own_end(world: MemberWorld, session_id: int) -> None:
    """A registration of another session under this name: nothing of it is deleted by us."""
    world.server.write(Delete(Registration.path(GROUP, "g_a"), 0), session_id=session_id)
    other = Create(Registration.path(GROUP, "g_a"), b"{}", ephemeral=True)
    world.server.write(other, session_id=session_id + 1)
    _claimed(world, "g_a", session_id + 1, 0)

    remove_orphans(world.server.clients[SHARED], world.clock, GROUP, "g_a")

    assert (_ids(world), world.owners()) == ({"g_a", "g_b"}, {0: "g_a-0"})


def test_without_zookeeper_the_remaining_orphans_are_reported_and_left(
    world: MemberWorld, session_id: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its znodes go with the session; a caller that waits for the member's end does not wait for that."""
    monkeypatch.setattr(orphan_cleanup, "CLEAR_TIMEOUT_S", 0.05)
    _claimed(world, "g_a", session_id, 0)
    world.server.suspend(SHARED)

    remove_orphans(world.server.clients[SHARED], world.clock, GROUP, "g_a")

    assert world.owners() == {0: "g_a-0"}
    assert "its znodes stay until the session of the shared client ends" in caplog.text
