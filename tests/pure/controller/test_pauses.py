"""Work that is refused, or changes nothing, is put off: it costs little, is told, and holds up nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, is_gone
from tests.worlds.stores import MeddledStore
from zkgroup.controller.machine.agenda import (
    PAUSE_MAX_MS,
    TRIES_AT_ONCE,
    TURNS_MAX,
    Agenda,
    Look,
    Pauses,
    Work,
)
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Code, Exists, Multi, MultiRefused, NotSent, Outcome, Request
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller_records import ControllerStatus
from zkgroup.znodes.reassignment_records import FinishedReassignment, StoredPlan, finished_reassignments_path
from zkgroup.znodes.stray_replicas import StrayReplicas
from zkgroup.znodes.topics import TopicDeletion
from zkgroup.znodes.unclean_elections import UncleanElection

HALF_AN_HOUR_MS = 1_800_000


class RefusingStore(MeddledStore):
    """Transactions that write one of these paths end with this outcome, and change nothing."""

    def __init__(self, store: Any, outcome: Outcome | None, *paths: str) -> None:
        """outcome: None refuses the operation for lack of permission, as an ACL does."""
        super().__init__(store)
        self.paths = set(paths)
        self.refused = 0
        self._outcome = outcome

    @property
    def rounds(self) -> int:
        """How often the controller has looked at the request to move partitions: twice after a conflict."""
        return sum(isinstance(each, Exists) and each.path == Reassignment.path() for each in self.requests)

    def submit(self, request: Request, *, on_outcome: Any, **rest: Any) -> None:
        paths = [operation.path for operation in request.operations] if isinstance(request, Multi) else []
        if bad := [index for index, path in enumerate(paths) if path in self.paths]:
            self.requests.append(request)
            self.refused += 1
            on_outcome(self._outcome or MultiRefused(bad[0], Code.NO_AUTH))
            return
        super().submit(request, on_outcome=on_outcome, **rest)


def ruling(outcome: Outcome | None = None, *paths: str) -> tuple[SteppedControllers, RefusingStore]:
    """A controller of the topics t and u, between which and its server some writes are refused."""
    world = SteppedControllers(auto_rebalance=False)
    world.make_topic("t", {0: (1, 2)})
    world.make_topic("u", {0: (1, 2)})
    ruler = world.rule()
    store = RefusingStore(ruler.loop._store, outcome, *paths)
    ruler.loop._store = store
    return world, store


def move_t(world: SteppedControllers) -> None:
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (2, 3)),)).encode())


def reorder(world: SteppedControllers) -> None:
    """Moves that need no copies, and that would end in one write."""
    moves = Move(tp(0), (2, 1)), Move(tp(0, "u"), (2, 1))
    world.server.put(Reassignment.path(), Reassignment(moves).encode())


def ended(world: SteppedControllers) -> list[TopicPartition]:
    """What moves have ended, in order."""
    paths = sorted(world.below(finished_reassignments_path()) - {finished_reassignments_path()})
    return [FinishedReassignment.decode(path, world.find(path).data).topic_partition for path in paths]


def overruled(world: SteppedControllers) -> None:
    """A controller of a later epoch has decided the partition: this one leaves it alone (F3)."""
    world.set_state(tp(0), controller_epoch=99)
    world.run()


def unreadable(world: SteppedControllers) -> None:
    """Somebody else writes what cannot be read into the topic's znode."""
    world.server.put(Topic.path("t"), b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":"x"}')
    world.run()


STATE, TOPIC = PartitionState.path(tp(0)), Topic.path("t")
OBSTACLES = [
    pytest.param((None, STATE), None, "refused with NoAuth", id="an ACL on the state"),
    pytest.param((None, TOPIC), None, "refused with NoAuth", id="an ACL on the topic"),
    pytest.param((None,), overruled, "a later controller has decided it, in epoch 99", id="a later epoch"),
    pytest.param((None,), unreadable, "the topic has changed", id="an unreadable topic"),
    pytest.param((NotSent("too big", too_big=True), STATE), None, "too big", id="a packet too big"),
]


@pytest.mark.parametrize(("refusal", "happening", "why"), OBSTACLES)
def test_a_refused_move_is_tried_with_growing_pauses_and_told(
    refusal: tuple[Any, ...], happening: Any, why: str
) -> None:
    """A few rounds while the clock stands still, and later at most one in 30 s."""
    world, store = ruling(*refusal)
    if happening is not None:
        happening(world)
    before = len(store.requests)
    move_t(world)
    world.run()  # fails where it does not come to rest

    assert len(store.requests) - before < 60
    world.advance(10 * PAUSE_MAX_MS)
    assert why in " ".join(status(world).waiting.values())
    begun = store.rounds
    world.advance(HALF_AN_HOUR_MS)
    assert 10 < store.rounds - begun <= 2 * (HALF_AN_HOUR_MS / PAUSE_MAX_MS + 1)


@pytest.mark.parametrize(("refusal", "happening", "why"), OBSTACLES)
def test_what_comes_behind_a_refused_move_is_done(refusal: tuple[Any, ...], happening: Any, why: str) -> None:
    """A deletion, a preferred election and the end of a broker, without the clock moving on."""
    world, _ = ruling(*refusal)
    if happening is not None:
        happening(world)
    move_t(world)
    world.run()

    world.mark("u")
    world.server.put(PreferredElection.path(), PreferredElection((tp(0, "u"),)).encode())
    world.stop_broker(2)

    assert world.server.find(Topic.path("u")) is None
    assert world.server.find(PreferredElection.path()) is None
    (ruler,) = world.nodes
    assert isinstance(ruler, ControllerNode)
    assert ruler.machine.picture is not None
    assert 2 not in ruler.machine.picture.brokers


@pytest.mark.parametrize("path", [STATE, TOPIC])
def test_a_move_goes_on_once_the_acl_lets_it(path: str) -> None:
    """Nothing tells of a changed ACL: the next try after a pause finds out, within 30 s."""
    world, store = ruling(None, path)
    move_t(world)
    world.run()
    world.advance(10 * PAUSE_MAX_MS)
    assert store.refused > TRIES_AT_ONCE

    store.paths.clear()
    world.advance(PAUSE_MAX_MS)

    assert set(Topic.decode(TOPIC, world.find(TOPIC).data).partitions[0]) == {1, 2, 3}
    assert world.state(tp(0)).leader_epoch == 1
    assert status(world).waiting == {"move of t-0": "waits for replicas to be in sync: broker 3"}


@pytest.mark.parametrize(
    ("refused", "happening", "why"),
    [
        pytest.param((TOPIC,), None, f"{TOPIC}: refused with NoAuth", id="an ACL on the topic"),
        pytest.param((), unreadable, f"{TOPIC}: refused with BadVersion", id="an unreadable topic"),
    ],
)
def test_the_refused_end_of_a_move_keeps_no_other(refused: tuple[str, ...], happening: Any, why: str) -> None:
    """Ends go in one write; one that is refused waits alone and tells why, the other is recorded."""
    world, store = ruling(None, *refused)
    if happening is not None:
        happening(world)
    before = len(store.requests)
    reorder(world)
    world.run()  # fails where it does not come to rest

    assert len(store.requests) - before < 100
    assert Topic.decode("", world.find(Topic.path("u")).data).partitions == {0: (2, 1)}
    left = Reassignment.decode("", world.find(Reassignment.path()).data)
    assert dict(left.targets) == {tp(0): (2, 1)}
    assert ended(world) == [tp(0, "u")]
    world.advance(PAUSE_MAX_MS)
    assert status(world).waiting == {"move of t-0": why}

    store.paths.clear()
    world.server.put(TOPIC, Topic({0: (1, 2)}).encode())
    world.advance(2 * PAUSE_MAX_MS)
    assert world.server.find(Reassignment.path()) is None
    assert ended(world) == [tp(0, "u"), tp(0)]
    assert status(world).waiting == {}


def test_ends_that_cannot_be_recorded_wait_together() -> None:
    """An ACL on the records refuses every end: none is tried by itself, all tell why, and pauses grow."""
    world, store = ruling(None, FinishedReassignment.prefix())
    reorder(world)
    world.run()
    assert store.refused == 1

    world.advance(10 * PAUSE_MAX_MS)
    assert set(status(world).waiting) == {"move of t-0", "move of u-0"}
    refused = store.refused
    world.advance(HALF_AN_HOUR_MS)
    assert 10 < store.refused - refused <= HALF_AN_HOUR_MS / PAUSE_MAX_MS + 1


def overwrite(world: SteppedControllers) -> None:
    """Somebody writes other lists for partitions that the controller knows: it writes its own back."""
    world.server.put(TOPIC, Topic({0: (2, 1)}).encode())


def prefer(world: SteppedControllers) -> None:
    world.server.put(PREFERRED, PreferredElection((tp(0, "u"),)).encode())


def elect(world: SteppedControllers) -> None:
    world.server.put(UNCLEAN, UncleanElection((tp(0, "u"),), 1, "somebody").encode())


def plan(world: SteppedControllers) -> None:
    phases = ((Move(tp(0), (2, 1)),),)
    world.server.put(PLAN, StoredPlan(phases, "running", 0, 1, "somebody").encode())


def end_of_plan(world: SteppedControllers) -> None:
    """Its only phase is where it shall be."""
    phases = ((Move(tp(0), (1, 2)),),)
    world.server.put(PLAN, StoredPlan(phases, "running", 1, 1, "somebody").encode())


def abandon(world: SteppedControllers) -> None:
    """A topic is to go without a broker that is down."""
    world.stop_broker(2)
    world.mark("t", 2)


STRAYS = StrayReplicas.path(2)
PREFERRED, UNCLEAN, MARKER = PreferredElection.path(), UncleanElection.path(), TopicDeletion.path("x")
PLAN = StoredPlan.path("p")
WORK = [
    pytest.param(TOPIC, lambda world: world.mark("t"), "deletion of t", id="a deletion"),
    pytest.param(MARKER, lambda world: world.mark("x"), "deletion of x", id="a marker of no topic"),
    pytest.param(TOPIC, overwrite, "topic t", id="lists written back"),
    pytest.param(PREFERRED, prefer, "preferred election", id="a preferred election"),
    pytest.param(UNCLEAN, elect, "unclean election", id="an unclean election"),
    pytest.param(PLAN, plan, "plan p", id="a plan"),
    pytest.param(PLAN, end_of_plan, "plan p", id="the end of a plan"),
    pytest.param(STRAYS, abandon, "deletion of t", id="the record of a forced deletion"),
]


@pytest.mark.parametrize(("path", "begin", "what"), WORK)
def test_refused_work_rests_and_is_told(path: str, begin: Any, what: str) -> None:
    """One try while the clock stands still, later one in 30 s, and the status names the path."""
    world, store = ruling(None, path)
    begin(world)
    world.run()
    assert store.refused == 1

    world.advance(10 * PAUSE_MAX_MS)
    assert status(world).waiting == {what: f"{path}: refused with NoAuth"}
    refused = store.refused
    world.advance(HALF_AN_HOUR_MS)
    assert 10 < store.refused - refused <= HALF_AN_HOUR_MS / PAUSE_MAX_MS + 1

    store.paths.clear()
    world.advance(2 * PAUSE_MAX_MS)
    assert status(world).waiting == {}


def test_a_refused_deletion_keeps_no_other() -> None:
    """Two that end together: the one that is refused stays alone."""
    world, store = ruling(None, TOPIC)
    world.mark("t", run=False)
    world.mark("u")

    assert (is_gone(world), is_gone(world, "u")) == (False, True)
    assert store.refused == 3  # with the other, by itself, and when the other marker is gone


def test_nobody_waits_for_a_marker_that_is_gone() -> None:
    """Whoever takes off by hand what the controller may not also ends what the status says of it."""
    world, _ = ruling(None, MARKER)
    world.mark("x")
    world.advance(2 * PAUSE_MAX_MS)
    assert set(status(world).waiting) == {"deletion of x"}

    world.delete(MARKER)
    world.advance(2 * PAUSE_MAX_MS)
    assert status(world).waiting == {}


def test_an_event_ends_a_pause() -> None:
    """Whoever mends what was in the way need not wait: the watch says where to look."""
    world, store = ruling(None, TOPIC)
    move_t(world)
    world.run()
    world.advance(10 * PAUSE_MAX_MS)
    before = len(store.requests)

    store.paths.clear()
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (3, 2)),)).encode())
    world.run()

    assert len(store.requests) > before
    assert world.server.find(Topic.path("t")) is not None
    assert set(Topic.decode(TOPIC, world.find(TOPIC).data).partitions[0]) == {1, 2, 3}


def test_pauses_grow_and_end_with_a_change() -> None:
    """Three tries at once, then 1 s, 2 s, ... 30 s; after a change it begins anew."""
    pauses, work, seen = Pauses(), Work(Look.REASSIGNMENT), []
    for _ in range(12):
        seen.append(pauses.before_ms(work, 0))
        pauses.begun(work, 0)

    assert seen == [0, 0, 0, 1_000, 2_000, 4_000, 8_000, 16_000, *[30_000] * 4]
    assert pauses.before_ms(Work(Look.DELETIONS), 0) == 0
    pauses.changed()
    assert pauses.before_ms(work, 0) == 0


def test_a_new_connection_now_and_then_puts_nothing_off() -> None:
    """Each has everything looked at, and watches armed again, in a cluster in which nothing changes."""
    world, _ = ruling()
    (ruler,) = world.nodes
    for _ in range(10):
        world.server.disconnect(ruler.client, "cut")
        world.advance(3_600_000)
    world.mark("u", run=False)
    world.server.disconnect(ruler.client, "cut")
    world.run()

    assert isinstance(ruler, ControllerNode)
    assert ruler.notes("duty.put_off") == []
    assert world.server.find(Topic.path("u")) is None


def test_no_kind_of_work_starves() -> None:
    """One that is always there gives way to each other kind after 20 turns; loading gives way never."""
    agenda = Agenda()
    for look in (Look.STATUS, Look.DELETIONS):
        agenda.add(Work(look), 1)
    taken = []
    for _ in range(TURNS_MAX + 3):
        agenda.add(Work(Look.REASSIGNMENT), 2)
        found = agenda.take()
        assert found is not None
        taken.append(found[0].look)

    assert taken == [*[Look.REASSIGNMENT] * TURNS_MAX, Look.DELETIONS, Look.STATUS, Look.REASSIGNMENT]
    agenda.add(Work(Look.STATUS), 3)
    for _ in range(2 * TURNS_MAX):
        agenda.add(Work(Look.LOAD), 4)
        assert agenda.take(Look.STATUS) == (Work(Look.LOAD), (4, False))


def status(world: SteppedControllers) -> ControllerStatus:
    path = ControllerStatus.path()
    return ControllerStatus.decode(path, world.find(path).data)
