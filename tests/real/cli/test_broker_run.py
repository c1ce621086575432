"""`broker run --controller-only` as a real process, and what it refuses before it starts."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from zkgroup_cli.broker_events import BrokerPrinter
from zkgroup_cli.output import Output
from zkgroup_cli.settings_values import parse_settings

from tests.worlds.processes import PATIENCE_S, Process
from tests.worlds.shell import Shell
from zkgroup.broker.replica_host import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.testing import wait_until
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

ALONE = ("broker", "run", "--controller-only", "--format", "ndjson")


def environment(shell: Shell) -> dict[str, str]:
    return {**os.environ, **{name: value for name, value in shell.environment.items() if value is not None}}


def is_elected(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "controller")


@pytest.fixture
def tree(zk_server: Any) -> Iterator[Blocking]:
    """The znodes as a third party sees them."""
    settings = ClientSettings(session_timeout_ms=30_000)
    with ZooKeeperClient(zk_server.address, settings) as client, Blocking(client) as zk:
        zk.wait_connected()
        yield zk


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_controller_rules_until_a_signal(shell: Shell, tree: Blocking, number: signal.Signals) -> None:
    """Registered with where it listens while it rules; gone, with its record closed, at the end (exit 0)."""
    with Process(*ALONE, "--id", "7", env=environment(shell)) as controller:
        waiting = controller.until(lambda event: event["event"] == "waiting")
        elected = controller.until(is_elected)
        described = shell.json("controller", "describe")
        listed = shell.json("broker", "list")["brokers"]
        code = controller.stop(number)

    assert (elected["epoch"], elected["partitions"], code) == (1, 0, 0)
    assert (described["controller"], described["epoch"], described["kind"]) == (7, 1, "zkgroup")
    assert [(row["broker"], row["role"], row["host"], row["port"]) for row in listed] == [
        (7, "controller", waiting["host"], waiting["port"])
    ]
    assert [(event["event"], event.get("reason")) for event in controller.events[2:]] == [
        ("resigned", "stopped")
    ]
    assert controller.errors == ""
    assert tree.exists("/controller") is None
    assert tree.exists("/brokers/ids/7") is None
    (record,) = shell.json("controller", "history")["epochs"]
    assert (record["epoch"], record["ended"]) == (1, "stopped")


def test_the_second_waits_and_takes_over_from_one_that_is_killed(shell: Shell, tree: Blocking) -> None:
    """Controller items 14 and 17. While it waits it is in no list of brokers (recipes 14)."""
    quick = ("--set", "zookeeper.session.timeout.ms=4s")
    env = environment(shell)
    with Process(*ALONE, "--id", "7", *quick, env=env) as first:
        first.until(is_elected)
        with Process(*ALONE, "--id", "8", *quick, env=env) as second:
            wait_until(lambda: tree.exists("/zkgroup/controllers/8") is not None, PATIENCE_S)
            assert [row["broker"] for row in shell.json("broker", "list")["brokers"]] == [7]
            first.stop(signal.SIGKILL)
            assert second.until(is_elected)["epoch"] == 2
            assert [row["broker"] for row in shell.json("broker", "list")["brokers"]] == [8]
            wait_until(lambda: tree.exists("/zkgroup/controllers/8") is None, PATIENCE_S)
            assert second.stop() == 0


def test_an_operator_has_it_resign(shell: Shell) -> None:
    """`controller resign` asks; the only candidate rules again after it stood back."""
    with Process(*ALONE, "--id", "7", env=environment(shell)) as controller:
        controller.until(is_elected)
        assert shell.run("controller", "resign", "--execute").code == 0
        controller.until(lambda event: event["event"] == "resigned" and "operator" in event["reason"])
        assert controller.until(is_elected)["epoch"] == 2
        assert controller.stop() == 0


def test_an_id_in_use_is_told_with_the_session_that_has_it(shell: Shell, tree: Blocking) -> None:
    """Recipes 14: exit code 6, and nothing is changed."""
    tree.create_missing("/brokers", "/brokers/ids", "/brokers/ids/7")
    with Process(*ALONE, "--id", "7", env=environment(shell)) as controller:
        assert controller.wait() == 6
    assert "broker id 7 is in use: /brokers/ids/7 is held by session 0x0" in controller.errors
    assert tree.exists("/controller") is None
    assert tree.exists("/brokers/ids/7") is not None


def test_a_port_in_use_is_a_conflict(shell: Shell) -> None:
    """Exit code 6, before anything is asked of ZooKeeper."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with Process(*ALONE, "--id", "7", "--port", port, env=environment(shell)) as controller:
            assert controller.wait() == 6
    assert f"cannot listen on 127.0.0.1:{port}" in controller.errors


def test_no_zookeeper_is_said_in_time(lone_shell: Shell) -> None:
    """Exit code 7; a signal before that ends it with 0, as nothing was begun."""
    words = (*ALONE, "--id", "7", "-z", "127.0.0.1:1")
    quick = ("--set", "connection_timeout_ms=1s")
    with Process(*words, *quick, env=environment(lone_shell)) as controller:
        assert controller.wait() == 7
    assert "no connection to ZooKeeper" in controller.errors

    with Process(*words, "--set", "connection_timeout_ms=60s", env=environment(lone_shell)) as controller:
        controller.until(lambda event: event["event"] == "waiting")
        assert controller.stop() == 0


@pytest.mark.parametrize("role", [("--controller-only",), ()], ids=["controller only", "broker"])
def test_the_whole_wait_for_zookeeper_is_that_of_the_option(lone_shell: Shell, role: tuple[str, ...]) -> None:
    """It used to wait for the session timeout, and to tell the period of its own looks."""
    words = ("broker", "run", *role, "--id", "7", "-z", "127.0.0.1:1", "--connect-timeout", "1200ms")

    with Process(*words, "--format", "ndjson", env=environment(lone_shell)) as served:
        assert served.wait() == 7

    assert "expected 127.0.0.1:1 to answer within 1.2 s, found" in served.errors


def test_two_times_to_connect_are_refused(lone_shell: Shell) -> None:
    """One by the option, one by a setting, be they equal."""
    quick = ("-z", "127.0.0.1:1", "--dry-run", "--connect-timeout", "1s")
    served = lone_shell.run(*ALONE, "--id", "7", *quick, "--set", "connection_timeout_ms=1s")
    member = lone_shell.run("consume", "g", "--topic", "t", *quick, "--setting", "connection_timeout_ms=1s")

    twice = "setting connection_timeout_ms is given twice: by --connect-timeout and by"
    assert (served.code, member.code) == (2, 2)
    assert f"{twice} --set\n" in served.err
    assert f"{twice} --setting\n" in member.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--id", "auto"), "needs a number as --id"),
        (("--id", "-1"), "expected a number from 0"),
        (("--id", "x"), "expected a number from 0"),
        (("--id", "7", "--data", "d"), "leave out --data"),
        (("--id", "7", "--set", "sesion_timeout_ms=1s"), "did you mean 'session_timeout_ms'"),
        (("--id", "7", "--set", "session_timeout_ms=soon"), "milliseconds, or a time such as 5s"),
        (("--id", "7", "--format", "json"), "--format table or ndjson"),
    ],
)
def test_what_cannot_be_is_refused_before_it_starts(shell: Shell, words: tuple[str, ...], told: str) -> None:
    """Exit code 2, and what would be right."""
    ran = shell.run("broker", "run", "--controller-only", *words)
    assert (ran.code, told in ran.err) == (2, True), ran


def test_kafkas_seconds_are_read_as_such() -> None:
    """Its setting counts seconds, ours milliseconds; a unit, or our name, says which."""
    names = {
        ("leader.imbalance.check.interval.seconds", "300"): 300_000,
        ("leader.imbalance.check.interval.seconds", "5m"): 300_000,
        ("leader_imbalance_check_interval_ms", "300"): 300,
    }
    for pair, ms in names.items():
        assert parse_settings([pair], BrokerSettings) == {"leader_imbalance_check_interval_ms": ms}


def test_events_for_people_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The time, the event, and one line of words."""
    printer = BrokerPrinter(Output("table", color=False, width=None))
    tp = TopicPartition("orders", 3)
    printer.on_registered(4, "127.0.0.1", 9092, 17)
    printer.on_role(tp, Role.LEADER, 5)
    printer.on_role(tp, Role.NONE, None)
    printer.on_isr(tp, 5, (4, 1))
    printer.on_controller(7, 1, 12)
    printer.on_resigned("an operator asked for it")
    printer.on_disconnected(None, None)
    printer.on_failed(ReplicaStorageError("no space"))

    told = [line[14:] for line in capsys.readouterr().out.splitlines()]
    assert told == [
        "registered   broker 4 at 127.0.0.1:9092, epoch 17",
        "leader       orders-3, leader epoch 5",
        "stopped      orders-3",
        "isr          orders-3 is 4,1",
        "controller   epoch 7, 1 partition loaded in 12 ms",
        "resigned     an operator asked for it",
        "disconnected ZooKeeper is away; serving on without metadata",
        "failed       no space",
    ]


def test_a_dry_run_joins_nothing(shell: Shell, tree: Blocking) -> None:
    """It says what would run; nothing is made in ZooKeeper."""
    ran = shell.run("broker", "run", "--id", "7", "--controller-only", "--dry-run")
    assert (ran.code, "as a controller only" in ran.err) == (0, True)
    assert tree.exists("/zkgroup") is None
