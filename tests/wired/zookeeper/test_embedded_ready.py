"""When an embedded server is ready: what its answers mean, with a scripted server."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import joined
from zkgroup.errors import EmbeddedServerError
from zkgroup.zookeeper.embedded import EmbeddedServer, EmbeddedZooKeeper, ServerState

NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"


@contextmanager
def answering(*answers: dict[str, str]) -> Iterator[int]:
    """The port of a server that answers each word of a round, and the last round again and again."""
    rounds = list(answers)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    word = connection.recv(4).decode()
                    connection.sendall(rounds[0].get(word, NOT_SERVING).encode())
                if word == "conf" and len(rounds) > 1:
                    rounds.pop(0)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            joined(thread)


@contextmanager
def server(port: int, folder: Path) -> Iterator[EmbeddedServer]:
    """A process that does nothing, at the port of the answers."""
    command = [sys.executable, "-c", "import time; time.sleep(300)"]
    made = EmbeddedServer(0, port, folder, lambda: command, in_ensemble=False)
    made.spawn()
    try:
        yield made
    finally:
        made.kill()


def test_a_quorum_lost_between_two_questions_is_not_ready_yet(tmp_path: Path) -> None:
    """Past bug: an answer without a data folder was taken for that of another ZooKeeper."""
    ours = {"srvr": "Mode: follower\n", "conf": f"dataDir={tmp_path / 'version-2'}\n"}
    with answering({"srvr": "Mode: follower\n"}, ours) as port, server(port, tmp_path) as one:
        one.wait_ready(time.monotonic() + 60)


def test_another_zookeeper_at_the_port_is_named(tmp_path: Path) -> None:
    """With the folder of its data."""
    theirs = {"srvr": "Mode: standalone\n", "conf": "dataDir=/var/lib/zookeeper/version-2\n"}
    with (
        answering(theirs) as port,
        server(port, tmp_path) as one,
        pytest.raises(EmbeddedServerError, match="another ZooKeeper, with its data in /var/lib/zookeeper"),
    ):
        one.wait_ready(time.monotonic() + 60)


class Faltering:
    """A scripted process of a server, which ends after a number of checks."""

    def __init__(self, ends: int, *, stood_still: bool) -> None:
        self.ends, self.stood_still, self.spawned = ends, stood_still, 0
        self.pid: int | None = 1
        self.state = ServerState.RUNNING

    def resume(self) -> None:
        self.state = ServerState.RUNNING

    def spawn(self) -> None:
        self.pid, self.spawned = 1, self.spawned + 1

    def wait_ready(self, deadline: float) -> None:
        if self.ends:
            self.ends, self.pid = self.ends - 1, None
            raise EmbeddedServerError("stopped (status 0)")


def revived(server: Faltering) -> Faltering:
    zookeeper = EmbeddedZooKeeper()
    zookeeper._servers = [server]  # type: ignore[list-item]
    zookeeper.revive()
    return server


def test_a_server_that_ends_after_it_stood_still_is_started_again() -> None:
    """Past bug: resumed it counted as healthy, ended soon after, and the next test had no quorum."""
    server = revived(Faltering(1, stood_still=True))

    assert (server.spawned, server.stood_still) == (1, False)
    assert revived(server).spawned == 1


def test_a_server_that_keeps_ending_is_reported() -> None:
    """It is started once more, not for ever."""
    with pytest.raises(EmbeddedServerError, match="status 0"):
        revived(Faltering(2, stood_still=True))
