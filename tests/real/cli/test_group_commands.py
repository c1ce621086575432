"""`zkgroup group` against a real server: exit code, stdout, stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.errors import NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete
from zkgroup.znodes.consumers import Owner
from zkgroup.zookeeper import ClientSettings, Digest, Secret, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.settings import CREATOR_ALL_ACL


def test_list_shows_every_group_with_its_state(shell: Shell, groups: ServerGroups) -> None:
    """One row a group, the same in all formats."""
    groups.topic("orders", 4)
    groups.living("billing", "orders", 4)
    groups.parents("idle", "orders")

    document = shell.json("group", "list")
    table = shell.run("group", "list")
    csv = shell.run("group", "list", "--format", "csv")
    ndjson = shell.run("group", "list", "--format", "ndjson")

    assert document["groups"] == [
        {
            "group": "billing",
            "state": "stable",
            "members": 2,
            "topics": ["orders"],
            "partitions": 4,
            "unowned": 0,
            "lag": None,
            "protocol": "zookeeper",
            "protocol_state": None,
            "persistent": [],
            "verdict": None,
            "frozen": None,
            "away": 0,
            "away_until": None,
        },
        {
            "group": "idle",
            "state": "empty",
            "members": 0,
            "topics": [],
            "partitions": 0,
            "unowned": 0,
            "lag": None,
            "protocol": "zookeeper",
            "protocol_state": None,
            "persistent": [],
            "verdict": None,
            "frozen": None,
            "away": 0,
            "away_until": None,
        },
    ]
    assert [line.split()[:2] for line in table.lines] == [
        ["GROUP", "STATE"],
        ["billing", "stable"],
        ["idle", "empty"],
    ]
    assert csv.lines[1] == 'billing,stable,2,"[""orders""]",4,0,,zookeeper,,[],,,0,'
    assert [json.loads(line) for line in ndjson.lines] == document["groups"]


def test_a_group_hidden_by_an_acl_is_named_and_the_others_are_listed(
    shell: Shell, groups: ServerGroups
) -> None:
    """Exit 4 beside listed groups, 1 where every group is hidden; the path is on stderr."""
    settings = ClientSettings(auth=Digest("me", Secret("canary")), acl=CREATOR_ALL_ACL)
    address = shell.environment["ZKGROUP_ZOOKEEPER"]
    assert address
    with ZooKeeperClient(address, settings) as client, Blocking(client) as owner:
        groups.zk.create_missing("/consumers")
        owner.multi(Create("/consumers/hidden", None))
        alone = shell.run("group", "list")
        groups.parents("idle")
        partly = shell.json("group", "list", code=4)["groups"]
        table = shell.run("group", "list")
        fix = shell.run("doctor", "--fix")

    assert (alone.code, alone.err[:25]) == (1, "error: /consumers/hidden:")
    assert [row["group"] for row in partly] == ["idle"]
    assert (table.code, "not listed: /consumers/hidden:" in table.err) == (4, True)
    assert (fix.code, "not read, as an ACL hides them: /consumers/hidden" in fix.err) == (4, True)


def test_list_of_an_empty_ensemble_names_the_next_command(shell: Shell) -> None:
    """No group is no error; the next command is on stderr."""
    ran = shell.run("group", "list")

    assert (ran.code, len(ran.lines)) == (0, 1)
    assert "zkgroup consume" in ran.err


def test_describe_shows_members_and_partitions(shell: Shell, groups: ServerGroups) -> None:
    """The document of the contract, key by key."""
    groups.topic("orders", 2)
    groups.living("billing", "orders", 2)

    document = shell.json("group", "describe", "billing")
    table = shell.run("group", "describe", "billing")

    member, partition = document["members"][0], document["partitions"][1]
    assert (document["schema"], document["state"], document["assignor"]) == (
        "zkgroup.group/1",
        "stable",
        "range",
    )
    assert list(member) == [
        "member",
        "session",
        "threads",
        "pattern",
        "subscription",
        "registered_at",
        "kind",
        "host",
        "agrees",
        "client_id",
        "instance_id",
        "away_until",
        "pid",
        "version",
        "capacity",
        "rack",
    ]
    assert (document["protocol"], document["protocol_state"], document["group_generation"]) == (
        "zookeeper",
        None,
        None,
    )
    assert (member["member"], member["threads"], member["kind"]) == ("billing_a", {"orders": 1}, "zkgroup")
    assert list(partition) == [
        "topic",
        "partition",
        "owner",
        "member",
        "expected_owner",
        "owned_since",
        "token",
        "offset",
        "committed_at",
        "log_end_offset",
        "lag",
        "problem",
        "verdict",
    ]
    assert (partition["owner"], partition["offset"], partition["lag"]) == ("billing_b-0", 10, None)
    assert "billing_b-0" in table.out
    assert table.lines[0].startswith("billing  stable  range  2 members  2 partitions")


def test_describe_of_several_groups(shell: Shell, groups: ServerGroups) -> None:
    """Several names: a list of whole documents; csv rows carry the group."""
    groups.parents("one")
    groups.parents("two")

    document = shell.json("group", "describe", "one", "two")
    csv = shell.run("group", "describe", "one", "two", "--format", "csv")

    assert document["schema"] == "zkgroup.groups/1"
    assert [one["schema"] for one in document["groups"]] == ["zkgroup.group/1"] * 2
    assert csv.lines[0].startswith("group,topic,partition,owner")


def test_a_registration_with_half_a_character_is_shown(shell: Shell, groups: ServerGroups) -> None:
    """JSON can name what no encoding can hold: it stays an escape, in every format."""
    groups.topic("orders", 1)
    groups.living("billing", "orders", 1)
    data = b'{"version":1,"subscription":{"\\ud800":1},"pattern":"static","timestamp":"1"}'
    groups.zk.multi(Create("/consumers/billing/ids/billing_x", data, ephemeral=True))

    members = shell.json("group", "describe", "billing")["members"]
    table = shell.run("group", "describe", "billing")

    assert (members[-1]["subscription"], members[-1]["threads"]) == ({"\ud800": 1}, {})
    assert table.code == 0


def test_a_missing_group_is_exit_5(shell: Shell) -> None:
    """Not found: the path, and the command that shows what there is."""
    for words in (["describe"], ["verify"], ["preview"], ["delete"]):
        ran = shell.run("group", *words, "nobody")

        assert (ran.code, ran.out) == (5, "")
        assert "/consumers/nobody" in ran.err


def test_verify_of_a_converged_group_is_exit_0(shell: Shell, groups: ServerGroups) -> None:
    """Healthy: one line."""
    groups.topic("orders", 4)
    groups.living("billing", "orders", 4)

    document = shell.json("group", "verify", "billing")

    assert (document["converged"], document["problems"]) == (True, [])
    assert shell.run("group", "verify", "billing").out.startswith("converged")


def test_verify_names_the_problems_and_is_exit_3(shell: Shell, groups: ServerGroups) -> None:
    """Also after a wait that ran out."""
    groups.topic("orders", 4)
    groups.living("billing", "orders", 4)
    groups.zk.multi(Delete(Owner.path("billing", TopicPartition("orders", 3)), 1))

    document = shell.json("group", "verify", "billing", code=3)
    waited = shell.run("group", "verify", "billing", "--wait", "--timeout", "300ms")

    (problem,) = document["problems"]
    assert (document["converged"], problem["kind"], problem["partition"]) == (False, "unowned", 3)
    assert (problem["expected"], problem["found"], problem["since"]) == ("billing_b-0", None, None)
    assert waited.code == 3
    assert waited.lines[2:] == [f"unowned  {problem['detail']}"]


def test_check_of_good_groups_is_exit_0(shell: Shell, groups: ServerGroups, tmp_path: Path) -> None:
    """The document of the contract, with limits and log ends; and without."""
    groups.topic("orders", 2)
    groups.living("billing", "orders", 2)
    _logs(tmp_path, 0, 11)
    source = ("--source", f"files:{tmp_path}")

    plain = shell.run("group", "check", "--all")
    document = shell.json("group", "check", "billing", "--max-lag", "1", "--max-age", "5m", *source)

    assert (plain.code, plain.lines) == (0, ["ok  1 group"])
    assert document["schema"] == "zkgroup.check/1"
    assert document["groups"] == [{"group": "billing", "ok": True, "reasons": []}]


def test_check_names_every_reason_and_is_exit_3(shell: Shell, groups: ServerGroups, tmp_path: Path) -> None:
    """One line a reason; a group that does not exist is one."""
    groups.topic("orders", 3)
    groups.living("billing", "orders", 3, members=("a",))
    _logs(tmp_path, 0, 15, 20)
    groups.zk.multi(Delete(Owner.path("billing", TopicPartition("orders", 2)), 1))
    limited = ("billing", "gone", "--max-lag", "4", "--source", f"files:{tmp_path}")

    document = shell.json("group", "check", *limited, code=3)
    table = shell.run("group", "check", *limited)

    billing, gone = document["groups"]
    assert [(one["kind"], one["topic"], one["partition"]) for one in billing["reasons"]] == [
        ("unowned", "orders", 2),
        ("lag", "orders", 1),
    ]
    assert [one["kind"] for one in gone["reasons"]] == ["missing"]
    assert table.code == 3
    assert [line.split()[:2] for line in table.lines] == [
        *(["billing", "unowned"], ["billing", "lag"], ["gone", "missing"]),
    ]
    assert table.lines[1].endswith("orders-1: lag 5, expected at most 4")


def test_a_window_judges_the_consumers(shell: Shell, groups: ServerGroups, tmp_path: Path) -> None:
    """Ten reads in a moment: the owner has lag and commits nothing, so it has stopped."""
    groups.topic("orders", 2)
    groups.living("billing", "orders", 2)
    _logs(tmp_path, 0, 15)
    window = ("--window", "90ms", "--source", f"files:{tmp_path}")

    described = shell.json("group", "describe", "billing", *window)
    table = shell.run("group", "describe", "billing", *window)
    checked = shell.run("group", "check", "billing", *window)
    once = shell.json("group", "describe", "billing", *window[2:])
    (listed,) = shell.json("status", *window[2:])["groups"]

    assert [row["verdict"] for row in described["partitions"]] == ["ok", "stop"]
    assert [row["verdict"] for row in once["partitions"]] == ["ok", None]
    assert (listed["lag"], listed["verdict"]) == (5, None)
    assert [line.split()[-1] for line in table.lines[-3:]] == ["VERDICT", "ok", "stop"]
    assert checked.code == 3
    assert checked.lines == [
        "billing  verdict  orders-1: stop: no commit for longer than the commits before are apart; lag 5"
    ]


def test_check_takes_names_or_all(shell: Shell) -> None:
    """Neither, both, and a limit for lags that nothing can know are usage errors."""
    for wrong in ((), ("--all", "billing"), ("--all", "--max-lag", "1", "--source", "none")):
        assert shell.run("group", "check", *wrong).code == 2


def _logs(folder: Path, *records: int) -> None:
    """Files of records for the partitions of `orders`, as many in each."""
    (folder / "orders").mkdir()
    for number, count in enumerate(records):
        (folder / "orders" / f"{number}.log").write_text("record\n" * count)


def test_a_group_that_does_not_exist_yet(shell: Shell, groups: ServerGroups) -> None:
    """It can be waited for (a wait that runs out is exit 3), and imagined; a missing topic is named."""
    groups.topic("orders", 2)

    at_once = shell.run("group", "verify", "new")
    waited = shell.run("group", "verify", "new", "--wait", "--timeout", "100ms")
    shown = shell.run("group", "preview", "new", "--add", "a:orders:1:ordres:1", "--add", "b:orders:1")

    assert (at_once.code, "/consumers/new" in at_once.err) == (5, True)
    assert (waited.code, "/consumers/new" in waited.err) == (3, True)
    assert (shown.code, shown.lines[-1]) == (0, "0 of 2 partitions would move, 2 would be assigned (range)")
    assert shown.err.splitlines()[0] == "note: there is no group 'new' yet"
    assert "note: there is no topic ordres" in shown.err
    assert not groups.exists("/consumers/new")


def test_preview_shows_moves(shell: Shell, groups: ServerGroups) -> None:
    """Each way to imagine a change; nothing is written."""
    groups.topic("orders", 4)
    groups.living("billing", "orders", 4)

    more = shell.json("group", "preview", "billing", "--add", "c:orders:1")
    fewer = shell.json("group", "preview", "billing", "--remove", "a")
    count = shell.json("group", "preview", "billing", "--members", "4")
    grown = shell.json(
        "group", "preview", "billing", "--add-partitions", "orders=2", "--assignor", "roundrobin"
    )

    assert (more["moves"], fewer["moves"], len(grown["partitions"])) == (1, 2, 6)
    assert len({row["then"] for row in count["partitions"]}) == 4
    table = shell.run("group", "preview", "billing", "--add-partitions", "orders=2")
    assert table.lines[-1] == "1 of 6 partitions would move, 2 would be assigned (range)"
    assert [line.split()[-1] for line in table.lines[1:7]].count("assigned") == 2
    assert shell.run("group", "verify", "billing").code == 0


def test_preview_refuses_what_it_cannot_imagine(shell: Shell, groups: ServerGroups) -> None:
    """Usage errors say what was expected."""
    groups.topic("orders", 4)
    groups.living("billing", "orders", 4)

    both = shell.run("group", "preview", "billing", "--members", "3", "--add", "c")
    form = shell.run("group", "preview", "billing", "--add-partitions", "orders")
    member = shell.run("group", "preview", "billing", "--remove", "x")

    assert (both.code, form.code, member.code) == (2, 2, 5)
    assert "TOPIC=COUNT" in form.err
    assert "billing_a, billing_b" in member.err


def test_delete_shows_first_and_acts_only_on_execute(shell: Shell, groups: ServerGroups) -> None:
    """Preview, execute with an undo file written first, and the one command that goes back."""
    groups.topic("orders", 2)
    groups.living("billing", "orders", 2)
    groups.leave("billing", "a", "b")

    shown = shell.json("group", "delete", "billing")
    assert (shown["executed"], shown["undo"], shown["offsets"]) == (False, None, 2)
    assert shell.undo_files == []
    done = shell.run("group", "delete", "billing", "--execute")
    assert (done.code, groups.exists("/consumers/billing")) == (0, False)
    (file,) = shell.undo_files
    assert f"zkgroup undo {file.stem} --execute" in done.err
    assert shell.run("offsets", "undo", file.stem, "--execute").code == 0

    assert groups.offset_of("billing", "orders", 1) == 10


def test_the_deletion_of_a_group_without_offsets_names_no_undo(shell: Shell, groups: ServerGroups) -> None:
    """There is nothing to put back; the preview says so, and `undo` refuses."""
    groups.topic("orders", 1)
    shell.run("offsets", "set", "seeded", "orders:0=4", "--execute")
    shell.run("offsets", "delete", "seeded", "orders", "--execute")

    shown = shell.run("group", "delete", "seeded")
    done = shell.run("group", "delete", "seeded", "--execute")
    undone = shell.run("undo", "--execute")

    message = "this cannot be undone: no offset is committed"
    assert [(ran.code, message in ran.err, "to undo" in ran.err) for ran in (shown, done)] == [
        (0, True, False)
    ] * 2
    assert (undone.code, "no offset is committed" in undone.err) == (2, True)


def test_delete_of_a_living_group_is_refused(shell: Shell, groups: ServerGroups) -> None:
    """Exit 2 with the members, preview or not, and no undo file of nothing."""
    groups.topic("orders", 2)
    groups.living("billing", "orders", 2)

    for extra in ([], ["--execute"], ["--execute", "--yes"]):
        ran = shell.run("group", "delete", "billing", *extra)

        assert ran.code == 2
        assert "billing_a, billing_b" in ran.err
    assert groups.exists("/consumers/billing/ids/billing_a")
    assert shell.undo_files == []


def test_nudge_is_shown_done_and_refused_too_soon(shell: Shell, groups: ServerGroups) -> None:
    """Without --execute nothing happens; with it members read again; the next one has to wait."""
    groups.topic("orders", 2)
    groups.living("billing", "orders", 2)

    shown = shell.json("group", "nudge", "billing")
    message = shell.run("group", "nudge", "billing").err
    done = shell.run("group", "nudge", "billing", "--execute")
    again = shell.run("group", "nudge", "billing", "--execute")

    assert (shown["schema"], shown["executed"], len(shown["members"])) == ("zkgroup.nudge/1", False, 2)
    assert (done.code, done.out.startswith("nudged 2 members")) == (0, True)
    assert again.code == 2
    assert "nudged less than 10 s ago" in again.err
    assert "note: this cannot be undone: " in message
    assert shell.run("group", "verify", "billing").code == 0


def test_nudge_of_a_missing_group_is_not_found(shell: Shell) -> None:
    """A group that does not exist has no members."""
    assert shell.run("group", "nudge", "nobody", "--execute").code == 5


@pytest.mark.parametrize("name", ["my group", "app:v1"])
def test_a_group_with_a_name_of_kafkas_clients_is_administered(
    shell: Shell, groups: ServerGroups, name: str
) -> None:
    """No ZooKeeper consumer may have the name; a coordinator serves it."""
    groups.topic("orders", 1)
    groups.parents(name, "orders")
    groups.offset(name, "orders", 0, 7)

    assert [row["group"] for row in shell.json("group", "list")["groups"]] == [name]
    assert shell.json("group", "describe", name)["group"] == name
    assert shell.json("offsets", "show", name)["offsets"][0]["offset"] == 7
    assert shell.run("offsets", "set", name, "orders:0=5", "--execute", "--yes").code == 0
    assert groups.offset_of(name, "orders", 0) == 5
    assert shell.run("coordinator", "release", name).code == NotFoundError.exit_code
    assert shell.run("group", "delete", name, "--execute", "--yes").code == 0
    assert not groups.exists(f"/consumers/{name}")
