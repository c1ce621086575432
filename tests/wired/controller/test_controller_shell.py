"""How a controller's threads end, and who is answered then; its machine is one that the test makes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.waiting import PATIENCE_S, becomes, eventually, outcome
from zkgroup.controller.controller import Controller, ControllerNews, Loaded
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.events import (
    Elected,
    IdInUse,
    LeaveElection,
    Resigned,
    ShutdownAnswered,
    ShutdownAsked,
)
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.status import ControllerMetrics
from zkgroup.errors import AuthenticationError, ConflictError
from zkgroup.metrics.prometheus import PrometheusMetrics
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Lost, SessionEvent
from zkgroup.runtime.events import LogEvent
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.wire.control import ControlledShutdownResponse

STALE = ControlledShutdownResponse(11)


class Machine:
    """Answers each kind of event with what the test said."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.picture: ControllerContext | None = None
        self.counted: ControllerMetrics | None = None
        self.has_left = False
        self.leaves = True
        self.replies: dict[type, Callable[[Any], Sequence[Any]]] = {}

    def figures(self) -> ControllerMetrics | None:
        return self.counted

    def step(self, event: object, now: Instant) -> Sequence[Any]:
        self.events.append(event)
        if isinstance(event, LeaveElection):
            self.has_left = self.leaves
        return self.replies.get(type(event), lambda one: ())(event)


class Scene:
    """A controller with that machine, on a ZooKeeper in memory."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.registry = CollectorRegistry()
        self.news: list[ControllerNews] = []
        self.failures: list[BaseException] = []
        self.server = MemoryZooKeeper(FakeClock())
        self.store = self.server.client()
        self.listeners: list[Callable[[SessionEvent], None]] = []
        self.controller = Controller(
            self.machine,
            self.store,
            self.server.clock,
            broker=7,
            client_id="c",
            on_news=self.news.append,
            on_failure=self.failures.append,
            metrics=PrometheusMetrics(self.registry),
        )

    def ask(self) -> Future[ControlledShutdownResponse]:
        """Asks for a controlled shutdown, and waits until the machine has received it."""
        answer = self.controller.shut_down(3)
        eventually(lambda: any(isinstance(event, ShutdownAsked) for event in self.machine.events))
        return answer


@pytest.fixture
def scene() -> Iterator[Scene]:
    one = Scene()
    one.controller.start()
    try:
        yield one
    finally:
        one.machine.leaves = one.machine.has_left = True
        one.controller.close()
        one.store.close()


def test_a_controlled_shutdown_is_answered_by_its_number(scene: Scene) -> None:
    """Each with its own answer; one that no one waits for any more is dropped."""
    remaining = (TopicPartition("orders", 3),)
    scene.machine.replies[ShutdownAsked] = lambda event: (
        ShutdownAnswered(event.request_id, event.broker, remaining),
        ShutdownAnswered(event.request_id, 0),
        ShutdownAnswered(event.request_id + 1000, 0),
    )
    answers = [scene.controller.shut_down(broker) for broker in (3, 4)]
    assert [answer.result(PATIENCE_S) for answer in answers] == [
        ControlledShutdownResponse(3, remaining),
        ControlledShutdownResponse(4, remaining),
    ]


def test_changes_of_the_cluster_have_a_log_of_their_own(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """`zkgroup.state_change`: leaders, elections that failed or were unclean, who is controller."""
    caplog.set_level(logging.INFO, "zkgroup.state_change")
    election = Elected(Fence(3, 1), 7, 0)
    scene.machine.replies[ShutdownAsked] = lambda event: (
        election,
        LogEvent("leader.changed", {"partition": "t-0", "leader": 2, "was": 1, "reason": "reassignment"}),
        LogEvent("election.unclean", {"partition": "t-0", "leader": 2}),
        LogEvent("election.failed", {"partitions": 1, "detail": "t-1: no replica of 3 is live"}),
        LogEvent("event.refused", {"event": "topics"}),
        Resigned(3, "stopped"),
        ShutdownAnswered(event.request_id, 0),
    )
    scene.ask().result(PATIENCE_S)

    received = [
        (each.levelname, each.message) for each in caplog.records if each.name == "zkgroup.state_change"
    ]
    assert received == [
        ("INFO", "broker 7 is the controller, epoch 3"),
        ("INFO", "leader.changed partition=t-0 leader=2 was=1 reason=reassignment"),
        ("WARNING", "election.unclean partition=t-0 leader=2"),
        ("WARNING", "election.failed partitions=1 detail=t-1: no replica of 3 is live"),
        ("INFO", "broker 7 is no longer the controller, epoch 3: stopped"),
    ]


def test_the_metrics_of_a_controller(scene: Scene) -> None:
    """What it counts while it is active, elections with their time, and nothing of the cluster afterwards."""

    def value(name: str) -> float | None:
        return scene.registry.get_sample_value(f"zkgroup_controller_{name}", {"broker": "7"})

    scene.machine.counted = ControllerMetrics(2, 40, 3, 5, 7, 1_500)
    scene.machine.replies[ShutdownAsked] = lambda event: (
        Elected(Fence(3, 1), 7, 0),
        LogEvent("election.unclean", {"partition": "t-0", "leader": 2}),
        LogEvent("election.done", {"leaders": 4, "reason": "take-over", "ms": 250}),
        ShutdownAnswered(event.request_id, 0),
    )
    scene.ask().result(PATIENCE_S)
    becomes(lambda: value("event_queue_oldest_seconds"), 1.5)  # the last one that is set

    names = ("active_controller_count", "global_topic_count", "offline_partitions_count")
    assert [value(name) for name in names] == [1, 2, 3]
    assert value("preferred_replica_imbalance_count") == 5
    assert (value("global_partition_count"), value("event_queue_size")) == (40, 7)
    assert (value("leader_election_seconds_count"), value("leader_election_seconds_sum")) == (1, 0.25)
    assert value("unclean_leader_elections_total") == 1

    scene.machine.counted = None
    scene.machine.replies[ShutdownAsked] = lambda event: (
        Resigned(3, "stopped"),
        ShutdownAnswered(event.request_id, 0),
    )
    scene.ask().result(PATIENCE_S)
    assert [value(name) for name in names] == [0, 0, 0]


def test_a_waiting_request_is_answered_at_the_end(scene: Scene) -> None:
    """A later caller gets it at once."""
    answer = scene.ask()
    given_up = scene.controller.shut_down(4)
    assert given_up.cancel()
    assert scene.controller.close()
    assert answer.result(0) == STALE
    assert scene.controller.shut_down(3).result(0) == STALE
    assert scene.machine.events[-1] == LeaveElection("stopped")
    assert scene.controller.close()


def test_a_machine_that_does_not_leave_is_not_waited_for(scene: Scene) -> None:
    """ZooKeeper is away: the rest ends with the session. A second time there is no one to wait for."""
    scene.machine.leaves = False
    answer = scene.ask()
    assert not scene.controller.close(timeout_s=0.05)
    assert answer.result(0) == STALE
    assert scene.controller.close(PATIENCE_S)


def test_a_mistake_of_the_machine_is_reported_once_and_ends_everything(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is sent any more; its session is its owner's to end, which is notified. It is no controller
    then."""
    scene.machine.replies[ShutdownAsked] = lambda event: (Elected(Fence(3, 1), 7, 0),)
    answer = scene.ask()
    scene.machine.replies[LeaveElection] = lambda event: 1 // 0  # type: ignore[return-value]
    scene.controller.stop()
    assert answer.result(PATIENCE_S) == STALE
    eventually(lambda: scene.failures)
    assert [type(error) for error in scene.failures] == [ZeroDivisionError]
    with pytest.raises(ZeroDivisionError):
        scene.controller.check()
    assert scene.controller.close()
    assert "stopped by an error of its own" in caplog.text
    assert scene.registry.get_sample_value("zkgroup_controller_active_controller_count", {"broker": "7"}) == 0


def test_an_id_in_use_is_a_failure_that_names_who_has_it(scene: Scene) -> None:
    """Path and session, so that the process can be found."""
    scene.machine.replies[ShutdownAsked] = lambda event: (IdInUse(7, "/brokers/ids/7", 0x1F),)
    scene.ask()
    eventually(lambda: scene.failures)
    with pytest.raises(ConflictError, match=r"broker id 7 is in use: /brokers/ids/7 is held by session 0x1f"):
        scene.controller.check()


def test_a_store_that_gives_up_for_good_is_a_failure() -> None:
    """Refused credentials: no session will ever come."""

    class GivesUp:
        """A store that reports refused credentials to every listener."""

        def __init__(self, store: Any) -> None:
            self._store = store

        def listen(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
            listener(Lost(1, "refused", AuthenticationError("refused")))
            return lambda: None

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

    scene = Scene()
    failures: list[BaseException] = []
    store: Any = GivesUp(scene.store)
    one = Controller(
        scene.machine, store, scene.server.clock, broker=7, client_id="c", on_failure=failures.append
    )
    one.start()
    try:
        assert [type(error) for error in failures] == [AuthenticationError]
    finally:
        one.close()
        scene.store.close()


def test_the_listener_gets_election_and_resignation(scene: Scene) -> None:
    """Other notes go to the log alone. A probe learns whether it has loaded the cluster."""
    elected, resigned = Elected(Fence(4, 3), 99, 0), Resigned(4, "why")
    loaded = LogEvent("controller.loaded", {"epoch": 4, "partitions": 10, "load_ms": 5})
    scene.machine.replies[ShutdownAsked] = lambda event: (elected, loaded, LogEvent("other", {}), resigned)
    scene.ask()
    becomes(lambda: len(scene.news), 3)
    assert scene.news == [elected, Loaded(4, 10, 5), resigned]

    for effects, is_loading in (((elected,), True), ((loaded,), False), ((elected, resigned), False)):
        scene.machine.replies[ShutdownAsked] = lambda event, effects=effects: effects
        scene.ask()
        outcome(scene.controller.beats()["controller"])
        assert scene.controller.is_loading is is_loading


def test_the_context_is_read_on_the_machines_thread(scene: Scene) -> None:
    """What goes wrong there belongs to who asked."""
    scene.machine.context = ControllerContext()
    seen = scene.controller.with_context(lambda picture: (picture, threading.current_thread().name))
    assert seen.result(PATIENCE_S) == (scene.machine.context, "zkgroup-controller-7-loop")
    with pytest.raises(ZeroDivisionError):
        scene.controller.with_context(lambda picture: 1 // 0).result(PATIENCE_S)
    scene.controller.check()


def test_it_closes_without_having_been_started() -> None:
    """And who asks for a controlled shutdown is answered."""
    scene = Scene()
    assert scene.controller.close()
    assert scene.controller.shut_down(3).result(0) == STALE
    scene.store.close()
