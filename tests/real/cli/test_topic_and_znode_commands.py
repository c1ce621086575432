"""`zkgroup topic`, `znode`, `status`, `doctor` against a real server."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.real.cli.server_cluster import ServerCluster
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.admin.persistent import plan_removal, remove
from zkgroup.errors import ConflictError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, broker_ids_path, brokers_path
from zkgroup.znodes.consumers import Owner
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.zookeeper import ClientSettings, Digest, Secret, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.settings import CREATOR_ALL_ACL


def _broker(groups: ServerGroups, number: int, **extensions: object) -> None:
    groups.zk.create_missing(brokers_path(), broker_ids_path())
    data = BrokerRegistration("h", 9092, timestamp_ms=1, extensions=extensions).encode()
    groups.zk.multi(Create(BrokerRegistration.path(number), data, ephemeral=True))


def test_create_acts_at_once_and_dry_run_does_not(shell: Shell) -> None:
    """Adding needs no --execute; the note about replicas is on stderr."""
    shown = shell.json("topic", "create", "orders", "--partitions", "2", "--dry-run")
    assert (shown["created"], shell.json("topic", "list")["topics"]) == (False, [])

    ran = shell.run("topic", "create", "orders", "--partitions", "2", "--config", "retention.ms=5")

    assert (ran.code, ran.out) == (0, "created orders with 2 partitions\n")
    assert "[0]" in ran.err
    (topic,) = shell.json("topic", "describe", "orders")["topics"]
    assert topic["configs"] == {"retention.ms": "5"}
    assert topic["partitions"][0] == {
        "partition": 0,
        "replicas": [0],
        "leader": None,
        "leader_epoch": None,
        "isr": None,
        "controller_epoch": None,
        "adding": [],
        "removing": [],
    }


def test_the_undo_of_a_creation_deletes_that_topic_and_no_other(shell: Shell) -> None:
    """Not one that was changed since, nor one created again that is equal.

    A creation that is refused keeps no record.
    """
    words = ("topic", "create", "orders", "--partitions", "2")
    made = shell.run(*words)
    again = shell.run(*words)
    (file,) = shell.undo_files
    assert f"to undo: zkgroup undo {file.stem} --execute\n" in made.err
    assert (again.code, "to undo" in again.err) == (6, False)

    shown = shell.run("undo", file.stem)
    assert (shown.code, shown.out) == (0, "would delete topic orders: 3 znodes\n")
    shell.run("topic", "delete", "orders", "--execute")
    undo_id = shell.json(*words)["undo"]
    other = shell.run("undo", file.stem, "--execute")
    shell.run("topic", "alter", "orders", "--partitions", "3", "--execute")
    changed = shell.run("undo", undo_id, "--execute")
    assert (other.code, changed.code) == (6, 6)
    assert f"/brokers/topics/orders: has changed since {undo_id}" in changed.err

    undone = shell.run("undo", undo_id, "--execute", "--force")
    assert (undone.code, shell.json("topic", "list")["topics"]) == (0, [])


def test_a_topic_is_created_where_no_undo_record_can_be_written(shell: Shell) -> None:
    """A home that cannot be written: the undo command needs no record, and is printed."""
    (shell.home / "state").write_text("")

    ran = shell.run("topic", "create", "orders", "--partitions", "2")
    document = shell.json("topic", "create", "clicks", "--partitions", "2")

    assert (ran.code, document["undo"]) == (0, None)
    assert "note: no record of this is kept (" in ran.err
    assert "to undo: zkgroup topic delete orders --execute\n" in ran.err
    assert len(shell.json("topic", "list")["topics"]) == 2


def test_an_existing_topic_is_a_conflict_unless_it_may_exist(shell: Shell) -> None:
    """Exit 6 with the path; --if-not-exists makes it 0 and changes nothing."""
    shell.run("topic", "create", "orders", "--partitions", "2")

    again = shell.run("topic", "create", "orders", "--partitions", "3")
    dry = shell.run("topic", "create", "orders", "--partitions", "3", "--dry-run")
    allowed = shell.run("topic", "create", "orders", "--partitions", "3", "--if-not-exists")

    assert (again.code, dry.code, allowed.code) == (6, 6, 0)
    assert "/brokers/topics/orders: topic 'orders' exists already" in again.err
    assert shell.json("topic", "list")["topics"][0]["partitions"] == 2


def test_replicas_go_to_live_brokers(shell: Shell, groups: ServerGroups) -> None:
    """Explicit lists are kept; a topic on controller-only brokers is refused."""
    _broker(groups, 9, zkgroup={"role": "controller"})
    refused = shell.run("topic", "create", "a", "--partitions", "1")
    _broker(groups, 1)
    _broker(groups, 2)
    spread = shell.json("topic", "create", "b", "--partitions", "2", "--replication-factor", "2")
    explicit = shell.json("topic", "create", "c", "--replica-assignment", "2:1,1:2")

    assert refused.code == 2
    assert [row["replicas"] for row in spread["partitions"]] == [[2, 1], [1, 2]]
    assert [row["replicas"] for row in explicit["partitions"]] == [[2, 1], [1, 2]]


def test_describe_filters_partitions(shell: Shell, groups: ServerGroups) -> None:
    """Kafka's two filters; topics without such a partition are left out, and those without hosts."""
    shell.run("topic", "create", "orders", "--replica-assignment", "1,2")
    shell.run("topic", "create", "work", "--partitions", "2")

    unavailable = shell.json("topic", "describe", "--unavailable-partitions")
    short = shell.json("topic", "describe", "--under-replicated-partitions")
    rows = shell.run("topic", "describe", "--format", "csv")

    assert [len(topic["partitions"]) for topic in unavailable["topics"]] == [2]
    assert short["topics"] == []
    assert rows.lines[1].startswith("orders,0,[1],")


def test_delete_removes_znodes_and_undo_brings_them_back(shell: Shell) -> None:
    """Without a controller: shown, executed, undone."""
    shell.run("topic", "create", "orders", "--partitions", "2")

    shown = shell.run("topic", "delete", "orders")
    assert (shown.code, shown.out) == (0, "would delete topic orders: 3 znodes\n")
    done = shell.json("topic", "delete", "orders", "--execute")
    assert (done["executed"], done["controller"], shell.json("topic", "list")["topics"]) == (True, None, [])
    undone = shell.run("offsets", "undo", done["undo"], "--execute")

    assert (undone.code, undone.lines[0][:24]) == (0, "created again 3 znodes: ")
    assert shell.json("topic", "list")["topics"][0]["partitions"] == 2


def test_the_undo_of_a_deletion_is_one_document(shell: Shell) -> None:
    """Shown, executed, and with nothing left to create: the znodes by their paths each time."""
    shell.run("topic", "create", "orders", "--partitions", "2")
    undo_id = shell.json("topic", "delete", "orders", "--execute")["undo"]
    paths = ["/brokers/topics/orders", "/config/topics/orders", "/zkgroup/unhosted/orders"]

    shown = shell.json("offsets", "undo", undo_id)
    done = shell.json("offsets", "undo", undo_id, "--execute")
    again = shell.json("offsets", "undo", undo_id, "--execute")

    assert {one["undone"] for one in (shown, done, again)} == {undo_id}
    assert (shown["executed"], shown["znodes"]) == (False, paths)
    assert (done["executed"], done["znodes"]) == (True, paths)
    assert (again["executed"], again["znodes"]) == (False, [])


def test_the_undo_of_a_leftover_deletion_cancels_no_moves(shell: Shell, groups: ServerGroups) -> None:
    """Past bug: it said "to undo", and that ran `reassign cancel` on whatever was being moved."""
    shell.run("topic", "create", "orders", "--replica-assignment", "1,1")
    groups.zk.multi(Delete("/brokers/topics/orders", 0))
    undo_id = shell.json("topic", "delete", "orders", "--execute")["undo"]

    shown = shell.run("undo", undo_id)
    done = shell.run("undo", undo_id, "--execute")
    again = shell.run("undo", "--execute")

    assert "note: this cannot be undone: " in shown.err
    assert (done.code, done.out) == (0, "created again 1 znode: /config/topics/orders\n")
    assert "to undo" not in done.err
    assert (again.code, "cannot be undone" in again.err, "this runs" in again.err) == (2, True, False)


def test_what_a_deletion_left_is_in_the_way_until_it_is_deleted(shell: Shell, groups: ServerGroups) -> None:
    """Exit 6 with path, expected, found and the next command, which works, also beside a controller."""
    shell.run("topic", "create", "orders", "--replica-assignment", "1,1")
    groups.zk.multi(Delete("/brokers/topics/orders", 0))
    groups.zk.multi(
        Create(ControllerRegistration.path(), ControllerRegistration(7, 1).encode(), ephemeral=True)
    )

    refused = shell.run("topic", "create", "orders", "--partitions", "2")
    assert refused.code == 6
    assert "/config/topics/orders: expected none, found" in refused.err
    assert "`zkgroup topic delete orders --execute`" in refused.err
    shown = shell.run("topic", "delete", "orders")
    assert (shown.code, shown.out) == (0, "would delete what is left of topic orders: 1 znode\n")
    assert shell.run("topic", "delete", "orders", "--execute").code == 0

    assert shell.run("topic", "create", "orders", "--partitions", "2").code == 0
    assert shell.run("topic", "delete", "nothing").code == 5


def test_delete_asks_a_living_controller(shell: Shell, groups: ServerGroups) -> None:
    """The request znode is made; that it cannot be undone is printed before."""
    shell.run("topic", "create", "orders", "--partitions", "1")
    groups.zk.multi(
        Create(ControllerRegistration.path(), ControllerRegistration(7, 1).encode(), ephemeral=True)
    )

    shown = shell.run("topic", "delete", "orders")
    ran = shell.run("topic", "delete", "orders", "--execute")

    assert shown.err.splitlines()[-2:] == [
        "note: this cannot be undone: brokers drop the records",
        "nothing was changed: this is what --execute would do",
    ]
    assert (ran.code, ran.out) == (0, "asked controller 7 to delete topic orders\n")
    assert "cannot be undone" in ran.err
    assert "to undo" not in ran.err
    undone = shell.run("undo", "--execute")
    assert undone.code == 2
    assert "topic create orders --replica-assignment 0` creates it again, empty" in undone.err
    (file,) = [file for file in shell.undo_files if "topic delete orders --execute" in file.read_text()]
    assert ran.err.endswith(f"the znodes as they were are in {file}\n")
    assert groups.zk.read("/admin/delete_topics/orders").data == b""
    assert groups.exists("/brokers/topics/orders")


def test_describe_marks_a_topic_that_is_being_deleted(shell: Shell, groups: ServerGroups) -> None:
    """Since when, and which broker it waits for; `null` for the others (K20)."""
    shell.run("topic", "create", "orders", "--replica-assignment", "7:8")
    shell.run("topic", "create", "clicks", "--replica-assignment", "7:8")
    _broker(groups, 7)
    groups.zk.multi(
        Create(ControllerRegistration.path(), ControllerRegistration(7, 1).encode(), ephemeral=True)
    )
    shell.run("topic", "delete", "orders", "--execute")

    clicks, orders = shell.json("topic", "describe")["topics"]
    read = shell.run("topic", "describe", "orders").lines[1]

    assert clicks["deletion"] is None
    assert orders["deletion"]["detail"] == "waits for broker 8 to be back"
    asked_at = orders["deletion"]["asked_at"]
    assert read == f"being deleted, asked at {asked_at}; waits for broker 8 to be back"


def test_describe_says_that_a_topic_is_not_compacted(shell: Shell, groups: ServerGroups) -> None:
    """Where brokers of zkgroup host topics; Kafka's compact. An empty policy can be set, too."""
    made = ("topic", "create", "orders", "--partitions", "1", "--set", "cleanup.policy=compact")
    _broker(groups, 1)
    note = "cleanup.policy=compact: brokers of zkgroup do not compact, they keep every record"

    assert note not in shell.run(*made).err + shell.run("topic", "describe", "orders").out
    _broker(groups, 2, zkgroup={"role": "data"})
    assert shell.run("topic", "describe", "orders").lines[1] == note
    assert f"note: {note}" in shell.run(*made[:2], "clicks", *made[3:]).err
    empty = shell.run("topic", "alter", "orders", "--set", "cleanup.policy=", "--execute")
    assert (empty.code, note in shell.run("topic", "describe", "orders").out) == (0, False)


def test_delete_continues_without_a_lost_broker(shell: Shell, groups: ServerGroups) -> None:
    """Previewed with what remains, asked for with --execute, then shown; a live broker is refused (K20)."""
    shell.run("topic", "create", "orders", "--replica-assignment", "7:8")
    _broker(groups, 7)
    groups.zk.multi(Create(ControllerRegistration.path(), b"", ephemeral=True))
    groups.zk.multi(SetData(ControllerRegistration.path(), ControllerRegistration(7, 1).encode(), 0))
    asked = ("topic", "delete", "orders", "--without-broker", "8")

    waits = shell.run("topic", "delete", "orders", "--execute")
    shown = shell.run(*asked)
    before = groups.zk.read(TopicDeletion.path("orders")).data
    done = shell.json(*asked, "--execute")
    described = shell.json("topic", "describe", "orders")["topics"][0]["deletion"]
    refused = shell.run("topic", "delete", "orders", "--without-broker", "7", "--execute")

    assert "name it: --without-broker" in waits.err
    assert (shown.code, shown.out) == (0, "would ask controller 7 to delete topic orders without broker 8\n")
    assert "its replicas of orders stay on its disk" in shown.err
    assert before == b""
    assert (done["executed"], done["without_brokers"]) == (True, [8])
    assert groups.zk.read(TopicDeletion.path("orders")).data == TopicDeletion((8,)).encode()
    assert described["without_brokers"] == [8]
    assert ", without broker 8" in shell.run("topic", "describe", "orders").lines[1]
    assert refused.code == 2
    assert "/brokers/ids/7: expected a broker that is lost, found it registered" in refused.err


def test_delete_of_a_topic_in_use_is_refused(shell: Shell, groups: ServerGroups) -> None:
    """Exit 2, with the client that uses it."""
    groups.topic("orders", 1)
    groups.living("billing", "orders", 1, ("a",))

    ran = shell.run("topic", "delete", "orders", "--execute")

    assert ran.code == 2
    assert "billing_a of billing" in ran.err
    assert groups.exists("/brokers/topics/orders")


def test_an_unreadable_topic_hides_no_other(shell: Shell, groups: ServerGroups) -> None:
    """All topics are described but those; exit 4 names the znode, or 1 where nothing else was asked for."""
    groups.topic("orders", 1)
    groups.zk.multi(Create("/brokers/topics/bad", b"not json"), Create("/brokers/topics/a name", b"{}"))

    every = shell.run("topic", "describe", "--format", "json")
    one = shell.run("topic", "describe", "bad")

    assert [topic["topic"] for topic in every.document["topics"]] == ["orders"]
    assert (every.code, one.code) == (4, 1)
    assert "/brokers/topics/a name" in every.err
    assert "/brokers/topics/bad" in every.err
    assert "/brokers/topics/bad" in one.err


def test_missing_topics_are_exit_5(shell: Shell) -> None:
    """Described or deleted by name, a topic must exist."""
    assert shell.run("topic", "describe", "nothing").code == 5
    assert shell.run("topic", "delete", "nothing").code == 5


def test_znodes_are_shown_as_they_are(shell: Shell, groups: ServerGroups) -> None:
    """Text as text, other bytes as base64, null as null; Stat with ZooKeeper's own names."""
    groups.zk.multi(Create("/text", "π".encode()), Create("/bytes", b"\xff"), Create("/null", None))

    text, raw, null = (shell.json("znode", "get", path) for path in ("/text", "/bytes", "/null"))
    table = shell.run("znode", "get", "/text")

    assert (text["data"], text["data_base64"]) == ("π", None)
    assert (raw["data"], raw["data_base64"]) == (None, "/w==")
    assert (null["data"], null["data_base64"]) == (None, None)
    assert text["stat"]["czxid"] == text["stat"]["mzxid"]
    assert table.lines[:2] == ["/text", "π"]
    assert table.lines[-1].startswith("pzxid")


def test_a_znode_is_the_same_row_of_csv_alone_and_in_a_tree(shell: Shell, groups: ServerGroups) -> None:
    """Past bug: `get` had schema and moment as columns before those of `tree`."""
    groups.zk.multi(Create("/text", b"1"))

    alone = shell.run("znode", "get", "/text", "--format", "csv")
    tree = shell.run("znode", "tree", "/text", "--format", "csv")

    assert (alone.code, alone.lines[0]) == (0, "path,data,data_base64,stat")
    assert alone.out == tree.out


def test_children_are_listed(shell: Shell, groups: ServerGroups) -> None:
    """Names in order; nothing else in the table."""
    groups.zk.multi(Create("/x", None), Create("/x/b", None), Create("/x/a", None))

    assert shell.run("znode", "ls", "/x").out == "a\nb\n"
    assert shell.json("znode", "ls", "/x")["children"] == [{"name": n, "path": f"/x/{n}"} for n in "ab"]


def test_a_tree_is_drawn_with_data_and_owners(shell: Shell, groups: ServerGroups) -> None:
    """Lines for people, one object a znode for programs; long data is cut to the width."""
    groups.zk.multi(Create("/x", None), Create("/x/a", b"1"), Create("/x/b", b"y" * 500, ephemeral=True))
    groups.zk.multi(Create("/x/a/deep", b"line\nbreak"))

    ran = shell.run("znode", "tree", "/x", env={"COLUMNS": "60"})
    rows = shell.run("znode", "tree", "/x", "--depth", "1", "--format", "ndjson")

    assert ran.lines[:3] == ["/x", "├─ a  1", r"│  └─ deep  line\nbreak"]
    assert ran.lines[3].startswith("└─ b  yyy")
    assert "ephemeral 0x" in ran.lines[3]
    assert max(map(len, ran.lines)) <= 60
    assert [json.loads(line)["path"] for line in rows.lines] == ["/x", "/x/a", "/x/b"]


def test_missing_and_impossible_paths(shell: Shell) -> None:
    """Exit 5 with what there is, exit 2 for what no path can be."""
    missing = shell.run("znode", "get", "/nothing/here")
    relative = shell.run("znode", "tree", "nothing")

    assert (missing.code, relative.code) == (5, 2)
    assert "there is no such znode" in missing.err
    assert "absolute" in relative.err


def test_status_is_one_screen(shell: Shell, groups: ServerGroups) -> None:
    """Brokers, controller, topics, groups; one row of csv, as of whatever is one thing."""
    groups.topic("orders", 4)
    groups.living("billing", "orders", 4)

    document = shell.json("status")
    table = shell.run("status")

    assert (document["topics"], document["partitions"]) == (1, 4)
    assert [group["state"] for group in document["groups"]] == ["stable"]
    assert (document["controller"], document["brokers"]["data"]) == (None, [])
    assert table.code == 0
    (row,) = csv.DictReader(shell.run("status", "--format", "csv").lines)
    assert (row["topics"], row["controller"], json.loads(row["groups"])[0]["group"]) == ("1", "", "billing")


def test_doctor_finds_what_is_wrong(shell: Shell, groups: ServerGroups) -> None:
    """Healthy: 0. An unreadable broker: 3, with the reason."""
    groups.topic("orders", 1)
    groups.living("billing", "orders", 1, ("a",))
    healthy = shell.run("doctor")
    groups.zk.create_missing(broker_ids_path())
    groups.zk.multi(Create(BrokerRegistration.path(1), b"{", ephemeral=True))

    ill = shell.json("doctor", code=3)

    assert healthy.code == 0
    assert "nothing is wrong" in healthy.out
    assert ill["findings"][0]["severity"] == "error"
    assert "/brokers/ids/1" in ill["findings"][0]["detail"]


def test_unreadable_configurations_are_named_by_path(shell: Shell, groups: ServerGroups) -> None:
    """Malformed ones stop no command and are reported, with the command that shows them (K35)."""
    groups.topic("orders", 1)
    path = "/config/topics/orders"
    groups.zk.create_missing("/config", "/config/topics")
    groups.zk.multi(Create(path, b"{"))

    (message,) = shell.json("status")["unreadable"]
    error = shell.json("doctor", code=3)["findings"][0]

    assert message["path"] == path
    assert message["detail"].startswith("expected a configuration, found '{'")
    assert (error["severity"], error["subject"]) == ("error", path)
    assert error["detail"] == f"{message['detail']}; no broker applies it"
    assert error["next"] == f"zkgroup znode get {path}"
    assert f"unreadable  {path}: expected a configuration" in shell.run("status").out


def test_doctor_finds_partitions_without_leader_or_followers(shell: Shell, groups: ServerGroups) -> None:
    """No live leader is an error, a short ISR a warning; what no controller has seen is neither here."""
    groups.topic("orders", 3)
    _broker(groups, 0)
    groups.zk.multi(
        Create(ControllerRegistration.path(), ControllerRegistration(0, 1).encode(), ephemeral=True)
    )
    states = {
        0: PartitionState(leader=0, leader_epoch=0, isr=(0,), controller_epoch=1),
        1: PartitionState(leader=-1, leader_epoch=1, isr=(), controller_epoch=1),
        2: PartitionState(leader=0, leader_epoch=1, isr=(), controller_epoch=1),
    }
    for number, state in states.items():
        path = PartitionState.path(TopicPartition("orders", number))
        folder = path.rpartition("/")[0]
        groups.zk.create_missing(folder.rpartition("/")[0], folder)
        groups.zk.multi(Create(path, state.encode()))

    error, warning, _ = shell.json("doctor", code=3)["findings"]

    assert (error["severity"], error["detail"]) == ("error", "no live leader for partition 1")
    assert (warning["severity"], warning["detail"][-12:]) == ("warning", " partition 2")
    assert error["next"] == warning["next"] == "zkgroup topic describe orders"


def test_a_broker_that_is_missing_is_a_warning_that_can_fail_a_check(
    shell: Shell, groups: ServerGroups
) -> None:
    """`doctor` ends with 3 for errors, with --fail-on warning for warnings, as `status --exit-code` does."""
    cluster = ServerCluster(groups)
    assert shell.run("doctor", "--fail-on", "warning").code == 0
    assert shell.run("status", "--exit-code").code == 0
    cluster.topic("orders", (1, 9))

    ran = shell.run("doctor")
    document = shell.json("status")

    assert (ran.code, "warning  broker 9: not registered, with replicas of orders-0" in ran.out) == (0, True)
    assert [row["broker"] for row in document["missing"]] == [9]
    assert shell.run("doctor", "--fail-on", "warning").code == 3
    assert shell.run("status", "--exit-code").code == 3


def test_doctor_removes_what_no_session_holds(shell: Shell, groups: ServerGroups) -> None:
    """ZooKeeper itself tells what is persistent: what a session holds by then stays."""
    _broker(groups, 0)
    groups.zk.create_missing("/consumers", "/consumers/g", "/consumers/g/ids", "/consumers/g/ids/g_a")
    groups.zk.multi(Create(ControllerRegistration.path(), ControllerRegistration(0, 1).encode()))
    paths = ["/consumers/g/ids/g_a", "/controller"]

    assert [shell.run("doctor", flag).code for flag in ("--execute", "--yes")] == [2, 2]
    assert [row["path"] for row in shell.json("doctor", "--fix")["znodes"]] == paths
    assert groups.zk.exists("/controller") is not None
    document = shell.json("doctor", "--fix", "--execute")
    assert (document["executed"], [row["path"] for row in document["znodes"]]) == (True, paths)
    assert [groups.zk.exists(path) for path in paths] == [None, None]
    assert groups.zk.exists("/brokers/ids/0") is not None
    assert shell.run("undo", "--execute").code == 0
    lines = [line for line in shell.run("status").lines if line.startswith("persistent")]
    assert [line.split(":")[0].split()[1] for line in lines] == paths
    ensemble = Ensemble(groups.zk, SystemClock())
    plan = plan_removal(ensemble)
    (controller,) = (znode for znode in plan.znodes if znode.path == "/controller")
    groups.zk.multi(Delete("/controller", 0), Create("/controller", controller.data, ephemeral=True))
    with pytest.raises(ConflictError, match="found that of a session"):
        remove(ensemble, plan)


def test_doctor_names_a_wrong_group_that_moves_as_news(shell: Shell, groups: ServerGroups) -> None:
    """Younger than 10 s is rebalancing: information, not an error."""
    groups.topic("orders", 1)
    groups.living("billing", "orders", 1, ("a",))
    groups.zk.multi(Delete(Owner.path("billing", TopicPartition("orders", 0)), 1))

    document = shell.json("doctor")

    assert ("info", "group billing") in {(one["severity"], one["subject"]) for one in document["findings"]}


def test_a_znode_that_an_acl_hides_is_an_error_that_names_the_options(shell: Shell, tmp_path: Path) -> None:
    """Exit 1 with the path and the options; with the right file it is shown."""
    file = tmp_path / "digest"
    file.write_text("me:canary\n")
    settings = ClientSettings(auth=Digest("me", Secret("canary")), acl=CREATOR_ALL_ACL)
    address = shell.environment["ZKGROUP_ZOOKEEPER"]
    assert address
    with ZooKeeperClient(address, settings) as client, Blocking(client) as owner:
        owner.multi(Create("/private", b"data"))

    refused = shell.run("znode", "get", "/private")
    shown = shell.json("znode", "get", "/private", "--zk-digest-file", str(file))

    assert (refused.code, refused.err[:16]) == (1, "error: /private:")
    assert "--zk-digest-file" in refused.err
    assert shown["data"] == "data"
