"""The status of a server by `mntr`, its AdminServer and `wchs`; and the reasons why it has none."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.waiting import joined
from zkgroup.zookeeper.embedded.server import ReservedPort
from zkgroup.zookeeper.four_letter_words import ask_server, read_mntr, read_wchs
from zkgroup.zookeeper.server_connections import read_connections

MNTR = "".join(
    f"zk_{name}\t{value}\n"
    for name, value in {
        "version": "3.4.6-1569965, built on 02/20/2014",
        "server_state": "follower",
        "num_alive_connections": 3,
        "watch_count": 18,
        "znode_count": 49,
    }.items()
)
REFUSED = "{} is not executed because it is not in the whitelist.\n"

Serve = Callable[..., int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server for the time of a test; the result is its port."""
    with ExitStack() as stack:
        yield lambda kind, handler: stack.enter_context(_serving(kind, handler))


@contextmanager
def _serving(kind: type[socketserver.TCPServer], handler: Any) -> Iterator[int]:
    with kind(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            joined(thread)


def _words(answers: Mapping[str, str]) -> type[socketserver.BaseRequestHandler]:
    class Words(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            word = self.request.recv(4).decode()
            self.request.sendall(answers.get(word, REFUSED.format(word)).encode())

    return Words


def _monitor(status: int, body: object) -> type[BaseHTTPRequestHandler]:
    class Monitor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/commands/monitor"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    return Monitor


FIGURES = {"version": "3.9.4-abc", "server_state": "leader", "num_alive_connections": 2, "watch_count": 5}
FIGURES |= {"znode_count": 9, "error": None}


def test_mntr_is_enough(serve: Serve) -> None:
    """Nothing else is asked."""
    port = serve(socketserver.TCPServer, _words({"mntr": MNTR}))

    found = ask_server("127.0.0.1", port, admin_port=None)

    assert (found.by, found.mode, found.version) == ("mntr", "follower", "3.4.6")
    assert (found.connections, found.watches, found.znodes, found.reason) == (3, 18, 49, None)


def test_an_admin_server_is_asked_where_mntr_is_not_allowed(serve: Serve) -> None:
    """3.5 and later allow `srvr` alone by default."""
    port = serve(socketserver.TCPServer, _words({}))
    admin = serve(HTTPServer, _monitor(200, FIGURES))

    found = ask_server("127.0.0.1", port, admin_port=admin)
    behind_tls = ask_server("127.0.0.1", port, admin_port=admin, words=False)

    assert (found.by, found.mode, found.version) == ("AdminServer", "leader", "3.9.4")
    assert (found.connections, found.watches, found.znodes) == (2, 5, 9)
    assert behind_tls == found


def test_wchs_gives_the_watches_if_nothing_else_answers(serve: Serve) -> None:
    """The rest is unknown, and why."""
    port = serve(socketserver.TCPServer, _words({"wchs": "1 connections watching 9 paths\nTotal watches:13"}))

    found = ask_server("127.0.0.1", port, admin_port=None)

    assert (found.by, found.watches, found.connections) == ("wchs", 13, None)
    assert found.reason == "mntr: mntr is not executed because it is not in the whitelist."


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [(404, {}, "HTTP 404"), (200, {"error": "no leader"}, "no leader"), (200, [], "no object")],
)
def test_a_silent_server_says_why(serve: Serve, status: int, body: object, told: str) -> None:
    """One reason for each way that was tried."""
    port = serve(socketserver.TCPServer, _words({}))
    admin = serve(HTTPServer, _monitor(status, body))

    found = ask_server("127.0.0.1", port, admin_port=admin)

    assert (found.by, found.watches) == (None, None)
    assert found.reason is not None
    assert "not in the whitelist" in found.reason
    assert f"AdminServer at port {admin}: " in found.reason
    assert told in found.reason


def test_a_server_that_is_not_there_says_why(serve: Serve) -> None:
    """Nothing is raised: the rest of the ensemble is asked all the same. Past bug: where another server of
    the host has an AdminServer, that was taken for the one that is gone, which so served."""
    port, admin = ReservedPort(), serve(HTTPServer, _monitor(200, FIGURES))
    try:
        found = ask_server("127.0.0.1", port.number, admin_port=admin)
        clients = read_connections("127.0.0.1", port.number, admin_port=admin)
        told = ask_server("127.0.0.1", port.number, admin_port=None, words=False)
    finally:
        port.release()

    assert (found.by, found.mode) == (None, None)
    for reason in (found.reason, clients.reason):
        assert reason is not None
        assert reason.count("refused") == 1
    assert told.reason == "four-letter words are not sent to a port that speaks TLS"


def test_odd_lines_are_passed_over() -> None:
    """What later versions add, and what is cut off."""
    assert read_mntr("zk_a\t1\n\nnonsense\nb\t2\n") == {"a": "1", "b": "2"}
    assert read_wchs("Total watches:x") is None
