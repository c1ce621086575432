"""`controller resign`, `elect unclean` and `status` on a real server, with a zkgroup controller."""

from __future__ import annotations

from tests.real.cli.active_controllers import Controllers
from tests.real.cli.server_cluster import ServerCluster
from tests.waiting import eventually
from tests.worlds.other_clients import beside
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.admin_requests import (
    PartitionVerdict,
    UncleanElection,
    UncleanElectionDone,
    unclean_elections_path,
)
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerStatus


def test_a_controller_resigns_when_it_is_asked(shell: Shell, zk_server: ServerTree) -> None:
    """Shown first; then `/controller` goes, the next has the next epoch, no request stays (recipes 13)."""
    with Controllers(zk_server.address) as controllers:
        controllers.add(1)

        shown = shell.json("controller", "resign")
        message = shell.run("controller", "resign").err
        untouched = shell.run("znode", "get", "/zkgroup/controller/resign")
        controllers.add(2)
        done = shell.json("controller", "resign", "--execute", "--wait", "--timeout", "10m")
        controllers.add(3)
        again = shell.run("controller", "resign", "--execute", "--wait", "--timeout", "10m")
        history = eventually(  # the end of an epoch is recorded after `/controller` is deleted
            lambda: shell.json("controller", "history")["epochs"], lambda rows: rows[1]["ended"]
        )

    assert (shown["executed"], shown["resigned"], untouched.code) == (False, None, 5)
    assert "note: this cannot be undone: " in message
    assert (done["controller"], done["epoch"], done["executed"], done["resigned"]) == (1, 1, True, True)
    assert done["successor"] == 2
    assert (again.code, again.out) == (
        0,
        "controller 2, epoch 2 has resigned; broker 3 is the controller now\n",
    )
    assert [(row["epoch"], row["broker"], row["ended"]) for row in history[1:]] == [
        (2, 2, "an operator asked for it"),
        (1, 1, "an operator asked for it"),
    ]


def test_waiting_for_a_controller_that_hangs_ends_with_3(shell: Shell, groups: ServerGroups) -> None:
    """The controller here is a znode without a process."""
    ServerCluster(groups).ours()

    ran = shell.run("controller", "resign", "--execute", "--wait", "--timeout", "50ms")
    second = shell.run("controller", "resign", "--execute")

    assert ran.code == 3
    assert ran.out == "asked controller 1, epoch 7 to resign; it has not yet\n"
    assert "stays until a controller carries it out" in ran.err
    assert (second.code, "asked already" in second.err) == (6, True)


def test_a_real_controller_is_left_alone(shell: Shell, groups: ServerGroups) -> None:
    """Exit 2 with the reason; exit 5 where there is none (recipes 13)."""
    none = shell.run("controller", "resign", "--execute")
    ServerCluster(groups)
    refused = shell.run("controller", "resign", "--execute")

    assert (none.code, refused.code) == (5, 2)
    assert "is a Kafka controller" in refused.err
    assert shell.run("znode", "get", "/zkgroup/controller/resign").code == 5


def _leaderless(groups: ServerGroups) -> ServerCluster:
    """orders-0 has no leader: its only replica in sync is not live."""
    cluster = ServerCluster(groups)
    cluster.topic("orders", (9, 1), (1, 2), leaders={0: -1})
    path = PartitionState.path(TopicPartition("orders", 0))
    cluster.zk.multi(SetData(path, PartitionState(-1, 1, (9,), 7).encode(), 0))
    return cluster


def test_an_unclean_election_is_requested_and_its_outcome_reported(
    shell: Shell, groups: ServerGroups
) -> None:
    """What may be lost is said first; then the controller's word for each partition (recipes 15)."""
    cluster = _leaderless(groups)
    cluster.ours()
    shown = shell.run("elect", "unclean", "--topic", "orders")

    def controller() -> None:
        request = eventually(lambda: cluster.zk.find(UncleanElection.path()))
        assert request is not None
        verdict = PartitionVerdict(TopicPartition("orders", 0), "unclean", 1, "broker 1 was not in sync")
        done = UncleanElectionDone((verdict,), 7, 1)
        cluster.zk.create_missing(unclean_elections_path())
        cluster.zk.multi(
            Create(UncleanElectionDone.path(request.stat.czxid), done.encode()), Delete(request.path, 0)
        )

    with beside(controller):
        done = shell.json("elect", "unclean", "--topic", "orders", "--execute", "--wait")

    assert shown.lines[-1] == "would ask for 1 election; 1 partition may lose records"
    assert "note: this cannot be undone: " in shown.err
    assert [row["outcome"] for row in done["partitions"]] == ["unclean", "led"]
    assert (done["converged"], done["epoch"]) == (True, 7)
    assert [(row["verdict"], row["elected"]) for row in done["partitions"]] == [("unclean", 1), (None, None)]


def test_an_unclean_election_without_an_outcome_ends_with_3(shell: Shell, groups: ServerGroups) -> None:
    """The request stays, and a second one is a conflict."""
    _leaderless(groups).ours()
    words = ("elect", "unclean", "--topic", "orders:0", "--execute")

    ran = shell.run(*words, "--wait", "--timeout", "50ms")
    second = shell.run(*words)

    assert (ran.code, "has not reported yet" in ran.err) == (3, True)
    assert (second.code, "orders-0" in second.err) == (6, True)


def test_an_unclean_election_is_refused_at_a_real_controller(shell: Shell, groups: ServerGroups) -> None:
    """Exit 2, with the setting that it obeys; nothing to elect is said and not asked for (recipes 15)."""
    cluster = _leaderless(groups)
    refused = shell.run("elect", "unclean", "--topic", "orders:0", "--execute")
    cluster.ours()
    idle = shell.run("elect", "unclean", "--topic", "orders:1", "--execute")

    assert (refused.code, "unclean.leader.election.enable=true" in refused.err) == (2, True)
    assert (idle.code, idle.lines[-1]) == (0, "nothing to elect")
    assert shell.run("znode", "get", UncleanElection.path()).code == 5


def test_an_unclean_election_without_a_live_replica_is_refused(shell: Shell, groups: ServerGroups) -> None:
    """The exit codes of `elect preferred`: none 2, some 4, unreadable 4 also in a preview."""
    cluster = ServerCluster(groups)
    cluster.ours()
    cluster.topic("orders", (9, 8), (1, 2), (1, 2))
    path = PartitionState.path(TopicPartition("orders", 2))
    cluster.zk.multi(SetData(path, b"{", 0))
    words = ("elect", "unclean", "--topic")

    shown = shell.run(*words, "orders:0")
    none = shell.run(*words, "orders:0", "--execute", "--wait")
    some = shell.run(*words, "orders:0,1", "--execute")
    unread = shell.run(*words, "orders:2")

    assert (
        (shown.code, shown.err) == (none.code, none.err) == (2, "error: not elected: orders-0 (not live)\n")
    )
    assert (some.code, unread.code) == (4, 4)
    assert unread.err.endswith("error: cannot be read: orders-2\n")
    assert shell.run("znode", "get", UncleanElection.path()).code == 5


def test_the_status_has_what_the_controller_cannot_do(shell: Shell, groups: ServerGroups) -> None:
    """Kind, no leader, unreadable paths, who may fetch again, what waits (recipes 15 and 18)."""
    cluster = _leaderless(groups)
    real = shell.run("status")
    cluster.ours()
    says = ControllerStatus(
        1,
        7,
        2**40,
        5,
        {"/odd": "expected an object"},
        {3: ("orders-1",)},
        {"leader of orders-0": "nobody", "move of orders-1": "a", "move of orders-2": "a"},
        2,
    )
    cluster.zk.create_missing("/zkgroup", "/zkgroup/controller")
    cluster.zk.multi(Create(ControllerStatus.path(), says.encode(), ephemeral=True))

    found = shell.json("status")
    table = shell.run("status")
    doctor = shell.run("doctor")

    assert "controller  broker 1, epoch 7, Kafka" in real.lines
    assert "partitions  1 without a live leader" in real.lines
    assert (found["controller_kind"], found["controller_hung"], found["offline_partitions"]) == (
        "zkgroup",
        False,
        1,
    )
    assert found["unreadable"] == [{"path": "/odd", "detail": "expected an object"}]
    assert found["refetching"] == [{"broker": 3, "partitions": ["orders-1"]}]
    assert [row["what"] for row in found["waiting"]][1:] == ["move of orders-1", "move of orders-2"]
    assert table.lines[-5:] == [
        "unreadable  /odd: expected an object",
        "broker 3    may fetch orders-1 again from the start: repair their states",
        "waits       leader of orders-0: nobody",
        "waits       move of 2 partitions of orders (1-2): a",
        "and         2 more",
    ]
    assert (doctor.code, "zkgroup znode get /odd" in doctor.out) == (3, True)
    assert "error    leader of orders-0: nobody" in doctor.lines
    assert "info     move of 2 partitions of orders (1-2): a" in doctor.lines


def test_an_unreadable_state_is_named_under_any_controller(shell: Shell, groups: ServerGroups) -> None:
    """A controller reads states when it needs them, and Kafka's reports none: `status` reads them itself."""
    cluster = ServerCluster(groups)
    cluster.topic("orders", (1, 2), (2, 1))
    path = PartitionState.path(TopicPartition("orders", 1))
    cluster.zk.multi(SetData(path, b"junk", 0), SetData(TopicConfig.path("orders"), b"{", 0))

    shown = shell.json("status")
    described = shell.run("topic", "describe", "orders", "--format", "json")
    doctor = shell.run("doctor")

    assert [each["path"] for each in shown["unreadable"]] == [path, TopicConfig.path("orders")]
    assert shown["unreadable"][0]["detail"].startswith("expected a partition state, found 'junk'")
    assert shown["offline_partitions"] == 1
    assert described.code == 4
    assert f"not described: {TopicConfig.path('orders')}: " in described.err
    assert f"{path}: expected a partition state" in described.err
    (topic,) = described.document["topics"]
    assert (topic["configs"], [row["leader"] for row in topic["partitions"]]) == (None, [1, None])
    assert f"error    {path}: expected a partition state" in doctor.out
    assert "no controller can use it" in doctor.out
