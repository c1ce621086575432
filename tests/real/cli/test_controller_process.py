"""Requests of an operator to a zkgroup controller that runs as a process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.real.cli.server_cluster import ServerCluster, reassignment_file
from tests.waiting import becomes, eventually
from tests.worlds.other_clients import beside
from tests.worlds.processes import Process
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, SetData
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.zookeeper.blocking import Blocking

LASTING = ("--set", "zookeeper.session.timeout.ms=60s")
RUN = ("broker", "run", *LASTING)


@pytest.fixture
def cluster(shell: Shell, groups: ServerGroups) -> Iterator[ServerCluster]:
    """Brokers that do not respond, orders-0 without a live replica in sync, and a zkgroup controller."""
    made = ServerCluster(groups)
    made.zk.multi(Delete(ControllerRegistration.path(), -1))
    made.topic("orders", (9, 1), (1, 2), leaders={0: -1})
    path = PartitionState.path(TopicPartition("orders", 0))
    made.zk.multi(SetData(path, PartitionState(-1, 1, (9,), 7).encode(), 0))
    with shell.start(*RUN, "--id", "100", "--controller-only") as controller:
        controller.until_event("controller")
        yield made
        assert controller.stop() == 0


def test_an_unclean_election_is_carried_out_and_answered(shell: Shell, cluster: ServerCluster) -> None:
    """The offline partition waits, is named in `status`, and has a leader after the request (recipes 15)."""
    done = shell.json("elect", "unclean", "--topic", "orders", "--execute", "--wait", "--timeout", "10m")
    (topic,) = shell.json("topic", "describe", "orders")["topics"]

    assert (done["converged"], done["epoch"]) == (True, 8)
    assert [(row["outcome"], row["verdict"], row["elected"]) for row in done["partitions"]] == [
        ("unclean", "unclean", 1),
        ("led", None, None),
    ]
    assert (topic["partitions"][0]["leader"], topic["partitions"][0]["isr"]) == (1, [1])
    assert shell.json("status")["offline_partitions"] == 0


def test_a_plan_is_submitted_by_the_controller_and_its_move_cancelled(
    shell: Shell, cluster: ServerCluster
) -> None:
    """The tool only keeps it; brokers that never fetch leave it waiting; cancelled, it fails (recipes 17)."""
    done = shell.json("plan", "decommission", "2", "--execute")
    name = done["kept"]["plan"]
    becomes(lambda: shell.json("status")["reassigning"], 1)
    (running,) = shell.json("reassign", "list")["plans"]
    cancelled = shell.json("reassign", "cancel", "--execute")
    becomes(lambda: shell.json("reassign", "list")["plans"][0]["state"], "failed")
    failed = shell.json("plan", "resume", name, code=3)

    assert (running["plan"], running["state"], running["next_phase"]) == (name, "running", 1)
    assert [row["to"] for row in cancelled["partitions"]] == [[1, 2]]
    assert "orders-1" in failed["reason"]


@pytest.fixture
def brokers(shell: Shell) -> Iterator[dict[int, Process]]:
    """zkgroup brokers 1 to 3, with files; the first is the controller."""
    quick = ("--set", "replica.fetch.wait.max.ms=50ms", "--set", "replica.fetch.backoff.ms=20ms")
    with ExitStack() as stack:
        started: dict[int, Process] = {}
        for number in (1, 2, 3):
            folder = ("--data", str(shell.home / f"broker-{number}"))
            started[number] = stack.enter_context(shell.start(*RUN, "--id", str(number), *folder, *quick))
            if number == 1:
                started[1].until_event("controller")
        for number in (2, 3):
            started[number].until_event("registered")
        yield started


def test_zkgroup_brokers_carry_a_plan_out(shell: Shell, brokers: dict[int, Process]) -> None:
    """recipes 17: phase after phase by the controller; the tool only waits, then all is where it shall be."""
    shell.run("topic", "create", "t", "--replica-assignment", "1:2,2:1")
    _wait_until_led(shell)
    words = ("plan", "decommission", "1", "--max-moves", "1", "--execute", "--wait")
    done = shell.json(*words, "--timeout", "10m")
    (topic,) = shell.json("topic", "describe", "t")["topics"]

    assert (done["kept"]["state"], done["kept"]["phases"], done["kept"]["done"]) == ("done", 2, 2)
    assert [sorted(row["isr"]) for row in topic["partitions"]] == [[2, 3], [2, 3]]


def test_a_cancelled_move_ends_at_the_old_order_without_its_throttle(
    shell: Shell, brokers: dict[int, Process], witness: Blocking
) -> None:
    """The preferred leader of before, and nothing is slowed any more (recipes 17).

    The broker that is to have the replica stands still until the move is cancelled: it would have it at once.
    """
    shell.run("topic", "create", "t", "--replica-assignment", "1:2")
    _wait_until_led(shell)
    assert shell.run("produce", "t", stdin="a\n").code == 0
    brokers[3].pause()
    words = ("--reassignment-json-file", reassignment_file(shell.home, ("t", 0, [2, 3])))
    shell.json("reassign", "execute", *words, "--throttle", "1kB", "--execute")
    becomes(lambda: _replicas(shell), [2, 3, 1])
    asked_for = witness.read(Reassignment.path()).data

    def third() -> None:
        eventually(
            lambda: witness.find(Reassignment.path()), lambda one: one is None or one.data != asked_for
        )
        brokers[3].send(signal.SIGCONT)

    with beside(third):
        done = shell.json("reassign", "cancel", "--execute", "--wait", "--timeout", "10m")

    assert (done["status"], done["partitions"][0]["to"]) == ("done", [1, 2])
    assert _replicas(shell) == [1, 2]
    rates = shell.json("config", "describe", "--entity-type", "brokers")["configs"]
    assert not any(row["configs"] for row in rates)
    assert shell.json("status")["throttle_left"] is None


def _wait_until_led(shell: Shell) -> None:
    becomes(lambda: shell.json("status")["offline_partitions"], 0)


def _replicas(shell: Shell) -> list[int]:
    (topic,) = shell.json("topic", "describe", "t")["topics"]
    replicas: list[int] = topic["partitions"][0]["replicas"]
    return replicas
