"""`broker run --controller-only` as a real process, and what it refuses before it starts."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable

import click
import pytest
from zkgroup_cli.app import shared
from zkgroup_cli.broker_events import BrokerPrinter
from zkgroup_cli.commands.broker import _serve
from zkgroup_cli.params import parse_settings
from zkgroup_cli.render import Output

from tests.waiting import eventually
from tests.worlds.other_clients import end_session_of
from tests.worlds.shell import Shell
from zkgroup.broker.replica_view import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.zookeeper.blocking import Blocking

ALONE = ("broker", "run", "--controller-only")
SERVED = (*ALONE, "--id", "7", "--set", "zookeeper.session.timeout.ms=60s")
"""No slow machine ends this session; that of a killed process is ended by the test."""


class FailingServed:
    """Its disk fails, and at the same moment it is asked to stop."""

    settings = BrokerSettings()
    closed = False

    def start(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        self.closed = True

    def check(self) -> None:
        raise ReplicaStorageError("no space")


@pytest.mark.parametrize("hurry", [None, lambda: None])
def test_a_failure_just_before_a_signal_is_reported(hurry: Callable[[], None] | None) -> None:
    """The process ends with a failure, not cleanly."""
    served = FailingServed()

    printer = BrokerPrinter(Output("table", color=False, width=None))

    with click.Context(click.Command("run")):
        shared().zookeeper = "127.0.0.1:1"
        with pytest.raises(ReplicaStorageError, match="no space"):
            _serve(served, printer, lambda stop: None, hurry)  # type: ignore[arg-type]
    assert served.closed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_controller_is_active_until_a_signal(
    shell: Shell, witness: Blocking, number: signal.Signals
) -> None:
    """Registered while it is active; at the end unregistered, with its record closed (exit 0). It may open
    as many files as the system allows, as a JVM."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
    try:
        started = shell.start(*SERVED, fresh=number == signal.SIGTERM)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with started as controller:
        waiting = controller.until_event("waiting")
        assert resource.prlimit(controller.pid, resource.RLIMIT_NOFILE) == (hard, hard)
        elected = controller.until_event("controller")
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
    assert witness.exists("/controller") is None
    assert witness.exists("/brokers/ids/7") is None
    (record,) = shell.json("controller", "history")["epochs"]
    assert (record["epoch"], record["ended"]) == (1, "stopped")


def test_the_second_waits_and_takes_over_from_one_that_is_killed(
    shell: Shell, zk_server: ServerTree, witness: Blocking
) -> None:
    """While it waits it is in no list of brokers (recipes 14)."""
    with shell.start(*SERVED) as first:
        first.until_event("controller")
        with shell.start(*SERVED, "--id", "8") as second:
            eventually(lambda: witness.exists("/zkgroup/controllers/8"))
            before = shell.json("broker", "list")["brokers"]
            first.stop(signal.SIGKILL)
            end_session_of(witness, "/controller", zk_server.server(0).port)
            elected = second.until_event("controller")
            after = shell.json("broker", "list")["brokers"]
            eventually(lambda: witness.exists("/zkgroup/controllers/8") is None)
            assert second.stop() == 0

    assert [row["broker"] for row in before] == [7]
    assert (elected["epoch"], [row["broker"] for row in after]) == (2, [8])


def test_it_resigns_on_request(shell: Shell) -> None:
    """After `controller resign` the only candidate is elected again, later."""
    with shell.start(*SERVED, "--set", "controller_takeover_grace_ms=50ms") as controller:
        controller.until_event("controller")
        assert shell.run("controller", "resign", "--execute").code == 0
        controller.until(lambda event: event["event"] == "resigned" and "operator" in event["reason"])
        assert controller.until_event("controller")["epoch"] == 2
        assert controller.stop() == 0


def test_an_id_in_use_is_reported_with_its_session(shell: Shell, witness: Blocking) -> None:
    """Exit code 6, and nothing is changed (recipes 14)."""
    witness.create_missing("/brokers", "/brokers/ids")
    witness.multi(Create("/brokers/ids/7", BrokerRegistration("h", 9092, 1, 0).encode(), ephemeral=True))
    with shell.start(*SERVED) as controller:
        assert controller.wait() == 6
    assert "broker id 7 is in use: /brokers/ids/7 is held by session 0x1" in controller.errors
    assert witness.exists("/controller") is None
    assert witness.exists("/brokers/ids/7") is not None


def test_a_port_in_use_is_a_conflict(shell: Shell) -> None:
    """Exit code 6, before anything is asked of ZooKeeper."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with shell.start(*SERVED, "--port", port) as controller:
            assert controller.wait() == 6
    assert f"cannot listen on 127.0.0.1:{port}" in controller.errors


def test_a_signal_before_there_is_a_connection_ends_it(lone_shell: Shell) -> None:
    """With 0, as nothing was begun, and without a word."""
    with lone_shell.start(*SERVED, "-z", "127.0.0.1:1", "--set", "connection_timeout_ms=10m") as controller:
        controller.until_event("waiting")
        assert controller.stop() == 0
    assert controller.errors == ""


@pytest.mark.parametrize(
    "words",
    [("--controller-only", "--connect-timeout", "600ms"), ("--set", "connection_timeout_ms=600ms")],
    ids=["controller only, by the option", "broker, by the setting"],
)
def test_the_whole_wait_for_zookeeper_is_the_one_given(lone_shell: Shell, words: tuple[str, ...]) -> None:
    """Exit code 7. It used to wait for the session timeout, and to report the period of its own checks."""
    with lone_shell.start("broker", "run", "--id", "7", "-z", "127.0.0.1:1", *words) as served:
        assert served.wait() == 7

    assert "no connection to ZooKeeper: expected 127.0.0.1:1 to answer within 0.6 s, found" in served.errors


@pytest.mark.parametrize("kind", [("broker", "run"), ALONE])
def test_a_preview_refuses_what_a_start_would(lone_shell: Shell, kind: tuple[str, ...]) -> None:
    """A wildcard as the address of clients, and rights for a creator whom no server knows."""
    quick = (*kind, "--id", "7", "-z", "127.0.0.1:1", "--dry-run")
    anywhere = lone_shell.run(*quick, "--host", "0.0.0.0")
    named = lone_shell.run(*quick, "--host", "0.0.0.0", "--set", "advertised.host.name=outside")
    nobody = lone_shell.run(*quick, "--zk-acl", "creator")

    assert (anywhere.code, named.code, nobody.code) == (2, 0, 2)
    assert "--set advertised.host.name=NAME" in anywhere.err
    assert "found no credentials" in nobody.err


def test_two_times_to_connect_are_refused(lone_shell: Shell) -> None:
    """One by the option, one by a setting, be they equal."""
    quick = ("-z", "127.0.0.1:1", "--dry-run", "--connect-timeout", "1s")
    served = lone_shell.run(*ALONE, "--id", "7", *quick, "--set", "connection_timeout_ms=1s")
    member = lone_shell.run("consume", "g", "--topic", "t", *quick, "--set", "connection_timeout_ms=1s")

    twice = "setting connection_timeout_ms is given twice: by --connect-timeout and by"
    assert (served.code, member.code) == (2, 2)
    assert f"{twice} --set\n" in served.err
    assert f"{twice} --set\n" in member.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--id", "auto"), "needs a number as --id"),
        (("--id", "-1"), "expected a number from 0"),
        (("--id", "x"), "expected a number from 0"),
        (("--id", "7", "--data", "d"), "leave out --data"),
        (("--id", "7", "--set", "sesion_timeout_ms=1s"), "did you mean 'session_timeout_ms'"),
        (("--id", "7", "--set", "session_timeout_ms=soon"), "milliseconds, or a time such as 5s"),
        (("--id", "7", "--format", "json"), "--format table or ndjson"),
        (("--id", "7", "--metrics-host", "::1"), "--metrics-host needs --metrics-port"),
    ],
)
def test_what_cannot_be_is_refused_before_it_starts(
    shell: Shell, words: tuple[str, ...], message: str
) -> None:
    """Exit code 2, and what would be right."""
    ran = shell.run("broker", "run", "--controller-only", *words)
    assert (ran.code, message in ran.err) == (2, True), ran


def test_kafkas_seconds_are_read_as_such() -> None:
    """Kafka's setting counts seconds, zkgroup's milliseconds; a unit, or zkgroup's name, decides."""
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
    printer.on_registered(4, "127.0.0.1", 9092, 17, {"PLAINTEXT": "127.0.0.1:9092"})
    printer.on_role(tp, Role.LEADER, 5)
    printer.on_role(tp, Role.NONE, None)
    printer.on_isr(tp, 5, (4, 1))
    printer.on_controller(7, 1, 12)
    printer.on_resigned("an operator asked for it")
    printer.on_disconnected(None, None)
    printer.on_failed(ReplicaStorageError("no space"))

    lines = [line[14:] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "registered   broker 4 at 127.0.0.1:9092, epoch 17",
        "leader       orders-3, leader epoch 5",
        "stopped      orders-3",
        "isr          orders-3 is 4,1",
        "controller   epoch 7, 1 partition loaded in 12 ms",
        "resigned     an operator asked for it",
        "disconnected no connection to ZooKeeper; serving continues without metadata",
        "failed       no space",
    ]


def test_a_dry_run_joins_nothing(shell: Shell, witness: Blocking) -> None:
    """It says what would run; nothing is made in ZooKeeper."""
    ran = shell.run("broker", "run", "--id", "7", "--controller-only", "--dry-run")
    assert (ran.code, "as a controller only" in ran.err) == (0, True)
    assert witness.exists("/zkgroup") is None
