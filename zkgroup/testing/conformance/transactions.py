"""Checks of writes: the effects of a Multi, its refusals, and the resulting Stats."""

from __future__ import annotations

from zkgroup.model.requests import (
    Check,
    Code,
    Create,
    CreateMissing,
    CreateMissingDone,
    Delete,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    Multi,
    MultiRefused,
    NotSent,
    Operation,
    Read,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    SetData,
)
from zkgroup.testing.conformance.target import Target

_TOO_BIG = 1_100_000
_BIG = 900_000


def check_a_created_znode_has_its_data_and_a_fresh_stat(target: Target) -> None:
    """Version 0, no children, czxid equal to mzxid and pzxid, no owner."""
    caller = target.connect()
    caller.write(Create("/a", b"text"))
    znode = caller.ask(Read("/a"), ReadDone).znode
    assert znode is not None
    assert (znode.path, znode.data) == ("/a", b"text")
    stat = znode.stat
    assert stat.czxid == stat.mzxid == stat.pzxid > 0
    assert stat.ctime == stat.mtime > 0
    assert (stat.version, stat.cversion, stat.aversion) == (0, 0, 0)
    assert (stat.ephemeral_owner, stat.data_length, stat.children_count) == (0, 4, 0)


def check_null_data_is_not_empty_data(target: Target) -> None:
    """A znode created with None reads as None, one created with b"" as b""; both have length 0."""
    caller = target.connect()
    caller.write(Create("/null", None), Create("/empty", b""))
    null, empty = caller.ask(ReadMany(("/null", "/empty")), ReadManyDone).znodes
    assert null is not None
    assert not isinstance(null, Code)
    assert null.data is None
    assert empty is not None
    assert not isinstance(empty, Code)
    assert empty.data == b""
    assert null.stat.data_length == empty.stat.data_length == 0


def check_a_multi_returns_a_result_for_each_operation(target: Target) -> None:
    """The new Stat for each SetData, None for the others, the zxid they share, created paths in order."""
    caller = target.connect()
    caller.make("/s", "/gone")
    done = caller.write(
        Check("/s", 0), SetData("/s", b"12", 0), Create("/n", None), Delete("/gone", 0), SetData("/s", b"", 1)
    )
    first, second = done.stats[1], done.stats[4]
    assert first is not None
    assert second is not None
    assert [stat is None for stat in done.stats] == [True, False, True, True, False]
    assert (first.version, first.data_length, second.version, second.data_length) == (1, 2, 2, 0)
    assert done.zxid in (None, second.mzxid)
    assert first.mzxid == second.mzxid == caller.stat("/n").czxid
    assert done.created == ("/n",)


def check_operations_see_those_before_them(target: Target) -> None:
    """Within one transaction: create, set at version 0, check at 1, delete, create again."""
    caller = target.connect()
    caller.write(
        Create("/p", b""), SetData("/p", b"x", 0), Check("/p", 1), Create("/p/c", b""),
        Delete("/p/c", 0), Delete("/p", 1), Create("/p", b"again"),
    )  # fmt: skip
    znode = caller.ask(Read("/p"), ReadDone).znode
    assert znode is not None
    assert (znode.data, znode.stat.version, znode.stat.cversion) == (b"again", 0, 0)


_REFUSALS: tuple[tuple[Operation, Code], ...] = (
    (Create("/there", b""), Code.NODE_EXISTS),
    (Create("/none/child", b""), Code.NO_NODE),
    (Create("/ephemeral/child", b""), Code.NO_CHILDREN_FOR_EPHEMERALS),
    (SetData("/there", b"", 7), Code.BAD_VERSION),
    (SetData("/none", b"", 0), Code.NO_NODE),
    (Delete("/there", 7), Code.BAD_VERSION),
    (Delete("/none", -1), Code.NO_NODE),
    (Delete("/parent", -1), Code.NOT_EMPTY),
    (Delete("/parent", 7), Code.BAD_VERSION),
    (Check("/there", 7), Code.BAD_VERSION),
    (Check("/none", -1), Code.NO_NODE),
)


def check_a_refused_multi_names_the_operation_and_the_code(target: Target) -> None:
    """The first refused operation and its code; no operation of the multi is applied."""
    caller = target.connect()
    caller.make("/there", "/parent", "/parent/child")
    caller.write(Create("/ephemeral", b"", ephemeral=True))
    for operation, code in _REFUSALS:
        for index in range(3):
            operations: list[Operation] = [
                Check("/there", 0),
                SetData("/there", b"no", 0),
                Check("/there", 1),
            ]
            operations.insert(index, operation)
            outcome = caller.ask(Multi(tuple(operations)), MultiRefused)
            assert outcome == MultiRefused(index, code), f"{operations}: {outcome}"
    stat = caller.stat("/there")
    assert (stat.version, stat.mzxid) == (0, stat.czxid)


def check_a_single_operation_is_refused_in_the_same_way(target: Target) -> None:
    """A Multi of one operation: index 0 and the same code."""
    caller = target.connect()
    caller.make("/there", "/parent", "/parent/child")
    caller.write(Create("/ephemeral", b"", ephemeral=True))
    for operation, code in _REFUSALS:
        assert caller.ask(Multi((operation,)), MultiRefused) == MultiRefused(0, code)


def check_version_minus_one_means_any(target: Target) -> None:
    """For setting, deleting and checking."""
    caller = target.connect()
    caller.make("/a")
    caller.write(SetData("/a", b"1", 0))
    caller.write(Check("/a", -1), SetData("/a", b"2", -1), Delete("/a", -1))
    assert caller.ask(Exists("/a"), ExistsDone).stat is None


def check_a_recreated_znode_starts_at_version_0(target: Target) -> None:
    """Version 0 again, so a data version is no fence; only the czxid differs."""
    caller = target.connect()
    caller.make("/a")
    first = caller.stat("/a")
    caller.write(Delete("/a", 0))
    caller.make("/a")
    second = caller.stat("/a")
    assert first.version == second.version == 0
    assert second.czxid > first.czxid
    caller.write(Check("/a", 0))


def check_sequential_names_count_creations(target: Target) -> None:
    """Ten digits: the number of children ever created there; deletions do not bring a number back."""
    caller = target.connect()
    caller.make("/q", "/q/plain")
    done = caller.write(Create("/q/n-", b"", sequential=True), Create("/q/n-", b"", sequential=True))
    assert done.created == ("/q/n-0000000001", "/q/n-0000000002")
    caller.write(Delete("/q/n-0000000002", 0))
    assert caller.write(Create("/q/", b"", sequential=True)).created == ("/q/0000000003",)


def check_cversion_counts_creations_and_deletions(target: Target) -> None:
    """Inside a multi too; data changes and grandchildren do not count (snapshot of a group, recipes 3)."""
    caller = target.connect()
    caller.make("/ids")
    caller.write(Create("/ids/a", b""), Create("/ids/b", b""), Delete("/ids/a", 0))
    caller.write(SetData("/ids", b"", 0), SetData("/ids/b", b"", 0), Create("/ids/b/c", b""))
    stat = caller.stat("/ids")
    assert (stat.cversion, stat.children_count) == (3, 1)


def check_cversion_counts_what_a_session_end_deletes(target: Target) -> None:
    """Each ephemeral counts, and pzxid is the one transaction's (snapshot of a group, recipes 3)."""
    caller, leaver = target.connect(), target.connect()
    caller.make("/ids")
    leaver.write(Create("/ids/a", b"", ephemeral=True), Create("/ids/b", b"", ephemeral=True))
    caller.catch_up()
    before = caller.stat("/ids")
    gone = caller.submit(Exists("/ids/a", watch=True))
    gone.outcome()
    leaver.store.close()
    gone.fired()
    after = caller.stat("/ids")
    assert (after.cversion, after.children_count) == (before.cversion + 2, 0)
    assert after.pzxid > before.pzxid


def check_pzxid_is_the_last_change_of_children(target: Target) -> None:
    """Creation and deletion of a child move it; data changes of parent and child do not."""
    caller = target.connect()
    caller.make("/p")
    born = caller.stat("/p").pzxid
    caller.make("/p/c")
    created = caller.stat("/p").pzxid
    assert created == caller.stat("/p/c").czxid > born
    caller.write(SetData("/p", b"", 0), SetData("/p/c", b"", 0))
    assert caller.stat("/p").pzxid == created
    caller.write(Delete("/p/c", 1))
    assert caller.stat("/p").pzxid > created


def check_an_empty_parent_can_be_checked_by_recreating_it(target: Target) -> None:
    """Delete and create fail while the parent has children (changes to a whole group, recipes 8)."""
    caller = target.connect()
    caller.make("/ids", "/ids/member")
    guard = (Delete("/ids", -1), Create("/ids", None))
    assert caller.ask(Multi(guard), MultiRefused) == MultiRefused(0, Code.NOT_EMPTY)
    caller.write(Delete("/ids/member", 0))
    before = caller.stat("/ids")
    caller.write(*guard)
    after = caller.stat("/ids")
    assert (after.cversion, before.cversion) == (0, 2)
    assert after.czxid > before.czxid


def check_create_missing_creates_missing_znodes(target: Target) -> None:
    """Null data, parents in the given order; existing znodes are not changed; repeating is no error."""
    caller = target.connect()
    caller.make("/a")
    for _ in range(2):
        caller.ask(CreateMissing(("/a", "/a/b", "/a/b/c")), CreateMissingDone)
    znodes = caller.ask(ReadMany(("/a", "/a/b", "/a/b/c")), ReadManyDone).znodes
    assert [getattr(znode, "data", "none") for znode in znodes] == [b"0", None, None]
    assert caller.stat("/a").cversion == 1


def check_create_missing_without_parent_is_refused(target: Target) -> None:
    """NoNode, with the path that could not be created."""
    caller = target.connect()
    outcome = caller.ask(CreateMissing(("/none/child",)), Refused)
    assert outcome == Refused(Code.NO_NODE, "/none/child")


def check_a_request_too_big_is_not_sent(target: Target) -> None:
    """Above jute.maxbuffer the server would close the connection; the client refuses instead."""
    caller = target.connect()
    outcome = caller.ask(Multi((Create("/big", bytes(_TOO_BIG)),)), NotSent)
    assert outcome.too_big
    several = tuple(Create(f"/big-{n}", bytes(_TOO_BIG // 4)) for n in range(4))
    assert caller.ask(Multi(several), NotSent).too_big
    caller.write(Create("/big", bytes(_BIG)))
    assert caller.stat("/big").data_length == _BIG
    assert len(caller.events) == 1


def check_many_children_come_in_one_answer(target: Target) -> None:
    """One multi of 1,000 creations; the listing is complete."""
    caller = target.connect()
    caller.make("/many")
    caller.write(*(Create(f"/many/{n}", b"") for n in range(1000)))
    listed = caller.ask(ListChildren("/many"), ListChildrenDone)
    assert sorted(listed.children, key=int) == [str(n) for n in range(1000)]
    assert listed.stat is not None
    assert listed.stat.cversion == 1000
