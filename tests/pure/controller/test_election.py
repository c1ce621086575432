"""Which controller is active, on a ZooKeeper in memory: winning and losing. Recipes 13, controller.md section
2."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import Writer, fails
from tests.worlds.stepped_electors import (
    CONTROLLER,
    EPOCH,
    SteppedElectors,
    alone,
    elected,
    resigned,
)
from zkgroup.controller.machine.controller_election.elector import ElectorState
from zkgroup.controller.machine.events import Elected
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.runtime.events import TimerFired
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.znodes.controller import ControllerRecord, ControllerRegistration


def test_of_all_electors_one_wins_and_the_epoch_grows_by_one() -> None:
    """Five at once, each winner's session ends in turn; the version is ZooKeeper's (K4; recipes 13)."""
    world = SteppedElectors()
    for broker in range(5):
        world.node(broker)
    world.run()
    for epoch in range(1, 6):
        (controller,) = world.active_nodes
        assert elected(controller) == Elected(Fence(epoch, epoch), world.find(CONTROLLER).stat.czxid, 0)
        assert world.epoch() == (epoch, epoch)
        assert (
            ControllerRegistration.decode(CONTROLLER, world.find(CONTROLLER).data).broker == controller.broker
        )
        world.server.expire(controller.name)
        world.run()

    assert sum(len(node.received(Elected)) for node in world.nodes) == 6


def test_a_controller_that_no_session_holds_is_reported_at_once() -> None:
    """Once, with the path and the command that removes it; after that there is an election."""
    world = SteppedElectors()
    world.server.put(CONTROLLER, ControllerRegistration(9, 1).encode())
    node = world.node(1)
    world.run()
    world.advance(60_000)
    (note,) = node.notes("controller.persistent")

    assert str(note.fields["detail"]).startswith("/controller: ")
    assert "`zkgroup doctor --fix`" in str(note.fields["detail"])
    world.write(Delete(CONTROLLER, 0))
    world.pass_grace()
    assert elected(node).epoch == 1


def test_a_controller_is_made_and_set_once() -> None:
    """Data version 1 marks a zkgroup controller; the transaction is the recipe's own (recipes 13)."""
    world = SteppedElectors()
    node = world.node(1)
    request = world.until_asked(node, CONTROLLER)
    create, mark, bump, record = request.operations

    assert isinstance(create, Create)
    assert create.ephemeral
    assert mark == SetData(CONTROLLER, create.data or b"", 0)
    assert bump == SetData(EPOCH, b"1", 0)
    assert isinstance(record, Create)
    assert record.path == ControllerRecord.path(1)
    world.run()
    assert world.find(CONTROLLER).stat.version == 1
    kept = ControllerRecord.decode(record.path, world.find(record.path).data)
    assert kept == ControllerRecord(1, node.session_id, "started", world.clock.wall_ms()).after(0)


def test_an_epoch_raised_between_read_and_election_refuses_it() -> None:
    """Nothing of the attempt is left behind; the next one has the new epoch (recipes 13)."""
    world = SteppedElectors()
    node = world.node(1)
    world.until_asked(node, CONTROLLER)
    world.bump()
    world.run(lambda: node.machine.election.stage is ElectorState.GRACE)

    assert not node.is_active
    assert world.server.find(CONTROLLER) is None
    assert world.server.find(ControllerRecord.path(1)) is None
    assert world.epoch() == (1, 1)
    world.pass_grace()
    assert elected(node).fence == Fence(2, 2)
    assert elected(node).foreign_epoch == 1


@pytest.mark.parametrize("is_applied", [True, False])
def test_an_election_without_an_answer_is_resolved_by_reading(is_applied: bool) -> None:
    """The connection is cut after the commit, or before; one knows that it won (recipes 13)."""
    world = SteppedElectors()
    node, other = world.node(1), world.node(2)
    world.until_asked(node, CONTROLLER)
    world.server.cut(node.name, executed=int(is_applied))
    world.run()
    world.advance(1000)

    (controller,) = world.active_nodes
    assert world.find(CONTROLLER).stat.ephemeral_owner == controller.session_id
    assert elected(controller).czxid == world.find(CONTROLLER).stat.czxid
    assert world.epoch() == (1, 1)
    assert len(node.received(Elected)) + len(other.received(Elected)) == 1
    if is_applied:
        assert controller is node


def test_an_election_that_is_applied_late_is_found_or_taken_off() -> None:
    """The answer is given up first, the transaction is executed afterwards (recipes 13)."""
    world = SteppedElectors()
    node = world.node(1)
    world.until_asked(node, CONTROLLER)
    world.deliver(ServerStep("request", node.name), fault="late")
    world.run()
    world.advance(1000)

    assert node.is_active
    assert len(node.received(Elected)) == 1
    assert node.machine.election.may_send


def test_an_own_controller_of_an_attempt_that_is_not_known_any_more_is_taken_off() -> None:
    """What is of this session and not of its election goes, and then there is an election (recipes 13)."""
    world = SteppedElectors()
    node = world.node(1)
    world.run(lambda: node.machine.election.stage is ElectorState.VACANT)
    world.write(Create(CONTROLLER, ControllerRegistration(1, 5).encode(), True), session_id=node.session_id)
    stray = world.find(CONTROLLER).stat.czxid
    world.pass_grace()

    assert node.is_active
    assert world.find(CONTROLLER).stat.czxid == elected(node).czxid != stray


def test_controller_deleted_by_hand_is_elected_anew() -> None:
    """The active one resigns, and one is elected with the next epoch (recipes 13)."""
    world = SteppedElectors()
    node, other = world.node(1), world.node(2)
    world.run()
    (controller,) = world.active_nodes
    world.depose()

    assert resigned(controller) == ["/controller was deleted"]
    assert len(world.active_nodes) == 1
    assert world.epoch() == (2, 2)
    assert len(node.received(Elected)) + len(other.received(Elected)) == 2


def test_controller_replaced_by_another_id_makes_the_controller_resign() -> None:
    """Seen as changed, not as deleted (K1); the other's znode is left alone (recipes 13)."""
    world, node = alone()
    foreign_writer = world.server.client("stranger")
    world.run()
    assert foreign_writer.session is not None
    world.write(
        Delete(CONTROLLER, 1),
        Create(CONTROLLER, ControllerRegistration(7, 0).encode(), True),
        session_id=foreign_writer.session.session_id,
    )
    world.run()

    assert resigned(node) == ["/controller was replaced"]
    assert not node.is_active
    assert world.find(CONTROLLER).stat.ephemeral_owner == foreign_writer.session.session_id


def test_controller_written_by_another_client_makes_the_controller_resign() -> None:
    """Its znode with another id in it; it is still this session's, so it goes (recipes 13)."""
    world, node = alone()
    world.write(SetData(CONTROLLER, ControllerRegistration(7, 0).encode(), 1))
    world.run()

    assert resigned(node) == ["/controller was written"]
    assert ControllerRegistration.decode(CONTROLLER, world.find(CONTROLLER).data).broker == 1
    assert elected(node).epoch == 2


def test_after_a_bump_by_another_process_no_write_passes() -> None:
    """The write under way is refused and changes nothing; it resigns (K3; recipes 13)."""
    world = SteppedElectors()
    duty = Writer()
    node = world.node(1, work=duty)
    world.server.put("/work")
    world.run()
    before = world.find("/work").stat
    duty.wanted = 1
    node.loop.post(TimerFired("nothing"))
    world.until_asked(node, "/work")
    world.bump()
    world.run(lambda: resigned(node))

    assert world.find("/work").stat == before
    assert resigned(node) == ["a write was refused at its fence"]
    assert not node.machine.election.may_send
    world.pass_grace()
    assert elected(node).fence == Fence(3, 3)
    assert elected(node).foreign_epoch == 2


def test_a_bump_by_another_process_is_also_seen_without_a_write() -> None:
    """A Kafka broker that created, expired and came back can bump late (recipes 13)."""
    world, node = alone()
    world.bump()
    world.run(lambda: resigned(node))

    assert resigned(node) == ["/controller_epoch was changed"]
    world.run()
    assert world.server.find(CONTROLLER) is None


def test_another_controllers_znode_is_never_deleted() -> None:
    """It changes hands between reading and deletion; the epoch's version shows it (recipes 13)."""
    world, node = alone()
    world.bump()
    world.until_asked(node, CONTROLLER)
    foreign_writer = world.server.client("stranger")
    world.server.deliver(ServerStep("connect", "stranger"))
    assert foreign_writer.session is not None
    data = ControllerRegistration(7, 0).encode()
    world.write(
        Delete(CONTROLLER, 1),
        Create(CONTROLLER, data, True),
        SetData(CONTROLLER, data, 0),
        SetData(EPOCH, b"3", 2),
        session_id=foreign_writer.session.session_id,
    )
    mine = world.find(CONTROLLER).stat
    world.run()

    assert world.find(CONTROLLER).stat == mine
    assert mine.version == 1
    assert node.machine.election.stage is ElectorState.WATCHING


def test_a_failure_of_its_work_makes_it_resign_and_lets_others_try() -> None:
    """An exception while active: no election storm (K2), no batch that always fails (K10; recipes 13)."""
    world = SteppedElectors()
    failing = world.node(1, work=lambda election: ("load", fails))
    world.run()
    assert resigned(failing) == ["failed: ValueError: an unreadable znode"]
    assert world.server.find(CONTROLLER) is None
    other = world.node(2)
    world.pass_grace()

    assert other.is_active
    assert resigned(failing) == ["failed: ValueError: an unreadable znode"]
    kept = ControllerRecord.path(1)
    assert (
        ControllerRecord.decode(kept, world.find(kept).data).ended
        == "failed: ValueError: an unreadable znode"
    )


def test_an_epoch_deleted_while_there_is_no_controller_comes_back_no_smaller() -> None:
    """S11: the elector that makes it again has seen it, and begins where it was."""
    world = SteppedElectors()
    first, second = world.node(1), world.node(2)
    world.run()
    for _ in range(2):
        (controller,) = world.active_nodes
        world.server.expire(controller.name)
        world.pass_grace()
    (controller,) = world.active_nodes
    other = second if controller is first else first
    before = world.epoch()[0]
    assert before == 3
    world.nodes.remove(controller)
    controller.loop.stop()
    world.server.expire(controller.name)
    world.write(Delete(EPOCH, -1))
    world.pass_grace()

    assert other.is_active
    assert elected(other).epoch == before + 1


def test_an_epoch_deleted_by_hand_comes_back_no_smaller() -> None:
    """S11: epochs grow, also where another client has removed the znode."""
    world, node = alone()
    world.bump()
    world.pass_grace()
    assert elected(node).epoch == 3
    world.write(Delete(EPOCH, -1))
    world.pass_grace()

    assert resigned(node)[-1] == "/controller_epoch was deleted"
    assert elected(node).epoch == 4
    assert world.epoch()[0] == 4
