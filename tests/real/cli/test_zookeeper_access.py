"""`zkgroup zookeeper secure` and `open`, and what `doctor` says of them."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.shell import Shell


def test_a_cluster_is_closed_and_opened_by_commands(shell: Shell, tmp_path: Path) -> None:
    """Preview, execution, a second run that finds nothing to do, and back by the undo.

    Who creates something open meanwhile is told so, unless it was asked for.
    """
    (tmp_path / "digest").write_text("ada:canary\n")
    whose = ("--zk-digest-file", str(tmp_path / "digest"))
    assert shell.run("topic", "create", "t", "--partitions", "1").code == 0

    nobody = shell.run("zookeeper", "secure", "--execute")
    preview = shell.json("zookeeper", "secure", *whose)
    done = shell.json("zookeeper", "secure", "--execute", *whose)
    refused = shell.run("topic", "create", "u", "--partitions", "1")
    again = shell.json("zookeeper", "secure", "--execute", *whose)
    closed = shell.run("doctor")
    mine = shell.run("topic", "create", "u", "--partitions", "1", *whose)
    asked_for = shell.run("topic", "create", "v", "--partitions", "1", *whose, "--zk-acl", "open")
    partly = shell.run("doctor", "--fail-on", "warning")
    strange = shell.run("zookeeper", "open", "--execute")
    opened = shell.run("undo", done["undo"], "--execute", *whose)

    assert (nobody.code, "found no credentials" in nobody.err) == (2, True)
    assert (preview["holds"], preview["executed"], done["executed"]) == ("open", False, True)
    assert {row["path"]: row["changes"] for row in preview["subtrees"]}["/"] == 1
    assert (refused.code, "does not give it" in refused.err) == (1, True)
    assert (again["holds"], again["executed"]) == ("closed", False)
    assert "info     access: closed: only the users in the ACLs may change znodes" in closed.lines
    assert (mine.code, partly.code, strange.code) == (0, 3, 1)
    assert "warning: /config/topics is closed, but everyone may change /config/topics/u" in mine.err
    assert "--zk-acl creator" in mine.err
    assert (asked_for.code, "is closed" in asked_for.err) == (0, False)
    assert "warning  access: closed in part: everyone may change" in partly.out
    assert "next: zkgroup zookeeper secure" in partly.out
    assert "may not be changed by this user: /," in strange.err
    assert opened.code == 0
    assert "access: open: whoever reaches ZooKeeper may change every znode" in shell.run("doctor").out
