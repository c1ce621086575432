"""An HTTP server that shows a process: TLS, a check of credentials, and one function for each path."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

from zkgroup.errors import ConfigError
from zkgroup.runtime.logs import get_logger, limited

_log = get_logger(__name__)

CLIENT_TIMEOUT_S: Final = 10.0
"""Longest wait for each part of a client's request, its handshake, and its taking of the response."""
CLIENTS_MAX: Final = 64
"""Clients that are served at once; the oldest without a request is closed for the next one."""
CLOSE_S: Final = 1.0
"""Time in which clients take their responses once the server ends."""
CUT_S: Final = 1.0
"""Longest wait for the room of a client that was closed for the next one."""
CHECK_S: Final = 0.2
"""Period of the check whether the server is to end."""


class Page(NamedTuple):
    """A response."""

    content_type: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK


class Users(Protocol):
    """Those who may read."""

    def accepts(self, header: str | None) -> bool:
        """Returns whether who sends this `Authorization` header, or none, may read."""


class HttpServer:
    """Serves pages by their paths, each request on a thread of its own."""

    def __init__(
        self,
        listen: tuple[str, int],
        pages: Mapping[str, Callable[[Mapping[str, str]], Page]],
        *,
        tls: ssl.SSLContext | None = None,
        users: Users | None = None,
        open_paths: frozenset[str] = frozenset(),
    ) -> None:
        """Listens, and serves once it is started. Raises ConfigError where the address cannot be had.

        Args:
            listen: host and port; port 0 for a free one.
            pages: path to the function of its page, which gets the parameters of the query.
            tls: shows the server's certificate; None for plain text.
            users: those who may read; None for everybody.
            open_paths: the paths that everybody may read.
        """
        self._tls = tls
        kind = type("_Handler", (_Handler,), {"pages": pages, "users": users, "open_paths": open_paths})
        try:
            self._server = _Server(listen, kind, tls)
        except OSError as error:
            where = f"{listen[0]}:{listen[1]}"
            raise ConfigError(f"{where}: cannot listen there: {error.strerror or error}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CHECK_S,), name="zkgroup-http"
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it listens."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def start(self) -> None:
        """Begins to serve."""
        self._thread.start()

    def close(self) -> None:
        """Ends it: no more clients are accepted, and those that have sent their requests get responses."""
        self._server.shutdown()
        self._thread.join()
        self._server.end_clients()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # `server_close` waits for them; each wait has its timeout
    request_queue_size = 64

    def __init__(self, listen: tuple[str, int], handler: Any, tls: ssl.SSLContext | None) -> None:
        self.address_family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._tls = tls
        self._changed = threading.Condition()
        self._clients: dict[socket.socket, bool] = {}
        """Each client, the oldest first, and whether its request is there."""
        super().__init__(listen, handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)  # without the name lookup of http.server
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(CLIENT_TIMEOUT_S)
        if self._tls is not None:  # the handshake is made on the client's thread: it keeps no other waiting
            request = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self._changed:
            if len(self._clients) >= CLIENTS_MAX:
                self._cut(1)
            if has_room := self._changed.wait_for(lambda: len(self._clients) < CLIENTS_MAX, CUT_S):
                self._clients[request] = False
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self._tls is not None:
            request.do_handshake()
        super().finish_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._clients.pop(request, None)
            self._changed.notify_all()

    def has_request(self, client: socket.socket) -> None:
        """Notes that the request of a client is there."""
        with self._changed:
            self._clients[client] = True

    def end_clients(self) -> None:
        """Ends those that have sent no request now, and those that do not take their responses in time."""
        with self._changed:
            self._cut(CLIENTS_MAX)
            self._changed.wait_for(lambda: not self._clients, CLOSE_S)
            self._cut(CLIENTS_MAX, with_requests=True)

    def _cut(self, most: int, *, with_requests: bool = False) -> None:
        """Ends the oldest clients without a request, or with one too: their threads read or write no more."""
        found = [client for client, has_request in self._clients.items() if with_requests or not has_request]
        for client in found[:most]:
            with suppress(OSError):  # it has gone by itself
                socket.socket.shutdown(client, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.info("a client at %s was not served", client_address[0], exc_info=True, extra=limited())


class _Handler(BaseHTTPRequestHandler):
    server_version = "zkgroup"
    sys_version = ""
    pages: Mapping[str, Callable[[Mapping[str, str]], Page]]
    users: Users | None
    open_paths: frozenset[str]

    server: _Server

    def do_GET(self) -> None:
        self.server.has_request(self.connection)
        try:
            url = urlsplit(self.path)
        except ValueError:
            self._send(_text("400 Bad Request", HTTPStatus.BAD_REQUEST))
            return
        make = self.pages.get(url.path)
        users = None if url.path in self.open_paths else self.users
        if users is not None and not users.accepts(self.headers.get("Authorization")):
            self._send(_text("401 Unauthorized", HTTPStatus.UNAUTHORIZED), {"WWW-Authenticate": _REALM})
            return
        if make is None:
            known = " ".join(sorted(self.pages))
            self._send(_text(f"404 Not Found: there are {known}", HTTPStatus.NOT_FOUND))
            return
        try:
            page = make(dict(parse_qsl(url.query)))
        except Exception:  # noqa: BLE001 - a fault of one page must not end the others
            _log.exception("the page %s failed", url.path)
            page = _text("500 Internal Server Error", HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(page)

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def _send(self, page: Page, headers: Mapping[str, str] = {}) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")  # no page frames this one
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Logs no requests."""


_REALM: Final = 'Basic realm="zkgroup"'


def _text(text: str, status: HTTPStatus) -> Page:
    return Page("text/plain; charset=utf-8", f"{text}\n".encode(), status)
