"""Commands that serve until a signal: `consume` and `zookeeper start`, as real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import becomes, ended, eventually
from tests.worlds.processes import messages_in, pipe_without_reader, started
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.model.requests import SetData
from zkgroup.znodes.brokers import Topic

QUICK = ("--setting", "initial_rebalance_delay_ms=1", "--session-timeout", "60s")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Three records in each of two partitions of `orders`; one value is no UTF-8."""
    folder = tmp_path / "records"
    (folder / "orders").mkdir(parents=True)
    (folder / "orders" / "0.log").write_bytes(b"a0\na1\na2\n")
    (folder / "orders" / "1.log").write_bytes(b"b0\n\xff\nb2\n")
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_member_without_a_source_owns_until_a_signal(
    shell: Shell, groups: ServerGroups, number: signal.Signals
) -> None:
    """Assigned, then revoked and gone after a clean leave with exit code 0."""
    groups.topic("orders", 2)

    words = ("consume", "g", "--topic", "orders:2", "--consumer-id", "c1", *QUICK)
    with shell.start(*words, fresh=number == signal.SIGTERM) as member:
        assigned = member.until_event("assigned")
        described = shell.json("group", "describe", "g")
        code = member.stop(number)

    kinds = [event["event"] for event in member.events]
    assert code == 0
    assert [(lease["partition"], lease["thread"], lease["offset"]) for lease in assigned["leases"]] == [
        (0, 0, None),
        (1, 1, None),
    ]
    assert [row["token"] for row in described["partitions"]] == [
        lease["token"] for lease in assigned["leases"]
    ]
    assert (described["state"], described["members"][0]["member"]) == ("stable", "g_c1")
    assert kinds[-2:] == ["revoked", "state"]
    assert member.events[-1]["after"] == "closed"
    assert shell.json("group", "list")["groups"][0]["state"] == "empty"


def test_a_topic_that_does_not_exist_is_warned_of(shell: Shell, groups: ServerGroups) -> None:
    """Stable without partitions seems a success: the command that makes the topic is named."""
    with shell.start("consume", "g", "--topic", "order", *QUICK) as member:
        member.until(lambda event: event["event"] == "state" and event["after"] == "stable")
        code = member.stop(signal.SIGTERM)

    assert code == 0
    assert "zkgroup topic create order --partitions N" in member.errors
    assert "--source none: this member owns partitions and delivers nothing" in member.errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("source", ["none", "files"])
def test_a_member_that_has_not_connected_ends_when_asked(
    lone_shell: Shell, records: Path, source: str, number: signal.Signals
) -> None:
    """It has joined nothing, so there is nothing to leave: exit code 0 and no error."""
    spec = source if source == "none" else f"files:{records}"
    words = ("--source", spec, "--setting", "connection_timeout_ms=10m", "-z", "127.0.0.1:1", *QUICK)

    with lone_shell.start("consume", "g", "--topic", "orders", *words) as member:
        member.until(lambda event: event["event"] == "state" and event["after"] == "joining")
        code = member.stop(number)

    assert (code, member.errors) == (0, "")


def test_a_member_with_files_prints_each_record_and_commits(
    shell: Shell, groups: ServerGroups, records: Path
) -> None:
    """Records, commits and leaving; what was printed is committed, and the next member goes on from there."""
    groups.topic("orders", 2)
    words = ("consume", "g", "--topic", "orders", "--source", f"files:{records}", *QUICK)

    with shell.start(*words, "--commit-interval", "200ms") as member:
        seen: list[dict[str, Any]] = []

        def all_seen(event: dict[str, Any]) -> bool:
            seen.extend([event] if event["event"] == "record" else [])
            return len(seen) == 6

        member.until(all_seen)
        code = member.stop()

    raw = next(event for event in seen if (event["partition"], event["offset"]) == (1, 1))
    committed = {
        (row["topic"], row["partition"]): row["offset"]
        for event in member.events
        if event["event"] == "commit"
        for row in event["offsets"]
    }
    assert code == 0
    assert (raw["value"], raw["value_base64"]) == (None, "/w==")
    assert committed == {("orders", 0): 3, ("orders", 1): 3}
    assert [groups.offset_of("g", "orders", number) for number in (0, 1)] == [3, 3]


def test_a_member_leaves_after_so_many_messages(shell: Shell, groups: ServerGroups, records: Path) -> None:
    """--max-messages ends the member cleanly; exactly what was printed is committed."""
    groups.topic("orders", 2)
    words = (
        "consume",
        "g",
        "--topic",
        "orders",
        "--source",
        f"files:{records}",
        "--max-messages",
        "4",
        *QUICK,
    )

    with shell.start(*words) as member:
        assert member.wait() == 0

    printed = [event for event in member.events if event["event"] == "record"]
    committed = sum(groups.offset_of("g", "orders", number) or 0 for number in (0, 1))
    assert (len(printed), committed) == (4, 4)


def test_a_member_leaves_at_the_end_of_its_partitions(
    shell: Shell, groups: ServerGroups, records: Path
) -> None:
    """--exit-at-end: everything that is there is printed and committed; a second run finds nothing."""
    groups.topic("orders", 2)
    words = ("consume", "g", "--topic", "orders", "--source", f"files:{records}", "--exit-at-end", *QUICK)
    printed = []
    for _ in range(2):
        with shell.start(*words) as member:
            assert member.wait() == 0
        printed.append(len([event for event in member.events if event["event"] == "record"]))

    assert printed == [6, 0]
    assert [groups.offset_of("g", "orders", number) for number in (0, 1)] == [3, 3]


def test_a_member_can_print_records_alone(shell: Shell, groups: ServerGroups, records: Path) -> None:
    """--output-format: values, byte for byte, or the objects that `produce --input-format json` takes."""
    groups.topic("orders", 2)
    words = ("--topic", "orders", "--source", f"files:{records}", "--exit-at-end", *QUICK)
    raw = shell.run("consume", "raw", *words, "--output-format", "raw")
    objects = shell.run("consume", "json", *words, "--output-format", "json")

    assert (raw.code, objects.code) == (0, 0)
    assert sorted(raw.out.splitlines()) == ["a0", "a1", "a2", "b0", "b2", "\N{REPLACEMENT CHARACTER}"]
    found = [json.loads(line) for line in objects.out.splitlines()]
    assert {each["event"] for each in found} == {"record"}
    assert sorted(each["value"] or each["value_base64"] for each in found) == [
        *("/w==", "a0", "a1", "a2", "b0", "b2")
    ]


@pytest.mark.parametrize("delivers", [False, True])
def test_a_closed_pipe_is_no_failure(
    shell: Shell, groups: ServerGroups, records: Path, delivers: bool
) -> None:
    """`| head -1`: the member leaves, exit code 0 and not a word about it."""
    groups.topic("orders", 2)
    source = f"files:{records}" if delivers else "none"
    words = ("consume", "g", "--topic", "orders", "--source", source, "--commit-interval", "100ms", *QUICK)
    with started((*words, "--format", "ndjson"), shell.variables) as member:
        assert member.stdout is not None
        assert member.stderr is not None
        first = json.loads(member.stdout.readline())
        member.stdout.close()
        # all may be written by now: one event more meets the closed pipe
        groups.zk.multi(SetData(Topic.path("orders"), Topic(dict.fromkeys(range(3), (0,))).encode(), 0))
        errors = messages_in(member.stderr.read())
        code = ended(member)

    assert re.fullmatch("" if delivers else "note: --source none: .*\n", errors), errors
    assert (code, first["event"]) == (0, "state")
    assert shell.json("group", "list")["groups"][0]["members"] == 0


def test_a_closed_pipe_ends_any_command_quietly(shell: Shell, groups: ServerGroups) -> None:
    """Click alone would make it exit code 1."""
    groups.topic("orders", 1)
    with os.fdopen(pipe_without_reader(), "wb") as gone:
        ran = started(("topic", "list"), shell.variables, stdout=gone.fileno(), stderr=subprocess.PIPE)
        with ran:
            assert ran.stderr is not None
            message = ran.stderr.read()
            code = ended(ran)

    assert (code, message) == (0, b"")


def test_two_members_share(shell: Shell, groups: ServerGroups) -> None:
    """A second member takes its part; the first is notified; `verify --wait` sees it through."""
    groups.topic("orders", 4)
    words = ("consume", "g", "--topic", "orders", *QUICK, "--consumer-id")

    with shell.start(*words, "a") as first:
        first.until_event("assigned")
        with shell.start(*words, "b") as second:
            revoked = first.until_event("revoked")
            taken: set[int] = set()

            def has_its_part(event: dict[str, Any]) -> bool:
                """Partitions whose owner is slow may be claimed after the rest."""
                taken.update(lease["partition"] for lease in event.get("leases", ()))
                return len(taken) == 2

            second.until(has_its_part)
            verified = shell.run("group", "verify", "g", "--wait", "--timeout", "10m")
            second.stop()
        first.stop()

    given = {row["partition"] for row in revoked["partitions"]}
    assert taken == given == {2, 3}
    assert verified.code == 0


def test_an_operators_reset_reaches_a_living_member(
    shell: Shell, groups: ServerGroups, records: Path
) -> None:
    """A forced reset is obeyed by an idle owner; its records are delivered again (recipes 6)."""
    groups.topic("orders", 2)
    words = ("consume", "g", "--topic", "orders", "--source", f"files:{records}", *QUICK)

    with shell.start(*words, "--commit-interval", "100ms") as member:
        whole = {"topic": "orders", "partition": 0, "offset": 3}
        member.until(lambda event: event["event"] == "commit" and whole in event["offsets"])
        becomes(lambda: groups.offset_of("g", "orders", 0), 3)
        reset = shell.run("offsets", "set", "g", "orders:0=1", "--force", "--execute")
        again = member.until(lambda event: event["event"] == "record" and event["partition"] == 0)
        code = member.stop()

    assert (reset.code, code) == (0, 0)
    assert (again["offset"], again["value"]) == (1, "a1")


def test_consume_refuses_what_it_cannot_do(lone_shell: Shell, tmp_path: Path) -> None:
    """Usage errors before any connection."""
    zookeeper = ("-z", "127.0.0.1:1")
    wrong = {
        ("consume", "g"): "exactly one of --topic, --whitelist and --blacklist",
        ("consume", "g", "--topic", "t", "--whitelist", "x"): "--topic and --whitelist",
        ("consume", "g", "--topic", "t:0"): "at least 1",
        ("consume", "g", "--topic", "t", "--topic", "t:2"): "twice",
        ("consume", "g", "--topic", "t", "--max-messages", "5"): "--source",
        ("consume", "g", "--topic", "t", "--exit-at-end"): "--source",
        ("consume", "g", "--topic", "t", "--no-leave"): "--restart-grace",
        ("consume", "g", "--topic", "t", "--restart-grace", "60s"): "consumer_id",
        ("consume", "g", "--topic", "t", "--output-format", "raw"): "--source",
        ("consume", "g", "--topic", "t", "--output-format", "raw", "--format", "ndjson"): "give one",
        ("consume", "g", "--topic", "t", "--format", "csv"): "ndjson",
        ("consume", "g", "--topic", "t", "--source", "broker"): "brokers",
        ("consume", "g", "--topic", "t", "--source", "files:/nowhere/at/all"): "/nowhere/at/all",
        ("consume", "g", "--topic", "t", "--setting", "settle_m=1"): "did you mean 'settle_ms'",
        ("consume", "g", "--topic", "t", "--session-timeout", "6"): "6s",
        (
            "consume",
            "g",
            "--topic",
            "t",
            "--session-timeout",
            "6s",
            "--setting",
            "session_timeout_ms=1",
        ): "twice",
        ("consume", "g", "--whitelist", "("): "(",
        ("consume", "g/h", "--topic", "t"): "g/h",
    }
    for words, named in wrong.items():
        ran = lone_shell.run(*words, *zookeeper)

        assert ran.code == 2, words
        assert named in ran.err, words


def test_consume_can_be_tried_dry(lone_shell: Shell) -> None:
    """--dry-run checks and joins nothing."""
    ran = lone_shell.run("consume", "g", "--topic", "t", "--dry-run", "-z", "127.0.0.1:1")

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "would join group g on 127.0.0.1:1 for t\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "b:2", "--topic", "a"), "for a, b×2\n"),
        (("--whitelist", "a.*"), "for topics that match a.*\n"),
        (("--blacklist", "a.*"), "for topics that do not match a.*\n"),
    ],
)
def test_a_dry_run_prints_what_would_be_read(lone_shell: Shell, words: tuple[str, ...], message: str) -> None:
    """Topics with their threads, or the expression."""
    ran = lone_shell.run("consume", "g", *words, "--dry-run", "-z", "127.0.0.1:1")

    assert (ran.code, ran.err.endswith(message)) == (0, True), ran.err


def test_a_member_that_cannot_connect_is_exit_7(lone_shell: Shell) -> None:
    """No ensemble: the address and the code of unreachable."""
    words = ("--setting", "connection_timeout_ms=300ms", "-z", "127.0.0.1:1")

    ran = lone_shell.run("consume", "g", "--topic", "t", *words)

    assert ran.code == 7
    assert "127.0.0.1:1" in ran.err


def test_the_embedded_server_serves_until_a_signal(lone_shell: Shell, tmp_path: Path) -> None:
    """Ready with address, pids and heap; exit code 0 by either signal; with --data what was written stays."""
    words = ("zookeeper", "start", "--data", str(tmp_path / "zk"), "--heap", "100MB")

    with lone_shell.start(*words, fresh=True) as server:
        ready = server.until_event("ready")
        created = lone_shell.run("topic", "create", "orders", "--partitions", "2", "-z", ready["zookeeper"])
        (java,) = (Path("/proc", str(pid), "cmdline").read_text().split("\0") for pid in ready["pids"])
        codes = [server.stop(signal.SIGINT)]
    with lone_shell.start(*words) as server:
        again = server.until_event("ready")
        topics = lone_shell.json("topic", "list", "-z", again["zookeeper"])["topics"]
        codes.append(server.stop(signal.SIGTERM))

    assert (created.code, codes, len(ready["pids"])) == (0, [0, 0], 1)
    assert [topic["topic"] for topic in topics] == ["orders"]
    assert ("-Xmx95m" in java, ready["heap_bytes"]) == (True, 95 * 1024**2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_embedded_server_ends_at_once_while_it_starts(
    lone_shell: Shell, tmp_path: Path, number: signal.Signals
) -> None:
    """Past bug: a signal was handled only when the servers were ready. Here Java never gets there at all."""
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    made = f"""echo $$ > '{tmp_path}/part' && mv '{tmp_path}/part' '{tmp_path}/pid'"""
    java.write_text(f"#!/bin/sh\n{made}\nexec sleep 600\n")
    java.chmod(0o755)
    lone_shell.environment |= {"JAVA_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}

    with lone_shell.start("zookeeper", "start") as server:
        eventually((tmp_path / "pid").exists)
        code = server.stop(number)

    assert (code, server.events, server.errors) == (0, [], "stopped\n")
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert list(tmp_path.glob("zkgroup-zookeeper-*")) == []


def test_the_embedded_server_prints_events_only(lone_shell: Shell) -> None:
    """json and csv are for documents. A heap has a unit, and room for a server."""
    assert lone_shell.run("zookeeper", "start", "--format", "json").code == 2
    assert lone_shell.run("zookeeper", "start", "--servers", "2").code == 2
    assert [lone_shell.run("zookeeper", "start", "--heap", heap).code for heap in ("512", "1MB")] == [2, 2]


def test_a_data_folder_that_cannot_be_used_is_named(lone_shell: Shell, tmp_path: Path) -> None:
    """Below a file there is no folder: exit 1 with the path, before a server is started."""
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "zk"

    ran = lone_shell.run("zookeeper", "start", "--data", str(folder))

    assert (ran.code, f"data folder {folder}: expected one" in ran.err) == (1, True)
    assert "bug" not in ran.err
