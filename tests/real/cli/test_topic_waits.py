"""`--wait` of `topic create`, `alter` and `delete` on a real server."""

from __future__ import annotations

import pytest

from tests.real.cli.server_cluster import ServerCluster
from tests.waiting import eventually
from tests.worlds.other_clients import beside
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.model.requests import Delete
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerRegistration

SOON = ("--wait", "--timeout", "50ms")


@pytest.fixture
def cluster(groups: ServerGroups) -> ServerCluster:
    """Brokers 1 to 3 of Kafka, whose controller does nothing."""
    return ServerCluster(groups)


def test_a_topic_is_waited_for_until_it_is_led(shell: Shell, cluster: ServerCluster) -> None:
    """A zkgroup controller: exit 0 once each partition has a leader, of the new ones too."""
    cluster.zk.multi(Delete(ControllerRegistration.path(), -1))
    words = ("broker", "run", "--id", "100", "--controller-only", "--set", "zookeeper.session.timeout.ms=60s")
    with shell.start(*words) as controller:
        controller.until_event("controller")
        made = shell.json("topic", "create", "orders", "--partitions", "2", "--wait")
        grown = shell.json("topic", "alter", "orders", "--partitions", "3", "--execute", "--wait")
        (topic,) = shell.json("topic", "describe", "orders")["topics"]
        assert controller.stop() == 0

    assert (made["created"], made["converged"], made["leaderless"]) == (True, True, [])
    assert (grown["executed"], grown["converged"], grown["leaderless"]) == (True, True, [])
    assert all(row["leader"] in (1, 2, 3) for row in topic["partitions"])


def test_a_topic_without_leaders_ends_with_3(shell: Shell, cluster: ServerCluster) -> None:
    """Each partition with why; without --wait nothing of that is known."""
    plain = shell.json("topic", "create", "clicks", "--partitions", "1")
    words = ("topic", "create", "orders", "--replica-assignment", "1:2,8:9")
    made = shell.run(*words, *SOON)
    again = shell.json(*words, "--if-not-exists", *SOON, code=3)
    grown = shell.run("topic", "alter", "clicks", "--partitions", "2", "--execute", *SOON)

    assert (plain["converged"], plain["leaderless"]) == (None, None)
    assert (made.code, made.out) == (3, "created orders with 2 partitions\n")
    assert made.err.splitlines()[-3:] == [
        "0 of 2 partitions led",
        "orders-0 has no leader: the controller has not elected a leader yet",
        "orders-1 has no leader: brokers 8, 9 are not registered, or hosting nothing",
    ]
    assert (again["created"], again["converged"]) == (False, False)
    assert [row["partition"] for row in again["leaderless"]] == [0, 1]
    assert grown.code == 3
    assert [line.partition(":")[0] for line in grown.err.splitlines()[-2:]] == [
        "0 of 1 partition led",
        "clicks-1 has no leader",
    ]


def test_a_preview_of_a_topic_does_not_wait(shell: Shell, cluster: ServerCluster) -> None:
    """Previews end at once; settings are applied without a word, and that is said."""
    dry = shell.json("topic", "create", "orders", "--partitions", "1", "--dry-run", "--wait")
    cluster.topic("clicks", (1, 2))
    shown = shell.json("topic", "alter", "clicks", "--partitions", "2", "--wait")
    deletion = shell.json("topic", "delete", "clicks", "--wait")
    setting = ("topic", "alter", "clicks", "--config", "flush.ms=1", "--execute")
    altered = shell.run(*setting, "--wait")

    assert [each["converged"] for each in (dry, shown, deletion)] == [None, None, None]
    assert (altered.code, "there is nothing to wait for" in altered.err) == (0, True)
    assert shell.run("topic", "create", "x", "--partitions", "1", "--timeout", "1s").code == 2


def test_a_deletion_that_was_waited_for_ends_with_deleted(shell: Shell, cluster: ServerCluster) -> None:
    """Without --wait it ends with what was asked, as the controller may not have done it yet."""
    cluster.topic("orders", (1, 2))

    with beside(lambda: _carry_out_deletion(cluster, "orders")):
        ran = shell.run("topic", "delete", "orders", "--execute", "--wait")

    assert (ran.code, ran.out) == (0, "deleted topic orders\n")


def _carry_out_deletion(cluster: ServerCluster, topic: str) -> None:
    """What a controller does once it is asked."""
    eventually(lambda: cluster.zk.exists(TopicDeletion.path(topic)))
    for path in (*cluster.tree(Topic.path(topic)), TopicConfig.path(topic), TopicDeletion.path(topic)):
        cluster.zk.multi(Delete(path, -1))


def test_a_deletion_is_waited_for(shell: Shell, cluster: ServerCluster) -> None:
    """What it waits for meanwhile, exit 3 when that takes too long, and 0 once nothing is left.

    One that was asked for before is waited for just so.
    """
    cluster.topic("orders", (1, 2), (2, 9))
    late = shell.run("topic", "delete", "orders", "--execute", *SOON)
    again = shell.run("topic", "delete", "orders", "--execute", *SOON)
    cluster.zk.multi(Delete(TopicDeletion.path("orders"), -1))

    with beside(lambda: _carry_out_deletion(cluster, "orders")):
        done = shell.json("topic", "delete", "orders", "--execute", "--wait")

    assert (late.code, late.out) == (3, "asked controller 1 to delete topic orders\n")
    assert (again.code, again.out) == (3, "controller 1 was asked before to delete topic orders\n")
    assert "orders: waits for broker 9 to be back" in late.err.splitlines()
    assert "orders still exists: waits for broker 9 to be back" in late.err.splitlines()
    assert (done["executed"], done["converged"], done["detail"]) == (True, True, None)


def test_without_a_controller_the_znodes_are_removed_at_once(shell: Shell) -> None:
    """Without a controller the command deletes everything itself."""
    shell.run("topic", "create", "orders", "--partitions", "1")

    assert shell.json("topic", "delete", "orders", "--execute", "--wait")["converged"] is True
