"""An operator asks a zkgroup controller to resign, by the `czxid` of its `/controller`."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.cluster.controller import ask_to_resign, plan_resignation, wait_for_successor
from zkgroup.errors import ConflictError, NotFoundError, RefusedError
from zkgroup.model.requests import Delete, SetData
from zkgroup.znodes.controller import ControllerRegistration, ResignRequest, StandbyController


def _request(world: MemoryGroups) -> ResignRequest | None:
    found = world.server.find(ResignRequest.path())
    return ResignRequest.decode(found.path, found.data) if found else None


def _czxid(world: MemoryGroups) -> int:
    found = world.server.find(ControllerRegistration.path())
    assert found is not None
    return found.stat.czxid


def test_the_request_names_the_controller_that_is_meant(world: MemoryGroups) -> None:
    """A successor has another czxid and ignores it (recipes 13)."""
    MemoryCluster(world).ours()

    plan = plan_resignation(world.ensemble)
    ask_to_resign(world.ensemble, plan)

    assert (plan.controller, plan.epoch) == (1, 7)
    assert _request(world) == ResignRequest(_czxid(world))
    with pytest.raises(ConflictError, match="asked already"):
        plan_resignation(world.ensemble)


def test_a_real_controller_is_not_asked(world: MemoryGroups) -> None:
    """Refused with the reason, nothing written; exit 5 without an active controller (recipes 13)."""
    cluster = MemoryCluster(world)

    with pytest.raises(RefusedError, match=r"broker 1 is a Kafka controller.*stop that broker"):
        plan_resignation(world.ensemble)
    cluster.no_controller()
    with pytest.raises(NotFoundError, match="/controller"):
        plan_resignation(world.ensemble)

    assert _request(world) is None


def test_a_controller_that_cannot_be_read_is_not_asked(world: MemoryGroups) -> None:
    """Whether it is a zkgroup controller is unknown."""
    cluster = MemoryCluster(world)
    cluster.no_controller()
    world.hold(ControllerRegistration.path(), b"{")

    with pytest.raises(RefusedError, match="cannot be read"):
        plan_resignation(world.ensemble)


def test_a_request_that_meant_an_earlier_controller_is_written_over(world: MemoryGroups) -> None:
    """Its controller is gone; one that changes after the plan is a conflict."""
    cluster = MemoryCluster(world)
    cluster.ours()
    world.server.put(ResignRequest.path(), ResignRequest(3).encode())
    plan = plan_resignation(world.ensemble)
    ask_to_resign(world.ensemble, plan)

    assert _request(world) == ResignRequest(_czxid(world))
    with pytest.raises(ConflictError, match="changed since it was read"):
        ask_to_resign(world.ensemble, plan)


def test_a_real_controller_that_has_taken_over_since_the_plan_is_not_asked(world: MemoryGroups) -> None:
    """The version of `/controller` is checked in the transaction of the request."""
    cluster = MemoryCluster(world)
    cluster.ours()
    plan = plan_resignation(world.ensemble)
    cluster.no_controller()
    world.hold(ControllerRegistration.path(), ControllerRegistration(2, 1).encode())

    with pytest.raises(ConflictError, match="/controller"):
        ask_to_resign(world.ensemble, plan)

    assert _request(world) is None


@pytest.mark.parametrize("follows", [True, False])
def test_waiting_ends_when_a_controller_is_active(world: MemoryGroups, follows: bool) -> None:
    """Resigned without a successor is reported apart from not resigned."""
    cluster = MemoryCluster(world)
    cluster.ours()
    plan = plan_resignation(world.ensemble)
    ask_to_resign(world.ensemble, plan)
    looks: list[float] = []

    def time_passes(seconds: float) -> None:
        looks.append(seconds)
        world.pass_time(seconds)
        if len(looks) == 1:
            cluster.no_controller()
        elif len(looks) == 2 and follows:
            world.hold(ControllerRegistration.path(), ControllerRegistration(3, 1).encode())

    operator = world.operator(world.server.client(), time_passes)
    came = wait_for_successor(operator, plan, 5)

    assert (came.resigned, came.successor) == (True, 3 if follows else None)
    assert sum(looks) <= 5


def test_a_controller_that_hangs_has_not_resigned(world: MemoryGroups) -> None:
    """Its znode is as it was at the end of the time."""
    MemoryCluster(world).ours()
    plan = plan_resignation(world.ensemble)
    ask_to_resign(world.ensemble, plan)

    came = wait_for_successor(world.ensemble, plan, 2)

    assert (came.resigned, came.successor) == (False, None)


def test_possible_successors_are_noted_before_a_resignation(world: MemoryGroups) -> None:
    """A Kafka broker would be the next controller; without other brokers the same one is elected again."""
    cluster = MemoryCluster(world)
    cluster.ours()
    among_real = plan_resignation(world.ensemble)
    for number in (1, 2, 3):
        world.write(Delete(f"/brokers/ids/{number}", -1))
    alone = plan_resignation(world.ensemble)
    world.hold(StandbyController.path(9), StandbyController("h", 9092, 1).encode())
    not_alone = plan_resignation(world.ensemble)

    assert among_real.notes == ("broker 2, 3 runs Kafka and may be elected next",)
    assert alone.notes == ("no other broker is registered: broker 1 will be elected again",)
    assert not_alone.notes == ()
    world.write(SetData(ControllerRegistration.path(), b"{}", 1))  # version 2: neither ours nor real
    with pytest.raises(RefusedError):
        plan_resignation(world.ensemble)
