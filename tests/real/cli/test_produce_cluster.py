"""Lines produced and consumed in a zkgroup cluster on a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from tests.waiting import PATIENCE_S
from tests.worlds.replica_managers import records_on_disk
from tests.worlds.shell import Shell
from zkgroup.broker.broker import Broker
from zkgroup.broker.settings import BrokerSettings
from zkgroup.model import TopicPartition

QUICK = BrokerSettings(
    session_timeout_ms=60_000,
    replica_lag_time_max_ms=60_000,
    replica_fetch_wait_max_ms=50,
    replica_fetch_backoff_ms=20,
    controlled_shutdown_retry_backoff_ms=50,
)


def test_records_outlive_their_leaders(shell: Shell, tmp_path: Path) -> None:
    """Acknowledged by all in-sync replicas, read by a group, and in the files of the broker that is left."""
    zookeeper = shell.variables["ZKGROUP_ZOOKEEPER"]
    brokers = {
        number: Broker(zookeeper, broker=number, data=tmp_path / str(number), settings=QUICK)
        for number in (1, 2, 3)
    }
    lines = [f"line {number}\n" for number in range(300)]
    try:
        for broker in brokers.values():
            broker.start()
        for broker in brokers.values():
            broker.wait_registered(PATIENCE_S)
        created = shell.run("topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
        assert created.code == 0, created

        first = shell.run("produce", "orders", "--format", "json", stdin="".join(lines[:100]))
        assert (first.code, first.document["acknowledged"]) == (0, 100), first
        _shows_how_far_replicas_are(shell)
        words = ("consume", "g", "--topic", "orders", "--source", "brokers", "--session-timeout", "60s")
        with shell.start(*words, "--max-messages", "300") as consumer:
            consumer.until_event("record")
            for number, part in ((1, lines[100:200]), (2, lines[200:])):
                brokers[number].close()
                ran = shell.run("produce", "orders", "--format", "json", stdin="".join(part))
                assert (ran.code, ran.document["acknowledged"]) == (0, 100), ran
                assert ran.document["may_be_repeated"] == 0
            assert consumer.wait() == 0, consumer.errors
            _shows_lag(shell)
            records = [event for event in consumer.events if event["event"] == "record"]
    finally:
        for broker in brokers.values():
            broker.close()

    assert sorted(record["value"] + "\n" for record in records) == sorted(lines)
    for partition in range(3):
        stored = records_on_disk(tmp_path / "3", TopicPartition("orders", partition))
        assert {(partition, offset, line.decode()) for offset, line in enumerate(stored)} == {
            (record["partition"], record["offset"], record["value"])
            for record in records
            if record["partition"] == partition
        }


def _shows_lag(shell: Shell) -> None:
    """Without being asked, of the brokers that live; `none` asks no broker."""
    back = ("offsets", "reset", "g", "--to", "-1", "--topic", "orders:1", "--execute")
    assert shell.run(*back).code == 0
    rows = shell.json("group", "describe", "g")["partitions"]
    table = shell.run("group", "describe", "g")
    silent = shell.json("group", "describe", "g", "--source", "none")["partitions"]

    assert [(row["log_end_offset"] - row["offset"], row["lag"]) for row in rows] == [(0, 0), (1, 1), (0, 0)]
    assert " LAG" in table.out
    assert {(row["log_end_offset"], row["lag"]) for row in silent} == {(None, None)}


def _shows_how_far_replicas_are(shell: Shell) -> None:
    """replica-host.md rule 5: log end and high watermark of every replica."""
    (topic,) = shell.json("topic", "describe", "orders", "--replicas")["topics"]
    for row in topic["partitions"]:
        assert sorted(log["broker"] for log in row["logs"]) == [1, 2, 3]
        assert len({log["log_end_offset"] for log in row["logs"]}) == 1
        assert next(log for log in row["logs"] if log["broker"] == row["leader"])["high_watermark"] > 0
    ends = {row["partition"]: row["logs"][0]["log_end_offset"] for row in topic["partitions"]}
    assert sum(ends.values()) == 100

    logs = shell.json("broker", "describe", "2")["logs"]
    assert {log["partition"]: log["log_end_offset"] for log in logs} == ends
    assert " HW" in shell.run("topic", "describe", "orders", "--replicas").out
    assert " HW" in shell.run("broker", "describe", "2").out
