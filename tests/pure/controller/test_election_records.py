"""What an active controller does for others: resignation on request, its registration, its records (13,
14)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from tests.worlds.acls import NO_CREATES
from tests.worlds.stepped_electors import (
    CONTROLLER,
    EPOCH,
    GRACE_AND_SPREAD_MS,
    SteppedElectors,
    alone,
    elected,
    resigned,
)
from zkgroup.controller.machine.controller_election.elector import Elector, ElectorState
from zkgroup.controller.machine.controller_election.history import ControllerHistory
from zkgroup.controller.machine.controller_election.transactions import (
    ElectionAttempt,
    end_records,
    zkgroup_epochs_up_to,
)
from zkgroup.controller.machine.events import IdInUse, LeaveElection
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.settings import ControllerSettings
from zkgroup.model import Znode
from zkgroup.model.requests import Delete, Read, Request, SetData, ZnodeStat
from zkgroup.runtime.procedures import Procedure
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import (
    ControllerRecord,
    ResignRequest,
    StandbyController,
    controller_history_path,
    standby_controllers_path,
)
from zkgroup.zookeeper.settings import OPEN_ACL


def test_a_request_to_resign_is_carried_out_once_and_the_others_come_first() -> None:
    """Its data is the czxid of `/controller`; the request ends with the controller (recipes 13)."""
    world, node = alone()
    other = world.node(2)
    world.run()
    world.server.put(ResignRequest.path(), ResignRequest(elected(node).czxid).encode())
    world.run()

    assert resigned(node) == ["an operator asked for it"]
    assert world.active_nodes == [other]
    assert world.server.find(ResignRequest.path()) is None
    assert world.record(1).ended == "an operator asked for it"
    kept = world.record(2)
    assert kept.ended is None
    assert kept.reason == "broker 1 is no longer the controller"


def test_the_reason_of_its_own_resignation_is_recorded_once() -> None:
    """Another has been active since: it is the end of that controller that the next record names."""
    world, node = alone()
    other = world.node(2)
    world.run()
    world.server.put(ResignRequest.path(), ResignRequest(elected(node).czxid).encode())
    world.run()
    assert world.active_nodes == [other]
    world.advance(GRACE_AND_SPREAD_MS)
    world.server.expire(other.name)
    world.advance(GRACE_AND_SPREAD_MS)

    assert world.active_nodes == [node]
    assert world.record(3).reason == "broker 2 is no longer the controller"


def test_the_only_elector_is_elected_again_after_it_yielded() -> None:
    """A cluster of one is not left without a controller."""
    world, node = alone()
    world.server.put(ResignRequest.path(), ResignRequest(elected(node).czxid).encode())
    world.run()
    assert not node.is_active
    world.advance(GRACE_AND_SPREAD_MS)

    assert elected(node).epoch == 2


@pytest.mark.parametrize("data", [b"12345", b"soon"])
def test_a_request_that_means_another_controller_is_removed(data: bytes) -> None:
    """Another czxid, or none that can be read; it stays active (recipes 13)."""
    world = SteppedElectors()
    world.server.put(ResignRequest.path(), data)
    node = world.node(1)
    world.run()

    assert world.server.find(ResignRequest.path()) is None
    assert node.is_active
    assert not resigned(node)


def test_a_controller_that_hosts_nothing_is_registered_while_it_is_active() -> None:
    """In the same transaction and session; waiting, it shows elsewhere (recipes 14)."""
    world = SteppedElectors()
    node = world.node(7, controller_only=True)
    request = world.until_asked(node, CONTROLLER)
    assert StandbyController.path(7) in world.server.tree()
    assert [op.path for op in request.operations][-1] == BrokerRegistration.path(7)
    world.run()
    found = world.find(BrokerRegistration.path(7))
    registration = BrokerRegistration.decode(found.path, found.data)

    assert found.stat.czxid == world.find(CONTROLLER).stat.czxid
    assert (registration.version, registration.host, registration.port) == (1, "h", 9007)
    assert registration.extensions == {"zkgroup": {"role": "controller"}}
    assert world.server.find(StandbyController.path(7)) is None

    world.server.put(ResignRequest.path(), ResignRequest(elected(node).czxid).encode())
    world.run()
    assert world.server.find(BrokerRegistration.path(7)) is None
    assert world.find(StandbyController.path(7)).stat.ephemeral_owner == node.session_id


def test_a_registration_left_behind_by_hand_does_not_stay() -> None:
    """`/controller` is deleted alone; what is of this session goes before the next election (recipes 14)."""
    world, node = alone(7, controller_only=True)
    first = world.find(BrokerRegistration.path(7)).stat.czxid
    world.depose()

    assert elected(node).epoch == 2
    assert world.find(BrokerRegistration.path(7)).stat.czxid == elected(node).czxid > first


def test_an_id_of_a_broker_is_in_use() -> None:
    """Node-exists on the registration is no lost race (recipes 14)."""
    world = SteppedElectors()
    session_id = world.real(7)
    world.write(Delete(CONTROLLER, -1))
    node = world.node(7, controller_only=True)
    world.pass_grace()

    assert node.story == [IdInUse(7, BrokerRegistration.path(7), session_id)]
    assert world.server.find(CONTROLLER) is None
    assert world.epoch() == (1, 0)


def test_an_id_of_a_broker_is_in_use_while_another_one_is_active() -> None:
    """Said at once, not when it is elected; the name of who waits is not taken (recipes 14)."""
    world = SteppedElectors()
    session_id = world.real(7)
    node = world.node(7, controller_only=True)
    world.run()

    assert node.story == [IdInUse(7, BrokerRegistration.path(7), session_id)]
    assert world.server.find(StandbyController.path(7)) is None


def test_two_processes_with_one_id_do_not_both_wait() -> None:
    """The second waits for a session timeout and some slack, as after a quick restart (recipes 14)."""
    world = SteppedElectors()
    first = world.node(7, controller_only=True)
    world.real()
    world.run()
    second = world.node(7, controller_only=True, name="twin")
    world.run()
    world.advance(7000)
    assert second.story == []
    world.advance(1000)

    assert second.story == [IdInUse(7, StandbyController.path(7), first.session_id)]
    assert first.machine.election.stage is ElectorState.WATCHING


def test_a_controller_that_was_registered_goes_on_when_an_acl_refuses_it() -> None:
    """As a broker: somebody may set the ACLs again. One that never was ends (`test_controller_only`)."""
    world, node = alone(7, controller_only=True)
    path = standby_controllers_path()
    world.server.set_acl(path, NO_CREATES)
    world.server.expire(node.client.name)
    world.pass_grace()
    assert world.active_nodes == []
    world.server.set_acl(path, *OPEN_ACL)
    world.pass_grace()

    assert world.active_nodes == [node]


@pytest.mark.parametrize("path", [BrokerRegistration.path(7), StandbyController.path(7)])
def test_a_persistent_znode_of_this_id_is_not_waited_for(path: str) -> None:
    """No session ends what a restored backup has left."""
    world = SteppedElectors()
    world.real()
    world.server.put(path, BrokerRegistration("h", 9092, 1, 0).encode())
    node = world.node(7, controller_only=True)
    world.run()

    assert node.story == [IdInUse(7, path, 0)]


@pytest.mark.parametrize("controller_only", [False, True])
def test_a_controller_that_leaves_the_election_deletes_its_own_znodes_and_takes_part_in_no_election(
    controller_only: bool,
) -> None:
    """Its record says how it resigned, and the next one may begin."""
    world, node = alone(7, controller_only=controller_only)
    node.loop.post(LeaveElection("stopped"))
    world.run()

    assert resigned(node) == ["stopped"]
    assert node.machine.has_left
    assert world.server.find(CONTROLLER) is None
    assert world.server.find(BrokerRegistration.path(7)) is None
    assert world.record(1).ended == "stopped"
    world.advance(10 * GRACE_AND_SPREAD_MS)
    assert world.server.find(CONTROLLER) is None

    other = world.node(8)
    world.pass_grace()
    assert other.is_active
    assert node.machine.has_left


def test_a_controller_that_leaves_the_election_leaves_the_znode_of_another() -> None:
    """It only stands no more."""
    world = SteppedElectors()
    loaded_cluster, node = world.node(1), world.node(2)
    world.run()
    waiting = next(each for each in (loaded_cluster, node) if not each.is_active)
    waiting.loop.post(LeaveElection("stopped"))
    world.run()

    assert waiting.machine.has_left
    assert len(world.active_nodes) == 1
    assert not world.active_nodes[0].machine.has_left


def test_a_controller_that_leaves_the_election_while_elected_resigns_at_once() -> None:
    """Whether the answer is there already or not."""
    world = SteppedElectors()
    node = world.node(1)
    world.until_asked(node, CONTROLLER)
    node.loop.post(LeaveElection("stopped"))
    node.loop.run_pending()
    assert not node.machine.has_left
    world.run()

    assert resigned(node) == ["elected while it was leaving"]
    assert (node.machine.has_left, world.server.find(CONTROLLER)) == (True, None)


def test_a_controller_that_leaves_the_election_within_the_grace_does_not_compete() -> None:
    """Not even when the grace is over."""
    world = SteppedElectors()
    world.real(9)
    node = world.node(1)
    world.run()
    world.depose()
    assert node.machine.election.stage is ElectorState.GRACE
    node.loop.post(LeaveElection("stopped"))
    world.run()
    assert node.machine.has_left
    world.advance(GRACE_AND_SPREAD_MS)
    assert (node.story, world.server.find(CONTROLLER)) == ([], None)


def test_retiring_without_a_connection_ends_at_once() -> None:
    """What stands of it ends with its session."""
    world, node = alone()
    world.server.suspend(node.name)
    world.run()
    node.loop.post(LeaveElection("stopped"))
    node.loop.run_pending()
    assert (node.machine.has_left, resigned(node)) == (True, ["stopped"])


def test_the_record_says_how_long_loading_took() -> None:
    """Under the fence, once; the end is added to it (recipes 18)."""
    world = SteppedElectors()
    done = []

    def load(election: Elector) -> tuple[str, object] | None:
        return None if done else ("load", lambda: once(node.machine.records.loaded(345)))

    def once(procedure: Procedure[None]) -> Procedure[None]:
        done.append(True)
        yield from procedure

    node = world.node(1, work=load)  # type: ignore[arg-type]
    world.run()
    assert world.record(1).load_ms == 345
    world.depose()

    kept = world.record(1)
    assert (kept.load_ms, kept.ended) == (345, "/controller was deleted")


def test_the_end_is_noted_where_the_answer_about_loading_comes_too_late() -> None:
    """Past bug: the version of the record was not known then, and it stayed open for ever."""
    world = SteppedElectors()
    node = world.node(1, work=ControllerSettings())
    path = ControllerRecord.path(1)
    world.run(lambda: node.is_active)
    world.until_asked(node, path)
    node.loop.post(LeaveElection("stopped"))
    node.loop.run_pending()
    world.run()

    kept = world.record(1)
    assert (kept.load_ms, kept.ended) == (0, "stopped")
    assert node.machine.has_left


@pytest.mark.parametrize("raised", [False, True])
def test_a_record_that_is_open_is_ended_by_the_session_that_wrote_it(raised: bool) -> None:
    """That of the epoch, or of the one it was raised to; none of another session, none twice."""
    ended = ControllerRecord(1, 7, "started", 10).over(20, "stopped")
    mine, others = ControllerRecord(1, 7, "started", 10), ControllerRecord(2, 8, "started", 10)
    first = mine.over(15, "raised") if raised else mine
    second = mine if raised else others
    found = [_znode(1, first), _znode(2, second), None, _znode(3, None)]

    (operation,) = end_records(found, ended)

    epoch = 2 if raised else 1
    assert operation == SetData(ControllerRecord.path(epoch), mine.over(20, "stopped").encode(), 5)


def _znode(epoch: int, record: ControllerRecord | None) -> Znode:
    path = ControllerRecord.path(epoch)
    data = b"{" if record is None else record.encode()
    return Znode(path, data, ZnodeStat(1, 2, 0, 0, 5, 0, 0, 0, len(data), 0, 1))


def _history(world: SteppedElectors, received: Mapping[int, int | None]) -> None:
    """Records of these epochs, each with the last epoch of a controller of Kafka, or without the key."""
    for epoch, foreign in received.items():
        record = ControllerRecord(1, 1, "started", 0, foreign_epoch=foreign)
        world.server.put(ControllerRecord.path(epoch), record.encode())


def _kept(world: SteppedElectors) -> set[int]:
    return {int(path.rpartition("/")[2]) for path in world.server.tree() if path.startswith(_HISTORY)}


def test_a_hundred_records_stay() -> None:
    """Recipes 13: also where no controller of Kafka has ever been active; the rest goes in small
    transactions."""
    world = SteppedElectors()
    world.server.put(EPOCH, b"350")
    _history(world, dict.fromkeys(range(1, 351)))
    node = world.node(1)
    world.pass_grace()

    assert elected(node).foreign_epoch == 0
    assert _kept(world) == set(range(252, 352))
    assert world.record(351).foreign_epoch == 0


def test_what_the_newest_record_says_needs_no_older_ones() -> None:
    """One record is read, however many there were, and none of those that are gone is missed (recipes 13)."""
    world = SteppedElectors()
    world.server.put(EPOCH, b"350")
    _history(world, dict.fromkeys(range(300, 351), 121))
    node = world.node(1)
    read: list[str] = []
    submit = node.client.submit

    def watched(request: Request, **others: Any) -> None:
        read.extend([request.path] if isinstance(request, Read) else [])
        submit(request, **others)

    node.client.submit = watched  # type: ignore[method-assign]
    world.pass_grace()

    assert elected(node).foreign_epoch == 121
    assert world.record(351).foreign_epoch == 121
    assert {path for path in read if path.startswith(_HISTORY)} == {ControllerRecord.path(350)}


@pytest.mark.parametrize(
    ("received", "foreign"),
    [
        ({}, 7),
        ({5: 2, 6: 2}, 7),
        ({6: 5, 7: 5}, 5),
        ({5: 2, 6: 2, 7: None}, 2),
        ({4: 2, 5: None, 6: None, 7: None}, 2),
        ({6: None, 7: None}, 5),
        ({1: 0, 3: None, 4: None, 5: None, 6: None, 7: None}, 2),
        ({6: 3, 7: 9}, 3),
        ({6: 3, 7: 7}, 3),
    ],
    ids=[
        "no record: it was Kafka's",
        "Kafka ruled since the newest record",
        "the newest says it",
        "a controller of an earlier version has ruled since",
        "several of an earlier version",
        "all of an earlier version: the missing ones",
        "a gap above the record that says it",
        "a number that cannot be",
        "its own number",
    ],
)
def test_the_last_foreign_epoch(received: dict[int, int | None], foreign: int) -> None:
    """From the newest record that says it, and from missing ones where none above a gap does (recipes 13)."""
    world = SteppedElectors()
    world.server.put(EPOCH, b"7")
    _history(world, received)
    node = world.node(1)
    world.pass_grace()

    assert elected(node).foreign_epoch == foreign
    assert world.record(8).foreign_epoch == foreign


def test_a_record_that_cannot_be_read_says_only_that_its_epoch_was_zkgroups() -> None:
    """The one below it is asked."""
    world = SteppedElectors()
    world.server.put(EPOCH, b"7")
    _history(world, {6: 4})
    world.server.put(ControllerRecord.path(7), b"{")
    node = world.node(1)
    world.pass_grace()

    assert elected(node).foreign_epoch == 4


def test_what_controllers_hand_on_is_what_the_whole_history_would_say() -> None:
    """Drawn histories of zkgroup controllers and of Kafka: with a hundred records each controller knows what
    it would know with all of them."""
    for seed in range(20):
        chance = random.Random(seed)
        world = SteppedElectors()
        world.server.put(EPOCH, b"0")
        foreign = 0
        for epoch in range(1, chance.randrange(2, 12)):
            if chance.random() < 0.3:
                world.server.put(EPOCH, str(epoch).encode())
                foreign = epoch
                continue
            node = world.node(1, name=f"n{epoch}")
            node.machine.records = ControllerHistory(node.machine.election, kept=1)
            world.run(lambda node=node: node.is_active or node.machine.election.stage is ElectorState.GRACE)
            world.advance(GRACE_AND_SPREAD_MS)
            world.run()
            assert (elected(node).fence.epoch, elected(node).foreign_epoch) == (epoch, foreign), seed
            assert _kept(world) == {epoch}
            node.loop.post(LeaveElection("the next one"))
            world.run()


_HISTORY = f"{controller_history_path()}/"


@pytest.mark.parametrize(
    ("epoch", "recorded", "zkgroup_epochs"),
    [(0, [], []), (3, [], []), (3, [1, 2, 3], [3, 2, 1]), (5, [1, 3, 5], [5]), (2, [1, 2, 3], [2, 1])],
)
def test_the_epochs_that_were_zkgroups(epoch: int, recorded: list[int], zkgroup_epochs: list[int]) -> None:
    """Down to the first without a record (recipes 13)."""
    assert zkgroup_epochs_up_to(epoch, recorded) == zkgroup_epochs
    assert ElectionAttempt(epoch, 7, 0).fence == Fence(epoch + 1, 8)
