"""A chroot on an embedded ensemble whose servers do not serve yet, with scripted servers."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import joined
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
from zkgroup.zookeeper.raw_connection import create_node

SESSION = struct.pack(">iiiqi16s", 36, 0, 5000, 1, 16, bytes(16))
DONE = struct.pack(">iiqi", 16, 1, 7, 0)


@contextmanager
def serving(*replies: tuple[bytes, ...]) -> Iterator[int]:
    """The port of a server that gives these replies to the requests of one connection, and then leaves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for told in replies:
                connection, _ = listener.accept()
                with connection:
                    for reply in told:
                        connection.recv(4096)
                        connection.sendall(reply)
                    connection.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        joined(thread)
        assert not thread.is_alive()


@pytest.mark.parametrize(("told", "why"), [((), "the server granted no session"), ((SESSION,), "no reply")])
def test_a_server_that_leaves_has_created_nothing(told: tuple[bytes, ...], why: str) -> None:
    """Past bug: a missing answer was taken for a good one, and the next request met a broken pipe."""
    with serving(told) as port, pytest.raises(ConnectionError, match=why):
        create_node(port, "/c", 30)


def test_a_server_that_leaves_after_its_answer_has_created_it() -> None:
    """The client does not wait for the end of that session."""
    with serving((SESSION, DONE)) as port:
        create_node(port, "/c", 30)


def _ensemble(*ports: int) -> EmbeddedZooKeeper:
    zookeeper = EmbeddedZooKeeper()
    servers: Any = [SimpleNamespace(pid=None, port=1), *(SimpleNamespace(pid=7, port=port) for port in ports)]
    zookeeper._servers = servers
    return zookeeper


def test_servers_are_asked_in_turns_until_one_has_created_it() -> None:
    """Past bug: a test's tree could not be created while the servers were electing a leader."""
    with serving((), (SESSION, DONE)) as one, serving((SESSION,)) as other:
        _ensemble(one, other).create_chroot("/c")


def test_what_no_server_creates_in_time_is_an_error() -> None:
    """That of the last one."""
    with (
        serving((SESSION,)) as port,
        pytest.raises(ConnectionError, match="/c could not be created: no reply"),
    ):
        _ensemble(port).create_chroot("/c", timeout_s=0)
