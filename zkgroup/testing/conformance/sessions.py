"""Checks of sessions: the events that a listener gets, their order, and requests that must not be sent."""

from __future__ import annotations

import threading

from zkgroup.model.requests import (
    Connected,
    Create,
    Exists,
    ExistsDone,
    Lost,
    Multi,
    MultiDone,
    NotSent,
    Outcome,
    SessionEvent,
    SetData,
    Sync,
    SyncDone,
)
from zkgroup.testing.conformance.target import Caller, Target
from zkgroup.testing.patience import PATIENCE_S


def check_a_listener_gets_the_session(target: Target) -> None:
    """Incarnation 1, an id, and the timeout as granted."""
    session = target.connect(session_timeout_ms=6000).session()
    assert session.incarnation == 1
    assert session.session_id != 0
    assert session.timeout_ms == 6000


def check_a_listener_gets_the_granted_timeout(target: Target) -> None:
    """Sessions of different clients differ, and each client gets its own timeout."""
    long, short = target.connect(session_timeout_ms=9000), target.connect(session_timeout_ms=4000)
    assert (long.session().timeout_ms, short.session().timeout_ms) == (9000, 4000)
    assert long.session().session_id != short.session().session_id


def check_a_late_listener_gets_the_present_state(target: Target) -> None:
    """At once, without waiting for the next change."""
    caller = target.connect()
    late = Caller(caller.store)
    assert late.session() == caller.session()
    assert len(late.events) == 1


def check_a_removed_listener_gets_no_events(target: Target) -> None:
    """Removing it twice has no effect."""
    caller = target.connect()
    caller.unlisten()
    caller.unlisten()
    late = Caller(caller.store)
    late.session()
    caller.store.abandon(1, "test")
    late.session(2)
    assert [type(event) for event in caller.events] == [Connected]


def check_nothing_is_sent_for_another_incarnation(target: Target) -> None:
    """Neither for an ended incarnation nor for a future one."""
    caller = target.connect()
    for incarnation in (0, 2):
        caller.ask(Multi((Create("/a", b""),)), NotSent, incarnation)
    assert caller.ask(Exists("/a"), ExistsDone).stat is None


def check_an_ephemeral_belongs_to_its_session(target: Target) -> None:
    """Its owner is the session in the listener's event; its data is as created."""
    caller = target.connect()
    caller.write(Create("/e", b"data", ephemeral=True))
    assert caller.stat("/e").ephemeral_owner == caller.session().session_id


def check_close_deletes_ephemerals(target: Target) -> None:
    """At once and together, not after the session timeout; persistent ones stay."""
    watcher, leaver = target.connect(), target.connect(session_timeout_ms=60_000)
    leaver.write(Create("/e", b"", ephemeral=True), Create("/p", b""))
    watcher.catch_up()
    watch = watcher.submit(Exists("/e", watch=True))
    watch.outcome()
    leaver.store.close()
    assert watch.fired() == "/e"
    assert watcher.ask(Exists("/e"), ExistsDone).stat is None
    assert watcher.ask(Exists("/p"), ExistsDone).stat is not None


def check_close_may_be_repeated(target: Target) -> None:
    """From several threads; afterwards nothing is sent, and listeners have got the end of the session."""
    caller = target.connect()
    threads = [threading.Thread(target=caller.store.close) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "close did not return"
    caller.store.close()
    caller.ask(Sync("/"), NotSent)
    caller.await_event(Lost, 1)


def check_every_request_has_one_outcome_at_close(target: Target) -> None:
    """Requests in flight have exactly one outcome."""
    caller = target.connect()
    caller.make("/n")
    pending = [caller.submit(Multi((SetData("/n", b"", -1),))) for _ in range(50)]
    caller.store.close()
    pending.append(caller.submit(Multi((SetData("/n", b"", -1),))))
    outcomes = [one.outcome() for one in pending]
    done = sum(isinstance(outcome, MultiDone) for outcome in outcomes)
    reader = target.connect()
    reader.catch_up()
    assert reader.stat("/n").version >= done
    assert isinstance(outcomes[-1], NotSent)
    assert {len(one.outcomes) for one in pending} == {1}


def check_abandon_reports_lost_before_the_next_session(target: Target) -> None:
    """Every listener gets Lost of the old session before Connected of the new one."""
    caller = target.connect()
    other = Caller(caller.store)
    other.session()
    first = caller.session()
    caller.store.abandon(1, "own clock")
    for listener in (caller, other):
        second = listener.session(2)
        assert second.session_id != first.session_id
        events = listener.events
        assert [_kind_and_incarnation(event) for event in events] == [
            ("Connected", 1),
            ("Lost", 1),
            ("Connected", 2),
        ]


def _kind_and_incarnation(event: SessionEvent) -> tuple[str, int]:
    incarnation = event.session.incarnation if isinstance(event, Connected) else event.incarnation
    return type(event).__name__, incarnation


def check_nothing_is_sent_for_an_abandoned_session(target: Target) -> None:
    """From the moment abandon returns; the next session works."""
    caller = target.connect()
    caller.store.abandon(1, "own clock")
    caller.ask(Multi((Create("/a", b""),)), NotSent)
    caller.session(2)
    caller.ask(Multi((Create("/a", b""),)), NotSent)
    caller.ask(Multi((Create("/b", b""),)), MultiDone, 2)
    assert caller.ask(Exists("/a"), ExistsDone, 2).stat is None


def check_abandon_of_another_session_is_ignored(target: Target) -> None:
    """An older or unknown incarnation changes nothing."""
    caller = target.connect()
    caller.store.abandon(0, "late")
    caller.store.abandon(2, "early")
    assert caller.ask(Sync("/"), SyncDone) == SyncDone()
    assert len(caller.events) == 1


def check_many_threads_may_submit(target: Target) -> None:
    """Each request has one outcome; each write is applied once."""
    caller = target.connect()
    caller.make("/n")
    outcomes: list[Outcome] = []
    answered = threading.Semaphore(0)

    def note(outcome: Outcome) -> None:
        outcomes.append(outcome)
        answered.release()

    def work() -> None:
        for _ in range(50):
            caller.store.submit(Multi((SetData("/n", b"", -1),)), incarnation=1, on_outcome=note)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert all(answered.acquire(timeout=PATIENCE_S) for _ in range(200))
    assert all(isinstance(outcome, MultiDone) for outcome in outcomes)
    assert caller.stat("/n").version == len(outcomes) == 200
