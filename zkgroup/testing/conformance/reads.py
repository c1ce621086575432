"""Checks of reads: shapes of the outcomes, missing znodes, and order."""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.model.requests import (
    AclEntry,
    Code,
    Create,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    ListMany,
    ListManyDone,
    Multi,
    MultiDone,
    Outcome,
    Read,
    ReadAcls,
    ReadAclsDone,
    ReadDone,
    ReadMany,
    ReadManyDone,
    SetData,
    Sync,
    SyncDone,
    ZnodeAcl,
)
from zkgroup.testing.conformance.target import Pending, Target


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
    """Path by path, None where nothing is; what is created here is open to everybody."""
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


def check_listing_tells_names_and_stat(target: Target) -> None:
    """Names without path, the parent's own Stat."""
    caller = target.connect()
    caller.make("/p", "/p/b", "/p/a")
    listed = caller.ask(ListChildren("/p"), ListChildrenDone)
    assert sorted(listed.children) == ["a", "b"]
    assert listed.stat == caller.stat("/p")


def check_names_may_be_any_text(target: Target) -> None:
    """Umlauts, blanks and characters beyond the basic plane survive the way there and back."""
    caller = target.connect()
    names = ["grüße", "two words", "x.y_z-1", "日本"]
    caller.make("/p", *(f"/p/{name}" for name in names))
    assert sorted(caller.ask(ListChildren("/p"), ListChildrenDone).children) == sorted(names)
    assert caller.ask(Read(f"/p/{names[0]}"), ReadDone).znode is not None


def check_requests_are_executed_and_answered_in_order(target: Target) -> None:
    """300 writes and reads sent without waiting: each read sees exactly the writes before it."""
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
    """A write answered to one client is seen by another after its sync."""
    writer, reader = target.connect(), target.connect()
    for number in range(5):
        writer.write(Create(f"/n{number}", b""))
        assert reader.submit(Sync("/")).outcome() == SyncDone()
        assert reader.ask(Exists(f"/n{number}"), ExistsDone).stat is not None


def check_last_zxid_is_the_highest_seen(target: Target) -> None:
    """It reaches every write that was answered and never goes back."""
    caller = target.connect()
    seen = []
    for name in "abc":
        caller.make(f"/{name}")
        seen.append(caller.store.last_zxid)
        assert caller.store.last_zxid >= caller.stat(f"/{name}").czxid
    assert seen == sorted(seen)


def check_a_callback_may_submit(target: Target) -> None:
    """The outcome of a request submitted from a callback comes as any other."""
    caller = target.connect()
    inner = Pending()

    def submit_more(_outcome: Outcome) -> None:
        caller.store.submit(Read("/"), incarnation=1, on_outcome=inner.on_outcome)

    caller.store.submit(Sync("/"), incarnation=1, on_outcome=submit_more)
    assert isinstance(inner.outcome(), ReadDone)
