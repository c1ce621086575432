"""Work that is refused, or changes nothing, is put off: it costs little, is reported, and holds up
nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.acls import NO_CREATES, NO_DELETES, UNWRITABLE
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, is_gone
from tests.worlds.stores import MeddledStore
from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.active import EVENT_HANDLERS
from zkgroup.controller.machine.event_manager import (
    ATTEMPTS_WITHOUT_BACKOFF,
    BACKOFF_MAX_MS,
    PASSED_OVER_MAX,
    Backoffs,
    EventQueue,
    QueuedEvent,
)
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Code, Exists, Multi, NotSent, Request
from zkgroup.znodes.admin_requests import (
    Move,
    PreferredElection,
    Reassignment,
    TopicDeletion,
    UncleanElection,
)
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerStatus
from zkgroup.znodes.reassignment_records import FinishedReassignment, StoredPlan, finished_reassignments_path
from zkgroup.znodes.stray_replicas import StrayReplicas
from zkgroup.zookeeper import Acl
from zkgroup.zookeeper.settings import OPEN_ACL

QUARTER_HOUR_MS = 900_000


class WatchedStore(MeddledStore):
    """Counts what is asked; transactions that write one of `too_big` are not sent."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.too_big: set[str] = set()

    @property
    def rounds(self) -> int:
        """How often the controller has read the request to move partitions: twice after a conflict."""
        return sum(isinstance(each, Exists) and each.path == Reassignment.path() for each in self.requests)

    def submit(self, request: Request, *, on_outcome: Any, **rest: Any) -> None:
        if isinstance(request, Multi) and any(each.path in self.too_big for each in request.operations):
            self.requests.append(request)
            on_outcome(NotSent("too big", too_big=True))
            return
        super().submit(request, on_outcome=on_outcome, **rest)


def loaded_cluster() -> tuple[SteppedControllers, WatchedStore]:
    """A controller of the topics t and u, and what it asks."""
    world = SteppedControllers(auto_rebalance=False)
    world.make_topic("t", {0: (1, 2)})
    world.make_topic("u", {0: (1, 2)})
    controller = world.new_controller()
    store = WatchedStore(controller.loop._store)
    controller.loop._store = store
    return world, store


Happening = Callable[[SteppedControllers, WatchedStore], None]


def protect(path: str, acl: Acl = UNWRITABLE) -> Happening:
    """An ACL on a znode, which is made where it is missing."""

    def happening(world: SteppedControllers, store: WatchedStore) -> None:
        if world.server.find(path) is None:
            world.server.put(path)
        world.server.set_acl(path, acl)

    return happening


def open_all(world: SteppedControllers) -> None:
    """Every client may do everything again."""
    for path in world.server.tree():
        if path != "/zookeeper/config":
            world.server.set_acl(path, *OPEN_ACL)


def refused(world: SteppedControllers) -> int:
    """How many transactions ACLs have refused."""
    answers = (entry.refused for entry in world.server.log)
    return sum(each is not None and each.code is Code.NO_AUTH for each in answers)


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


def is_of_later_controller(world: SteppedControllers, store: WatchedStore) -> None:
    """A controller of a later epoch has decided the partition: this one leaves it alone (F3)."""
    world.set_state(tp(0), controller_epoch=99)
    world.run()


def unreadable(world: SteppedControllers, store: WatchedStore) -> None:
    """Another client writes what cannot be read into the topic's znode."""
    world.server.put(Topic.path("t"), b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":"x"}')
    world.run()


def too_big(world: SteppedControllers, store: WatchedStore) -> None:
    store.too_big.add(STATE)


STATE, TOPIC = PartitionState.path(tp(0)), Topic.path("t")
OBSTACLES = [
    pytest.param(protect(STATE), "refused with NoAuth", id="an ACL on the state"),
    pytest.param(protect(TOPIC), "refused with NoAuth", id="an ACL on the topic"),
    pytest.param(
        is_of_later_controller, "a later controller has decided it, in epoch 99", id="a later epoch"
    ),
    pytest.param(unreadable, "the topic has changed", id="an unreadable topic"),
    pytest.param(too_big, "too big", id="a packet too big"),
]


@pytest.mark.parametrize(("happening", "why"), OBSTACLES)
def test_a_refused_move_is_tried_with_growing_backoffs_and_reported(happening: Happening, why: str) -> None:
    """A few rounds at one time, and later at most one in 30 s."""
    world, store = loaded_cluster()
    happening(world, store)
    before = len(store.requests)
    move_t(world)
    world.run()  # fails where it does not come to rest

    assert len(store.requests) - before < 60
    world.advance(10 * BACKOFF_MAX_MS, step_ms=1000)
    assert why in " ".join(status(world).waiting.values())
    begun = store.rounds
    world.advance(QUARTER_HOUR_MS, step_ms=1000)
    assert 10 < store.rounds - begun <= 2 * (QUARTER_HOUR_MS / BACKOFF_MAX_MS + 1)


@pytest.mark.parametrize(("happening", "why"), OBSTACLES)
def test_what_comes_behind_a_refused_move_is_done(happening: Happening, why: str) -> None:
    """A deletion, a preferred election and the end of a broker, without the clock moving on."""
    world, store = loaded_cluster()
    happening(world, store)
    move_t(world)
    world.run()

    world.mark("u")
    world.server.put(PreferredElection.path(), PreferredElection((tp(0, "u"),)).encode())
    world.stop_broker(2)

    assert world.server.find(Topic.path("u")) is None
    assert world.server.find(PreferredElection.path()) is None
    (controller,) = world.nodes
    assert isinstance(controller, ControllerNode)
    assert controller.machine.context is not None
    assert 2 not in controller.machine.context.brokers


@pytest.mark.parametrize("path", [STATE, TOPIC])
def test_a_move_continues_once_the_acl_lets_it(path: str) -> None:
    """Nothing reports a changed ACL: the next try after a pause finds out, within 30 s."""
    world, store = loaded_cluster()
    protect(path)(world, store)
    move_t(world)
    world.run()
    world.advance(10 * BACKOFF_MAX_MS, step_ms=1000)
    assert refused(world) > ATTEMPTS_WITHOUT_BACKOFF

    open_all(world)
    world.advance(BACKOFF_MAX_MS)

    assert set(Topic.decode(TOPIC, world.find(TOPIC).data).partitions[0]) == {1, 2, 3}
    assert world.state(tp(0)).leader_epoch == 1
    assert status(world).waiting == {"move of t-0": "waits for replicas to be in sync: broker 3"}


@pytest.mark.parametrize(
    ("happening", "why"),
    [
        pytest.param(protect(TOPIC), f"{TOPIC}: refused with NoAuth", id="an ACL on the topic"),
        pytest.param(unreadable, f"{TOPIC}: refused with BadVersion", id="an unreadable topic"),
    ],
)
def test_the_refused_end_of_a_move_keeps_no_other(happening: Happening, why: str) -> None:
    """Ends go in one write; one that is refused waits alone and says why, the other is recorded."""
    world, store = loaded_cluster()
    happening(world, store)
    before = len(store.requests)
    reorder(world)
    world.run()  # fails where it does not come to rest

    assert len(store.requests) - before < 100
    assert Topic.decode("", world.find(Topic.path("u")).data).partitions == {0: (2, 1)}
    left = Reassignment.decode("", world.find(Reassignment.path()).data)
    assert dict(left.targets) == {tp(0): (2, 1)}
    assert ended(world) == [tp(0, "u")]
    world.advance(BACKOFF_MAX_MS)
    assert status(world).waiting == {"move of t-0": why}

    open_all(world)
    world.server.put(TOPIC, Topic({0: (1, 2)}).encode())
    world.advance(3 * BACKOFF_MAX_MS, step_ms=1000)
    assert world.server.find(Reassignment.path()) is None
    assert ended(world) == [tp(0, "u"), tp(0)]
    assert status(world).waiting == {}


def test_ends_that_cannot_be_recorded_wait_together() -> None:
    """An ACL on the records refuses every end: none is tried by itself, all say why, and backoffs grow."""
    world, store = loaded_cluster()
    protect(finished_reassignments_path(), NO_CREATES)(world, store)
    reorder(world)
    world.run()
    assert refused(world) == 1

    world.advance(10 * BACKOFF_MAX_MS, step_ms=1000)
    assert set(status(world).waiting) == {"move of t-0", "move of u-0"}
    tried = refused(world)
    world.advance(QUARTER_HOUR_MS, step_ms=1000)
    assert 10 < refused(world) - tried <= QUARTER_HOUR_MS / BACKOFF_MAX_MS + 1


def lose_leader(world: SteppedControllers) -> None:
    """The leader of both topics goes; what has to be written for t is protected."""
    world.server.set_acl(STATE, UNWRITABLE)
    world.stop_broker(1)


def start_with(world: SteppedControllers) -> None:
    """Topics that have no state yet; the controller finds them when it loads."""
    world.server.remove(f"{TOPIC}/partitions")
    world.server.remove(f"{Topic.path('u')}/partitions")
    world.server.set_acl(TOPIC, NO_CREATES)
    world.server.cut("ruler-1")
    world.run()


@pytest.mark.parametrize("happening", [lose_leader, start_with])
def test_an_election_that_an_acl_refuses_backs_off_and_keeps_no_other_from_a_leader(happening: Any) -> None:
    """Past bug: it was reported and never tried again: the partition had no leader when the ACL let it."""
    world, store = loaded_cluster()
    before = len(store.requests)
    happening(world)

    leader = world.state(tp(0, "u")).leader
    assert leader in world.hosts
    assert world.hosts[leader].incarnation
    assert len(store.requests) - before < 80
    world.advance(10 * BACKOFF_MAX_MS, step_ms=1000)
    (why,) = [why for what, why in status(world).waiting.items() if what == "leader of t-0"]
    assert why.endswith("refused with NoAuth")
    assert TOPIC in why
    tried = refused(world)
    world.advance(QUARTER_HOUR_MS, step_ms=1000)
    assert 10 < refused(world) - tried <= 2 * (QUARTER_HOUR_MS / BACKOFF_MAX_MS + 1)

    open_all(world)
    world.advance(3 * BACKOFF_MAX_MS, step_ms=1000)
    assert world.state(tp(0)).leader in world.state(tp(0, "u")).isr
    assert status(world).waiting == {}


def overwrite(world: SteppedControllers) -> None:
    """Another client writes other lists for partitions that the controller knows: it writes its own back."""
    world.server.put(TOPIC, Topic({0: (2, 1)}).encode())


def prefer(world: SteppedControllers) -> None:
    world.server.put(PREFERRED, PreferredElection((tp(0, "u"),)).encode())


def elect(world: SteppedControllers) -> None:
    world.server.put(UNCLEAN, UncleanElection((tp(0, "u"),), 1, "somebody").encode())


def plan(world: SteppedControllers) -> None:
    phases = ((Move(tp(0), (2, 1)),),)
    world.server.put(PLAN, StoredPlan(phases, "running", 0, 1, "somebody").encode())
    world.server.set_acl(PLAN, UNWRITABLE)


def end_of_plan(world: SteppedControllers) -> None:
    """Its only phase is where it shall be."""
    phases = ((Move(tp(0), (1, 2)),),)
    world.server.put(PLAN, StoredPlan(phases, "running", 1, 1, "somebody").encode())
    world.server.set_acl(PLAN, UNWRITABLE)


def abandon(world: SteppedControllers) -> None:
    """A topic goes without a broker that is down; back again, that deletes what it has of it."""
    world.stop_broker(2)
    world.mark("t", 2)
    world.start_broker(2)


STRAYS = StrayReplicas.path(2)
PREFERRED, UNCLEAN, MARKER = PreferredElection.path(), UncleanElection.path(), TopicDeletion.path("x")
PLAN = StoredPlan.path("p")


def no_deletes_beside(path: str) -> Happening:
    """An ACL on the parent."""
    return protect(path.rpartition("/")[0], NO_DELETES)


WORK = [
    pytest.param(
        no_deletes_beside(TOPIC), TOPIC, lambda world: world.mark("t"), "deletion of t", id="a deletion"
    ),
    pytest.param(
        no_deletes_beside(MARKER), MARKER, lambda world: world.mark("x"), "deletion of x", id="a marker alone"
    ),
    pytest.param(protect(TOPIC), TOPIC, overwrite, "topic t", id="lists written back"),
    pytest.param(
        no_deletes_beside(PREFERRED), PREFERRED, prefer, "preferred election", id="a preferred election"
    ),
    pytest.param(no_deletes_beside(UNCLEAN), UNCLEAN, elect, "unclean election", id="an unclean election"),
    pytest.param(None, PLAN, plan, "plan p", id="a plan"),
    pytest.param(None, PLAN, end_of_plan, "plan p", id="the end of a plan"),
    pytest.param(
        no_deletes_beside(STRAYS),
        STRAYS,
        abandon,
        "removal of t on broker 2",
        id="a record of a forced deletion",
    ),
]


@pytest.mark.parametrize(("protection", "path", "begin", "what"), WORK)
def test_refused_work_backs_off_and_is_reported(
    protection: Happening | None, path: str, begin: Any, what: str
) -> None:
    """One try at one time, later one in 30 s, and the status names the path."""
    world, store = loaded_cluster()
    if protection is not None:
        protection(world, store)
    begin(world)
    world.run()
    assert refused(world) == 1

    world.advance(10 * BACKOFF_MAX_MS, step_ms=1000)
    assert status(world).waiting == {what: f"{path}: refused with NoAuth"}
    tried = refused(world)
    world.advance(QUARTER_HOUR_MS, step_ms=1000)
    assert 10 < refused(world) - tried <= QUARTER_HOUR_MS / BACKOFF_MAX_MS + 1

    open_all(world)
    world.advance(3 * BACKOFF_MAX_MS, step_ms=1000)
    assert status(world).waiting == {}


def test_a_refused_deletion_keeps_no_other() -> None:
    """Two that end together: the one that is refused stays alone."""
    world, _ = loaded_cluster()
    world.server.set_acl(TOPIC, NO_DELETES)
    world.mark("t", run=False)
    world.mark("u")

    assert (is_gone(world), is_gone(world, "u")) == (False, True)
    assert refused(world) == 3  # with the other, by itself, and when the other marker is gone


def test_no_one_waits_for_a_marker_that_is_gone() -> None:
    """A client that deletes by hand what the controller may not also ends what the status says of it."""
    world, store = loaded_cluster()
    no_deletes_beside(MARKER)(world, store)
    world.mark("x")
    world.advance(3 * BACKOFF_MAX_MS, step_ms=1000)
    assert set(status(world).waiting) == {"deletion of x"}

    world.delete(MARKER)
    world.advance(3 * BACKOFF_MAX_MS, step_ms=1000)
    assert status(world).waiting == {}


def test_an_event_ends_a_pause() -> None:
    """A client that repairs what was in the way need not wait: the watch says what to read."""
    world, store = loaded_cluster()
    world.server.set_acl(TOPIC, UNWRITABLE)
    move_t(world)
    world.run()
    world.advance(10 * BACKOFF_MAX_MS, step_ms=1000)
    before = len(store.requests)

    open_all(world)
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (3, 2)),)).encode())
    world.run()

    assert len(store.requests) > before
    assert world.server.find(Topic.path("t")) is not None
    assert set(Topic.decode(TOPIC, world.find(TOPIC).data).partitions[0]) == {1, 2, 3}


def test_pauses_grow_and_end_with_a_change() -> None:
    """Three tries at once, then 1 s, 2 s, ... 30 s; after a change it begins anew."""
    pauses, work, seen = Backoffs(), QueuedEvent(event_manager.REASSIGNMENT), []
    for _ in range(12):
        seen.append(pauses.before_ms(work, 0))
        pauses.begun(work, 0)

    assert seen == [0, 0, 0, 1_000, 2_000, 4_000, 8_000, 16_000, *[30_000] * 4]
    assert pauses.before_ms(QueuedEvent(event_manager.DELETIONS), 0) == 0
    pauses.changed()
    assert pauses.before_ms(work, 0) == 0


def test_a_new_connection_now_and_then_puts_nothing_off() -> None:
    """Each has everything read, and watches armed again, in a cluster in which nothing changes."""
    world, _ = loaded_cluster()
    (controller,) = world.nodes
    for _ in range(10):
        world.server.disconnect(controller.client, "cut")
        world.advance(3 * BACKOFF_MAX_MS, step_ms=1000)
    world.mark("u", run=False)
    world.server.disconnect(controller.client, "cut")
    world.run()

    assert isinstance(controller, ControllerNode)
    assert controller.notes("event.backoff") == []
    assert world.server.find(Topic.path("u")) is None


def test_no_kind_of_event_starves() -> None:
    """A kind that always waits is passed over for each other kind after 20 events; loading never is."""
    queue = EventQueue([row.kind for row in EVENT_HANDLERS])
    for kind in (event_manager.STATUS, event_manager.DELETIONS):
        queue.add(QueuedEvent(kind), 1)
    taken = []
    for _ in range(PASSED_OVER_MAX + 3):
        queue.add(QueuedEvent(event_manager.REASSIGNMENT), 2)
        found = queue.take()
        assert found is not None
        taken.append(found[0].kind)

    assert taken == [
        *[event_manager.REASSIGNMENT] * PASSED_OVER_MAX,
        event_manager.DELETIONS,
        event_manager.STATUS,
        event_manager.REASSIGNMENT,
    ]
    queue.add(QueuedEvent(event_manager.STATUS), 3)
    for _ in range(2 * PASSED_OVER_MAX):
        queue.add(QueuedEvent(event_manager.LOAD), 4)
        assert queue.take() == (QueuedEvent(event_manager.LOAD), (4, False))


def status(world: SteppedControllers) -> ControllerStatus:
    path = ControllerStatus.path()
    return ControllerStatus.decode(path, world.find(path).data)
