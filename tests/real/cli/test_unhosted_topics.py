"""A topic that was made without brokers, next to a zkgroup broker with the id that its lists name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.worlds.shell import Shell


def test_a_topic_without_brokers_stays_so_until_one_is_named(shell: Shell, tmp_path: Path) -> None:
    """No broker adopts it and no leader is missing; named, broker 0 hosts it. Another is deleted as it is.

    What makes that one anew does not name broker 0, which never had it.
    """
    for name in ("work", "shards"):
        assert shell.json("topic", "create", name, "--partitions", "2", "--wait")["converged"] is None
    lasting = ("--set", "zookeeper.session.timeout.ms=60s")
    with shell.start("broker", "run", "--id", "0", "--data", str(tmp_path / "data"), *lasting) as broker:
        broker.until_event("controller")
        alone = _described(shell, "work")
        table = shell.run("topic", "describe", "work")
        status, doctor = shell.json("status"), shell.run("doctor")
        elected = shell.json("elect", "preferred", "--topic", "work", code=2)
        grown = shell.json("topic", "alter", "work", "--partitions", "3", "--execute", "--wait")
        ran = shell.run("topic", "delete", "shards")
        gone = shell.json("topic", "delete", "shards", "--execute", "--wait")
        (lost,) = [row for row in shell.json("undo", "list")["undos"] if row["undo"] == gone["undo"]]
        named = shell.run("topic", "alter", "work", "--replica-assignment", "0,0,0", "--execute", "--wait")
        hosted = _described(shell, "work")
        again = shell.run("topic", "alter", "work", "--replica-assignment", "0,0,0", "--execute")
        assert broker.stop() == 0

    assert (alone["unhosted"], [row["leader"] for row in alone["partitions"]]) == (True, [None, None])
    assert table.lines[1] == "unhosted: made without brokers, for sharing its partitions"
    assert status["offline_partitions"] == 0
    assert "work" not in doctor.out
    assert [row["outcome"] for row in elected["partitions"]] == ["unhosted", "unhosted"]
    assert (grown["executed"], grown["converged"]) == (True, None)
    assert (
        "note: this cannot be undone: where brokers are registered, no topic is created without them\n"
        in ran.err
    )
    assert gone["converged"] is True
    assert (lost["undoable"], "topic create shards --partitions 2`" in lost["detail"]) == (False, True)
    assert (named.code, named.lines[0]) == (0, "topic work has its first brokers")
    assert (hosted["unhosted"], [row["leader"] for row in hosted["partitions"]]) == (False, [0, 0, 0])
    assert again.code == 2


def test_a_reassignment_gives_a_topic_its_first_brokers(shell: Shell, tmp_path: Path) -> None:
    """It is done once they lead; there is no rollback file, and the undo says why."""
    assert shell.json("topic", "create", "work", "--partitions", "1")["created"]
    file = tmp_path / "moves.json"
    file.write_text('{"version":1,"partitions":[{"topic":"work","partition":0,"replicas":[0]}]}')
    lasting = ("--set", "zookeeper.session.timeout.ms=60s")
    with shell.start("broker", "run", "--id", "0", *lasting) as broker:
        broker.until_event("controller")
        words = ("reassign", "execute", "--reassignment-json-file", str(file), "--execute", "--wait")
        done = shell.json(*words)
        hosted = _described(shell, "work")
        assert broker.stop() == 0
    (undo,) = [row for row in shell.json("undo", "list")["undos"] if row["undo"] == done["undo"]]

    assert (done["executed"], done["rollback_file"], done["moves"]) == (True, None, 0)
    assert (hosted["unhosted"], hosted["partitions"][0]["leader"]) == (False, 0)
    assert (undo["undoable"], "does not become one without brokers" in undo["detail"]) == (False, True)


def _described(shell: Shell, topic: str) -> dict[str, Any]:
    (found,) = shell.json("topic", "describe", topic)["topics"]
    return dict(found)
