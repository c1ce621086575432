"""Checks of reads and of watches: outcomes, missing znodes, order, and what fires a watch, once."""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.model.requests import (
    AclEntry,
    Code,
    Create,
    Delete,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    ListMany,
    ListManyDone,
    Multi,
    MultiDone,
    Operation,
    Outcome,
    Read,
    ReadAcls,
    ReadAclsDone,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Request,
    SetData,
    Sync,
    SyncDone,
    ZnodeAcl,
)
from zkgroup.testing.conformance.target import Caller, Pending, Target


def check_what_is_missing_is_none(target: Target) -> None:
    """In each kind of read; the listing of a missing parent is empty and without Stat."""
    caller = target.connect()
    assert caller.ask(Read("/none"), ReadDone) == ReadDone(None)
    assert caller.ask(Exists("/none"), ExistsDone) == ExistsDone(None)
    assert caller.ask(ListChildren("/none"), ListChildrenDone) == ListChildrenDone((), None)


def check_bulk_reads_answer_path_by_path(target: Target) -> None:
    """In the order asked, None where nothing is, the same path as often as asked."""
    caller = target.connect()
    caller.make("/a", "/a/x", "/a/y", "/b")
    znodes = caller.ask(ReadMany(("/b", "/none", "/a", "/b")), ReadManyDone).znodes
    assert [getattr(znode, "path", None) for znode in znodes] == ["/b", None, "/a", "/b"]
    listed = caller.ask(ListMany(("/none", "/a", "/b")), ListManyDone).children
    assert [sorted(names) if isinstance(names, tuple) else names for names in listed] == [
        None,
        ["x", "y"],
        [],
    ]


def check_bulk_reads_of_nothing(target: Target) -> None:
    """No path, no answer, no error."""
    caller = target.connect()
    assert caller.ask(ReadMany(()), ReadManyDone) == ReadManyDone(())
    assert caller.ask(ListMany(()), ListManyDone) == ListManyDone(())


def check_bulk_reads_give_the_same_stat_as_single_ones(target: Target) -> None:
    """Data and all eleven fields."""
    caller = target.connect()
    caller.make("/a", "/a/b")
    caller.write(SetData("/a", b"new", 0))
    (znode,) = caller.ask(ReadMany(("/a",)), ReadManyDone).znodes
    assert znode == caller.ask(Read("/a"), ReadDone).znode
    assert not isinstance(znode, Code)
    assert znode is not None
    assert znode.stat == caller.stat("/a") == caller.ask(ListChildren("/a"), ListChildrenDone).stat


def check_acls_come_with_the_stat(target: Target) -> None:
    """ACLs by path, None where there is no znode; znodes created here have the open ACL."""
    caller = target.connect()
    caller.make("/a", "/b")
    caller.write(SetData("/b", b"new", 0))
    found = caller.ask(ReadAcls(("/b", "/none", "/a")), ReadAclsDone).acls
    assert found == (
        ZnodeAcl((AclEntry(31, "world", "anyone"),), caller.stat("/b")),
        None,
        ZnodeAcl((AclEntry(31, "world", "anyone"),), caller.stat("/a")),
    )
    assert caller.ask(ReadAcls(()), ReadAclsDone) == ReadAclsDone(())


def check_large_bulk_reads(target: Target) -> None:
    """2,000 paths, half of them missing, in one request."""
    caller = target.connect()
    caller.make("/many")
    caller.write(*(Create(f"/many/{n}", b"%d" % n) for n in range(0, 2000, 2)))
    znodes = caller.ask(ReadMany(tuple(f"/many/{n}" for n in range(2000))), ReadManyDone).znodes
    assert [getattr(znode, "data", None) for znode in znodes] == [
        b"%d" % n if n % 2 == 0 else None for n in range(2000)
    ]


def check_listing_returns_names_and_stat(target: Target) -> None:
    """Names without path, the parent's own Stat."""
    caller = target.connect()
    caller.make("/p", "/p/b", "/p/a")
    listed = caller.ask(ListChildren("/p"), ListChildrenDone)
    assert sorted(listed.children) == ["a", "b"]
    assert listed.stat == caller.stat("/p")


def check_names_may_be_any_text(target: Target) -> None:
    """Umlauts, spaces and characters beyond the basic plane are preserved."""
    caller = target.connect()
    names = ["grüße", "two words", "x.y_z-1", "日本"]
    caller.make("/p", *(f"/p/{name}" for name in names))
    assert sorted(caller.ask(ListChildren("/p"), ListChildrenDone).children) == sorted(names)
    assert caller.ask(Read(f"/p/{names[0]}"), ReadDone).znode is not None


def check_requests_are_executed_and_answered_in_order(target: Target) -> None:
    """300 writes and reads sent without waiting: each read returns exactly the writes before it."""
    caller = target.connect()
    caller.make("/n")
    order: list[int] = []
    reads = []

    def noting(number: int) -> Callable[[Outcome], None]:
        return lambda outcome: order.append(number if isinstance(outcome, MultiDone) else -1)

    for number in range(150):
        write = Multi((SetData("/n", b"%d" % number, number),))
        caller.store.submit(write, incarnation=1, on_outcome=noting(number))
        reads.append(caller.submit(Read("/n")))
    outcomes = [pending.outcome() for pending in reads]
    found = [outcome.znode.data for outcome in outcomes if isinstance(outcome, ReadDone) and outcome.znode]
    assert found == [b"%d" % number for number in range(150)]
    assert order == list(range(150))


def check_sync_shows_what_others_wrote(target: Target) -> None:
    """A client reads another client's acknowledged write after a sync."""
    writer, reader = target.connect(), target.connect()
    for number in range(5):
        writer.write(Create(f"/n{number}", b""))
        assert reader.submit(Sync("/")).outcome() == SyncDone()
        assert reader.ask(Exists(f"/n{number}"), ExistsDone).stat is not None


def check_last_zxid_is_the_highest_seen(target: Target) -> None:
    """It reaches every acknowledged write and never decreases."""
    caller = target.connect()
    seen = []
    for name in "abc":
        caller.make(f"/{name}")
        seen.append(caller.store.last_zxid)
        assert caller.store.last_zxid >= caller.stat(f"/{name}").czxid
    assert seen == sorted(seen)


def check_a_callback_may_submit(target: Target) -> None:
    """A request submitted from a callback has an outcome as any other."""
    caller = target.connect()
    inner = Pending()

    def submit_more(_outcome: Outcome) -> None:
        caller.store.submit(Read("/"), incarnation=1, on_outcome=inner.on_outcome)

    caller.store.submit(Sync("/"), incarnation=1, on_outcome=submit_more)
    assert isinstance(inner.outcome(), ReadDone)


def _armed(caller: Caller, request: Request) -> Pending:
    pending = caller.submit(request)
    pending.outcome()
    return pending


def _fires_once(target: Target, request: Request, *writes: Operation) -> None:
    """The watch fires at the first write, with the watched path, and not at later ones."""
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
    """Waits until all sent events have arrived: a later watch has fired."""
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
    """The first of the three fires it."""
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
    """The watched znode itself is deleted."""
    _prepared(target)
    _fires_once(target, ListChildren("/p/c/g", watch=True), Delete("/p/c/g", -1))


def check_a_child_watch_on_nothing_fires_on_the_creation(target: Target) -> None:
    """Listing a missing parent with a watch waits for it."""
    _prepared(target)
    _fires_once(target, ListChildren("/new", watch=True), Create("/new", b""))


def check_a_child_watch_ignores_other_changes(target: Target) -> None:
    """Data of parent and child, grandchildren, neighbours."""
    _prepared(target)
    _silent(
        target,
        ListChildren("/p", watch=True),
        SetData("/p", b"1", -1), SetData("/p/c", b"1", -1), Create("/p/c/h", b""), Create("/q", b""),
    )  # fmt: skip


def check_a_data_watch_ignores_children(target: Target) -> None:
    """Creating and deleting children does not fire it."""
    _prepared(target)
    _silent(target, Read("/p", watch=True), Create("/p/d", b""), SetData("/p/c", b"1", -1))


def check_reads_without_watch_set_no_watch(target: Target) -> None:
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
    """Two requests of one client and one of another: each watch fires once."""
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
    """A client's own write fires its watches as other clients' writes do."""
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
