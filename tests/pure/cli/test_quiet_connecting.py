"""Warnings of a connection: none until there is one, nor at the end of a command that never had one."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from zkgroup_cli.render import echo_err

from tests.waiting import happened
from tests.worlds.shell import Shell
from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import MemberClosedError, StoreUnavailableError
from zkgroup.security.listeners import plaintext
from zkgroup.zookeeper.kazoo_adapter import RedactingLogger

NOWHERE = ("-z", "nowhere:1")
WARNED = "WARNING zkgroup.zookeeper: nowhere:1: Connection dropped: once more\n"


class Connection:
    """In the place of a client, a member or a broker: an attempt to connect fails as it closes, or begins."""

    settings = BrokerSettings()
    security = SecuritySettings(listeners=plaintext("here", 1))
    broker = 7
    serving = ("here", 1)

    def __init__(self, connect: Callable[[], None]) -> None:
        self._connect = connect

    def start(self) -> None:
        self._fail("first try")
        self._connect()

    def wait_connected(self, timeout_s: float) -> None:
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, timeout_s: float = 5.0) -> None:
        self._fail("once more")

    def stop(self) -> None:
        pass

    def check(self) -> None:
        pass

    def leases(self) -> tuple[()]:
        return ()

    def listen(self, listener: object) -> None:
        """What a command begins with that is connected."""
        unanswered()

    @staticmethod
    def _fail(text: str) -> None:
        RedactingLogger("nowhere:1", lambda: False, lambda _: None).warning("Connection dropped: %s", text)


def asked_to_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def asked_to_stop_and_closed() -> None:
    asked_to_stop()
    raise MemberClosedError("closed")


def unanswered() -> None:
    raise StoreUnavailableError("no answer")


def misfit() -> None:
    raise ImportError("expected kazoo 2, found 3")


def connected() -> None:
    pass


COMMANDS = {
    "group list": ("zkgroup.zookeeper.ZooKeeperClient", ("group", "list")),
    "consume": ("zkgroup.consumer.sync.GroupMember", ("consume", "g", "--topic", "t")),
    "broker run": (
        "zkgroup.broker.controller_only.ControllerOnly",
        ("broker", "run", "--controller-only", "--id", "7", "--connect-timeout", "1ms"),
    ),
}


@pytest.mark.parametrize(
    ("command", "connect", "code", "message"),
    [
        ("group list", unanswered, 7, "error: no answer\n"),
        ("group list", misfit, 1, "error: expected kazoo 2, found 3\n"),  # not "a bug of zkgroup"
        ("consume", unanswered, 7, "error: no answer\n"),
        ("consume", asked_to_stop, 0, ""),
        ("consume", asked_to_stop_and_closed, 0, ""),
        ("broker run", unanswered, 7, "error: no answer\n"),
        ("broker run", asked_to_stop, 0, ""),
    ],
)
def test_the_end_of_a_command_that_never_was_connected_is_quiet(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    connect: Callable[[], None],
    code: int,
    message: str,
) -> None:
    """Past bug: attempts were at times reported again before the client was closed. -v reports each."""
    shell = _staged(monkeypatch, tmp_path, command, connect)
    words = COMMANDS[command][1]

    quiet = shell.run(*words, *NOWHERE)
    verbose = shell.run(*words, *NOWHERE, "-v")

    assert (quiet.code, quiet.err) == (code, message)
    assert verbose.err.count("WARNING zkgroup.zookeeper: nowhere:1: Connection dropped: ") >= 1


def test_attempts_of_an_outage_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Past bug: two that alternate were reported each time, 2,400 lines an hour."""
    log = RedactingLogger("nowhere:1", lambda: False, lambda _: None)
    for _ in range(2):
        for _ in range(3):
            log.warning("Connection dropped: %s", "no session granted within 3.3 s")
            log.warning("Connection dropped: %s", "socket connection broken")
        log.info("Zookeeper connection established, state: CONNECTED")
    assert [record.levelname for record in caplog.records].count("WARNING") == 4


@pytest.mark.parametrize("command", ["consume", "broker run"])
def test_a_connection_that_is_lost_later_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """A connection that was there and is lost is reported."""
    shell = _staged(monkeypatch, tmp_path, command, connected)
    monkeypatch.setattr("zkgroup_cli.serving.StopSignals.wait", lambda *_: True)

    ran = shell.run(*COMMANDS[command][1], *NOWHERE)

    own_words = "".join(line for line in ran.err.splitlines(keepends=True) if line.startswith("note: "))
    assert (ran.code, ran.err.replace(own_words, "")) == (0, WARNED)


def test_the_lost_connection_of_a_command_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While it works on what it has read."""
    shell = _staged(monkeypatch, tmp_path, "group list", connected)

    ran = shell.run("group", "list", *NOWHERE)

    assert (ran.code, ran.err) == (7, f"{WARNED}error: no answer\n")


def _staged(monkeypatch: pytest.MonkeyPatch, home: Path, command: str, connect: Callable[[], None]) -> Shell:
    def make(*_: Any, **__: Any) -> Connection:
        return Connection(connect)

    monkeypatch.setattr(COMMANDS[command][0], make)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    return Shell(home)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_servers_that_a_command_waits_for_are_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """Past bug: ten seconds without a word, where a port was wrong."""
    said = threading.Event()
    monkeypatch.setattr("zkgroup_cli.context.echo_err", lambda text: (echo_err(text), said.set()))
    monkeypatch.setattr("zkgroup_cli.context.ECHO_WAITING_AFTER_S", 0.0)

    def wait() -> None:
        happened(said)
        unanswered()

    ran = _staged(monkeypatch, tmp_path, command, wait).run(*COMMANDS[command][1], *NOWHERE)

    assert (ran.code, ran.err) == (7, "waiting for nowhere:1\nerror: no answer\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_cannot_be_resolved_fails_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """No attempt is made; one name of several that can be resolved is enough."""
    tries: list[str] = []
    shell = _staged(monkeypatch, tmp_path, command, lambda: (tries.append("try"), unanswered()))

    def resolve(host: str, *_: object, **__: object) -> list[object]:
        if host == "nowhere":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    ran = shell.run(*COMMANDS[command][1], "-z", "nowhere:1,nowhere:2/kafka")
    assert tries == []
    some = shell.run(*COMMANDS[command][1], "-z", "nowhere:1,somewhere:2/kafka")

    assert ran.code == 7
    assert "expected a server at nowhere:1,nowhere:2/kafka, found no name that can be resolved" in ran.err
    assert "nowhere: Name or service not known" in ran.err
    assert (some.err, len(tries)) == ("error: no answer\n", 1)
