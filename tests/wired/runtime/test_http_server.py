"""The HTTP server: who may read, by which protocol, and clients that misbehave."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.certificates import Authority
from zkgroup.errors import ConfigError
from zkgroup.exporter import users as exporter_users
from zkgroup.exporter.users import FileUsers
from zkgroup.runtime import http_server
from zkgroup.runtime.http_server import HttpServer, Page
from zkgroup.security.passwords import hash_password
from zkgroup.security.tls import TlsSettings, client_context, server_context

ENDLESS_S = 100 * PATIENCE_S
"""Longer than any test may take."""


def hello(query: Mapping[str, str]) -> Page:
    return Page("text/plain", f"hello {query.get('name', '')}".encode())


def long(query: Mapping[str, str]) -> Page:
    return Page("text/plain", bytes(20_000_000))


def broken(query: Mapping[str, str]) -> Page:
    raise ZeroDivisionError


@contextmanager
def serving(**options: Any) -> Iterator[HttpServer]:
    pages = {"/hello": hello, "/broken": broken, "/open": hello, "/long": long}
    server = HttpServer(("127.0.0.1", 0), pages, **options)
    server.start()
    try:
        yield server
    finally:
        server.close()


def get(
    server: HttpServer, path: str, *, method: str = "GET", tls: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, bytes, Mapping[str, str]]:
    connection: http.client.HTTPConnection = (
        http.client.HTTPConnection(*server.address, timeout=PATIENCE_S)
        if tls is None
        else http.client.HTTPSConnection(*server.address, timeout=PATIENCE_S, context=tls)
    )
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.headers)
    finally:
        connection.close()


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def test_a_path_is_a_page() -> None:
    """With the query's parameters; unknown paths are told which there are; a fault of one page is its own."""
    with serving() as server:
        status, body, headers = get(server, "/hello?name=ada")
        assert (status, body, headers["Content-Type"]) == (200, b"hello ada", "text/plain")
        assert headers["Server"].strip() == "zkgroup"
        assert get(server, "/hello", method="HEAD")[:2] == (200, b"")
        assert get(server, "/other")[:2] == (404, b"404 Not Found: there are /broken /hello /long /open\n")
        assert get(server, "/hello", method="POST")[0] == 501
        assert get(server, "/broken")[0] == 500
        with socket.create_connection(server.address, timeout=PATIENCE_S) as client:
            client.sendall(b"GET http://[ HTTP/1.0\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.0 400"
        assert get(server, "/hello")[0] == 200


def test_only_users_of_the_file_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for open paths. An accepted password is hashed once, and again when the file has changed."""
    users = tmp_path / "users"
    users.write_text(f"ada:{hash_password('secret', b'12345678')}\n")
    users.chmod(0o600)
    hashed: list[str] = []
    accepts = exporter_users.PasswordFile.accepts

    def counted(file: Any, user: str, password: str) -> bool:
        hashed.append(user)
        return accepts(file, user, password)

    monkeypatch.setattr(exporter_users.PasswordFile, "accepts", counted)
    with serving(users=FileUsers(users), open_paths=frozenset({"/open"})) as server:
        status, _, headers = get(server, "/hello")
        assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="zkgroup"')
        for wrong in (basic("ada", "other"), basic("eve", "secret"), "Basic %", "Bearer x", basic("", "")):
            assert get(server, "/hello", Authorization=wrong)[0] == 401, wrong
        assert get(server, "/other")[0] == 401
        assert get(server, "/open")[0] == 200
        hashed.clear()
        for _ in range(2):
            assert get(server, "/hello", Authorization=basic("ada", "secret"))[0] == 200
        assert hashed == ["ada"]
        users.write_text(f"ada:{hash_password('another', b'12345678')}\n")
        assert get(server, "/hello", Authorization=basic("ada", "secret"))[0] == 401
        assert get(server, "/hello", Authorization=basic("ada", "another"))[0] == 200


def test_tls_shows_the_certificate_of_the_file(tmp_path: Path) -> None:
    """A client that speaks no TLS, or begins no handshake, keeps no other client waiting."""
    authority = Authority(tmp_path)
    key_store = authority.key_store("server")
    key_store.chmod(0o600)
    context = server_context(TlsSettings(key_store=str(key_store)))
    trusting = client_context(TlsSettings(trust_store=str(authority.trust_store)))
    with serving(tls=context) as server:
        silent = socket.create_connection(server.address, timeout=PATIENCE_S)
        with silent:
            assert get(server, "/hello", tls=trusting)[:2] == (200, b"hello ")
            with pytest.raises(ConnectionError):
                get(server, "/hello")


def test_clients_without_a_request_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is closed for a new one; those whose responses are made keep their places."""
    monkeypatch.setattr(http_server, "CLIENTS_MAX", 1)
    monkeypatch.setattr(http_server, "CLIENT_TIMEOUT_S", ENDLESS_S)
    monkeypatch.setattr(http_server, "CUT_S", ENDLESS_S)
    with serving() as server:
        with socket.create_connection(server.address, timeout=PATIENCE_S) as first:
            first.sendall(b"GET /hello HTTP/1.0\r\n")
            assert get(server, "/hello")[0] == 200
            assert first.recv(1) == b""
        with socket.create_connection(server.address, timeout=PATIENCE_S) as reader:
            reader.sendall(b"GET /long HTTP/1.0\r\n\r\n")
            assert reader.recv(15) == b"HTTP/1.0 200 OK"
            monkeypatch.setattr(http_server, "CUT_S", 0)
            with socket.create_connection(server.address, timeout=PATIENCE_S) as second:
                assert second.recv(1) == b""


@pytest.mark.parametrize("sent", [b"", b"GET /hello HTTP/1.0\r\n", b"GET /long HTTP/1.0\r\n\r\n"])
def test_no_client_keeps_the_server_from_ending(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that sends no request, or half of one, nor one that does not take its response."""
    monkeypatch.setattr(http_server, "CLIENT_TIMEOUT_S", ENDLESS_S)
    monkeypatch.setattr(http_server, "CLOSE_S", 0)
    with serving() as server, socket.create_connection(server.address, timeout=PATIENCE_S) as client:
        client.sendall(sent)
        assert get(server, "/hello")[0] == 200  # the client is on its thread
        server.close()
        with suppress(ConnectionResetError):
            while client.recv(1 << 20):
                pass


def test_an_address_that_cannot_be_had_is_named() -> None:
    """A port in use, and a host that is none of this machine."""
    with serving() as server:
        host, port = server.address
        with pytest.raises(ConfigError, match=f"{host}:{port}: cannot listen there: Address already"):
            HttpServer((host, port), {})
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:0: cannot listen there"):
        HttpServer(("192.0.2.1", 0), {})
