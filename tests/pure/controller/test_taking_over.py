"""A controller that takes over, or comes back: what it reads, makes its own, elects and tells."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_candidates import EPOCH, GRACE_AND_SPREAD_MS
from tests.worlds.stepped_controllers import Host, SteppedControllers
from zkgroup.controller.machine.events import Elected
from zkgroup.controller.machine.state_machines import PartitionPhase
from zkgroup.model.requests import Create, Delete, Request, SetData
from zkgroup.runtime.events import LogEvent
from zkgroup.testing.memory_zookeeper import Fault, Step
from zkgroup.wire.control import LeaderAndIsrRequest, UpdateMetadataRequest
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.controller import Controller, ControllerEpoch
from zkgroup.znodes.notifications import IsrChange


def realm_of_two_topics() -> SteppedControllers:
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2), 1: (2, 3), 2: (3, 1)})
    realm.make_topic("u", {0: (2, 1)})
    return realm


def infos(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> dict[str, int]:
    """Partition to leader."""
    return {str(info.topic_partition): info.leader for info in request.partitions}


def test_the_first_words_are_the_live_brokers_then_all_roles_then_everything() -> None:
    """controller.md 2.3 steps 9 to 11, and recipes 15: one LeaderAndIsr names all that a broker has."""
    realm = realm_of_two_topics()
    realm.rule()

    first, roles, everything = realm.hosts[1].requests
    assert isinstance(first, UpdateMetadataRequest)
    assert infos(first) == {}
    assert [broker.broker for broker in first.brokers] == [1, 2, 3]
    assert isinstance(roles, LeaderAndIsrRequest)
    assert infos(roles) == {"t-0": 1, "t-2": 3, "u-0": 2}
    assert isinstance(everything, UpdateMetadataRequest)
    assert infos(everything) == {"t-0": 1, "t-1": 2, "t-2": 3, "u-0": 2}


def test_first_states_are_made_with_their_parents() -> None:
    """Controller items 26 and 50: the first live replica leads, all live ones are in sync, leader epoch 0."""
    realm = SteppedControllers((2, 3))
    realm.make_topic("t", {0: (1, 3, 2), 1: (1,)})
    ruler = realm.rule()

    assert realm.state(tp(0)) == PartitionState(3, 0, (3, 2), 1)
    assert realm.server.find(PartitionState.path(tp(1))) is None
    assert realm.server.find(Topic.partitions_path("t")) is not None
    active = ruler.active
    assert active.ports.events.blocked == {"leader of t-1": "no replica of 1 is live"}

    realm.start_broker(1)
    assert realm.state(tp(1)) == PartitionState(1, 0, (1,), 1)
    assert active.ports.events.blocked == {}


def test_the_list_of_partitions_exists_also_where_no_replica_lives() -> None:
    """controller.md 5.7: the tool of 0.8.2.2 lists it for every topic, and aborts where it is missing."""
    realm = SteppedControllers((2,))
    realm.make_topic("t", {0: (1,)})
    realm.rule()

    assert realm.server.find(Topic.partitions_path("t")) is not None


@pytest.mark.parametrize("steps", range(60))
def test_a_topic_made_at_any_moment_of_loading_is_not_lost(steps: int) -> None:
    """Controller item 23: the watches are armed before anything is read (K11)."""
    realm = realm_of_two_topics()
    delivered = 0

    def until() -> bool:
        nonlocal delivered
        delivered += 1
        return delivered > steps

    node = realm.stand()
    realm.run(until)
    realm.make_topic("late", {0: (1, 2)})
    realm.run()

    assert node.rules
    assert realm.state(tp(0, "late")).leader == 1
    assert realm.hosts[2].metadata[tp(0, "late")] == 1


def test_states_of_a_foreign_controller_become_ours() -> None:
    """recipes 13: our epoch and leader epoch + 1, told to the replicas; ours are left as they are."""
    realm = realm_of_two_topics()
    first = realm.rule()
    realm.crash(first)
    session = realm.real(9)
    realm.set_state(tp(0), leader=2, leader_epoch=1, controller_epoch=2)
    realm.server.expire_session(session)
    realm.server.remove(Controller.path()) if realm.server.find(Controller.path()) else None
    for host in realm.hosts.values():
        host.requests.clear()
    second = realm.rule()
    realm.advance(3000)

    assert second.rules
    assert realm.state(tp(0)) == PartitionState(2, 2, (1, 2), 3)
    assert {realm.state(tp(number)).controller_epoch for number in range(3)} == {3}
    (roles,) = [each for each in realm.hosts[1].requests if isinstance(each, LeaderAndIsrRequest)]
    assert {info.controller_epoch for info in roles.partitions} == {3}


def test_a_real_predecessor_that_may_rule_on_is_named() -> None:
    """recipes 13: its session lives, its `/controller` went by hand; its restart ends the warning (K1)."""
    realm = realm_of_two_topics()
    session = realm.real(9)
    realm.hosts[9] = Host(9)
    ruler = realm.rule()
    realm.write(Delete(Controller.path(), -1))
    realm.advance(4000)
    active = ruler.active
    assert set(active.ports.events.blocked) == {"broker 9"}
    assert active.ports.events.blocked["broker 9"].endswith("restart it")

    realm.server.expire_session(session)
    realm.run()
    assert active.ports.events.blocked == {}


def test_an_isr_that_a_real_controller_emptied_needs_an_operator() -> None:
    """Controller item 36 and recipes 15: one replica in all is elected, of several the status names how."""
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2), 1: (3,)})
    realm.crash(realm.rule())
    for number in (0, 1):
        realm.set_state(tp(number), leader=-1, isr=())
    ruler = realm.rule()

    assert realm.state(tp(1)) == PartitionState(3, 1, (3,), 2)
    assert realm.state(tp(0)).leader == -1
    active = ruler.active
    assert active.ports.events.blocked["leader of t-0"].endswith(
        ": zkgroup elect unclean --topic t:0 --execute"
    )


def test_states_of_our_own_controllers_are_not_rewritten() -> None:
    """recipes 13: an epoch with a history record was ours, fenced while it ruled."""
    realm = realm_of_two_topics()
    realm.crash(realm.rule())
    before = {path: znode.stat.version for path, znode in realm.server.tree().items() if "state" in path}
    realm.rule()

    assert realm.epoch()[0] == 2
    after = {path: znode.stat.version for path, znode in realm.server.tree().items() if "state" in path}
    assert {path: after[path] for path in before if path.endswith("/state")} == {
        path: version for path, version in before.items() if path.endswith("/state")
    }


def test_partitions_whose_leader_is_gone_are_elected_while_taking_over() -> None:
    """controller.md 2.3 step 11: in one packet, however many there are."""
    realm = SteppedControllers()
    realm.make_topic("t", dict.fromkeys(range(200), (1, 2)))
    realm.crash(realm.rule())
    realm.stop_broker(1, run=False)
    writes = len(realm.server.log)
    realm.rule()

    assert {realm.state(tp(number)).leader for number in range(200)} == {2}
    states = [
        each for each in realm.server.log[writes:] if any("/state" in str(change) for change in each.changes)
    ]
    assert len(states) == 1


def test_loading_asks_by_the_topic_and_not_by_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """K32, controller.md section 10: one watched read for each topic, a few bulk reads for all the rest."""
    realm = SteppedControllers()
    for number in range(30):
        realm.make_topic(f"t{number}", dict.fromkeys(range(40), (1, 2)))
    realm.crash(realm.rule())
    realm.stop_broker(1, run=False)
    asked: list[Request] = []
    node = realm.stand()
    submit = node.client.submit

    def counting(request: Request, **kwargs: object) -> None:
        asked.append(request)
        submit(request, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(node.client, "submit", counting)
    realm.run()
    realm.advance(GRACE_AND_SPREAD_MS)

    assert {realm.state(tp(39, f"t{number}")).leader for number in range(30)} == {2}
    assert 30 < len(asked) <= 30 + 40


def test_an_illegal_transition_is_noted_and_stops_no_other() -> None:
    """Controller item 25: refused, logged, and the others of the batch are moved."""
    realm = realm_of_two_topics()
    ruler = realm.rule()
    active = ruler.active
    active.context.partition_phases.begin(tp(0), PartitionPhase.NON_EXISTENT)
    moved = active.features.elections._move_partitions([tp(0), tp(1)], PartitionPhase.OFFLINE)

    assert moved == {tp(1): PartitionPhase.ONLINE}
    (note,) = [each for each in active.ports.core.take_effects() if isinstance(each, LogEvent)]
    assert note.kind == "transition.refused"
    assert note.fields == {"detail": "t-0 cannot become offline: it is non-existent"}


def test_how_long_loading_took_is_recorded() -> None:
    """recipes 18: `load_ms` of the epoch's record."""
    realm = realm_of_two_topics()
    realm.rule()

    record = realm.record(1)
    assert record.load_ms == 0


def test_nothing_of_a_lost_rule_survives() -> None:
    """Controller item 24: the reign is dropped with everything that it knew, and the next one begins anew."""
    realm = realm_of_two_topics()
    ruler = realm.rule()
    old = ruler.active
    assert ruler.machine.context is old.context
    realm.bump()
    realm.run()

    assert old.ports.requests.is_stopped
    assert ruler.machine.active is None
    assert ruler.machine.context is None
    realm.advance(3000)
    new = ruler.active
    assert new is not old
    assert new.ports.identity.epoch == 3
    assert new.context is not old.context


def test_notifications_left_over_are_deleted() -> None:
    """Controller item 64: those of the time without a controller, one that nobody can read among them."""
    realm = realm_of_two_topics()
    realm.crash(realm.rule())
    realm.write(Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True))
    realm.write(Create(IsrChange.prefix(), b"{", sequential=True))
    realm.rule()

    assert realm.below("/isr_change_notification") == {"/isr_change_notification"}


# --- a connection that comes back -----------------------------------------------------------------


def test_what_happened_while_the_connection_was_away_is_seen() -> None:
    """Controller item 22: it rules on; broker gone, topic new and ISR changed are found by reading again."""
    realm = realm_of_two_topics()
    ruler = realm.rule()
    realm.server.suspend(ruler.name)
    realm.run()
    realm.stop_broker(3, run=False)
    realm.make_topic("new", {0: (1, 2)})
    realm.set_state(tp(0), isr=(1,))
    realm.server.resume(ruler.name)
    realm.run()

    assert ruler.rules
    assert len(ruler.told(Elected)) == 1
    assert realm.state(tp(2)).leader == 1
    assert realm.state(tp(0, "new")).leader == 1
    told = [each for each in realm.hosts[2].requests if isinstance(each, UpdateMetadataRequest)]
    assert {info.isr for each in told for info in each.partitions if info.topic_partition == tp(0)} >= {(1,)}


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request", "late"])
def test_a_write_without_an_answer_is_told_once_it_is_found(fault: Fault) -> None:
    """recipes 16: read back; a leader hears of every version that a controller has written (K9)."""
    realm = realm_of_two_topics()
    ruler = realm.rule()
    realm.stop_broker(1, run=False)
    realm.until_asked(ruler, PartitionState.path(tp(0)))
    step = Step("request", ruler.name)
    realm.deliver(step, fault)
    realm.run()
    realm.server.resume(ruler.name)
    realm.advance(3000)

    state, znode = realm.state(tp(0)), realm.find(PartitionState.path(tp(0)))
    assert ruler.rules
    assert (state.leader, state.isr) == (2, (2,))
    told = [each for each in realm.hosts[2].requests if isinstance(each, LeaderAndIsrRequest)]
    last = [info for each in told for info in each.partitions if info.topic_partition == tp(0)][-1]
    assert (last.leader, last.leader_epoch, last.zk_version) == (2, state.leader_epoch, znode.stat.version)


# --- znodes that cannot be read --------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        BrokerRegistration.path(3),
        "/brokers/ids/none",
        Topic.path("u"),
        PartitionState.path(tp(0, "u")),
        "/admin/reassign_partitions",
    ],
)
@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"version":1}', b"[1]", b'{"version":1,"partitions":7}', b"\xff"]
)
def test_a_malformed_znode_stops_nothing_and_is_named(path: str, data: bytes) -> None:
    """recipes 13 and controller.md 1.4: it is skipped, by path in the status, and the others are served."""
    realm = realm_of_two_topics()
    realm.crash(realm.rule())
    if realm.server.find(path) is not None:
        realm.write(Delete(path, -1)) if not realm.below(path) - {path} else None
    if (znode := realm.server.find(path)) is not None:
        realm.write(SetData(path, data, znode.stat.version))
    else:
        for parent in ("/admin",):
            if realm.server.find(parent) is None:
                realm.server.put(parent)
        realm.write(Create(path, data))
    ruler = realm.rule()
    realm.make_topic("new", {0: (2, 1)})
    realm.run()

    assert ruler.rules
    assert path in ruler.unreadable
    assert realm.state(tp(0)).leader == 1
    assert realm.state(tp(0, "new")).leader == 2
    realm.advance(6000)
    assert not [
        each for each in ruler.effects if isinstance(each, LogEvent) and each.kind == "handler.failed"
    ]


def test_a_topic_that_is_mended_is_taken_up_with_its_states() -> None:
    """A repaired znode is no new topic: its states stand, and its replicas hear of them."""
    realm = realm_of_two_topics()
    realm.crash(realm.rule())
    good = realm.find(Topic.path("u"))
    realm.write(SetData(Topic.path("u"), b"{", good.stat.version))
    ruler = realm.rule()
    assert ruler.unreadable == {Topic.path("u")}
    assert good.data is not None
    realm.write(SetData(Topic.path("u"), good.data, good.stat.version + 1))
    realm.run()

    assert ruler.unreadable == set()
    assert realm.state(tp(0, "u")) == PartitionState(2, 0, (2, 1), 1)
    assert realm.hosts[3].metadata[tp(0, "u")] == 2


def test_an_unreadable_topic_that_went_while_nobody_was_connected_is_named_no_more() -> None:
    """Its watch is gone with the connection: what the next one lists is all that there is."""
    realm = realm_of_two_topics()
    realm.crash(realm.rule())
    realm.write(Delete(PartitionState.path(tp(0, "u")), -1), Delete(Topic.partition_path(tp(0, "u")), -1))
    realm.write(Delete(Topic.partitions_path("u"), -1))
    realm.write(SetData(Topic.path("u"), b"{", -1))
    ruler = realm.rule()
    assert ruler.unreadable == {Topic.path("u")}
    realm.server.suspend(ruler.name)
    realm.run()
    realm.write(Delete(Topic.path("u"), -1))
    realm.server.resume(ruler.name)
    realm.run()

    assert ruler.rules
    assert ruler.unreadable == set()


def test_an_unreadable_state_is_not_elected_and_its_brokers_are_named() -> None:
    """recipes 15: missing in the first LeaderAndIsr, so a real follower may fetch it again."""
    realm = realm_of_two_topics()
    realm.crash(realm.rule())
    path = PartitionState.path(tp(0))
    realm.write(SetData(path, b"{", realm.find(path).stat.version))
    ruler = realm.rule()

    active = ruler.active
    assert active.ports.requests.omitted == {1: (tp(0),), 2: (tp(0),)}
    assert realm.find(path).data == b"{"


def test_a_controller_epoch_that_is_deleted_is_no_work_for_a_reign() -> None:
    """The fence is the election's: every change of it ends the rule."""
    realm = realm_of_two_topics()
    ruler = realm.rule()
    realm.write(SetData(EPOCH, ControllerEpoch(7).encode(), realm.epoch()[1]))
    realm.run()

    assert ruler.machine.active is None
