"""kafka-python's sockets, which `connecting` closes."""

from __future__ import annotations

import socket
from typing import Any

from kafka.net.inet import create_connection

from zkgroup.clients import kafka_python


def test_a_client_that_closes_leaves_no_socket_open() -> None:
    """Not even one whose connection it has not taken over yet: its thread can end between the two."""
    options = kafka_python.connecting()
    client: Any = options["kafka_client"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        kafka = client(bootstrap_servers=[f"127.0.0.1:{port}"], client_id="closing", **options)
        sock = kafka._net.run(
            lambda: create_connection(kafka._net, "127.0.0.1", port, proxy_url=options["proxy_url"])
        )
        assert sock.fileno() >= 0
        kafka.close()
        assert sock.fileno() == -1
