"""`zkgroup plan --save`, `--execute`, `list`, `resume`, `pause` and `cancel` against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.cli.server_cluster import ServerCluster
from tests.waiting import eventually
from tests.worlds.other_clients import beside
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.reassignment_records import StoredPlan, plans_path

EMPTY = ("plan", "decommission", "1", "--max-moves", "1")


@pytest.fixture
def cluster(groups: ServerGroups) -> ServerCluster:
    made = ServerCluster(groups)
    made.topic("orders", (1, 2), (2, 1))
    return made


@contextmanager
def _carrying_out(cluster: ServerCluster, phases: int) -> Iterator[None]:
    """A real controller that carries out so many requests."""

    def controller() -> None:
        for _ in range(phases):
            eventually(lambda: cluster.zk.exists(Reassignment.path()))
            cluster.finish()

    with beside(controller):
        yield


def test_a_plan_is_begun_and_carried_on_to_its_end(shell: Shell, cluster: ServerCluster) -> None:
    """Phase after phase beside a real controller; throttle, rollback file as with `execute` (recipes 17)."""
    with _carrying_out(cluster, 2):
        ran = shell.run(*EMPTY, "--execute", "--wait", "--throttle", "1MB", "--format", "json")

    done = ran.document
    assert ran.code == 0
    assert (done["executed"], done["kept"]["state"], done["kept"]["next_phase"]) == (True, "done", 2)
    assert json.loads(Path(done["rollback_file"]).read_text())["partitions"] == [
        {"topic": "orders", "partition": 0, "replicas": [1, 2]},
        {"topic": "orders", "partition": 1, "replicas": [2, 1]},
    ]
    assert "broker 1 is a Kafka controller, which reads no plan" in ran.err
    assert "2 of 2 partitions done" in ran.err
    assert "the throttle is removed" in ran.err
    assert shell.json("broker", "describe", "1")["replicas"] == 0
    (listed,) = shell.json("reassign", "list")["plans"]
    assert (listed["plan"], listed["done"], listed["total"]) == (done["kept"]["plan"], 2, 2)
    assert len(shell.undo_files) == 1


def test_a_plan_is_stored_and_resumed(shell: Shell, cluster: ServerCluster) -> None:
    """Nothing moves until then; a wait that runs out ends with 3 and leaves the plan as it is."""
    left = shell.run(*EMPTY, "--save", "--format", "json")
    name = left.document["kept"]["plan"]
    shown = shell.json("plan", "resume", name)
    words = ("plan", "resume", name, "--execute", "--wait", "--timeout")
    early = shell.run(*words, "50ms", "--format", "json")
    listed = shell.run("reassign", "list")
    with _carrying_out(cluster, 2):
        done = shell.json(*words, "10m")
    again = shell.json("plan", "resume", name, "--execute")
    stored = shell.json("plan", "list")["plans"]

    assert (left.code, left.document["executed"], left.document["kept"]["state"]) == (0, False, "paused")
    assert f"plan resume {name}" in left.err
    assert (shown["executed"], shown["state"], shown["next_phase"]) == (False, "paused", 0)
    assert [[move["to"] for move in phase] for phase in shown["moves"]] == [[[3, 2]], [[2, 3]]]
    assert (early.code, early.document["state"], early.document["next_phase"]) == (3, "running", 1)
    assert any(line.startswith(name) and "1 of 2" in line for line in listed.lines)
    assert (done["state"], done["done"]) == ("done", 2)
    assert (again["executed"], again["state"]) == (False, "done")
    assert [(one["plan"], one["state"]) for one in stored] == [(name, "done")]


def test_a_plan_is_paused_and_cancelled(shell: Shell, cluster: ServerCluster) -> None:
    """No further phase is asked for; what ran goes on, and is named."""
    name = shell.json(*EMPTY, "--execute")["kept"]["plan"]
    cluster.finish()

    shown = shell.json("plan", "pause", name)
    paused = shell.run("plan", "pause", name, "--execute")
    resumed = shell.json("undo", "--execute")
    cluster.finish()
    asked = shell.run("plan", "cancel", name)
    waited = shell.json("plan", "cancel", name, "--execute")
    undone = shell.run("undo", "--execute")
    refused = shell.run("plan", "resume", name, "--execute")

    assert (shown["executed"], shown["state"]) == (False, "running")
    assert (paused.code, "moves under way continue" in paused.err) == (0, True)
    assert "to undo: zkgroup undo " in paused.err
    assert (resumed["executed"], resumed["plan"]) == (True, name)
    assert "note: this cannot be undone: a cancelled plan cannot be resumed" in asked.err
    assert (undone.code, "cannot be undone: a cancelled plan cannot be resumed" in undone.err) == (2, True)
    assert (waited["state"], waited["done"], waited["reason"]) == (
        "cancelled",
        None,
        "an operator asked for it",
    )
    assert (refused.code, "make a new one" in refused.err) == (2, True)
    assert shell.json("reassign", "list")["reassignments"] == []


def test_a_zkgroup_controller_continues_a_plan_by_itself(shell: Shell, cluster: ServerCluster) -> None:
    """The plan runs in ZooKeeper; the tool asks for nothing."""
    cluster.ours()

    done = shell.run(*EMPTY, "--execute", "--format", "json")

    assert (done.code, done.document["kept"]["state"], done.document["kept"]["next_phase"]) == (
        0,
        "running",
        0,
    )
    assert "Kafka controller" not in done.err
    assert cluster.zk.exists(Reassignment.path()) is None


def test_dry_runs_keep_nothing(shell: Shell, cluster: ServerCluster) -> None:
    """`--dry-run` outranks `--save`."""
    shown = shell.json(*EMPTY, "--save", "--dry-run")

    assert (shown["kept"], shown["executed"], shown["rollback_file"]) == (None, False, None)
    assert cluster.zk.exists(plans_path()) is None


def test_the_old_spelling_is_an_alias(shell: Shell, cluster: ServerCluster) -> None:
    """`reassign plan ...`, with the id of a stored plan behind an option, and undo records made with it."""
    name = shell.json("reassign", *EMPTY, "--save")["kept"]["plan"]

    shown = shell.json("reassign", "plan", "--resume", name)
    cancelled = shell.json("reassign", "plan", "--cancel", name, "--execute")

    assert (shown["plan"], shown["state"]) == (name, "paused")
    assert (cancelled["plan"], cancelled["state"]) == (name, "cancelled")


def test_a_plan_of_some_topics_leaves_the_others(shell: Shell, cluster: ServerCluster) -> None:
    """Each kind of plan takes --topic; one that is not there is exit 5."""
    cluster.topic("clicks", (1, 2), (2, 1))

    whole = shell.json("plan", "decommission", "1")
    some = shell.json("plan", "decommission", "1", "--topic", "clicks")
    swapped = shell.json("plan", "replace", "1=3", "--topic", "clicks")
    unknown = shell.run("plan", "balance", "--topic", "nope")

    assert {row["topic"] for row in whole["changes"]} == {"clicks", "orders"}
    assert {row["topic"] for row in some["changes"]} == {"clicks"}
    assert [(row["topic"], row["to"]) for row in swapped["changes"]] == [
        ("clicks", [3, 2]),
        ("clicks", [2, 3]),
    ]
    assert (unknown.code, "nope" in unknown.err) == (5, True)


@pytest.mark.parametrize(
    "odd",
    [
        ["--resume", "p", "--pause", "p"],
        ["--execute"],
        ["--pause", "p", "--wait"],
        ["--resume", "p", "--timeout", "5s"],
        ["--resume", "p", "decommission", "1"],
        ["--execute", "decommission", "1"],
    ],
)
def test_contradictions_are_usage_errors(lone_shell: Shell, odd: list[str]) -> None:
    """Before anything is read."""
    assert lone_shell.run("reassign", "plan", *odd, "-z", "127.0.0.1:1").code == 2


def test_an_unknown_plan_is_exit_5_and_an_unreadable_one_a_note(shell: Shell, cluster: ServerCluster) -> None:
    """`reassign list` goes on with the rest."""
    name = shell.json(*EMPTY, "--save")["kept"]["plan"]
    cluster.odd(StoredPlan.path("odd"))

    listed = shell.run("reassign", "list", "--format", "json")

    assert shell.run("plan", "resume", "none").code == 5
    assert [plan["plan"] for plan in listed.document["plans"]] == [name]
    assert StoredPlan.path("odd") in listed.err
