"""`zkgroup broker`, `controller`, `elect`, `config`, `topic alter` against a real server."""

from __future__ import annotations

import shlex

import pytest

from tests.real.cli.server_cluster import ServerCluster
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.admin.topics.listing import topic_exists
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.config_settings import RATES
from zkgroup.znodes.stray_replicas import StrayReplicas, StrayTopic


@pytest.fixture
def cluster(groups: ServerGroups) -> ServerCluster:
    return ServerCluster(groups)


def test_brokers_are_listed_and_described(shell: Shell, cluster: ServerCluster) -> None:
    """Each with its epoch, its kind, and whether it is the controller; what it hosts on request."""
    cluster.topic("orders", (1, 2), (2, 1))

    rows = shell.json("broker", "list")["brokers"]
    one = shell.json("broker", "describe", "1")
    table = shell.run("broker", "list")

    assert [(row["broker"], row["kind"], row["controller"]) for row in rows] == [
        (1, "kafka", True),
        (2, "kafka", False),
        (3, "kafka", False),
    ]
    assert (one["replicas"], one["leaders"], one["endpoints"]) == (2, 1, ["PLAINTEXT://h:9092"])
    assert [line.split()[0] for line in table.lines] == ["BROKER", "1", "2", "3"]
    assert shell.run("broker", "describe", "9").code == 5


def test_a_lost_broker_is_forgotten_on_confirmation(shell: Shell, cluster: ServerCluster) -> None:
    """A preview changes nothing; exit 2 while it is registered, 5 where nothing is recorded of it."""
    path = StrayReplicas.path(9)
    record = StrayReplicas((StrayTopic("orders", 7, (0, 2), 5),)).encode()
    cluster.zk.create_missing(*(path.rsplit("/", count)[0] for count in (2, 1)))
    cluster.zk.multi(Create(path, record), Create(StrayReplicas.path(1), record))

    plan = shell.json("broker", "forget", "9")
    registered = shell.run("broker", "forget", "1", "--execute")
    assert cluster.zk.find(path) is not None
    done = shell.run("broker", "forget", "9", "--execute")

    assert (plan["broker"], plan["executed"]) == (9, False)
    left = {"topic": "orders", "czxid": 7, "partitions": [0, 2], "is_there": False}
    assert plan["left"] == [left]
    assert (registered.code, done.code) == (2, 0)
    assert "broker 1 is registered" in registered.err
    assert done.lines[-1] == "forgotten: 1 record"
    assert "cannot be undone" in done.err
    assert (cluster.zk.find(path), shell.run("broker", "forget", "9").code) == (None, 5)
    assert cluster.zk.find(StrayReplicas.path(1)) is not None


def test_what_a_broker_may_host_uncounted_is_reported(shell: Shell, cluster: ServerCluster) -> None:
    """Exit 4 where a topic, or the state of a partition on it, cannot be read."""
    cluster.topic("orders", (1, 2), (2, 3))
    states = [PartitionState.path(TopicPartition("orders", number)) for number in (0, 1)]
    cluster.zk.multi(*[SetData(path, b"{", -1) for path in states])
    cluster.odd(Topic.path("odd"))

    ran = shell.run("broker", "describe", "1", "--format", "json")

    assert (ran.code, ran.document["replicas"], ran.document["leaders"]) == (4, 1, 0)
    assert ran.err.startswith("error: not counted: /brokers/topics/odd: expected a topic, found ")
    assert f"; {states[0]}: expected a partition state" in ran.err
    assert states[1] not in ran.err


def test_the_controller_is_described(shell: Shell, groups: ServerGroups) -> None:
    """Exit code 5 while there is none."""
    none = shell.run("controller", "describe")
    ServerCluster(groups)
    one = shell.json("controller", "describe")

    assert (none.code, "/controller" in none.err) == (5, True)
    assert (one["controller"], one["epoch"], one["kind"], one["last_processed_zxid"]) == (1, 7, "kafka", None)
    assert shell.json("controller", "history")["epochs"] == []


def test_an_election_is_shown_then_asked_for(shell: Shell, cluster: ServerCluster) -> None:
    """Nothing without --execute; a second one while the first waits is exit 6; not converged is 3."""
    cluster.topic("orders", (1, 2), (2, 1), leaders={1: 1})

    shown = shell.json("elect", "preferred")
    message = shell.run("elect", "preferred").err
    before = shell.run("znode", "get", "/admin/preferred_replica_election")
    done = shell.json(
        "elect", "preferred", "--topic", "orders:1", "--execute", "--wait", "--timeout", "100ms", code=3
    )
    again = shell.run("elect", "preferred", "--execute")

    assert [row["outcome"] for row in shown["partitions"]] == ["leads", "elects"]
    assert (shown["executed"], before.code) == (False, 5)
    assert "note: this cannot be undone: " in message
    assert (done["executed"], done["converged"]) == (True, False)
    assert shell.json("znode", "get", "/admin/preferred_replica_election")["data"] == (
        '{"version":1,"partitions":[{"topic":"orders","partition":1}]}'
    )
    assert again.code == 6


def test_partitions_that_cannot_be_elected_have_the_reason(shell: Shell, cluster: ServerCluster) -> None:
    """There is no request for nothing, and that is no success; no leader is Kafka's -1 in JSON."""
    cluster.topic("orders", (9, 1), (8, 1), leaders={0: 1, 1: -1})

    ran = shell.run("elect", "preferred", "--execute")
    rows = shell.json("elect", "preferred", code=2)["partitions"]

    assert [line.split() for line in ran.lines[1:]] == [
        ["orders", "0", "1", "9", "not", "live"],
        ["orders", "1", "none", "8", "not", "live"],
        ["nothing", "to", "elect"],
    ]
    assert (ran.code, ran.err) == (
        2,
        "error: not elected: orders-0 (not live), orders-1 (not live)\n",
    )
    assert [row["leader"] for row in rows] == [1, -1]
    assert shell.run("znode", "get", "/admin/preferred_replica_election").code == 5


def test_an_election_of_some_alone_is_partly_done(shell: Shell, cluster: ServerCluster) -> None:
    """Exit 4 with those that were not elected; a state that cannot be read is 4 in a preview too."""
    cluster.topic("orders", (1, 2), (2, 1), (9, 1), leaders={1: 1, 2: 1})
    some = shell.run("elect", "preferred", "--topic", "orders:0,2", "--execute", "--wait")
    path = PartitionState.path(TopicPartition("orders", 0))
    cluster.zk.multi(SetData(path, b"{", 0))

    shown = shell.run("elect", "preferred", "--topic", "orders:0,1")
    alone = shell.run("elect", "preferred", "--topic", "orders:0", "--execute", "--wait")
    every = shell.run("elect", "preferred", "--execute")

    assert (some.code, some.err) == (4, "error: not elected: orders-2 (not live)\n")
    assert (shown.code, alone.code, every.code) == (4, 4, 4)
    assert shown.err.endswith("error: cannot be read: orders-0\n")
    assert every.err.endswith("error: not elected: orders-2 (not live); cannot be read: orders-0\n")
    assert shell.json("znode", "get", "/admin/preferred_replica_election")["data"] == (
        '{"version":1,"partitions":[{"topic":"orders","partition":1}]}'
    )


def test_no_leaders_are_requested_for_what_is_being_deleted(shell: Shell, cluster: ServerCluster) -> None:
    """By asking for all; one that is named is refused."""
    cluster.topic("orders", (2, 1), leaders={0: 1})
    cluster.zk.create_missing("/admin", "/admin/delete_topics", "/admin/delete_topics/orders")

    every = shell.run("elect", "preferred", "--execute")
    named = shell.run("elect", "preferred", "--topic", "orders", "--execute")

    assert (every.code, every.lines[-1]) == (0, "nothing to elect")
    assert (named.code, named.err) == (2, "error: not elected: orders-0 (being deleted)\n")


def test_nothing_to_describe_is_a_message(shell: Shell, groups: ServerGroups) -> None:
    """On stderr, so that scripts go on reading nothing."""
    none = shell.run("topic", "describe")
    ServerCluster(groups).topic("orders", (1, 2))
    led = shell.run("topic", "describe", "--unavailable-partitions")

    assert (none.code, none.out, "zkgroup topic create" in none.err) == (0, "", True)
    assert (led.code, led.out, "no partition matches" in led.err) == (0, "", True)


def test_an_election_of_an_unknown_partition_changes_nothing(shell: Shell, cluster: ServerCluster) -> None:
    """Exit 5, from options and from a file."""
    cluster.topic("orders", (1, 2), leaders={0: 2})
    file = shell.home / "election.json"
    file.write_text('{"partitions":[{"topic":"orders","partition":0},{"topic":"orders","partition":7}]}')

    by_file = shell.run("elect", "preferred", "--path-to-json-file", str(file), "--execute")
    by_option = shell.run("elect", "preferred", "--topic", "orders:7", "--execute")

    assert (by_file.code, by_option.code) == (5, 5)
    assert "orders-7" in by_file.err
    assert shell.run("znode", "get", "/admin/preferred_replica_election").code == 5


def test_a_configuration_is_altered_and_the_printed_command_undoes_it(
    shell: Shell, cluster: ServerCluster
) -> None:
    """Kafka's syntax; brokers are notified, of the undo as well, which is a change like others."""
    cluster.topic("orders", (1,))
    given = ("--add-config", "retention.ms=1,cleanup.policy=[compact,delete]")
    shell.run("config", "alter", "--topic", "orders", *given, "--execute")

    change = ("--add-config", "retention.ms=2", "--delete-config", "cleanup.policy")
    shown = shell.json("config", "alter", "--topic", "orders", *change)
    words = ("--entity-type", "topics", "--entity-name", "orders")
    done = shell.run("config", "alter", *words, *change, "--execute")
    back = next(line for line in done.err.splitlines() if line.startswith("to undo: "))
    undo = shell.run("undo")
    after = shell.json("config", "describe", "--topic", "orders")["configs"]
    went_back = shell.run(*shlex.split(back.removeprefix("to undo: zkgroup ")))

    assert [(row["name"], row["before"], row["after"]) for row in shown["configs"]] == [
        ("cleanup.policy", "compact,delete", None),
        ("retention.ms", "1", "2"),
    ]
    assert (shown["executed"], shown["notification"]) == (False, "v2")
    assert after == [{"entity_type": "topics", "entity": "orders", "configs": {"retention.ms": "2"}}]
    assert (undo.code, undo.lines[1].split(), undo.lines[2].split()) == (
        0,
        ["cleanup.policy", "-", "compact,delete"],
        ["retention.ms", "2", "1"],
    )
    assert "--set cleanup.policy=compact,delete --set retention.ms=1" in undo.err
    assert went_back.code == 0
    restored = shell.json("config", "describe", "--topic", "orders")["configs"][0]["configs"]
    assert restored == {"retention.ms": "1", "cleanup.policy": "compact,delete"}
    changes = shell.json("znode", "ls", "/config/changes")["children"]
    assert [row["name"] for row in changes] == [f"config_change_{number:010}" for number in range(3)]
    assert shell.run("undo", "--execute").code == 0
    assert shell.json("config", "describe", "--topic", "orders")["configs"] == after


def test_a_configuration_that_has_changed_since_is_a_conflict(shell: Shell, cluster: ServerCluster) -> None:
    """Exit 6; forced, only the settings of the change go back, and the command's own document comes out."""
    cluster.topic("orders", (1,))
    shell.run("config", "alter", "--topic", "orders", "--set", "retention.ms=1", "--execute")
    words = ("config", "alter", "--topic", "orders", "--execute", "--set")
    undo_id = shell.json(*words, "retention.ms=2")["undo"]
    shell.run(*words, "segment.ms=5")

    refused = shell.run("undo", undo_id, "--execute")
    forced = shell.json("undo", undo_id, "--execute", "--force")

    assert (refused.code, "/config/topics/orders: has changed since" in refused.err) == (6, True)
    assert (forced["schema"], forced["executed"]) == ("zkgroup.config_alteration/1", True)
    (row,) = shell.json("config", "describe", "--topic", "orders")["configs"]
    assert row["configs"] == {"retention.ms": "1", "segment.ms": "5"}


def test_a_configuration_of_topic_alter_can_be_undone(shell: Shell, cluster: ServerCluster) -> None:
    """The same record, made by another command; more partitions cannot be taken away again."""
    cluster.topic("orders", (1,))
    shell.run("topic", "alter", "orders", "--config", "retention.ms=1", "--execute")
    undone = shell.run("undo", "--execute")
    shell.run("topic", "alter", "orders", "--partitions", "2", "--execute")
    refused = shell.run("undo", "--execute")

    assert undone.code == 0
    assert shell.json("config", "describe", "--topic", "orders")["configs"][0]["configs"] == {}
    assert (refused.code, "cannot be undone: partitions cannot be taken away" in refused.err) == (2, True)


def test_the_undo_of_a_change_that_made_a_configuration_deletes_it(
    shell: Shell, cluster: ServerCluster
) -> None:
    """Past bug: an empty one stayed; brokers are notified of the deletion, too."""
    rate = "leader.replication.throttled.rate=1"
    shell.run("config", "alter", "--broker", "1", "--set", rate, "--execute")
    undone = shell.run("undo", "--execute")

    assert undone.code == 0
    assert cluster.zk.find("/config/brokers/1") is None
    assert len(shell.json("znode", "ls", "/config/changes")["children"]) == 2


def test_the_configuration_of_an_unknown_topic_is_not_found(shell: Shell, cluster: ServerCluster) -> None:
    """Exit code 5, as for every other thing that is asked for by name."""
    for verb in (["describe"], ["alter", "--set", "retention.ms=1", "--execute"]):
        found = shell.run("config", *verb, "--topic", "nope")
        assert (found.code, "there is no topic 'nope'" in found.err) == (5, True)


def test_the_undo_command_restores_any_value(shell: Shell, cluster: ServerCluster) -> None:
    """Commas and brackets in a value do not cut the printed command's setting in two."""
    cluster.topic("orders", (1,))
    shell.run("config", "alter", "--topic", "orders", "--set", "message.format.version=x]y,[b=1", "--execute")
    done = shell.run("config", "alter", "--topic", "orders", "--set", "message.format.version=1", "--execute")
    back = next(line for line in done.err.splitlines() if line.startswith("to undo: "))

    shell.run(*shlex.split(back.removeprefix("to undo: zkgroup ")))

    (row,) = shell.json("config", "describe", "--topic", "orders")["configs"]
    assert row["configs"] == {"message.format.version": "x]y,[b=1"}


def test_the_undo_command_leaves_out_what_no_command_can_set(shell: Shell, cluster: ServerCluster) -> None:
    """A setting that no topic has can be removed, and that it cannot be undone is printed."""
    cluster.topic("orders", (1,))
    words = ("config", "alter", "--topic", "orders")
    odd = TopicConfig({"retention.msec": "1", "retention.ms": "2"}).encode()
    cluster.zk.multi(SetData("/config/topics/orders", odd, -1))

    refused = shell.run(*words, "--set", "retention.msec=3", "--execute")
    both = shell.run(*words, "--delete-config", "retention.msec,retention.ms", "--execute")
    cluster.zk.multi(SetData("/config/topics/orders", odd, -1))
    alone = shell.run(*words, "--delete-config", "retention.msec", "--execute")

    assert (refused.code, "did you mean 'retention.ms'?" in refused.err) == (2, True)
    assert (
        "note: retention.msec=1 is no value that a broker accepts: an undo does not set it again" in both.err
    )
    assert "to undo: " in both.err
    assert "this cannot be undone: retention.msec=1 is no value that a broker accepts" in alone.err
    assert "to undo: " not in alone.err


@pytest.mark.parametrize(
    "words",
    [
        ["--add-config", "a=1"],
        ["--topic", "t", "--broker", "1", "--add-config", "a=1"],
        ["--topic", "t", "--entity-name", "t", "--add-config", "a=1"],
        ["--entity-type", "topics", "--entity-default", "--add-config", "a=1"],
        ["--entity-type", "brokers", "--entity-name", "x", "--add-config", "a=1"],
        ["--entity-type", "clients", "--client", "c", "--add-config", "a=1"],
        ["--entity-type", "topics", "--add-config", "a=1"],
        ["--topic", "t", "--add-config", "a"],
    ],
)
def test_wrong_words_about_whose_configuration_are_usage_errors(lone_shell: Shell, words: list[str]) -> None:
    """Before anything is asked of an ensemble."""
    assert lone_shell.run("config", "alter", *words, "-z", "127.0.0.1:1").code == 2


def test_a_value_that_no_broker_can_parse_is_refused(shell: Shell, cluster: ServerCluster) -> None:
    """Brokers of some releases hear of no change any more after it; nothing is written."""
    broker = shell.run("config", "alter", "--broker", "1", "--set", f"{RATES[0]}=50MB", "--execute")
    client = ("--entity-type", "clients", "--entity-name", "c", "--set")
    quota = shell.run("config", "alter", *client, "producer_byte_rate=abc", "--execute")
    unknown = shell.run("config", "alter", *client, "producer_rate=1", "--execute")

    assert [ran.code for ran in (broker, quota, unknown)] == [2, 2, 2]
    assert f"setting {RATES[0]}: expected a whole number from 0" in broker.err
    assert "found 'abc'" in quota.err
    assert "clients have producer_byte_rate" in unknown.err
    assert shell.run("znode", "get", "/config/changes").code == 5


def test_configurations_stand_apart_and_empty_ones_are_left_out(shell: Shell, cluster: ServerCluster) -> None:
    """Of all of a kind; where one is asked for by name, a line says that nothing is set."""
    for name in ("clicks", "empty", "orders"):
        cluster.topic(name, (1,))
    for name in ("clicks", "orders"):
        shell.run("config", "alter", "--topic", name, "--set", "retention.ms=1", "--execute")

    ran = shell.run("config", "describe", "--entity-type", "topics")
    named = shell.run("config", "describe", "--topic", "empty")

    assert [" ".join(line.split()) for line in ran.lines] == [
        "topics clicks",
        "SETTING VALUE",
        "retention.ms 1",
        "",
        "topics orders",
        "SETTING VALUE",
        "retention.ms 1",
    ]
    assert [" ".join(line.split()) for line in named.lines] == ["topics empty nothing is set"]


def test_an_unregistered_broker_without_settings_is_not_listed(shell: Shell, cluster: ServerCluster) -> None:
    """Its znode stays when its last setting is removed; one that cannot be read is exit 4 all the same."""
    for change in (("--set", f"{RATES[0]}=1"), ("--delete-config", RATES[0])):
        assert shell.run("config", "alter", "--broker", "9", *change, "--execute").code == 0

    none = shell.run("config", "describe", "--entity-type", "brokers")
    named = shell.json("config", "describe", "--broker", "9")["configs"]
    cluster.odd("/config/brokers/8")
    odd = shell.run("config", "describe", "--entity-type", "brokers")

    assert (none.code, none.out) == (0, "")
    assert "no configuration of that kind differs from its default" in none.err
    assert named == [{"entity_type": "brokers", "entity": "9", "configs": {}}]
    assert (odd.code, "/config/brokers/8" in odd.err) == (4, True)


def test_quotas_of_a_users_client_are_reached(shell: Shell, cluster: ServerCluster) -> None:
    """Users and their clients, the defaults too."""
    words = ("--entity-type", "users", "--entity-default", "--client", "c")

    done = shell.json("config", "alter", *words, "--add-config", "producer_byte_rate=9", "--execute")
    listed = shell.json("config", "describe", "--entity-type", "users")["configs"]

    assert (done["entity"], done["executed"]) == ("<default>/clients/c", True)
    assert [row["entity"] for row in listed] == ["<default>/clients/c"]


def test_a_topic_that_is_created_meanwhile_is_no_error_either(
    shell: Shell, groups: ServerGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--if-not-exists of two tools at once; without it, and for a name that collides, it is a conflict."""
    shell.run("topic", "create", "a.b", "--partitions", "2")
    asked: list[str] = []

    def exists(ensemble: Ensemble, name: str) -> bool:
        asked.append(name)
        return len(asked) % 2 == 0 and topic_exists(ensemble, name)  # missing at the first read

    monkeypatch.setattr("zkgroup.admin.topics.listing.topic_exists", exists)
    words = ("topic", "create", "a.b", "--partitions", "1")

    found = shell.json(*words, "--if-not-exists")
    refused = shell.run(*words)
    collides = shell.run("topic", "create", "a_b", "--partitions", "1", "--if-not-exists")

    assert (found["created"], len(found["partitions"]), asked) == (False, 2, ["a.b"] * 2 + ["a_b"] * 2)
    assert (refused.code, collides.code) == (6, 6)


def test_a_topic_grows_on_confirmation(shell: Shell, cluster: ServerCluster) -> None:
    """Old partitions and configuration untouched; what cannot go back is said."""
    cluster.topic("orders", (1, 2), (2, 3))

    shown = shell.run("topic", "alter", "orders", "--partitions", "3")
    done = shell.json("topic", "alter", "orders", "--partitions", "3", "--config", "flush.ms=1", "--execute")
    less = shell.run("topic", "alter", "orders", "--partitions", "2", "--execute")
    undo = shell.run("offsets", "undo", done["undo"], "--execute")

    assert "topic orders would grow from 2 to 3 partitions" in shown.out
    assert "note: this cannot be undone: partitions cannot be taken away" in shown.err
    assert done["added"] == [{"partition": 2, "replicas": [3, 1]}]
    (topic,) = shell.json("topic", "describe", "orders")["topics"]
    assert [row["replicas"] for row in topic["partitions"]] == [[1, 2], [2, 3], [3, 1]]
    assert topic["configs"] == {"flush.ms": "1"}
    assert (less.code, undo.code) == (2, 2)
    assert "cannot be taken away" in undo.err


def test_topics_of_ten_thousand_partitions_are_described_in_few_packets(
    shell: Shell, cluster: ServerCluster, zk_server: ServerTree
) -> None:
    """TopicCommand of 2.8.2 takes 10,307 packets for as many; 200 are allowed here."""
    for number in range(100):
        cluster.topic(f"topic-{number}", *[(1, 2)] * 100)

    before = _packets(zk_server)
    described = shell.json("topic", "describe")["topics"]
    packets = _packets(zk_server) - before

    assert sum(len(topic["partitions"]) for topic in described) == 10_000
    assert packets <= 200, packets


def _packets(tree: ServerTree) -> int:
    mntr = tree.server(0).ask("mntr")
    return int(next(line.split()[1] for line in mntr.splitlines() if line.startswith("zk_packets_received")))
