"""`zkgroup produce`, and `consume --source brokers`: records of zkgroup brokers."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.record_brokers import RecordBrokers
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from tests.worlds.unhurried import unhurried
from zkgroup import Admin
from zkgroup.broker import Broker, SecuritySettings
from zkgroup.clients.addresses import address_of
from zkgroup.clients.producer import RECORD_BYTES_MAX, partition_of_key
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing.plugin import ServerTree
from zkgroup.wire.records import ProduceRequest
from zkgroup.znodes.brokers import (
    BrokerRegistration,
    Topic,
    broker_ids_path,
    brokers_path,
    topics_path,
)

ORDERS = [TopicPartition("orders", number) for number in range(3)]
WITH_ACLS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
}


@pytest.fixture
def brokers(groups: ServerGroups) -> Iterator[RecordBrokers]:
    """Brokers 1 and 2, registered, with a topic `orders` of three partitions that they lead in turn."""
    zk = groups.zk
    zk.create_missing(brokers_path(), broker_ids_path(), topics_path())
    with RecordBrokers(2) as made:
        for number, registration in made.registrations().items():
            zk.multi(Create(BrokerRegistration.path(number), registration.encode(), ephemeral=True))
        zk.multi(Create(Topic.path("orders"), Topic(dict.fromkeys(range(3), (1, 2))).encode()))
        for tp in ORDERS:
            made.lead(tp, 1 + tp.partition % 2)
        yield made


def logs(brokers: RecordBrokers) -> list[list[bytes]]:
    """What the leaders have."""
    return [brokers.records(1 + tp.partition % 2, tp) for tp in ORDERS]


def test_records_go_to_the_partitions_in_turn(shell: Shell, brokers: RecordBrokers, tmp_path: Path) -> None:
    """Byte for byte, the last one without a newline too; the document says where they are."""
    file = tmp_path / "lines"
    file.write_bytes(b"a\nb\r\n\n\xff\x00\ne")

    document = shell.json("produce", "orders", "--from", str(file))

    assert logs(brokers) == [[b"a", b"\xff\x00"], [b"b\r", b"e"], [b""]]
    counts = [document[key] for key in ("lines", "records", "acknowledged", "failed", "unknown")]
    assert counts == [5, 5, 5, 0, 0]
    assert (document["error"], document["first_failed_line"]) == (None, None)
    assert document["partitions"] == [
        {"partition": 0, "records": 2, "lines": 2, "first_offset": 0, "last_offset": 1},
        {"partition": 1, "records": 2, "lines": 2, "first_offset": 0, "last_offset": 1},
        {"partition": 2, "records": 1, "lines": 1, "first_offset": 0, "last_offset": 0},
    ]


def test_people_get_a_table(shell: Shell, brokers: RecordBrokers) -> None:
    """Of partitions and offsets, with a sentence."""
    ran = shell.run("produce", "orders", "--partition", "2", stdin="a\nb\n")

    assert ran.code == 0, ran
    assert ran.lines == [
        "PARTITION  RECORDS  FIRST  LAST",
        "        2        2      0     1",
        "2 records read, 2 acknowledged by all in-sync replicas",
    ]
    assert logs(brokers)[2] == [b"a", b"b"]


@pytest.mark.parametrize(("acks", "message"), [("0", "1 sent"), ("1", "1 acknowledged by their leaders")])
def test_less_can_be_waited_for(shell: Shell, brokers: RecordBrokers, acks: str, message: str) -> None:
    """With --acks 0 nothing is said of offsets."""
    ran = shell.run("produce", "orders", "--partition", "0", "--acks", acks, stdin="a\n")

    assert ran.lines[-1] == f"1 record read, {message}"
    assert ran.lines[1].split() == (["0", "1", "-", "-"] if acks == "0" else ["0", "1", "0", "0"])
    assert logs(brokers)[0] == [b"a"]


def test_equal_keys_go_together(shell: Shell, brokers: RecordBrokers) -> None:
    """As Kafka's producers hash them; a number is a key too."""
    lines = [json.dumps({"user": user, "n": n}) for n, user in enumerate(["ada", "ben", 7, "ada", 7])]

    assert shell.run("produce", "orders", "--key", "user", stdin="\n".join(lines)).code == 0

    for tp, found in zip(ORDERS, logs(brokers), strict=True):
        keys = [str(json.loads(line)["user"]).encode() for line in found]
        assert {partition_of_key(key, range(3)) for key in keys} <= {tp.partition}
    assert sorted(line.decode() for found in logs(brokers) for line in found) == sorted(lines)


def test_a_bad_line_is_named_and_those_before_it_are_there(shell: Shell, brokers: RecordBrokers) -> None:
    """Exit 4: partly done; the first line alone is exit 2, and nothing is appended."""
    bad = shell.run(
        "produce", "orders", "--key", "user", stdin='{"user": "ada"}\n{"n": 1}\n{"user": "ben"}\n'
    )
    assert bad.code == 4
    assert "<stdin>:2: expected a JSON object with 'user', found {\"n\": 1}" in bad.err
    assert "1 acknowledged" in bad.err
    assert sum(map(len, logs(brokers))) == 1

    first = shell.run("produce", "orders", "--key", "user", stdin="nonsense\n")
    assert (first.code, sum(map(len, logs(brokers)))) == (2, 1)
    assert "<stdin>:1: expected a JSON object with 'user', found no JSON" in first.err


def test_an_input_that_cannot_be_read_on_is_named(shell: Shell, brokers: RecordBrokers) -> None:
    """The line from which on; what was appended before counts as after a bad line."""
    ran = shell.run("produce", "orders", "--from", "/proc/self/mem")

    assert (ran.code, ran.err) == (2, "error: /proc/self/mem:1: cannot be read: Input/output error\n")


def test_a_line_that_is_too_long_is_named(shell: Shell, brokers: RecordBrokers, tmp_path: Path) -> None:
    """As a record that is too long for every broker; the records before it are there."""
    file = tmp_path / "lines"
    file.write_bytes(b"a\n" + b"x" * (RECORD_BYTES_MAX + 1))

    ran = shell.run("produce", "orders", "--file", str(file), "--partition", "1")

    assert ran.code == 4
    assert f"{file}:2: expected at most {RECORD_BYTES_MAX} bytes, found {RECORD_BYTES_MAX + 1}" in ran.err
    assert logs(brokers)[1] == [b"a"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (
            ("clicks",),
            5,
            "there is no topic clicks in /brokers/topics; make it with `zkgroup topic create",
        ),
        (("orders", "--partition", "3"), 2, "--partition 3: expected one of topic orders, which has 0 to 2"),
        (("orders", "--partition", "1", "--key", "k"), 2, "--partition and --key exclude each other"),
        (("orders", "--file", "/missing"), 2, "'/missing': No such file"),
        (("orders", "--timeout", "30"), 2, "has no unit"),
    ],
)
def test_what_cannot_be_is_refused(
    shell: Shell, brokers: RecordBrokers, args: tuple[str, ...], code: int, message: str
) -> None:
    """Before a line is read."""
    ran = shell.run("produce", *args, stdin="a\n")

    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert logs(brokers) == [[], [], []]


def test_without_a_zkgroup_broker_it_is_refused(shell: Shell, groups: ServerGroups) -> None:
    """The error names the command that starts one."""
    groups.zk.create_missing(brokers_path(), broker_ids_path(), topics_path())
    groups.zk.multi(Create(Topic.path("orders"), Topic({0: (0,)}).encode()))

    ran = shell.run("produce", "orders", stdin="a\n")

    assert ran.code == 2
    assert "expected a broker that keeps records in /brokers/ids, found none; start one with" in ran.err


def test_a_dry_run_appends_nothing(shell: Shell, brokers: RecordBrokers) -> None:
    """It checks the same."""
    assert shell.run("produce", "orders", "--dry-run", stdin="a\n").code == 0
    assert shell.run("produce", "clicks", "--dry-run", stdin="a\n").code == 5
    assert logs(brokers) == [[], [], []]


def test_records_without_a_leader_are_given_up(shell: Shell, brokers: RecordBrokers) -> None:
    """In time, and reported as not appended; with acknowledged ones before them it is partly done."""
    brokers.lead(ORDERS[0], -1, epoch=1, isr=(1,))

    ran = shell.run("produce", "orders", "--partition", "0", "--timeout", "1s", stdin="a\n")
    assert ran.code == 1, ran
    assert "orders-0: a record was not acknowledged: " in ran.err
    assert "; it is not in the log" in ran.err
    assert ran.lines[-1] == (
        "1 record read, 0 acknowledged by all in-sync replicas, 1 not appended, the first of these is line 1"
    )

    some = shell.json("produce", "orders", "--file", __file__, "--timeout", "5s", code=4)
    assert some["acknowledged"] > 0 < some["failed"]
    assert some["first_failed_line"] == 1, "the first line goes to partition 0"
    assert some["records"] == some["acknowledged"] + some["failed"] + some["unknown"]
    assert logs(brokers)[0] == []


def test_an_unknown_outcome_is_reported(shell: Shell, brokers: RecordBrokers) -> None:
    """A follower in the ISR never gets the record: exit 124, no verdict."""
    brokers.held.add(2)

    ran = shell.run("produce", "orders", "--partition", "0", "--timeout", "5s", stdin="a\n")

    assert ran.code == 124, ran
    assert "may be in the log all the same" in ran.err
    assert ran.lines[-1].endswith("1 with an unknown outcome, the first of these is line 1")
    assert logs(brokers)[0] == [b"a"]


def test_a_record_is_there_once_though_its_answer_was_lost(shell: Shell, brokers: RecordBrokers) -> None:
    """The producer is idempotent with --acks all; with --acks 1 it says that a record may be there twice."""
    brokers.lost_answers.add(1)
    once = shell.json("produce", "orders", "--partition", "0", stdin="a\n")
    assert (once["acknowledged"], once["may_be_repeated"], logs(brokers)[0]) == (1, 0, [b"a"])

    brokers.lost_answers.add(1)
    twice = shell.json("produce", "orders", "--partition", "0", "--acks", "1", stdin="b\n")
    assert (twice["acknowledged"], twice["may_be_repeated"], logs(brokers)[0]) == (1, 1, [b"a", b"b", b"b"])


def test_records_of_json_objects(shell: Shell, brokers: RecordBrokers) -> None:
    """Key, value, partition, and lines without a record; the first bad line is named by its number."""
    lines = [
        {"event": "state"},
        {"key": "k", "value_base64": "/wA=", "partition": 2, "headers": [{"key": "h", "value": "v"}]},
        {"key": "k", "value": "a"},
        {"value": None},
    ]
    ran = shell.run(
        "produce",
        "orders",
        "--input-format",
        "json",
        stdin="".join(f"{json.dumps(line)}\n" for line in lines),
    )

    assert ran.code == 4, ran
    assert "<stdin>:4: expected a value or a key, found neither; before that 2 records read" in ran.err
    found = logs(brokers)
    assert found[2][0] == b"\xff\x00"
    assert b"a" in found[partition_of_key(b"k", range(3))]


def test_records_travel_while_the_pipe_is_open(shell: Shell, brokers: RecordBrokers) -> None:
    """`tail -f | zkgroup produce`: a record is there before the next one is written."""
    with shell.piped("produce", "orders", fresh=True) as producer:
        producer.write(b"a\n")
        eventually(lambda: brokers.requests(1, ProduceRequest) or not producer.runs)
        producer.write(b"b")
        code, _, message = producer.finish()
    assert (code, message) == (0, "")
    assert logs(brokers) == [[b"a"], [b"b"], []]


def test_an_interrupt_prints_how_far_it_was(shell: Shell, brokers: RecordBrokers) -> None:
    """Exit 130, as for every command that is not a server; nothing of it is left running."""
    with shell.piped("produce", "orders") as producer:
        producer.write(b"a\n")
        eventually(lambda: brokers.watermark(1, ORDERS[0]) or not producer.runs)
        producer.send(signal.SIGINT)
        code, _, message = producer.finish()
    assert code == 130
    assert message.startswith("interrupted: 1 record read, ")
    assert logs(brokers) == [[b"a"], [], []]


def test_a_group_reads_what_was_produced(shell: Shell, brokers: RecordBrokers) -> None:
    """`consume --source brokers`: while the leaders of the topic change."""
    assert shell.run("produce", "orders", stdin="".join(f"{n}\n" for n in range(30))).code == 0
    words = ("consume", "g", "--topic", "orders", "--source", "brokers", "--session-timeout", "60s")
    with shell.start(*words, "--max-messages", "60") as consumer:
        consumer.until_event("record")
        brokers.lead(ORDERS[0], 2, epoch=1)
        assert shell.run("produce", "orders", stdin="".join(f"{n}\n" for n in range(30, 60))).code == 0
        assert consumer.wait() == 0
        records = [event for event in consumer.events if event["event"] == "record"]

    assert sorted(int(record["value"]) for record in records) == list(range(60))
    assert sorted((one["partition"], one["offset"]) for one in records) == [
        (partition, offset) for partition in range(3) for offset in range(20)
    ]
    source = f"kafka:{address_of(brokers.registration(1))}"  # that names the leaders, as no state is stored
    shown = shell.json("offsets", "show", "g", "--source", source)["offsets"]
    assert [(row["log_end_offset"], row["lag"]) for row in shown] == [(20, 0)] * 3


@pytest.mark.parametrize("source", ["brokers", "kafka"])
def test_a_consumer_without_rights_ends_with_the_reason(
    shell: Shell, zk_server: ServerTree, tmp_path: Path, source: str
) -> None:
    """Also where it asks for the end of the log while it fails, and its client of ZooKeeper is closed."""
    with Admin(zk_server.address, undo_folder=tmp_path) as admin:
        admin.add_acls("User:ANONYMOUS", "cluster_action", cluster=True)  # of the broker itself
        security = SecuritySettings.of(WITH_ACLS)
        with Broker(zk_server.address, broker=1, settings=unhurried(), security=security) as broker:
            broker.wait_registered(PATIENCE_S)
            admin.create_topic("orders", 1, wait_s=PATIENCE_S)
            options = ("--topic", "orders", "--source", source, "--start", "earliest", "--exit-at-end")
            ran = shell.run("consume", "g", *options)
    assert ran.code == 1, ran
    assert "not authorized: TopicAuthorizationFailedError: orders" in ran.err
