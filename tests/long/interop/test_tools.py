"""Kafka's own tools and zkgroup's commands print the same about a mixed group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.long.interop.conftest import Scene
from tests.long.interop.servers import VERSION, Producer
from tests.long.interop.toolbox import Toolbox
from tests.waiting import eventually
from tests.worlds.shell import Shell

Row = tuple[int, int, int, str]
"""Partition, offset, log end, owner."""


def checker_rows(text: str) -> list[Row]:
    """Partition, offset, log end and owner of each line of ConsumerOffsetChecker 0.8.2.2."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    header = lines.index(["Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"])
    return sorted((int(f[2]), int(f[3]), int(f[4]), f[6]) for f in lines[header + 1 :])


def command_rows(text: str) -> list[Row]:
    """The same rows of `ConsumerGroupCommand --describe` 0.9.0.1, whose values a comma and a space join."""
    lines = [line.split(", ") for line in text.splitlines() if line.count(", ") == 6]
    return sorted((int(f[2]), int(f[3]), int(f[4]), f[6].strip()) for f in lines if f[2] != "PARTITION")


def becomes_printed(read: Callable[[], list[Row]], expected: list[Row]) -> None:
    """Waits until a tool prints these rows; a JVM member may have released all for a moment."""
    seen: list[list[Row]] = []

    def agrees() -> bool:
        seen.append(read())
        return seen[-1] == expected

    try:
        eventually(agrees, what="the tool prints the same")
    except AssertionError as late:
        raise AssertionError(f"{late}: {seen[-1]}") from late


def test_tools_agree_on_a_mixed_group(
    make_scene: Callable[..., Scene], producer: Producer, box: Toolbox, tmp_path: Path
) -> None:
    """The offset checker, the 0.9 group command and `zkgroup group describe` print the same."""
    scene = make_scene()
    address = scene.broker.zookeeper.address
    members = [scene.start("python", "a"), scene.start("jvm", "b"), scene.start("python", "c")]
    ends = producer.fill(scene.topic, scene.partitions, 7)
    scene.ledger.wait_all(ends)
    eventually(lambda: scene.offsets() == ends, what="everything is committed")
    owners = scene.wait_owned_by(members)

    expected = [(p, ends[p], ends[p], owners[p]) for p in range(scene.partitions)]
    words = ("--zookeeper", address, "--group", scene.group)
    becomes_printed(
        lambda: checker_rows(box.run(VERSION, "kafka.tools.ConsumerOffsetChecker", *words).text), expected
    )
    command = ("kafka.admin.ConsumerGroupCommand", *words, "--describe")
    becomes_printed(lambda: command_rows(box.run("0.9.0.1", *command).text), expected)

    source, shell = f"kafka:{scene.broker.address}", Shell(tmp_path, address)
    described: list[Any] = []

    def our_rows() -> list[Row]:
        described.append(shell.json("group", "describe", scene.group, "--source", source))
        parts = described[-1]["partitions"]
        return sorted((r["partition"], r["offset"], r["log_end_offset"], r["owner"]) for r in parts)

    becomes_printed(our_rows, expected)
    ours = described[-1]
    assert ours["state"] == "stable"
    assert {m["member"]: m["kind"] for m in ours["members"]} == {
        f"{scene.group}_a": "zkgroup",
        f"{scene.group}_b": "jvm",
        f"{scene.group}_c": "zkgroup",
    }
    assert all(r["owner"] == r["expected_owner"] and r["problem"] is None for r in ours["partitions"])
    scene.ledger.assert_well()


def test_offsets_exported_by_either_tool_are_the_same(
    make_scene: Callable[..., Scene], producer: Producer, box: Toolbox, tmp_path: Path
) -> None:
    """The JVM's export of a group and zkgroup's have the same lines."""
    scene = make_scene(partitions=3)
    ends = producer.fill(scene.topic, 3, 5)
    member = scene.start("python", "a")
    scene.ledger.wait_all(ends)
    member.leave()
    address, theirs = scene.broker.zookeeper.address, tmp_path / "theirs.txt"
    arguments = ("--zkconnect", address, "--group", scene.group, "--output-file", str(theirs))
    box.run(VERSION, "kafka.tools.ExportZkOffsets", *arguments)
    ours = Shell(tmp_path, address).run("offsets", "export", scene.group)
    assert ours.code == 0, ours
    assert sorted(ours.lines) == sorted(theirs.read_text().splitlines())
    assert len(ours.lines) == 3
