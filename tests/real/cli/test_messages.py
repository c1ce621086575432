"""What is said on stderr where something ends: once, with what was expected and found, and what to do."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

import pytest
from zkgroup_cli.app import show_logs

from tests.real.cli.server_cluster import ServerCluster, reassignment_file
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell, logs_as_before

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "words", [("group", "list"), ("consume", "g", "--topic", "t", "--format", "ndjson")], ids=" ".join
)
def test_the_reason_of_a_missing_connection_is_printed_once(shell: Shell, words: tuple[str, ...]) -> None:
    """Expected, found, the next command, and nothing else: no attempt, no traceback."""
    address = shell.environment["ZKGROUP_ZOOKEEPER"]
    assert address is not None
    server, _, _ = address.partition("/")

    refused = shell.run(*words, "--connect-timeout", "1s", "-z", NOWHERE)
    lost = shell.run(*words, "-z", f"{server}/nothing")

    assert (refused.code, lost.code) == (7, 2)
    assert refused.err == (
        f"error: no connection to ZooKeeper: expected {NOWHERE} to answer within 1 s, found {NOWHERE}: "
        "Connection refused; check the address, or start a server with `zkgroup zookeeper start`\n"
    )
    assert lost.err == (
        f"error: /nothing: expected the chroot of ZooKeeper address {server}/nothing, found no such znode; "
        f"`zkgroup zookeeper create-chroot -z {server}/nothing` creates it, "
        f"`zkgroup znode ls / -z {server}` shows what there is\n"
    )
    assert "event" in refused.out if words[0] == "consume" else refused.out == ""


def test_the_reason_of_a_failed_member_is_printed_once(
    shell: Shell, groups: ServerGroups, tmp_path: Path
) -> None:
    """The library logs it for programs that do not call again at once; here it is the error printed."""
    groups.topic("orders", 1)
    (tmp_path / "orders").mkdir()
    for ending in (".log", ".jsonl"):
        (tmp_path / "orders" / f"0{ending}").touch()
    words = ("consume", "g", "--topic", "orders", "--source", f"files:{tmp_path}", "--format", "ndjson")

    ran = shell.run(*words, "--setting", "initial_rebalance_delay_ms=1")

    assert ran.code == 1
    assert ran.err == (f"error: orders-0: expected one file, found {tmp_path}/orders/0.jsonl and 0.log\n")


def test_a_warning_shows_its_error_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback without -vv, also where the library logs one."""
    log = logging.getLogger("zkgroup.test")
    with logs_as_before():
        for verbose in (0, 2):
            show_logs(verbose)
            log.warning("the sink raised", exc_info=ValueError("full"))

    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first == "WARNING zkgroup.test: the sink raised (ValueError: full)"
    assert second == "WARNING zkgroup.test: the sink raised"


def test_no_time_to_connect_is_a_usage_error(lone_shell: Shell) -> None:
    """It used to mean the default."""
    for text in ("0s", "0ms", "0.1ms"):
        ran = lone_shell.run("group", "list", "-z", NOWHERE, "--connect-timeout", text)

        assert ran.code == 2
        assert f"'{text}' leaves no time: expected at least 1ms, for example 10s" in ran.err


def test_a_time_that_no_clock_holds_is_a_usage_error(lone_shell: Shell) -> None:
    """More than Kafka's Int of milliseconds."""
    ran = lone_shell.run("group", "list", "-z", NOWHERE, "--connect-timeout", "25d")

    assert (ran.code, "expected at most 24d" in ran.err) == (2, True)


def test_what_does_not_exist_is_named_by_path_with_what_shows_it(shell: Shell, groups: ServerGroups) -> None:
    """Whatever command needs it; one line, nothing on stdout."""
    cluster = ServerCluster(groups)
    cluster.topic("orders", (1, 2))
    cluster.ours()
    moves = reassignment_file(shell.home, ("orders", 7, [1, 2]), ("clicks", 0, [1, 2]))
    topics = shell.home / "topics.json"
    topics.write_text('{"version":1,"topics":[{"topic":"clicks"}]}')
    seven = "/brokers/topics/orders: there is no partition orders-7; nothing was changed; "
    clicks = "/brokers/topics/clicks: there is no "
    wanted = {
        ("elect", "preferred", "--topic", "orders:7"): seven,
        ("elect", "unclean", "--topic", "orders:7"): seven,
        ("reassign", "execute", "--reassignment-json-file", moves): (
            f"{clicks}partition clicks-0, orders-7; nothing was changed; "
        ),
        ("config", "describe", "--topic", "clicks"): f"{clicks}topic 'clicks'; ",
        ("config", "alter", "--topic", "clicks", "--set", "retention.ms=1"): f"{clicks}topic 'clicks'; ",
        ("reassign", "generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2"): (
            f"{clicks}topic clicks; "
        ),
    }

    ran = {words: shell.run(*words) for words in wanted}

    assert {(each.code, each.out) for each in ran.values()} == {(5, "")}
    for words, text in wanted.items():
        assert ran[words].err.startswith(f"error: {text}`zkgroup topic list` shows "), words
        assert ran[words].err.count("\n") == 1


def test_without_anything_to_elect_no_request_is_mentioned(shell: Shell, groups: ServerGroups) -> None:
    """Without a controller the note is about the request; where no leader is to change there is none."""
    shell.run("topic", "create", "orders", "--partitions", "1")

    ran = shell.run("elect", "preferred")

    assert ran.err == ""
    assert ran.lines[-1] == "nothing to elect"


def test_what_to_type_about_an_odd_name_can_be_typed(shell: Shell, groups: ServerGroups) -> None:
    """`doctor` shows the znode of a topic whose name no topic can have, quoted for a shell."""
    path = "/brokers/topics/bad name"
    ServerCluster(groups).odd(path)

    lines = [row["next"] for row in shell.json("doctor", code=3)["findings"] if "bad name" in row["subject"]]

    assert set(lines) == {f"zkgroup znode get '{path}'"}
    assert shell.run(*shlex.split(lines[0])[1:]).code == 0
