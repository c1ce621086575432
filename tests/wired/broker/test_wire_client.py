"""The client's end of a connection, in the versions of a message."""

from __future__ import annotations

import asyncio

import pytest

from tests.worlds.wire_requests import decode_request, encode_response
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.messages import Request
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse

PATIENCE_MS = 30_000


@pytest.mark.parametrize("version", [0, 8, 11])
def test_a_request_is_asked_in_a_version_and_answered_in_it(version: int) -> None:
    """Header and body of both; version 0 has no cluster id."""
    asked: list[tuple[int, Request]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        header, request = decode_request(await reader.readexactly(size))
        asked.append((header.version, request))
        response = MetadataResponse((), (), cluster_id="c")
        writer.write(encode_response(response, header.correlation_id, version=header.version))
        await writer.drain()
        await reader.read()
        writer.close()

    async def ask() -> MetadataResponse:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = BrokerClient("127.0.0.1", port, client_id="me", timeout_ms=PATIENCE_MS)
            try:
                return await client.ask(MetadataRequest.of("t"), MetadataResponse, version=version)
            finally:
                await client.close()

    answer = asyncio.run(ask())

    assert asked == [(version, MetadataRequest.of("t"))]
    assert answer == MetadataResponse((), (), cluster_id="c" if version else None)
