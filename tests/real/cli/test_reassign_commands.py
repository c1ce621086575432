"""`zkgroup reassign` against a real server, with brokers that do nothing by themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real.cli.server_cluster import ServerCluster, reassignment_file
from tests.waiting import eventually
from tests.worlds.other_clients import beside
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.model.requests import Delete, SetData
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic


@pytest.fixture
def cluster(groups: ServerGroups) -> ServerCluster:
    made = ServerCluster(groups)
    made.topic("orders", (1, 2), (2, 1))
    return made


def _file(shell: Shell, *moves: tuple[str, int, list[int]]) -> list[str]:
    return ["--reassignment-json-file", reassignment_file(shell.home, *moves)]


def test_a_move_is_shown_asked_for_verified_and_moved_back(shell: Shell, cluster: ServerCluster) -> None:
    """The tool's part, with a rollback file that the next execution takes."""
    words = _file(shell, ("orders", 0, [3, 1]), ("orders", 1, [2, 1]))

    shown = shell.json("reassign", "execute", *words)
    untouched = shell.json("reassign", "list")["reassignments"]
    done = shell.json("reassign", "execute", *words, "--execute")
    second = shell.run("reassign", "execute", *words, "--execute")
    running = shell.json("reassign", "verify", *words, code=3)["reassignments"]
    listed = shell.json("reassign", "list")["reassignments"]
    cluster.finish()
    finished = shell.json("reassign", "verify", *words)["reassignments"]

    assert (shown["executed"], shown["rollback_file"], untouched) == (False, None, [])
    assert [row["changes"] for row in done["partitions"]] == [True, False]
    assert json.loads(Path(done["rollback_file"]).read_text()) == {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}],
    }
    assert (second.code, "orders-0" in second.err) == (6, True)
    assert [row["status"] for row in running] == ["in_progress", "done"]
    assert listed == [running[0]]
    assert [row["status"] for row in finished] == ["done", "done"]

    back = ["--reassignment-json-file", done["rollback_file"]]
    assert shell.run("reassign", "execute", *back, "--execute").code == 0
    cluster.finish()
    assert shell.run("reassign", "verify", *back).code == 0
    assert shell.run("reassign", "verify", *words).code == 3


def test_a_move_that_only_the_topic_znode_shows_is_in_progress(shell: Shell, cluster: ServerCluster) -> None:
    """Asked for by Kafka's API, so that there is no request in the admin znode."""
    words = _file(shell, ("orders", 0, [3, 1]))
    path = Topic.path("orders")
    moving = Topic({0: (3, 1, 2), 1: (2, 1)}, version=2, adding={0: (3,)}, removing={0: (2,)})
    cluster.zk.multi(SetData(path, moving.encode(), 0))

    (running,) = shell.json("reassign", "verify", *words, code=3)["reassignments"]
    listed = shell.json("reassign", "list")["reassignments"]
    cluster.zk.multi(SetData(path, Topic({0: (3, 1), 1: (2, 1)}).encode(), 1))
    (finished,) = shell.json("reassign", "verify", *words)["reassignments"]

    assert running["status"] == "in_progress"
    assert [(row["topic"], row["partition"], row["status"]) for row in listed] == [
        ("orders", 0, "in_progress")
    ]
    assert finished["status"] == "done"


def test_the_undo_of_a_move_executes_the_rollback_file(shell: Shell, cluster: ServerCluster) -> None:
    """Once the move has ended; refused while it runs, and where it was moved again since."""
    words = _file(shell, ("orders", 0, [3, 1]))
    done = shell.run("reassign", "execute", *words, "--execute")
    (undo_id,) = [file.stem for file in shell.undo_files]

    early = shell.run("undo", "--execute")
    cluster.finish()
    cluster.zk.multi(SetData(Topic.path("orders"), Topic({0: (3, 1), 1: (2, 1)}).encode(), -1))
    shown = shell.run("undo", undo_id)
    moved = Topic({0: (2, 3), 1: (2, 1)}).encode()
    cluster.zk.multi(SetData(Topic.path("orders"), moved, -1))
    refused = shell.run("undo", undo_id, "--execute")
    forced = shell.json("undo", undo_id, "--execute", "--force")

    assert f"to undo, once it has ended: zkgroup undo {undo_id} --execute" in done.err
    assert (early.code, "a reassignment runs already" in early.err) == (6, True)
    assert len(shell.undo_files) == 2
    assert (shown.code, "/rollback/" in shown.err) == (0, True)
    assert (refused.code, "orders-0 is on [2, 3]" in refused.err) == (6, True)
    assert [row["to"] for row in forced["partitions"]] == [[1, 2]]


def test_a_throttle_has_a_unit_and_is_removed_when_all_is_done(shell: Shell, cluster: ServerCluster) -> None:
    """Removed only then, and only with --execute."""
    words = _file(shell, ("orders", 0, [3, 1]))

    bare = shell.run("reassign", "execute", *words, "--throttle", "1000")
    shell.run("reassign", "execute", *words, "--throttle", "50MB", "--execute")
    early = shell.run("reassign", "verify", *words, "--clear-throttle", "--execute")
    cluster.finish()
    shown = shell.run("reassign", "verify", *words, "--clear-throttle")
    throttled = shell.json("config", "describe", "--broker", "3")["configs"][0]["configs"]
    done = shell.run("reassign", "verify", *words, "--clear-throttle", "--execute")
    cleared = shell.json("config", "describe", "--entity-type", "brokers")["configs"]

    assert (bare.code, "MB" in bare.err) == (2, True)
    assert (early.code, "stays" in early.err) == (3, True)
    assert shown.code == 0
    assert set(throttled.values()) == {"50000000"}
    assert (done.code, cleared) == (0, [])


def test_a_throttle_is_removed_when_a_move_was_cancelled_and_nothing_else_moves(
    shell: Shell, cluster: ServerCluster
) -> None:
    """It would stay for ever: the move of the file never is done."""
    words = _file(shell, ("orders", 0, [3, 1]))
    shell.run("reassign", "execute", *words, "--throttle", "50MB", "--execute")
    request = cluster.zk.read(Reassignment.path())
    cluster.zk.multi(Delete(request.path, request.stat.version))
    other = _file(shell, ("orders", 1, [3, 2]))
    shell.run("reassign", "execute", *other, "--execute")
    words = _file(shell, ("orders", 0, [3, 1]))

    stored = shell.run("reassign", "verify", *words, "--clear-throttle", "--execute")
    cluster.finish()
    cleared = shell.run("reassign", "verify", *words, "--clear-throttle", "--execute")

    assert (stored.code, "stays" in stored.err) == (3, True)
    assert (cleared.code, "removed the throttle of brokers" in cleared.err) == (3, True)


def test_a_throttle_is_removed_with_its_topic(shell: Shell, cluster: ServerCluster) -> None:
    """A deleted partition does not move: its throttle does not stay."""
    words = _file(shell, ("orders", 0, [3, 1]))
    shell.run("reassign", "execute", *words, "--throttle", "50MB", "--execute")
    cluster.finish()
    topic = Topic.path("orders")
    below = [f"/partitions/{number}{leaf}" for number in range(2) for leaf in ("/state", "")]
    doomed = [topic + path for path in (*below, "/partitions", "")]
    cluster.zk.multi(*(Delete(path, -1) for path in (*doomed, "/config/topics/orders")))

    cleared = shell.run("reassign", "verify", *words, "--clear-throttle", "--execute")
    left = shell.json("config", "describe", "--entity-type", "brokers")["configs"]

    assert cleared.code == 3
    assert "removed the throttle of brokers 1, 2, 3\n" in cleared.err
    assert left == []


def test_waiting_ends_with_exit_3_when_the_time_is_over(shell: Shell, cluster: ServerCluster) -> None:
    """Progress goes to stderr; the request stays."""
    words = _file(shell, ("orders", 0, [3, 1]))

    ran = shell.run("reassign", "execute", *words, "--execute", "--wait", "--timeout", "50ms")

    assert ran.code == 3
    assert "0 of 1 partition done" in ran.err
    assert len(shell.json("reassign", "list")["reassignments"]) == 1


def test_waiting_for_the_end_removes_the_throttle(shell: Shell, cluster: ServerCluster) -> None:
    """Once every move is done, by the command that set it."""
    words = _file(shell, ("orders", 0, [3, 1]))

    def controller() -> None:
        eventually(lambda: cluster.zk.exists(Reassignment.path()))
        cluster.finish()

    with beside(controller):
        done = shell.json("reassign", "execute", *words, "--throttle", "1MB", "--execute", "--wait")

    assert (done["status"], done["throttle"]) == ("done", 1_000_000)
    rows = shell.json("config", "describe", "--entity-type", "brokers")["configs"]
    assert rows == []
    assert shell.json("config", "describe", "--topic", "orders")["configs"][0]["configs"] == {}


@pytest.mark.parametrize(
    ("moves", "code", "message"),
    [
        ([("orders", 0, [9, 1])], 2, "broker 9 is not registered"),
        ([("orders", 0, [1, 1])], 2, "each broker once"),
        ([("orders", 7, [1, 2])], 5, "orders-7"),
        ([("orders", 0, [3]), ("orders", 0, [2])], 2, "named twice"),
        ([], 2, "at least one partition"),
    ],
)
def test_bad_input_is_one_error_and_changes_nothing(
    shell: Shell, cluster: ServerCluster, moves: list[tuple[str, int, list[int]]], code: int, message: str
) -> None:
    """Unknown broker, duplicate replica, unknown or repeated partition, nothing."""
    ran = shell.run("reassign", "execute", *_file(shell, *moves), "--execute")

    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert shell.json("reassign", "list")["reassignments"] == []
    assert shell.undo_files == []


def test_cancel_is_refused_at_a_real_controller(shell: Shell, cluster: ServerCluster) -> None:
    """With the reason, before anything is written; a zkgroup controller gets the request (recipes 17)."""
    words = _file(shell, ("orders", 0, [3, 1]))
    shell.run("reassign", "execute", *words, "--execute")

    refused = shell.run("reassign", "cancel", "--execute")
    cluster.ours()
    strange = shell.run("reassign", "cancel", "--topic", "clicks", "--execute")
    done = shell.json("reassign", "cancel", "--topic", "orders", "--execute")

    assert (refused.code, "is a Kafka controller" in refused.err) == (2, True)
    assert (strange.code, "clicks" in strange.err) == (5, True)
    (back,) = done["partitions"]
    assert (back["from"], back["to"], back["order_known"]) == ([1, 2], [1, 2], True)
    (row,) = shell.json("reassign", "list")["reassignments"]
    assert row["to"] == [1, 2]
    assert Path(done["rollback_file"]).read_text().count("[3,1]") == 1


def test_generate_prints_what_kafkas_tool_prints(shell: Shell, cluster: ServerCluster) -> None:
    """Two lines of JSON under their titles; `execute` takes the second."""
    file = shell.home / "topics.json"
    file.write_text('{"topics":[{"topic":"orders"}],"version":1}')

    words = ["--topics-to-move-json-file", str(file), "--broker-list", "2,3"]
    ran = shell.run("reassign", "generate", *words)
    document = shell.json("reassign", "generate", *words)

    assert ran.lines[0] == "Current partition replica assignment"
    assert ran.lines[3] == "Proposed partition reassignment configuration"
    assert json.loads(ran.lines[4]) == document["proposed"]
    assert [row["replicas"] for row in document["proposed"]["partitions"]] == [[2, 3], [3, 2]]


def test_a_plan_is_files_that_execute_takes(shell: Shell, cluster: ServerCluster) -> None:
    """One for each request; carried out one after the other the broker is empty."""
    target = shell.home / "plan.json"

    shown = shell.run("plan", "decommission", "1")
    plan = shell.json("plan", "decommission", "1", "--max-moves", "1", "--output", str(target))
    for file in plan["files"]:
        assert shell.run("reassign", "execute", "--reassignment-json-file", file, "--execute").code == 0
        cluster.finish()

    assert "decommission 1: 2 copies, the fewest" in shown.out
    assert plan["files"] == [f"{target}.1", f"{target}.2"]
    assert shell.json("broker", "describe", "1")["replicas"] == 0
    assert shell.run("plan", "set-rf", "9").code == 2


def test_sizes_are_read_from_a_file(shell: Shell, cluster: ServerCluster) -> None:
    """A wrong line is named by its number."""
    sizes = shell.home / "sizes.csv"
    sizes.write_text("orders,0,100\norders,1,300\n")
    good = shell.json("plan", "replace", "1=3", "--sizes-file", str(sizes))
    sizes.write_text("orders,0,100\norders,x,300\n")
    bad = shell.run("plan", "balance", "--sizes-file", str(sizes))

    assert (good["moves"], good["bytes"]) == (2, 400)
    assert (bad.code, f"{sizes}:2: " in bad.err) == (2, True)
