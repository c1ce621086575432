"""`zkgroup reassign cancel`, and what becomes of a throttle, against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.cli.server_cluster import ServerCluster, reassignment_file
from tests.waiting import eventually
from tests.worlds.other_clients import beside
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.admin.reassign import execution
from zkgroup.model.requests import Create, SetData
from zkgroup.znodes.admin_requests import Reassignment, admin_path
from zkgroup.znodes.brokers import Topic

CLEAR = "zkgroup reassign verify --clear-throttle --execute"
REQUEST = Reassignment.path()


@pytest.fixture
def cluster(groups: ServerGroups) -> ServerCluster:
    made = ServerCluster(groups)
    made.topic("orders", (1, 2), (2, 1))
    made.ours()
    return made


def _execute(shell: Shell, *more: str) -> list[str]:
    """Asks for a move of orders-0; the result is the words that name the file."""
    words = ["--reassignment-json-file", reassignment_file(shell.home, ("orders", 0, [2, 3]))]
    assert shell.run("reassign", "execute", *words, *more, "--execute").code == 0
    return words


def _asked(shell: Shell, command: str) -> list[str]:
    """The words of a throttled `execute`; for `cancel` that move is asked for, and there are none."""
    if command == "cancel":
        _execute(shell, "--throttle", "20kB")
        return []
    file = reassignment_file(shell.home, ("orders", 0, [2, 3]))
    return ["--reassignment-json-file", file, "--throttle", "20kB"]


def _begin(cluster: ServerCluster) -> None:
    """What the controller writes first: the target, then the replicas that leave; the old order is lost."""
    topic = Topic({0: (2, 3, 1), 1: (2, 1)}, version=2, adding={0: (3,)}, removing={0: (1,)})
    cluster.zk.multi(SetData(Topic.path("orders"), topic.encode(), 0))


def _throttles(shell: Shell) -> list[dict[str, str]]:
    brokers = shell.json("config", "describe", "--entity-type", "brokers")["configs"]
    topics = shell.json("config", "describe", "--topic", "orders")["configs"]
    return [row["configs"] for row in (*brokers, *topics) if row["configs"]]


def test_a_throttle_that_a_cancelled_move_leaves_is_reported_until_it_is_removed(
    shell: Shell, cluster: ServerCluster
) -> None:
    """By the cancel, by `status` and by `doctor`, with the command that removes it."""
    _execute(shell, "--throttle", "20kB")
    moving = shell.json("status")
    cancelled = shell.run("reassign", "cancel", "--execute")
    early = shell.run("reassign", "verify", "--clear-throttle", "--execute")
    cluster.finish()

    found = shell.json("status")
    screen = shell.run("status")
    findings = shell.json("doctor")["findings"]
    shown = shell.run("reassign", "verify", "--clear-throttle")
    stored = _throttles(shell)
    done = shell.json("reassign", "verify", "--clear-throttle", "--execute")

    assert moving["throttle_left"] is None
    assert "zkgroup reassign verify --clear-throttle --execute" in cancelled.err
    assert (early.code, "stays: 1 partition moves" in early.err) == (3, True)
    assert found["throttle_left"] == {"brokers": [1, 2, 3], "topics": ["orders"], "next": CLEAR}
    assert "brokers 1, 2, 3 and topic orders, and nothing moves" in screen.out
    assert [row for row in findings if row["subject"] == "throttle"] == [
        {
            "severity": "warning",
            "subject": "throttle",
            "detail": "brokers 1, 2, 3 and topic orders: throttled, and nothing moves",
            "next": CLEAR,
        }
    ]
    assert (shown.code, len(stored)) == (0, 4)
    assert "would remove the throttle of brokers 1, 2, 3 and topic orders" in shown.err
    assert (done["reassignments"], _throttles(shell)) == ([], [])
    assert shell.json("status")["throttle_left"] is None


def test_a_cancel_that_waits_removes_the_throttle(shell: Shell, cluster: ServerCluster) -> None:
    """Once nothing moves any more; a rate set by hand elsewhere stays."""
    cluster.broker(9)
    by_hand = {"leader.replication.throttled.rate": "1000"}
    shell.run(
        "config", "alter", "--broker", "9", "--set", "leader.replication.throttled.rate=1000", "--execute"
    )
    _execute(shell, "--throttle", "20kB")

    def controller() -> None:
        eventually(lambda: cluster.zk.read(REQUEST).stat.version)
        cluster.finish()

    with beside(controller):
        done = shell.json("reassign", "cancel", "--execute", "--wait")

    assert (done["status"], _throttles(shell)) == ("done", [by_hand])


def test_a_cancel_of_some_moves_leaves_the_throttle_of_the_others(
    shell: Shell, cluster: ServerCluster
) -> None:
    """The rates are those of brokers: they stay while another partition moves."""
    file = reassignment_file(shell.home, ("orders", 0, [3, 2]), ("orders", 1, [3, 1]))
    shell.run("reassign", "execute", "--reassignment-json-file", file, "--throttle", "20kB", "--execute")

    def controller() -> None:
        found = eventually(lambda: cluster.zk.read(REQUEST), lambda znode: znode.stat.version)
        rest = Reassignment.decode(REQUEST, found.data).moves[1:]
        cluster.zk.multi(SetData(REQUEST, Reassignment(rest).encode(), 1))

    with beside(controller):
        ran = shell.run("reassign", "cancel", "--topic", "orders:0", "--execute", "--wait")

    assert (ran.code, "the throttle stays" in ran.err, len(_throttles(shell))) == (0, True, 4)


@pytest.mark.parametrize("command", ["execute", "cancel"])
def test_a_wait_that_runs_out_prints_how_to_remove_the_throttle(
    shell: Shell, cluster: ServerCluster, command: str
) -> None:
    """Exit code 3 as every wait for moves that runs out, with progress on stderr."""
    words = _asked(shell, command)

    ran = shell.run("reassign", command, *words, "--wait", "--timeout", "50ms", "--execute")

    assert (ran.code, "0 of 1 partition done" in ran.err) == (3, True)
    (line,) = (line for line in ran.err.splitlines() if line.startswith("the throttle stays"))
    assert line.endswith("--clear-throttle --execute")


@pytest.mark.parametrize("command", ["execute", "cancel"])
def test_an_interrupted_wait_prints_how_to_remove_the_throttle(
    shell: Shell, cluster: ServerCluster, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Ctrl-C ends the wait, not the move: exit code 130."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    words = _asked(shell, command)
    monkeypatch.setattr(execution, "wait_for_reassignments", interrupted)

    ran = shell.run("reassign", command, *words, "--execute", "--wait")

    assert (ran.code, "--clear-throttle --execute" in ran.err) == (130, True)


def test_a_throttle_is_not_removed_without_a_file_unless_asked(shell: Shell, cluster: ServerCluster) -> None:
    """`verify` without a file does nothing else, and waits for nothing."""
    for words in ([], ["--clear-throttle", "--wait"]):
        ran = shell.run("reassign", "verify", *words)
        assert (ran.code, "--reassignment-json-file" in ran.err) == (2, True)

    assert "nothing is throttled" in shell.run("reassign", "verify", "--clear-throttle").err


def test_a_running_plan_keeps_its_throttle(shell: Shell, cluster: ServerCluster) -> None:
    """Between two phases nothing moves; the next one would go on without."""
    plan = shell.json("plan", "decommission", "1", "--execute")["kept"]["plan"]
    rate = ("--add-config", "leader.replication.throttled.rate=1000")
    assert shell.run("config", "alter", "--broker", "1", *rate, "--execute").code == 0

    ran = shell.run("reassign", "verify", "--clear-throttle", "--execute")

    assert (ran.code, f"the throttle of broker 1 stays: plan {plan} runs" in ran.err) == (3, True)
    assert shell.json("status")["throttle_left"] is None


def test_a_cancel_takes_the_old_order_from_the_rollback_file(shell: Shell, cluster: ServerCluster) -> None:
    """The topic keeps the replicas of before, not which of them led; the file is named in the preview."""
    _execute(shell)
    _begin(cluster)
    (rollback,) = (shell.home / "state" / "zkgroup" / "rollback").glob("*.json")

    shown = shell.run("reassign", "cancel")
    (row,) = shell.json("reassign", "cancel")["partitions"]
    (done,) = shell.json("reassign", "cancel", "--execute")["partitions"]
    (listed,) = shell.json("reassign", "list")["reassignments"]

    assert (row["from"], row["to"]) == ([2, 3, 1], [1, 2])
    assert (row["order_known"], row["order_from"]) == (True, str(rollback))
    assert f"note: the old replicas of orders-0: {rollback}" in shown.err
    assert (done["to"], listed["to"]) == ([1, 2], [1, 2])


def test_a_cancel_warns_that_the_order_may_differ(shell: Shell, cluster: ServerCluster) -> None:
    """Without the file of an execution from here; the option gives one."""
    _execute(shell)
    _begin(cluster)
    (rollback,) = (shell.home / "state" / "zkgroup" / "rollback").glob("*.json")
    elsewhere = rollback.rename(shell.home / "elsewhere.json")

    shown = shell.run("reassign", "cancel")
    (row,) = shell.json("reassign", "cancel")["partitions"]
    given = shell.json("reassign", "cancel", "--reassignment-json-file", str(elsewhere))["partitions"][0]

    assert (row["to"], row["order_known"], row["order_from"]) == ([2, 1], False, None)
    assert "the order that the replicas of orders-0 had is not known" in shown.err
    assert "--reassignment-json-file" in shown.err
    assert (given["to"], given["order_known"]) == ([1, 2], True)


def test_executions_elsewhere_and_damaged_records_are_passed_over(
    shell: Shell, cluster: ServerCluster
) -> None:
    """A cancel needs none of them: it says that the order is not known."""
    _execute(shell)
    _begin(cluster)
    (record,) = shell.undo_files
    text = record.read_text()
    record.write_text(text.replace('"zookeeper": "', '"zookeeper": "other'))
    other = shell.json("reassign", "cancel")["partitions"][0]
    record.write_text("{")
    damaged = shell.run("reassign", "cancel")

    assert (other["to"], other["order_known"]) == ([2, 1], False)
    assert (damaged.code, "earlier executions are not read" in damaged.err) == (0, True)


def test_an_unreadable_request_is_reported_and_removed(shell: Shell, cluster: ServerCluster) -> None:
    """By path, with exit code 4; `cancel` removes it, its bytes saved before."""
    cluster.zk.create_missing(admin_path())
    cluster.zk.multi(Create(REQUEST, b"garbage{"))
    words = ["--reassignment-json-file", reassignment_file(shell.home, ("orders", 0, [2, 3]))]

    listed = shell.json("reassign", "list", code=4)
    screen = shell.run("reassign", "list")
    refused = shell.run("reassign", "execute", *words, "--execute")
    findings = shell.json("doctor", code=3)["findings"]
    shown = shell.json("reassign", "cancel")
    some = shell.run("reassign", "cancel", "--topic", "orders:0", "--execute")
    still = cluster.zk.read(REQUEST).data
    done = shell.json("reassign", "cancel", "--execute")
    gone = cluster.zk.exists(REQUEST) is None
    undone = shell.run("offsets", "undo", done["undo"], "--execute")

    assert (listed["reassignments"], [one["path"] for one in listed["unreadable"]]) == ([], [REQUEST])
    assert "nothing is being moved" not in screen.out
    assert "zkgroup reassign cancel" in screen.err
    assert (refused.code, "zkgroup reassign cancel" in refused.err) == (6, True)
    assert [row["next"] for row in findings if row["subject"] == REQUEST] == ["zkgroup reassign cancel"]
    assert (shown["executed"], shown["unreadable"]["path"], still) == (False, REQUEST, b"garbage{")
    assert (some.code, "without --topic it is removed" in some.err) == (2, True)
    assert (done["executed"], done["partitions"], gone) == (True, [], True)
    assert (undone.code, cluster.zk.read(REQUEST).data) == (0, b"garbage{")


def test_every_move_is_listed_when_nothing_is_unreadable(shell: Shell, cluster: ServerCluster) -> None:
    """The list of what cannot be read is there and empty; `verify` reports it for each partition."""
    words = _execute(shell)

    assert shell.json("reassign", "list")["unreadable"] == []
    assert shell.json("reassign", "verify", *words, code=3)["unreadable"] is None
    assert Path(words[1]).is_file()
