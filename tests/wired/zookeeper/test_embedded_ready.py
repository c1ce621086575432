"""When an embedded server counts as ready: what its answers say, from a server that answers as told."""

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
from zkgroup.zookeeper.embedded.server import EmbeddedServer

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
