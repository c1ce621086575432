"""`plan` of what is not there, from a file that lacks something, and what to do with a plan."""

from __future__ import annotations

import json

import pytest

from tests.real.cli.server_cluster import ServerCluster
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic


@pytest.fixture
def cluster(groups: ServerGroups) -> ServerCluster:
    made = ServerCluster(groups)
    made.topic("orders", (1, 2), (1, 2))
    return made


def test_a_plan_of_what_does_not_exist_is_not_found(shell: Shell, cluster: ServerCluster) -> None:
    """Exit 5, as `reassign execute` of it; a broker that cannot take over is refused."""
    plans = [
        ("set-rf", "2", "--topic", "nosuch"),
        ("decommission", "99"),
        ("replace", "99=1"),
        ("replace", "1=99"),
    ]
    ran = [shell.run("plan", *words) for words in plans]

    assert [each.code for each in ran] == [5, 5, 5, 2]
    topics = "/brokers/topics: set-rf 2: there is no topic nosuch; `zkgroup topic list` shows those there are"
    brokers = "/brokers/ids: broker 99 is neither registered nor in any replica list; `zkgroup broker list`"
    assert ran[0].err == f"error: {topics}\n"
    assert ran[1].err == ran[2].err == f"error: {brokers} shows those there are\n"


def test_a_file_that_lacks_sizes_is_named(shell: Shell, cluster: ServerCluster) -> None:
    """With the partitions that are missing."""
    file = shell.home / "sizes.csv"
    file.write_text("orders,1,5\n")

    ran = shell.run("plan", "balance", "--sizes-file", str(file))

    expected = f"{file}: expected TOPIC,PARTITION,BYTES of every partition, found none of orders-0"
    assert (ran.code, ran.err) == (2, f"error: {expected}\n")


def test_a_throttle_that_brokers_ignore_is_refused_in_the_preview(
    shell: Shell, cluster: ServerCluster
) -> None:
    """Past bug: only at --execute. No file is written either."""
    old = b'{"host":"h","port":9092,"version":1,"jmx_port":-1,"timestamp":"1"}'
    cluster.zk.multi(Create(BrokerRegistration.path(9), old, ephemeral=True))
    target = shell.home / "plan.json"
    words = ("plan", "decommission", "1", "--throttle", "1MB")

    ran = [shell.run(*words, *more) for more in ((), ("--save", "--dry-run"), ("--output", str(target)))]

    assert {(each.code, each.out) for each in ran} == {(2, "")}
    assert all(each.err.startswith("error: --throttle: brokers before Kafka 0.10.1") for each in ran)
    assert not target.exists()


def test_a_plan_whose_file_cannot_be_written_is_not_begun(shell: Shell, cluster: ServerCluster) -> None:
    """The error says that it failed, so nothing may move."""
    target = shell.home / "nosuch" / "plan.json"
    words = ("plan", "decommission", "1", "--output", str(target))

    ran = [shell.run(*words, option) for option in ("--save", "--execute")]

    assert {each.code for each in ran} == {2}
    assert all(f"{target}: the plan cannot be written" in each.err for each in ran)
    listed = shell.json("reassign", "list")
    assert (listed["plans"], listed["reassignments"], shell.undo_files) == ([], [], [])


def test_the_command_for_a_written_plan_carries_it_out(shell: Shell, cluster: ServerCluster) -> None:
    """With consent, and with the throttle, which the file does not hold."""
    file = shell.home / "plan.json"
    words = ("plan", "decommission", "1", "--output", str(file))

    one = shell.run(*words)
    slow = shell.run(*words, "--throttle", "1MB")
    many = shell.run(*words, "--max-moves", "1")

    message = "zkgroup reassign execute --reassignment-json-file"
    assert one.err == f"execute it: {message} {file} --wait --execute\n"
    assert slow.err == f"execute it: {message} {file} --throttle 1000000B --wait --execute\n"
    assert many.err == f"execute one after the other: {message} FILE --wait --execute\n"


def test_a_plan_that_is_only_saved_cannot_be_waited_for(shell: Shell, cluster: ServerCluster) -> None:
    """It ended with 3, as if it had not ended in time."""
    ran = shell.run("plan", "decommission", "1", "--save", "--wait")

    assert (ran.code, shell.json("reassign", "list")["plans"]) == (2, [])
    assert "--save alone begins nothing that could be waited for: add --execute" in ran.err


def test_a_refused_plan_names_the_option_that_accepts_it(shell: Shell, cluster: ServerCluster) -> None:
    """Where there is one: too few brokers are no matter of taste."""
    cluster.topic("clicks", (3,), (3,), (3,))
    uneven = ("plan", "replace", "3=2")

    refused = shell.run(*uneven)
    accepted = shell.run(*uneven, "--allow", "balance")
    never = shell.run("plan", "decommission", "1", "2")

    assert (refused.code, accepted.code, never.code) == (2, 0, 2)
    assert refused.err.endswith("; `--allow balance` accepts that\n")
    assert "`zkgroup plan set-rf 1 --topic orders` first" in never.err
    assert "accepts that" not in never.err


def test_a_plan_without_an_unreadable_topic_names_it(shell: Shell, cluster: ServerCluster) -> None:
    """Exit 4: a broker that it empties may still have replicas of those; one asked for by name is refused."""
    cluster.topic("clicks", (1, 2))
    state = PartitionState.path(TopicPartition("clicks", 0))
    cluster.zk.multi(SetData(state, b"{", -1))
    cluster.odd(Topic.path("odd"))

    ran = shell.run("plan", "decommission", "1")
    idle = shell.run("plan", "set-rf", "2")
    others = shell.run("plan", "set-rf", "1", "--topic", "orders")
    itself = shell.run("plan", "set-rf", "1", "--topic", "odd")

    assert (ran.code, idle.code, others.code, itself.code) == (4, 4, 0, 1)
    assert "orders" in ran.out
    assert f"note: cannot be read: {state}: expected a partition state" in ran.err
    assert "error: not checked: /brokers/topics/odd: expected a topic, found " in ran.err
    assert itself.err.startswith("error: /brokers/topics/odd: expected a topic, found ")


@pytest.mark.parametrize(
    "words",
    [
        ("decommission", "1", "--allow", "factor"),
        ("decommission", "99"),
        ("replace", "1=2", "--allow", "balance", "--format", "csv"),
        ("replace", "1=1"),
        ("set-rf", "1", "--topic", "orders", "--allow", "factor"),
        ("set-rf", "3"),
        ("balance", "--max-moves", "1"),
        ("balance", "--sizes-file", "nosuch.csv"),
        ("balance", "--format", "json"),
        ("resume", "nosuch", "--execute"),
        ("pause", "nosuch"),
        ("cancel", "nosuch"),
    ],
    ids=" ".join,
)
def test_the_old_spelling_does_as_plan(shell: Shell, cluster: ServerCluster, words: tuple[str, ...]) -> None:
    """The same output, messages and exit code; a stored plan is named by an option there."""
    verb, *rest = words
    is_option = verb in ("resume", "pause", "cancel")
    new = shell.run("plan", verb, *rest)
    old = shell.run("reassign", "plan", f"--{verb}" if is_option else verb, *rest)

    assert (old.code, old.err.replace("reassign plan", "plan")) == (new.code, new.err)
    assert _without_moment(old.out) == _without_moment(new.out)
    assert new.out or new.code


def _without_moment(text: str) -> object:
    """A document without the time of the read, which differs; any other text as it is."""
    if not text.startswith("{"):
        return text
    return {key: value for key, value in json.loads(text).items() if key != "as_of"}


def test_the_old_spelling_does_to_a_stored_plan_what_plan_does(shell: Shell, cluster: ServerCluster) -> None:
    """`--pause`, `--cancel` and `--resume` are the commands of these names."""
    found = []
    for spelling in (("plan", "pause"), ("reassign", "plan", "--pause")):
        made = shell.json("plan", "replace", "1=3", "--save")
        assert all(row["reason"] for row in made["changes"])
        name = made["kept"]["plan"]
        ran = [
            shell.run(
                *spelling[:-1], spelling[-1].replace("pause", verb), name, "--execute", "--format", "json"
            )
            for verb in ("pause", "cancel")
        ]
        found.append([(each.code, each.document["state"], each.document["executed"]) for each in ran])

    assert found[0] == found[1] == [(0, "paused", True), (0, "cancelled", True)]
