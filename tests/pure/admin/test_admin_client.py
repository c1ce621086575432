"""`zkgroup.Admin` and `zkgroup.AsyncAdmin`: every method, on a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from docs.tools import admin_page
from tests.project import ROOT
from tests.worlds.coordinated_groups import CoordinatedGroups
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup import Admin, AsyncAdmin, TopicPartition
from zkgroup.admin import ChangeResult, GroupChange, GroupRights, PlanRequest
from zkgroup.admin.change import AdminChange
from zkgroup.admin.offsets.planning import Absolute
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, PartlyDoneError, RefusedError
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.consumers import Offset
from zkgroup.zookeeper.settings import ClientSettings, Digest, Secret

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
METHODS = [
    name
    for name, _ in inspect.getmembers(Admin, inspect.isfunction)
    if not name.startswith("_") and name != "close"
]


@pytest.fixture
def cluster(world: MemoryGroups) -> MemoryCluster:
    """Four brokers, a controller of zkgroup, a topic, and an idle group with offsets of it."""
    made = MemoryCluster(world, brokers=4)
    made.ours()
    made.topic("orders", (1, 2), (2, 1), **{"retention.ms": "5"})
    world.server.put("/consumers/idle/ids")
    world.commit("idle", "orders", 0, 10)
    world.commit("idle", "orders", 1, 20)
    CoordinatedGroups(world).mark("left")
    return made


@pytest.fixture
def admin(world: MemoryGroups, tmp_path: Path) -> Iterator[Admin]:
    """Over an open client, as the user olga."""
    client = world.server.client("admin", auth=Digest("olga", Secret("canary")))
    client.address = "zk:2181"
    with Admin(client=client, undo_folder=tmp_path / "undo", user="olga", clock=world.clock) as made:
        yield made
    client.close()


def _offsets(admin: Admin, group: str = "idle") -> dict[TopicPartition, int | None]:
    return {row.topic_partition: row.offset for row in admin.list_offsets(group)}


READS: dict[str, Callable[[Admin], object]] = {
    "list_groups": lambda admin: [one.group for one in admin.list_groups()] == ["idle", "left"],
    "describe_group": lambda admin: admin.describe_group("idle").group == "idle",
    "check_groups": lambda admin: [one.ok for one in admin.check_groups(["idle", "none"])] == [True, False],
    "group_history": lambda admin: len(admin.group_history("idle")) == 0,
    "verify_group": lambda admin: admin.verify_group("idle").group == "idle",
    "preview_group": lambda admin: (
        admin.preview_group("idle", GroupChange(add=(("a", {"orders": 1}),))).assignor == "range"
    ),
    "describe_coordinator": lambda admin: admin.describe_coordinator("left").groups[0].marked,
    "list_offsets": lambda admin: _offsets(admin) == {ORDERS_0: 10, ORDERS_1: 20},
    "export_offsets": lambda admin: (
        admin.export_offsets("idle")
        == "/consumers/idle/offsets/orders/0:10\n/consumers/idle/offsets/orders/1:20\n"
    ),
    "list_topics": lambda admin: (
        [(one.topic, one.partitions) for one in admin.list_topics()] == [("orders", 2)]
    ),
    "describe_topics": lambda admin: [one.topic for one in admin.describe_topics("orders")] == ["orders"],
    "describe_configs": lambda admin: (
        [dict(one.configs) for one in admin.describe_configs("topics")] == [{"retention.ms": "5"}]
    ),
    "list_users": lambda admin: admin.list_users().rows == (),
    "list_acls": lambda admin: admin.list_acls().rows == (),
    "propose_reassignment": lambda admin: len(admin.propose_reassignment(["orders"], [3, 4]).after) == 2,
    "verify_reassignment": lambda admin: (
        [one.status for one in admin.verify_reassignment({ORDERS_0: [1, 2]})] == ["done"]
    ),
    "list_reassignments": lambda admin: admin.list_reassignments().rows == (),
    "plan_decommission": lambda admin: (
        {tp: one for one in admin.plan_decommission([1]).plan.changes for tp in [one.topic_partition]}.keys()
        == {ORDERS_0, ORDERS_1}
    ),
    "plan_replace": lambda admin: (
        [one.after for one in admin.plan_replace({1: 4}).plan.changes] == [(4, 2), (2, 4)]
    ),
    "plan_replication_factor": lambda admin: (
        {len(one.after) for one in admin.plan_replication_factor(3).plan.changes} == {3}
    ),
    "plan_balance": lambda admin: (
        len(admin.plan_balance(request=PlanRequest(topics=["orders"])).plan.changes) > 0
    ),
    "list_plans": lambda admin: admin.list_plans().rows == (),
    "cluster_status": lambda admin: admin.cluster_status().controller == 1,
    "cluster_problems": lambda admin: isinstance(len(admin.cluster_problems()), int),
    "list_brokers": lambda admin: [one.broker for one in admin.list_brokers()] == [1, 2, 3, 4],
    "describe_broker": lambda admin: admin.describe_broker(2).summary.broker == 2,
    "describe_controller": lambda admin: admin.describe_controller().controller == 1,
    "controller_history": lambda admin: admin.controller_history().rows == (),
    "list_undos": lambda admin: admin.list_undos() == (),
    "get_znode": lambda admin: admin.get_znode("/consumers/idle/offsets/orders/0").data == b"10",
    "list_znodes": lambda admin: list(admin.list_znodes("/consumers/idle")) == ["ids", "offsets"],
    "read_znode_tree": lambda admin: (
        [one.path for one in admin.read_znode_tree("/consumers", depth=1)]
        == ["/consumers", "/consumers/idle", "/consumers/left"]
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_returns_what_is_there(
    admin: Admin, world: MemoryGroups, cluster: MemoryCluster, name: str
) -> None:
    """Each read by one call; none of them writes."""
    before = world.server.tree()

    assert READS[name](admin)

    assert world.server.tree() == before


def _running(admin: Admin, cluster: MemoryCluster) -> None:
    """A move under way, as its controller began it."""
    admin.reassign({ORDERS_0: [3, 2]})


def _unreadable(admin: Admin, cluster: MemoryCluster) -> None:
    cluster.world.server.put(Reassignment.path(), b"garbage{")


def _throttled(admin: Admin, cluster: MemoryCluster) -> None:
    admin.reassign({ORDERS_0: [3, 2]}, throttle=1000)
    cluster.finish()


def _saved(admin: Admin, cluster: MemoryCluster) -> None:
    admin.save_plan(admin.plan_replace({1: 4}))


def _started(admin: Admin, cluster: MemoryCluster) -> None:
    admin.start_plan(admin.plan_replace({1: 4}))


def _recorded(admin: Admin, cluster: MemoryCluster) -> None:
    admin.set_offsets("idle", {ORDERS_0: 5})


def _added_user(admin: Admin, cluster: MemoryCluster) -> None:
    admin.add_user("alice", "secret")


def _added_acl(admin: Admin, cluster: MemoryCluster) -> None:
    admin.add_acls("User:alice", "read", topics=["orders"])


def _member(admin: Admin, cluster: MemoryCluster) -> None:
    cluster.world.member("live", "a", {"orders": 1})


def _owner(admin: Admin, cluster: MemoryCluster) -> None:
    cluster.world.member("live", "a", {"orders": 1}, {"zkgroup": "1", "features": "freeze"})
    cluster.world.own_as_planned("live")


def _frozen(admin: Admin, cluster: MemoryCluster) -> None:
    _owner(admin, cluster)
    admin.freeze_group("live", reason="deploy", for_ms=60_000)


def _old(admin: Admin, cluster: MemoryCluster) -> None:
    cluster.world.pass_time(60)


def _restored(admin: Admin, cluster: MemoryCluster) -> None:
    cluster.world.server.put("/consumers/live/ids/live_a", b"{}")


def _second_leads(admin: Admin, cluster: MemoryCluster) -> None:
    cluster.state("orders", 0, leader=2, isr=(1, 2))


def _leaderless(admin: Admin, cluster: MemoryCluster) -> None:
    cluster.state("orders", 0, leader=-1, isr=(9,))


def _lost(admin: Admin, cluster: MemoryCluster) -> None:
    cluster.world.server.put("/zkgroup/replicas_left/9/orders-x", b"{}")


def _closed(admin: Admin, cluster: MemoryCluster) -> None:
    admin.secure_znodes()


def _nothing(admin: Admin, cluster: MemoryCluster) -> None:
    """Everything it needs is there."""


Given = Callable[[Admin, MemoryCluster], None]
Call = Callable[..., Any]

CHANGES: dict[str, tuple[Given, Call]] = {
    "release_group": (_nothing, lambda admin, **how: admin.release_group("left", **how)),
    "freeze_group": (
        _owner,
        lambda admin, **how: admin.freeze_group("live", reason="deploy", for_ms=60_000, **how),
    ),
    "unfreeze_group": (_frozen, lambda admin, **how: admin.unfreeze_group("live", **how)),
    "nudge_group": (_member, lambda admin, **how: admin.nudge_group("live", **how)),
    "delete_group": (_nothing, lambda admin, **how: admin.delete_group("idle", **how)),
    "prune_groups": (_old, lambda admin, **how: admin.prune_groups(60, ["idle"], **how)[0]),
    "copy_group": (_nothing, lambda admin, **how: admin.copy_group("idle", "other", **how)),
    "rename_group": (_nothing, lambda admin, **how: admin.rename_group("idle", "other", **how)),
    "set_offsets": (_nothing, lambda admin, **how: admin.set_offsets("idle", {ORDERS_0: 5}, **how)),
    "reset_offsets": (_nothing, lambda admin, **how: admin.reset_offsets("idle", "-5", ["orders"], **how)),
    "delete_offsets": (_nothing, lambda admin, **how: admin.delete_offsets("idle", [ORDERS_1], **how)),
    "import_offsets": (
        _nothing,
        lambda admin, **how: admin.import_offsets("/consumers/idle/offsets/orders/0:3\n", **how)[0],
    ),
    "create_topic": (
        _nothing,
        lambda admin, **how: admin.create_topic("payments", 2, configs={"retention.ms": "1"}, **how),
    ),
    "alter_topic": (_nothing, lambda admin, **how: admin.alter_topic("orders", partitions=4, **how)),
    "delete_topic": (_nothing, lambda admin, **how: admin.delete_topic("orders", **how)),
    "alter_config": (
        _nothing,
        lambda admin, **how: admin.alter_config("topics", "orders", set_configs={"retention.ms": "9"}, **how),
    ),
    "add_user": (_nothing, lambda admin, **how: admin.add_user("alice", "secret", **how)),
    "delete_user": (_added_user, lambda admin, **how: admin.delete_user("alice", **how)),
    "add_acls": (
        _nothing,
        lambda admin, **how: admin.add_acls("User:alice", "read", topics=["orders"], **how),
    ),
    "remove_acls": (_added_acl, lambda admin, **how: admin.remove_acls(topics=["orders"], **how)),
    "elect_preferred": (_second_leads, lambda admin, **how: admin.elect_preferred(["orders"], **how)),
    "elect_unclean": (_leaderless, lambda admin, **how: admin.elect_unclean([ORDERS_0], **how)),
    "reassign": (_nothing, lambda admin, **how: admin.reassign({ORDERS_0: [3, 2]}, **how)),
    "cancel_reassignments": (_running, lambda admin, **how: admin.cancel_reassignments(["orders"], **how)),
    "remove_unreadable_reassignment": (
        _unreadable,
        lambda admin, **how: admin.remove_unreadable_reassignment(**how),
    ),
    "clear_throttles": (_throttled, lambda admin, **how: admin.clear_throttles(**how)),
    "save_plan": (_nothing, lambda admin, **how: admin.save_plan(admin.plan_replace({1: 4}), **how)),
    "start_plan": (_nothing, lambda admin, **how: admin.start_plan(admin.plan_replace({1: 4}), **how)),
    "resume_plan": (_saved, lambda admin, **how: admin.resume_plan(admin.list_plans().rows[0].plan, **how)),
    "pause_plan": (_started, lambda admin, **how: admin.pause_plan(admin.list_plans().rows[0].plan, **how)),
    "cancel_plan": (_started, lambda admin, **how: admin.cancel_plan(admin.list_plans().rows[0].plan, **how)),
    "resign_controller": (_nothing, lambda admin, **how: admin.resign_controller(**how)),
    "remove_persistent_znodes": (_restored, lambda admin, **how: admin.remove_persistent_znodes(**how)),
    "set_group_rights": (
        _nothing,
        lambda admin, **how: admin.set_group_rights("idle", GroupRights(watchers=("world:anyone",)), **how),
    ),
    "secure_znodes": (_nothing, lambda admin, **how: admin.secure_znodes(**how)),
    "open_znodes": (_closed, lambda admin, **how: admin.open_znodes(**how)),
    "undo": (_recorded, lambda admin, **how: admin.undo(**how)),
}
UNDOABLE = {
    "delete_group",
    "prune_groups",
    "copy_group",
    "rename_group",
    "set_offsets",
    "reset_offsets",
    "delete_offsets",
    "import_offsets",
    "create_topic",
    "alter_config",
    "add_user",
    "delete_user",
    "add_acls",
    "remove_acls",
    "reassign",
    "cancel_reassignments",
    "remove_unreadable_reassignment",
    "save_plan",
    "start_plan",
    "pause_plan",
    "remove_persistent_znodes",
    "set_group_rights",
    "freeze_group",
    "secure_znodes",
    "open_znodes",
    "undo",
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_previewed_and_made(
    admin: Admin, world: MemoryGroups, cluster: MemoryCluster, name: str
) -> None:
    """`dry_run` writes nothing; the call does, and has an undo or says why there is none."""
    given, call = CHANGES[name]
    given(admin, cluster)
    world.pass_time(1)
    before, records = world.server.tree(), len(admin.list_undos())

    preview: ChangeResult[Any, Any, Any] = call(admin, dry_run=True)
    assert (preview.executed, preview.undo_id) == (False, None)
    assert (world.server.tree(), len(admin.list_undos())) == (before, records)
    done: ChangeResult[Any, Any, Any] = call(admin)

    assert done.executed
    assert world.server.tree() != before
    if name in UNDOABLE:
        assert done.undo_hint is not None
        assert done.no_undo is None
        assert admin.list_undos()[0].undo_id == done.undo_id
    else:
        assert done.no_undo
        assert done.undo_hint is None


def test_a_saved_plan_is_undone_until_it_is_resumed(
    admin: Admin, world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """The undo cancels it, and is refused once the plan was started: it is no longer as saved."""
    saved = admin.save_plan(admin.plan_replace({1: 4}))
    assert saved.written is not None
    undone = admin.undo(saved.undo_id)
    world.pass_time(1)
    other = admin.save_plan(admin.plan_replace({1: 4}))
    assert other.written is not None
    admin.resume_plan(other.written.plan)

    assert saved.written.plan == saved.undo_id
    assert (undone.written.plan, undone.written.stored.state) == (saved.undo_id, "cancelled")
    with pytest.raises(ConflictError, match="has changed since"):
        admin.undo(other.undo_id)
    assert [one.stored.state for one in admin.list_plans()] == ["cancelled", "running"]


def test_a_throttle_stays_while_something_moves(
    admin: Admin, world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """With the count of the moves; nothing is written."""
    admin.reassign({ORDERS_0: [3, 2]}, throttle=1000)
    before = world.server.tree()

    with pytest.raises(
        RefusedError, match=r"throttle of brokers 1, 2, 3 and topic orders stays: 1 partition moves"
    ):
        admin.clear_throttles()

    assert world.server.tree() == before


OF_OFFSETS = ("set_offsets", "reset_offsets", "delete_offsets", "import_offsets")


@pytest.mark.parametrize(
    "name", ["delete_group", "prune_groups", "copy_group", "rename_group", *OF_OFFSETS, "undo"]
)
def test_offsets_are_undone(admin: Admin, world: MemoryGroups, cluster: MemoryCluster, name: str) -> None:
    """The last change, by the record that its call has saved."""
    given, call = CHANGES[name]
    given(admin, cluster)
    before = _offsets(admin)

    world.pass_time(1)
    call(admin)
    world.pass_time(1)
    result = admin.undo()

    assert result.executed
    assert _offsets(admin) == before


def test_other_changes_are_undone(admin: Admin, world: MemoryGroups, cluster: MemoryCluster) -> None:
    """A setting, a reassignment and a paused plan, each by its id."""
    changed = admin.alter_config("topics", "orders", set_configs={"retention.ms": "9"})
    admin.undo(changed.undo_id)
    assert [dict(one.configs) for one in admin.describe_configs("topics", "orders")] == [
        {"retention.ms": "5"}
    ]

    moved = admin.reassign({ORDERS_0: [3, 2]})
    cluster.finish()
    admin.undo(moved.undo_id)
    assert cluster.requested() == {ORDERS_0: (1, 2)}
    cluster.finish()

    kept = admin.start_plan(admin.plan_replace({1: 4}))
    assert kept.written is not None
    paused = admin.pause_plan(kept.written.plan)
    assert paused.written is not None
    assert paused.written.stored.state == "paused"
    resumed = admin.undo(paused.undo_id)
    assert resumed.written.stored.state == "running"


def test_a_created_topic_is_undone_by_its_deletion(admin: Admin, cluster: MemoryCluster) -> None:
    """The controller is asked to delete it, unless something has changed it."""
    made = admin.create_topic("payments", 2)
    assert made.written is not None
    admin.alter_config("topics", "payments", set_configs={"retention.ms": "1"})

    with pytest.raises(Exception, match="has changed since"):
        admin.undo(made.undo_id)
    admin.undo(made.undo_id, force=True)

    assert [one.topic for one in admin.list_topics() if one.marked_for_deletion] == ["payments"]


def test_a_broker_that_is_registered_is_not_forgotten(admin: Admin, cluster: MemoryCluster) -> None:
    """`forget_broker` is for one that never comes back."""
    with pytest.raises(RefusedError):
        admin.forget_broker(1)


def test_what_servers_say_needs_their_addresses(world: MemoryGroups) -> None:
    """Of an open client without an address no server is known."""
    admin = Admin(client=world.server.client("nameless"), clock=world.clock)

    for ask in (admin.cluster_usage, lambda: admin.describe_session(0x1A1FB66FA0F0008)):
        with pytest.raises(ConfigError, match="the servers of an open client"):
            ask()


def test_a_chroot_needs_an_address_that_names_one(admin: Admin) -> None:
    """An open client is below its chroot already; no connection is opened to find that out."""
    with pytest.raises(ConfigError, match="open client"):
        admin.create_chroot()
    plain = Admin("127.0.0.1:1")
    with closing(plain), pytest.raises(ConfigError, match="HOST:PORT/CHROOT"):
        plain.create_chroot()


def test_every_method_is_tried_here() -> None:
    """A new method of `Admin` gets its line in the tables above."""
    assert set(METHODS) == {
        *READS,
        *CHANGES,
        "forget_broker",
        "cluster_usage",
        "describe_session",
        "create_chroot",
    }


def test_targets_of_a_reset(admin: Admin, cluster: MemoryCluster) -> None:
    """A number, a text, a target of the library; anything else is refused."""
    for target, offset in ((3, 3), ("+2", 12), (Absolute(7), 7)):
        result = admin.reset_offsets("idle", target, [ORDERS_0], dry_run=True)
        assert [change.after for change in result.plan.changes] == [offset]
    with pytest.raises(ConfigError, match="expected earliest"):
        admin.reset_offsets("idle", "yesterday")
    for tp, leader in (
        (ORDERS_0, "no broker leads it"),
        (ORDERS_1, "its leader, broker 9, is not registered"),
    ):
        cluster.state(tp.topic, tp.partition, -1 if tp == ORDERS_0 else 9, (1, 2))
        with pytest.raises(NotFoundError, match=f"the offset of {tp} is not known.*: {leader}"):
            admin.reset_offsets("idle", datetime(2026, 1, 1, tzinfo=UTC), [tp])
    with pytest.raises(ConfigError, match="expected a list"):
        admin.delete_offsets("idle", "orders")


def test_a_group_with_members_is_refused(admin: Admin, world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Nothing is written, nothing recorded."""
    world.member("idle", "a", {"orders": 1})

    with pytest.raises(RefusedError, match="idle_a"):
        admin.set_offsets("idle", {ORDERS_0: 5})

    assert admin.list_undos() == ()


def test_an_import_that_stops_names_what_is_written(
    admin: Admin, world: MemoryGroups, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first group is written; the second gets a member between its plan and its write."""
    world.server.put("/consumers/other/ids")
    text = "/consumers/idle/offsets/orders/0:3\n/consumers/other/offsets/orders/0:3\n"
    apply = AdminChange.apply

    def apply_and_join(change: Any, recorder: Any) -> Any:
        done = apply(change, recorder)
        world.member("other", "late", {"orders": 1})
        return done

    monkeypatch.setattr(AdminChange, "apply", apply_and_join)
    with pytest.raises(PartlyDoneError, match="offsets set idle written, then offsets set other"):
        admin.import_offsets(text)


def test_an_offset_that_cannot_be_read_stops_an_export(
    admin: Admin, world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Listed as unreadable, and never left out of an export without a word."""
    world.commit("idle", "orders", 1, b"many")

    listed = admin.list_offsets("idle")
    assert len(listed) == 2
    assert Offset.path("idle", ORDERS_1) in listed.unreadable[0]
    with pytest.raises(Exception, match="many"):
        admin.export_offsets("idle")


def test_an_open_client_stays_open(world: MemoryGroups) -> None:
    """Its owner closes it; it has its own settings."""
    client = world.server.client("mine")
    with Admin(client=client, clock=world.clock) as admin:
        assert admin.list_groups().rows == ()
    with Admin(client=client, clock=world.clock) as admin:
        assert admin.list_groups().rows == ()
    with pytest.raises(ConfigError, match="settings"):
        Admin(client=client, connection=ClientSettings())


PLAIN = ("group", "topic", "topics", "broker", "dry_run")
"""Arguments that are what they are called; `Admin` itself says what a dry run is."""


def test_every_argument_is_in_the_docstring() -> None:
    """Each whose name does not say all has its line below `Args:`; no line is about one that is gone."""
    for name in ("__init__", *METHODS):
        method = getattr(Admin, name)
        _, _, section = (inspect.getdoc(method) or "").partition("\nArgs:\n")
        lines = section.partition("\n\n")[0].split("\n")

        described = [found[1] for line in lines if (found := re.match(r"    (\w+): \S", line))]
        arguments = list(inspect.signature(method).parameters)[1:]
        assert described == [one for one in arguments if one in described or one not in PLAIN], name


def test_every_field_of_a_type_is_documented() -> None:
    """Each field, property and value in the reference of `Admin` has its meaning beside it."""
    rows = [(name, row) for name in admin_page.types() for row in admin_page.members(name)]

    assert len(rows) > 100
    assert [(name, row[0]) for name, row in rows if not row[-1]] == []


def test_the_coroutines_are_the_methods() -> None:
    """Same names, same arguments, same docstrings: nothing is written twice."""
    for name in METHODS:
        attribute = inspect.getattr_static(AsyncAdmin, name)
        assert attribute.__wrapped__ is getattr(Admin, name)
        assert attribute.__doc__


def test_a_call_runs_off_the_loop(world: MemoryGroups, cluster: MemoryCluster, tmp_path: Path) -> None:
    """A change and its undo, on threads of the object's own; the loop's thread never waits."""
    client = world.server.client("aio")
    threads: set[str] = set()

    def log_ends(partitions: Any) -> dict[TopicPartition, int]:
        threads.add(threading.current_thread().name)
        return {ORDERS_0: 11, ORDERS_1: 22}

    async def main() -> None:
        client.address = "zk:2181"
        async with AsyncAdmin(client=client, undo_folder=tmp_path, clock=world.clock) as admin:
            assert admin.address == "zk:2181"
            done = await admin.set_offsets("idle", {ORDERS_0: 5})
            rows, groups = await asyncio.gather(admin.list_offsets("idle", log_ends), admin.list_groups())
            assert [(row.offset, row.lag) for row in rows] == [(5, 6), (20, 2)]
            assert [one.group for one in groups] == ["idle", "left"]
            await admin.undo(done.undo_id)
            with pytest.raises(NotFoundError):
                await admin.describe_group("nowhere")
        assert threading.current_thread().name not in threads

    asyncio.run(main())

    assert world.offset("idle", "orders", 0) == "10"
    assert all(name.startswith("zkgroup-admin") for name in threads)
    client.close()


def test_the_page_names_every_method() -> None:
    """docs/admin.md has all of them."""
    text = (ROOT / "docs" / "admin.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text)) | set(re.findall(r"admin\.(\w+)\(", text))

    assert set(METHODS) <= named
