"""`zkgroup cluster usage` against real servers that answer and that do not."""

from __future__ import annotations

from pathlib import Path

from tests.real.cli.server_cluster import ServerCluster
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.model.requests import Create
from zkgroup.testing.plugin import ServerTree
from zkgroup.zookeeper import ClientSettings, Digest, Secret, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
from zkgroup.zookeeper.settings import CREATOR_ALL_ACL


def test_three_figures_stand_side_by_side(shell: Shell, groups: ServerGroups, zk_server: ServerTree) -> None:
    """The measured ones are the server's own: of every client, and of every chroot but for the walk."""
    ServerCluster(groups).topic("orders", (1, 2), (2, 1))

    found = shell.json("cluster", "usage")
    table = shell.run("cluster", "usage")
    csv = shell.run("cluster", "usage", "--format", "csv")

    rows = {row["quantity"]: row for row in found["usage"]}
    assert found["counts"] == {
        "brokers": 3, "topics": 1, "partitions": 2, "reassigning": 0, "notifications": 0, "requests": 0
    }  # fmt: skip
    assert (rows["watches"]["early"], rows["watches"]["early_formula"]) == (17, "3B + 2T + 6")
    assert (rows["watches"]["corrected"], rows["watches"]["corrected_formula"]) == (17, "3B + T + R + 7")
    assert rows["connections"]["measured"] >= 2  # this command's and the one that made the cluster
    assert (rows["connections"]["measured_by"], rows["znodes"]["measured_by"]) == ("mntr", "tree walk")
    (server,) = found["servers"]
    assert (server["by"], server["mode"]) == ("mntr", "standalone")
    assert server["znodes"] > rows["znodes"]["measured"] > rows["leaf_znodes"]["measured"] > 0
    assert any(line.startswith("watches") and "mntr" in line for line in table.lines)
    assert csv.lines[0] == "quantity,early,corrected,measured,measured_by,reason"


def test_what_may_not_be_read_is_named_and_makes_it_partial(shell: Shell, groups: ServerGroups) -> None:
    """The rest is counted and printed; exit code 4, as with every command that could not read all."""
    ServerCluster(groups).topic("orders", (1, 2))
    settings = ClientSettings(auth=Digest("me", Secret("canary")), acl=CREATOR_ALL_ACL)
    address = shell.environment["ZKGROUP_ZOOKEEPER"]
    assert address
    with ZooKeeperClient(address, settings) as client, Blocking(client) as owner:
        owner.multi(Create("/hidden", b""))

    found = shell.json("cluster", "usage", code=4)
    table = shell.run("cluster", "usage")

    rows = {row["quantity"]: row for row in found["usage"]}
    assert (found["unreadable"], found["counts"]["topics"]) == (["/hidden"], 1)
    assert rows["znodes"]["measured"] > 1
    assert "/hidden" in rows["znodes"]["reason"]
    assert (table.code, table.lines[0][:9]) == (4, "3 brokers")
    assert table.err.endswith("error: not counted: /hidden\n")


def test_a_server_that_refuses_the_question_is_reported_with_the_reason(tmp_path: Path) -> None:
    """Servers of 3.5 and later allow `srvr` alone by default; no AdminServer runs here."""
    config = {"4lw.commands.whitelist": "srvr,conf"}
    with EmbeddedZooKeeper(fsync=False, config=config) as server:
        shell = Shell(tmp_path, server.address)
        found = shell.json("cluster", "usage", "--admin-port", "0")
        ran = shell.run("cluster", "usage", "--admin-port", "0")

    rows = {row["quantity"]: row for row in found["usage"]}
    assert (rows["watches"]["measured"], rows["connections"]["measured"]) == (None, None)
    assert "not in the whitelist" in rows["watches"]["reason"]
    # The root, /zookeeper and two below.
    assert (rows["znodes"]["measured"], rows["znodes"]["reason"]) == (4, None)
    assert found["release"] is None
    assert "note: no formulas" in ran.err
