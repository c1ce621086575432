"""Who rules, on a ZooKeeper in memory: recipes 13 and 14, controller.md section 2."""

from __future__ import annotations

import pytest

from tests.unit.controller.candidates import (
    CONTROLLER,
    EPOCH,
    GRACE_AND_SPREAD_MS,
    GRACE_MS,
    World,
    elected,
    resigned,
)
from zkgroup.controller.machine.candidacy import Candidacy, last_foreign_epoch, prunable
from zkgroup.controller.machine.effects import Elected, ExtendLease, IdInUse, Note, Resigned
from zkgroup.controller.machine.election import FENCE_PATHS, Election, Stage, Work
from zkgroup.controller.machine.fence import Fence
from zkgroup.machinery.events import TimerFired
from zkgroup.machinery.procedures import Procedure, Query, ask, write
from zkgroup.model.requests import Check, Create, Delete, Read, SetData
from zkgroup.testing.memory_zookeeper import Step
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.znodes.controller import Controller
from zkgroup.znodes.controller_records import (
    ControllerRecord,
    ResignRequest,
    WaitingController,
    controller_history_path,
)


class Writer:
    """A duty that writes as often as wanted, each time under the fence."""

    def __init__(self) -> None:
        self.wanted = 0

    def __call__(self, election: Election) -> Work | None:
        rule = election.rule
        if not self.wanted or rule is None:
            return None
        return "write", lambda: self._write(rule.fence)

    def _write(self, fence: Fence) -> Procedure[None]:
        self.wanted -= 1
        yield from write([*fence.checks(), SetData("/work", b"x", 0)], FENCE_PATHS)


def _fails() -> Procedure[None]:
    yield from ask(Query(Read(EPOCH)))
    raise ValueError("an unreadable znode")


# --- winning --------------------------------------------------------------------------------------


def test_of_all_candidates_one_wins_and_the_epoch_grows_by_one() -> None:
    """Recipes 13: five candidates at once, then each winner's session ends in turn."""
    world = World()
    for broker in range(5):
        world.node(broker)
    world.run()
    for epoch in range(1, 6):
        (ruler,) = world.rulers
        assert elected(ruler) == Elected(Fence(epoch, epoch), world.find(CONTROLLER).stat.czxid, 0)
        assert world.epoch() == (epoch, epoch)
        assert Controller.decode(CONTROLLER, world.find(CONTROLLER).data).broker == ruler.broker
        world.server.expire(ruler.name)
        world.run()

    assert sum(len(node.told(Elected)) for node in world.nodes) == 6


def test_a_controller_is_made_and_set_once() -> None:
    """Recipes 13: data version 1 marks a controller of ours; the transaction is the recipe's own."""
    world = World()
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
    assert kept == ControllerRecord(1, node.session_id, "started", world.clock.wall_ms())


def test_an_epoch_raised_between_read_and_election_refuses_it() -> None:
    """Recipes 13: nothing of the attempt is left behind; the next one has the new epoch."""
    world = World()
    node = world.node(1)
    world.until_asked(node, CONTROLLER)
    world.bump()
    world.run(lambda: node.machine.election.stage is Stage.GRACE)

    assert not node.rules
    assert world.server.find(CONTROLLER) is None
    assert world.server.find(ControllerRecord.path(1)) is None
    assert world.epoch() == (1, 1)
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)
    assert elected(node).fence == Fence(2, 2)
    assert elected(node).foreign_epoch == 1


@pytest.mark.parametrize("is_applied", [True, False])
def test_an_election_without_an_answer_is_resolved_by_reading(is_applied: bool) -> None:
    """Recipes 13: the connection is cut after the commit, or before; one knows that it won."""
    world = World()
    node, other = world.node(1), world.node(2)
    world.until_asked(node, CONTROLLER)
    world.server.cut(node.name, executed=int(is_applied))
    world.run()
    world.advance(1000)

    (ruler,) = world.rulers
    assert world.find(CONTROLLER).stat.ephemeral_owner == ruler.session_id
    assert elected(ruler).czxid == world.find(CONTROLLER).stat.czxid
    assert world.epoch() == (1, 1)
    assert len(node.told(Elected)) + len(other.told(Elected)) == 1
    if is_applied:
        assert ruler is node


def test_an_election_that_is_applied_late_is_found_or_taken_off() -> None:
    """Recipes 13: the answer is given up first, the transaction is executed afterwards."""
    world = World()
    node = world.node(1)
    world.until_asked(node, CONTROLLER)
    world.deliver(Step("request", node.name), fault="late")
    world.run()
    world.advance(1000)

    assert node.rules
    assert len(node.told(Elected)) == 1
    assert node.machine.election.may_send


def test_an_own_controller_of_an_attempt_that_is_not_known_any_more_is_taken_off() -> None:
    """Recipes 13: what is of our session and not our rule goes, and then there is an election."""
    world = World()
    node = world.node(1)
    world.run(lambda: node.machine.election.stage is Stage.VACANT)
    world.write(Create(CONTROLLER, Controller(1, 5).encode(), True), session_id=node.session_id)
    stray = world.find(CONTROLLER).stat.czxid
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)

    assert node.rules
    assert world.find(CONTROLLER).stat.czxid == elected(node).czxid != stray


# --- losing ---------------------------------------------------------------------------------------


def test_controller_deleted_by_hand_is_elected_anew() -> None:
    """Recipes 13: the one that ruled resigns, and somebody is elected with the next epoch."""
    world = World()
    node, other = world.node(1), world.node(2)
    world.run()
    (ruler,) = world.rulers
    world.write(Delete(CONTROLLER, -1))
    world.run()

    assert resigned(ruler) == ["/controller was deleted"]
    assert len(world.rulers) == 1
    assert world.epoch() == (2, 2)
    assert len(node.told(Elected)) + len(other.told(Elected)) == 2


def test_controller_replaced_by_another_id_ends_the_rule() -> None:
    """Recipes 13: seen as changed, not as deleted (K1); the other's znode is left alone."""
    world = World()
    node = world.node(1)
    world.run()
    stranger = world.server.client("stranger")
    world.run()
    assert stranger.session is not None
    world.write(
        Delete(CONTROLLER, 1),
        Create(CONTROLLER, Controller(7, 0).encode(), True),
        session_id=stranger.session.session_id,
    )
    world.run()

    assert resigned(node) == ["/controller was replaced"]
    assert not node.rules
    assert world.find(CONTROLLER).stat.ephemeral_owner == stranger.session.session_id


def test_controller_written_by_somebody_ends_the_rule() -> None:
    """Recipes 13: our znode with another id in it; it is still ours, so it goes."""
    world = World()
    node = world.node(1)
    world.run()
    world.write(SetData(CONTROLLER, Controller(7, 0).encode(), 1))
    world.run()

    assert resigned(node) == ["/controller was written"]
    assert Controller.decode(CONTROLLER, world.find(CONTROLLER).data).broker == 1
    assert elected(node).epoch == 2


def test_after_a_bump_by_another_process_no_write_passes() -> None:
    """Recipes 13: the write under way is refused and changes nothing; it resigns."""
    world = World()
    duty = Writer()
    node = world.node(1, duties=duty)
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
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)
    assert elected(node).fence == Fence(3, 3)
    assert elected(node).foreign_epoch == 2


def test_a_bump_by_another_process_is_also_seen_without_a_write() -> None:
    """Recipes 13: a real candidate that created, expired and came back can bump late."""
    world = World()
    node = world.node(1)
    world.run()
    world.bump()
    world.run(lambda: resigned(node))

    assert resigned(node) == ["/controller_epoch was changed"]
    world.run()
    assert world.server.find(CONTROLLER) is None


def test_another_controllers_znode_is_never_deleted() -> None:
    """Recipes 13: it changes hands between reading and deletion; the epoch's version tells."""
    world = World()
    node = world.node(1)
    world.run()
    world.bump()
    world.until_asked(node, CONTROLLER)
    stranger = world.server.client("stranger")
    world.server.deliver(Step("connect", "stranger"))
    assert stranger.session is not None
    data = Controller(7, 0).encode()
    world.write(
        Delete(CONTROLLER, 1),
        Create(CONTROLLER, data, True),
        SetData(CONTROLLER, data, 0),
        SetData(EPOCH, b"3", 2),
        session_id=stranger.session.session_id,
    )
    mine = world.find(CONTROLLER).stat
    world.run()

    assert world.find(CONTROLLER).stat == mine
    assert mine.version == 1
    assert node.machine.election.stage is Stage.WATCHING


def test_a_failure_of_its_work_ends_the_rule_and_lets_others_try() -> None:
    """Recipes 13: an exception while it rules; no storm of elections follows, as in K2."""
    world = World()
    failing = world.node(1, duties=lambda election: ("load", _fails))
    world.run()
    assert resigned(failing) == ["failed: ValueError: an unreadable znode"]
    assert world.server.find(CONTROLLER) is None
    other = world.node(2)
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)

    assert other.rules
    assert resigned(failing) == ["failed: ValueError: an unreadable znode"]
    kept = ControllerRecord.path(1)
    assert (
        ControllerRecord.decode(kept, world.find(kept).data).ended
        == "failed: ValueError: an unreadable znode"
    )


def test_an_epoch_deleted_by_hand_comes_back_no_smaller() -> None:
    """S11: epochs grow, also where somebody has removed the znode."""
    world = World()
    node = world.node(1)
    world.run()
    world.bump()
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)
    assert elected(node).epoch == 3
    world.write(Delete(EPOCH, -1))
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)

    assert resigned(node)[-1] == "/controller_epoch was deleted"
    assert elected(node).epoch == 4
    assert world.epoch()[0] == 4


# --- sessions -------------------------------------------------------------------------------------


def test_a_lost_session_ends_the_rule_before_anything_of_the_next_one() -> None:
    """Recipes 13: what waits is dropped, it resigns, then registers, and only then stands again."""
    world = World()
    registered: list[tuple[int, bool]] = []

    def register() -> Procedure[None]:
        path = BrokerRegistration.path(1)
        registered.append((node.client.incarnation, world.server.find(CONTROLLER) is None))
        yield from write([Create(path, BrokerRegistration("h", 9001, 1, 0).encode(), True)], ())

    world.server.put(broker_ids_path())
    duty = Writer()
    node = world.node(1, prepare=register, duties=duty)
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
    """Recipes 13: neither resignation nor election; nothing is sent until the lease goes on."""
    world = World()
    node, other = world.node(1), world.node(2)
    world.run()
    (ruler,) = world.rulers
    world.server.suspend(ruler.name)
    world.run()
    assert ruler.rules
    assert not ruler.machine.election.may_send
    asked = len(world.server.log)
    world.advance(3000)
    assert len(world.server.log) == asked
    world.server.resume(ruler.name)
    world.run()

    assert ruler.machine.election.may_send
    assert [type(each) for each in (*node.story, *other.story)] == [Elected]


def test_what_changed_while_it_was_disconnected_is_seen() -> None:
    """Recipes 13: after a disconnection every watch is armed anew by reading."""
    world = World()
    node = world.node(1)
    world.run()
    world.server.suspend(node.name)
    world.run()
    world.bump()
    world.server.resume(node.name)
    world.run(lambda: resigned(node))

    assert resigned(node) == ["/controller_epoch was changed"] or resigned(node) == [
        "a write was refused at its fence"
    ]


def test_a_candidate_whose_former_session_still_rules_waits_for_its_end() -> None:
    """Recipes 13: nobody deletes a /controller of another session, not even its own of before."""
    world = World()
    node = world.node(1)
    world.run()
    former = node.session_id
    node.client.abandon(1, "expired by the own clock")
    world.run()
    assert resigned(node) == ["expired by the own clock"]
    assert world.find(CONTROLLER).stat.ephemeral_owner == former
    assert node.machine.election.stage is Stage.WATCHING
    world.server.expire_session(former)
    world.run()

    assert elected(node).epoch == 2


# --- the lease ------------------------------------------------------------------------------------


def test_nothing_is_sent_after_the_own_lease() -> None:
    """Recipes 13: two thirds of the session timeout less half a tick, from the last write."""
    world = World()
    node = world.node(1)
    world.run()
    (lease,) = node.told(ExtendLease)
    assert isinstance(lease, ExtendLease)
    assert lease.until_ms - world.clock.now_ms() == 3000
    world.advance(5000)
    assert node.machine.election.may_send
    world.server.suspend(node.name)
    world.advance(4000)

    assert node.rules
    assert not node.machine.election.may_send
    assert all(each.until_ms <= world.clock.now_ms() for each in node.told(ExtendLease))  # type: ignore[union-attr]


def test_heartbeats_are_the_two_checks_and_not_more_than_needed() -> None:
    """Recipes 9: at most six quorum writes in a session timeout, each the fence and nothing else."""
    world = World()
    node = world.node(1)
    world.run()
    before = len(world.server.log)
    world.advance(6000, step_ms=50)
    beats = world.server.log[before:]

    assert 4 <= len(beats) <= 6
    assert {beat.operations for beat in beats} == {(Check(CONTROLLER, 1), Check(EPOCH, 1))}
    assert node.machine.election.may_send


# --- the grace ------------------------------------------------------------------------------------


def test_a_living_real_controller_gets_time_to_notice() -> None:
    """Recipes 13: its znode goes while it lives: wait, then stand with the version read before."""
    world = World()
    world.real()
    node = world.node(1)
    world.run()
    assert node.machine.election.stage is Stage.WATCHING
    world.write(Delete(CONTROLLER, -1))
    world.run()
    world.advance(GRACE_MS)
    assert node.machine.election.stage is Stage.GRACE
    assert not node.story
    world.advance(GRACE_AND_SPREAD_MS - GRACE_MS)

    assert elected(node) == Elected(Fence(2, 1), world.find(CONTROLLER).stat.czxid, 1)
    assert [note.fields["broker"] for note in node.told(Note)] == [9]  # type: ignore[union-attr]


def test_a_dead_real_controller_is_followed_at_once() -> None:
    """Recipes 13: its registration went with its session, so it knows."""
    world = World()
    session = world.real()
    node = world.node(1)
    world.run()
    world.server.expire_session(session)
    world.run()

    assert elected(node).fence == Fence(2, 1)


def test_a_real_controller_that_comes_back_within_the_grace_keeps_its_place() -> None:
    """Recipes 13: after the grace `/controller` is read again; exists: back to watching."""
    world = World()
    session = world.real()
    node = world.node(1)
    world.run()
    world.write(Delete(CONTROLLER, -1))
    world.run()
    assert node.machine.election.stage is Stage.GRACE
    world.real_rules(9, session)
    world.advance(GRACE_AND_SPREAD_MS)

    assert not node.story
    assert node.machine.election.stage is Stage.WATCHING
    assert node.machine.election.predecessor.epoch_version == 1


def test_an_epoch_raised_during_the_grace_refuses_the_election() -> None:
    """Recipes 13: the attempt has the version read before the grace, so a ruler meanwhile is noticed."""
    world = World()
    session = world.real()
    node = world.node(1)
    world.run()
    world.write(Delete(CONTROLLER, -1))
    world.run()
    world.real_rules(9, session)
    world.write(Delete(CONTROLLER, -1))
    world.advance(GRACE_AND_SPREAD_MS)
    assert not node.story
    world.advance(GRACE_AND_SPREAD_MS)

    assert elected(node).fence == Fence(3, 2)


def test_somebody_who_ruled_unseen_is_given_the_grace_as_well() -> None:
    """Recipes 13: the epoch has another version than when `/controller` was read last."""
    world = World()
    node, other = world.node(1), world.node(2)
    world.run()
    (ruler,) = world.rulers
    waits = other if ruler is node else node
    world.bump()
    world.write(Delete(CONTROLLER, -1))
    world.run()

    assert waits.machine.election.stage is Stage.GRACE
    world.advance(GRACE_AND_SPREAD_MS)
    assert len(world.rulers) == 1


def test_a_real_controller_that_cannot_be_read_is_taken_for_a_living_one() -> None:
    """Recipes 13: whose registration to look for is not known, so the grace is kept."""
    world = World()
    session = world.real()
    world.write(Delete(CONTROLLER, -1))
    world.write(Create(CONTROLLER, b"?", True), session_id=session)
    node = world.node(1)
    world.run()
    world.server.expire_session(session)
    world.run()

    assert node.machine.election.stage is Stage.GRACE


# --- operators ------------------------------------------------------------------------------------


def test_a_request_to_resign_is_obeyed_once_and_the_others_come_first() -> None:
    """Recipes 13: its data is the czxid of `/controller`; the request goes with the rule."""
    world = World()
    node = world.node(1)
    world.run()
    other = world.node(2)
    world.run()
    world.server.put(ResignRequest.path(), ResignRequest(elected(node).czxid).encode())
    world.run()

    assert resigned(node) == ["an operator asked for it"]
    assert world.rulers == [other]
    assert world.server.find(ResignRequest.path()) is None
    record = ControllerRecord.path(1)
    assert ControllerRecord.decode(record, world.find(record).data).ended == "an operator asked for it"
    kept = ControllerRecord.decode(ControllerRecord.path(2), world.find(ControllerRecord.path(2)).data)
    assert kept.ended is None


def test_the_only_candidate_rules_again_after_standing_back() -> None:
    """A cluster of one is not left without a controller."""
    world = World()
    node = world.node(1)
    world.run()
    world.server.put(ResignRequest.path(), ResignRequest(elected(node).czxid).encode())
    world.run()
    assert not node.rules
    world.advance(GRACE_AND_SPREAD_MS)

    assert elected(node).epoch == 2


@pytest.mark.parametrize("data", [b"12345", b"soon"])
def test_a_request_that_means_another_controller_is_removed(data: bytes) -> None:
    """Recipes 13: another czxid, or none that can be read; it goes on ruling."""
    world = World()
    world.server.put(ResignRequest.path(), data)
    node = world.node(1)
    world.run()

    assert world.server.find(ResignRequest.path()) is None
    assert node.rules
    assert not resigned(node)


# --- controllers that host nothing ----------------------------------------------------------------


def test_a_controller_that_hosts_nothing_is_registered_while_it_rules() -> None:
    """Recipes 14: in the same transaction and session; waiting, it shows elsewhere."""
    world = World()
    node = world.node(7, controller_only=True)
    request = world.until_asked(node, CONTROLLER)
    assert WaitingController.path(7) in world.server.tree()
    assert [op.path for op in request.operations][-1] == BrokerRegistration.path(7)
    world.run()
    found = world.find(BrokerRegistration.path(7))
    registration = BrokerRegistration.decode(found.path, found.data)

    assert found.stat.czxid == world.find(CONTROLLER).stat.czxid
    assert (registration.version, registration.host, registration.port) == (1, "h", 9007)
    assert registration.extensions == {"zkgroup": {"role": "controller"}}
    assert world.server.find(WaitingController.path(7)) is None

    world.server.put(ResignRequest.path(), ResignRequest(elected(node).czxid).encode())
    world.run()
    assert world.server.find(BrokerRegistration.path(7)) is None
    assert world.find(WaitingController.path(7)).stat.ephemeral_owner == node.session_id


def test_a_registration_left_behind_by_hand_does_not_stay() -> None:
    """Recipes 14: `/controller` is deleted alone; what is of our session goes before the next election."""
    world = World()
    node = world.node(7, controller_only=True)
    world.run()
    first = world.find(BrokerRegistration.path(7)).stat.czxid
    world.write(Delete(CONTROLLER, -1))
    world.run()

    assert elected(node).epoch == 2
    assert world.find(BrokerRegistration.path(7)).stat.czxid == elected(node).czxid > first


def test_an_id_of_a_broker_is_in_use() -> None:
    """Recipes 14: node-exists on the registration is no lost race."""
    world = World()
    world.real(7)
    world.write(Delete(CONTROLLER, -1))
    node = world.node(7, controller_only=True)
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)

    assert node.story == [IdInUse(7, BrokerRegistration.path(7))]
    assert world.server.find(CONTROLLER) is None
    assert world.epoch() == (1, 0)


def test_two_processes_with_one_id_do_not_both_wait() -> None:
    """Recipes 14: the second waits for a session timeout and some slack, as after a quick restart."""
    world = World()
    first = world.node(7, controller_only=True)
    world.real()
    world.run()
    second = world.node(7, controller_only=True, name="twin")
    world.run()
    world.advance(7000)
    assert second.story == []
    world.advance(1000)

    assert second.story == [IdInUse(7, WaitingController.path(7))]
    assert first.machine.election.stage is Stage.WATCHING


# --- the history ----------------------------------------------------------------------------------


def test_the_record_says_how_long_loading_took() -> None:
    """Recipes 18: under the fence, once; the end is added to it."""
    world = World()
    done = []

    def load(election: Election) -> tuple[str, object] | None:
        return None if done else ("load", lambda: once(node.machine.records.loaded(345)))

    def once(procedure: Procedure[None]) -> Procedure[None]:
        done.append(True)
        yield from procedure

    node = world.node(1, duties=load)  # type: ignore[arg-type]
    world.run()
    path = ControllerRecord.path(1)
    assert ControllerRecord.decode(path, world.find(path).data).load_ms == 345
    world.write(Delete(CONTROLLER, -1))
    world.run()

    kept = ControllerRecord.decode(path, world.find(path).data)
    assert (kept.load_ms, kept.ended) == (345, "/controller was deleted")


def test_old_records_go_where_a_real_controller_has_ruled_since() -> None:
    """Recipes 13: the newest hundred stay, and every record above the last foreign epoch."""
    world = World()
    world.server.put(EPOCH, b"230")
    for epoch in [*range(1, 121), *range(122, 231)]:
        record = ControllerRecord(1, 1, "started", 0)
        world.server.put(ControllerRecord.path(epoch), record.encode())
    node = world.node(1)
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)

    assert elected(node).foreign_epoch == 121
    kept = {int(path.rpartition("/")[2]) for path in world.server.tree() if path.startswith(_HISTORY)}
    assert kept == set(range(122, 232))


_HISTORY = f"{controller_history_path()}/"


def test_what_may_be_pruned() -> None:
    """Recipes 13: never above the last foreign epoch, and never one of the newest that are kept."""
    assert prunable(range(1, 300), 0) == []
    assert prunable([1, 2, 4, 5, 6], 3, kept=2) == [1, 2]
    assert prunable([1, 2, 4, 5, 6], 3, kept=4) == [1]


@pytest.mark.parametrize(
    ("epoch", "recorded", "foreign"),
    [(0, [], 0), (3, [], 3), (3, [1, 2, 3], 0), (5, [1, 3, 5], 4), (5, [1, 2, 3, 4, 5, 6], 0)],
)
def test_the_last_foreign_epoch(epoch: int, recorded: list[int], foreign: int) -> None:
    """Recipes 13: the greatest epoch without a record of ours."""
    assert last_foreign_epoch(epoch, recorded) == foreign
    assert Candidacy(epoch, 7, foreign).fence == Fence(epoch + 1, 8)
