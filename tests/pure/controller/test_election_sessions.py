"""An elector through disconnections, ends of sessions and of its lease, and the grace (recipes 13)."""

from __future__ import annotations

from tests.worlds.controller_clusters import Writer
from tests.worlds.stepped_electors import (
    CONTROLLER,
    EPOCH,
    GRACE_AND_SPREAD_MS,
    GRACE_MS,
    SteppedElectors,
    alone,
    elected,
    resigned,
)
from zkgroup.controller.machine.controller_election.elector import ElectorState
from zkgroup.controller.machine.events import Elected, ExtendSendLease, Resigned
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model.requests import Check, Create, Delete
from zkgroup.runtime.events import LogEvent, TimerFired
from zkgroup.runtime.procedures import Procedure, write
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path


def test_a_lost_session_makes_the_controller_resign_before_anything_of_the_next_one() -> None:
    """What waits is dropped (K6), it resigns, then registers, and only then stands again (K5; recipes 13)."""
    world = SteppedElectors()
    registered: list[tuple[int, bool]] = []

    def register() -> Procedure[None]:
        path = BrokerRegistration.path(1)
        registered.append((node.client.incarnation, world.server.find(CONTROLLER) is None))
        yield from write([Create(path, BrokerRegistration("h", 9001, 1, 0).encode(), True)], ())

    world.server.put(broker_ids_path())
    duty = Writer()
    node = world.node(1, prepare=register, work=duty)
    world.server.put("/work")
    world.run()
    duty.wanted = 1
    node.loop.post(TimerFired("nothing"))
    world.until_asked(node, "/work")
    world.write(Delete(CONTROLLER, -1))  # news that waits when the session ends
    world.server.expire(node.name)
    world.run(lambda: resigned(node))

    assert resigned(node) == ["expired"]
    assert node.machine.core.session is None
    assert node.client.incarnation == 1
    world.run()
    assert world.find("/work").stat.version == 0
    assert registered == [(1, True), (2, True)]
    assert [type(each) for each in node.story] == [Elected, Resigned, Elected]
    assert world.find(BrokerRegistration.path(1)).stat.czxid < world.find(CONTROLLER).stat.czxid


def test_a_short_disconnection_changes_nothing() -> None:
    """Neither resignation nor election; nothing is sent until the lease goes on (recipes 13)."""
    world = SteppedElectors()
    node, other = world.node(1), world.node(2)
    world.run()
    (controller,) = world.active_nodes
    world.server.suspend(controller.name)
    world.run()
    assert controller.is_active
    assert not controller.machine.election.may_send
    asked = len(world.server.log)
    world.advance(3000)
    assert len(world.server.log) == asked
    world.server.resume(controller.name)
    world.run()

    assert controller.machine.election.may_send
    assert [type(each) for each in (*node.story, *other.story)] == [Elected]


def test_what_changed_while_it_was_disconnected_is_seen() -> None:
    """After a disconnection every watch is armed anew by reading (recipes 13)."""
    world, node = alone()
    world.server.suspend(node.name)
    world.run()
    world.bump()
    world.server.resume(node.name)
    world.run(lambda: resigned(node))

    assert resigned(node) == ["/controller_epoch was changed"] or resigned(node) == [
        "a write was refused at its fence"
    ]


def test_an_elector_whose_former_session_is_still_active_waits_for_its_end() -> None:
    """No elector deletes a /controller of another session, not even its own of before (recipes 13)."""
    world, node = alone()
    former = node.session_id
    node.client.abandon(1, "expired by the own clock")
    world.run()
    assert resigned(node) == ["expired by the own clock"]
    assert world.find(CONTROLLER).stat.ephemeral_owner == former
    assert node.machine.election.stage is ElectorState.WATCHING
    world.server.expire_session(former)
    world.run()

    assert elected(node).epoch == 2


def test_nothing_is_sent_after_the_own_lease() -> None:
    """Two thirds of the session timeout less half a tick, from the last write (recipes 13)."""
    world, node = alone()
    (lease,) = node.received(ExtendSendLease)
    assert isinstance(lease, ExtendSendLease)
    assert lease.until_ms - world.clock.now_ms() == 3000
    world.advance(5000)
    assert node.machine.election.may_send
    world.server.suspend(node.name)
    world.advance(4000)

    assert node.is_active
    assert not node.machine.election.may_send
    assert all(each.until_ms <= world.clock.now_ms() for each in node.received(ExtendSendLease))  # type: ignore[union-attr]


def test_heartbeats_are_the_two_checks_and_not_more_than_needed() -> None:
    """At most six quorum writes in a session timeout, each the fence and nothing else (recipes 9)."""
    world, node = alone()
    before = len(world.server.log)
    world.advance(6000, step_ms=50)
    beats = world.server.log[before:]

    assert 4 <= len(beats) <= 6
    assert {beat.operations for beat in beats} == {(Check(CONTROLLER, 1), Check(EPOCH, 1))}
    assert node.machine.election.may_send


def test_a_living_kafka_controller_gets_time_to_notice() -> None:
    """Its znode goes while it lives: wait, then stand with the version read before (recipes 13)."""
    world = SteppedElectors()
    world.real()
    node = world.node(1)
    world.run()
    assert node.machine.election.stage is ElectorState.WATCHING
    world.depose()
    world.advance(GRACE_MS)
    assert node.machine.election.stage is ElectorState.GRACE
    assert not node.story
    world.advance(GRACE_AND_SPREAD_MS - GRACE_MS)

    assert elected(node) == Elected(Fence(2, 1), world.find(CONTROLLER).stat.czxid, 1)
    assert [note.fields["broker"] for note in node.received(LogEvent)] == [9]  # type: ignore[union-attr]


def test_a_dead_kafka_controller_is_followed_at_once() -> None:
    """Its registration went with its session, so it knows (recipes 13)."""
    world = SteppedElectors()
    session = world.real()
    node = world.node(1)
    world.run()
    world.server.expire_session(session)
    world.run()

    assert elected(node).fence == Fence(2, 1)


def test_a_kafka_controller_that_comes_back_within_the_grace_keeps_its_place() -> None:
    """After the grace `/controller` is read again; exists: back to watching (recipes 13)."""
    world = SteppedElectors()
    session = world.real()
    node = world.node(1)
    world.run()
    world.depose()
    assert node.machine.election.stage is ElectorState.GRACE
    world.kafka_controller_elected(9, session)
    world.advance(GRACE_AND_SPREAD_MS)

    assert not node.story
    assert node.machine.election.stage is ElectorState.WATCHING
    assert node.machine.election.predecessor.epoch_version == 1


def test_an_epoch_raised_during_the_grace_refuses_the_election() -> None:
    """The attempt has the version read before the grace, so a ruler meanwhile is noticed (recipes 13)."""
    world = SteppedElectors()
    session = world.real()
    node = world.node(1)
    world.run()
    world.depose()
    world.kafka_controller_elected(9, session)
    world.write(Delete(CONTROLLER, -1))
    world.advance(GRACE_AND_SPREAD_MS)
    assert not node.story
    world.advance(GRACE_AND_SPREAD_MS)

    assert elected(node).fence == Fence(3, 2)


def test_a_controller_that_was_not_seen_is_given_the_grace_as_well() -> None:
    """The epoch has another version than when `/controller` was read last (recipes 13)."""
    world = SteppedElectors()
    node, other = world.node(1), world.node(2)
    world.run()
    (controller,) = world.active_nodes
    waits = other if controller is node else node
    world.bump()
    world.depose()

    assert waits.machine.election.stage is ElectorState.GRACE
    world.advance(GRACE_AND_SPREAD_MS)
    assert len(world.active_nodes) == 1


def test_zkgroup_controllers_that_were_not_seen_are_followed_at_once() -> None:
    """Recipes 13: they are fenced, and the first of them has waited for those of Kafka. So a cluster that
    starts again has a controller at once."""
    world = SteppedElectors()
    world.real()
    first = world.node(1)
    world.run()
    world.depose()
    world.pass_grace()
    assert first.is_active
    world.nodes.remove(first)
    first.loop.stop()
    world.server.expire(first.name)
    later = world.node(2)
    world.run()

    assert elected(later) == Elected(Fence(3, 2), world.find(CONTROLLER).stat.czxid, 1)


def test_a_kafka_controller_after_zkgroups_that_were_not_seen_is_given_the_grace() -> None:
    """Also where the epoch was deleted by hand, and there is an older record of its number (recipes 13)."""
    world, first = alone()
    world.depose()
    assert world.record(2).broker == 1
    world.nodes.remove(first)
    first.loop.stop()
    world.server.expire(first.name)
    world.write(Delete(EPOCH, -1))
    world.real()
    world.bump()
    assert world.epoch() == (2, 1)
    world.depose()
    later = world.node(2)
    world.run()

    assert later.machine.election.stage is ElectorState.GRACE
    world.advance(GRACE_AND_SPREAD_MS)
    assert later.is_active


def test_a_kafka_controller_that_cannot_be_read_is_taken_for_a_living_one() -> None:
    """Whose registration to check is not known, so the grace is kept (recipes 13)."""
    world = SteppedElectors()
    session = world.real()
    world.write(Delete(CONTROLLER, -1))
    world.write(Create(CONTROLLER, b"?", True), session_id=session)
    node = world.node(1)
    world.run()
    world.server.expire_session(session)
    world.run()

    assert node.machine.election.stage is ElectorState.GRACE
