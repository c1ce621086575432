"""Checks of watches: what fires them, once, and what does not."""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.model.requests import (
    Create,
    Delete,
    Exists,
    ListChildren,
    Multi,
    Operation,
    Read,
    Request,
    SetData,
)
from zkgroup.testing.conformance.target import Caller, Pending, Target


def _armed(caller: Caller, request: Request) -> Pending:
    pending = caller.submit(request)
    pending.outcome()
    return pending


def _fires_once(target: Target, request: Request, *writes: Operation) -> None:
    """Armed before the first write, fired by it with the watched path, and not by the others."""
    writer, watcher = target.connect(), target.connect()
    watcher.catch_up()
    watch = _armed(watcher, request)
    for operation in writes:
        writer.write(operation)
    path = watch.fired()
    quiet(watcher)
    assert watch.watched == [path]
    assert path == request.path  # type: ignore[union-attr]


def quiet(watcher: Caller) -> None:
    """Whatever the server has sent so far is delivered: a later watch has fired."""
    marker = _armed(watcher, Exists("/marker", watch=True))
    watcher.make("/marker")
    marker.fired()
    watcher.write(Delete("/marker", -1))


def _silent(target: Target, request: Request, *operations: Operation) -> None:
    writer, watcher = target.connect(), target.connect()
    watcher.catch_up()
    watch = _armed(watcher, request)
    writer.write(*operations)
    watcher.catch_up()
    quiet(watcher)
    assert watch.watched == []


def _prepared(target: Target) -> None:
    caller = target.connect()
    caller.make("/p", "/p/c", "/p/c/g")


def check_a_data_watch_fires_on_a_change_of_data(target: Target) -> None:
    """Once, though the data changes twice."""
    _prepared(target)
    _fires_once(target, Read("/p", watch=True), SetData("/p", b"1", -1), SetData("/p", b"2", -1))


def check_a_data_watch_fires_on_the_end(target: Target) -> None:
    """Once, though the znode comes back."""
    _prepared(target)
    _fires_once(target, Read("/p/c/g", watch=True), Delete("/p/c/g", -1), Create("/p/c/g", b""))


def check_a_data_watch_on_nothing_fires_on_the_creation(target: Target) -> None:
    """Reading a missing znode with a watch waits for it."""
    _prepared(target)
    _fires_once(target, Read("/new", watch=True), Create("/new", b""), SetData("/new", b"1", -1))


def check_an_exists_watch_fires_on_creation_change_and_end(target: Target) -> None:
    """Whichever comes first."""
    _prepared(target)
    _fires_once(target, Exists("/new", watch=True), Create("/new", b""), Delete("/new", -1))
    _fires_once(
        target, Exists("/p/c/g", watch=True), SetData("/p/c/g", b"1", -1), SetData("/p/c/g", b"2", -1)
    )
    _fires_once(target, Exists("/p/c/g", watch=True), Delete("/p/c/g", -1))


def check_a_child_watch_fires_on_a_new_child(target: Target) -> None:
    """Once, for the parent's path."""
    _prepared(target)
    _fires_once(target, ListChildren("/p", watch=True), Create("/p/d", b""), Create("/p/e", b""))


def check_a_child_watch_fires_on_a_lost_child(target: Target) -> None:
    """Once, for the parent's path."""
    _prepared(target)
    _fires_once(target, ListChildren("/p/c", watch=True), Delete("/p/c/g", -1))


def check_a_child_watch_fires_on_the_end_of_the_parent(target: Target) -> None:
    """The watched znode itself goes."""
    _prepared(target)
    _fires_once(target, ListChildren("/p/c/g", watch=True), Delete("/p/c/g", -1))


def check_a_child_watch_on_nothing_fires_on_the_creation(target: Target) -> None:
    """Listing a missing parent with a watch waits for it."""
    _prepared(target)
    _fires_once(target, ListChildren("/new", watch=True), Create("/new", b""))


def check_a_child_watch_is_silent_about_the_rest(target: Target) -> None:
    """Data of parent and child, grandchildren, neighbours."""
    _prepared(target)
    _silent(
        target,
        ListChildren("/p", watch=True),
        SetData("/p", b"1", -1), SetData("/p/c", b"1", -1), Create("/p/c/h", b""), Create("/q", b""),
    )  # fmt: skip


def check_a_data_watch_is_silent_about_children(target: Target) -> None:
    """Children come and go without a word."""
    _prepared(target)
    _silent(target, Read("/p", watch=True), Create("/p/d", b""), SetData("/p/c", b"1", -1))


def check_reads_without_watch_are_silent(target: Target) -> None:
    """`on_watch` given, `watch` not."""
    _prepared(target)
    for request in (Read("/p"), Exists("/p"), ListChildren("/p")):
        _silent(target, request, SetData("/p", b"1", -1))


def check_a_refused_write_fires_nothing(target: Target) -> None:
    """Not even for the operations before the refused one."""
    _prepared(target)
    writer, watcher = target.connect(), target.connect()
    watch = _armed(watcher, Read("/p", watch=True))
    writer.submit(Multi((SetData("/p", b"1", -1), Create("/p", b"")))).outcome()
    watcher.catch_up()
    quiet(watcher)
    assert watch.watched == []


def check_every_watch_of_a_path_fires(target: Target) -> None:
    """Two requests of one client and one of another: each is told once."""
    _prepared(target)
    writer, one, other = target.connect(), target.connect(), target.connect()
    watches = [_armed(caller, Read("/p", watch=True)) for caller in (one, one, other)]
    writer.write(SetData("/p", b"1", -1))
    for watch in watches:
        watch.fired()
    for caller in (one, other):
        caller.catch_up()
        quiet(caller)
    assert [watch.watched for watch in watches] == [["/p"]] * 3


def check_own_writes_fire_own_watches(target: Target) -> None:
    """As anybody's."""
    _prepared(target)
    caller = target.connect()
    watch = _armed(caller, Read("/p", watch=True))
    caller.write(SetData("/p", b"1", -1))
    assert watch.fired() == "/p"


def check_the_end_of_a_session_fires_watches(target: Target) -> None:
    """On each of its ephemerals and on their parents."""
    _prepared(target)
    leaver, watcher = target.connect(), target.connect()
    leaver.write(Create("/p/e", b"", ephemeral=True))
    watcher.catch_up()
    requests: tuple[Callable[[], Request], ...] = (
        lambda: Exists("/p/e", watch=True),
        lambda: Read("/p/e", watch=True),
        lambda: ListChildren("/p", watch=True),
    )
    watches = [_armed(watcher, make()) for make in requests]
    leaver.store.close()
    assert [watch.fired() for watch in watches] == ["/p/e", "/p/e", "/p"]
