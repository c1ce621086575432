"""The classes of Kafka 0.8.2.2 read what zkgroup's codecs write."""

from __future__ import annotations

from pathlib import Path

from tests.long.interop.jars import compiled
from tests.long.interop.members import HERE
from tests.long.interop.servers import VERSION
from tests.long.interop.toolbox import Toolbox
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerRegistration

PLAIN = Endpoint("PLAINTEXT", "kafka-1", 9092, "PLAINTEXT")
SECURE = Endpoint("SSL", "fe80::1", 9093, "SSL")
ORDERS = TopicPartition("orders", 0)


def registration(version: int) -> bytes:
    """A registration in one format, with everything that the format can express."""
    return BrokerRegistration.of(
        [PLAIN] if version == 1 else [SECURE, PLAIN],
        1396019252998,
        version,
        rack='r"\\é/日' if version >= 3 else None,
        features={"f": {"min_version": 1, "max_version": 3}} if version == 5 else None,
        extensions={"zkgroup": {"role": "controller"}},
    ).encode()


READ = [
    *(("broker", registration(version), "id:3,host:kafka-1,port:9092") for version in range(1, 6)),
    ("controller", ControllerRegistration(3, 1396019252998).encode(), "3"),
    ("controller", b"3", "3"),
    (
        "reassignment",
        Reassignment((Move(ORDERS, (3, 1)),)).encode(),
        "Map([orders,0] -> List(3, 1))",
    ),
    ("election", PreferredElection((ORDERS,)).encode(), "Set([orders,0])"),
    (
        "topic",
        Topic({0: (1, 2)}, 3, {0: (2,)}, topic_id="49u9B29tSf6B5zpRToHwWA").encode(),
        (
            "Some(Map(removing_replicas -> Map(), adding_replicas -> Map(0 -> List(2)),"
            " topic_id -> 49u9B29tSf6B5zpRToHwWA, version -> 3, partitions -> Map(0 -> List(1, 2))))"
        ),
    ),
    (
        "state",
        PartitionState(-1, 3, (), 7).encode(),
        "Some(Map(controller_epoch -> 7, leader -> -1, version -> 1, leader_epoch -> 3, isr -> List()))",
    ),
    (
        "config",
        TopicConfig({'a"b\\c/': 'é"\\\n\x1a\x00\x7f\u2028 日 \U0001f600'}).encode(),
        'Some(Map(version -> 1, config -> Map(a"b\\c/ -> é"\\\n\x1a\x00\x7f\u2028 日 \U0001f600)))',
    ),
    # What our writers refuse: the reader there fails, or finds nothing.
    ("broker", b'{"version":1,"host":"h","port":9092.0}', "error"),
    ("topic", b'{"version":1,"partitions":{},"x":9999999999}', "error"),
]


def test_real_kafka_reads_what_we_write(jars: Path, box: Toolbox) -> None:
    """Each format of each znode, letters of all kinds, the numbers that it fails on."""
    words = [word for kind, data, _ in READ for word in (kind, data.hex())]
    printed = box.run(VERSION, "ReadZnodes", *words, classes=compiled(HERE / "ReadZnodes.java", f"{jars}/*"))
    assert printed.code == 0, printed

    lines = [line.removeprefix("read ") for line in printed.text.splitlines() if line.startswith("read ")]
    found = [bytes.fromhex(line).decode() for line in lines]
    for (kind, data, expected), read in zip(READ, found, strict=True):
        if expected == "error":
            assert read.startswith("error ") or read == "None", (data, read)
        else:
            assert read == expected, (kind, data)
