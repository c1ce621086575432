"""Accepting clients over TCP: every accepted client is closed, and a full file table is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S
from zkgroup.runtime import acceptor
from zkgroup.runtime.acceptor import Acceptor, over_streams


async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    await writer.drain()
    await asyncio.Event().wait()


@pytest.mark.parametrize("turns", range(8))
def test_a_connection_that_is_being_accepted_is_closed(turns: int) -> None:
    """At each turn of the loop from the system's accept on."""

    async def scenario() -> None:
        accepting = Acceptor(over_streams(greet))
        client = socket.create_connection(await accepting.start("127.0.0.1"), timeout=PATIENCE_S)
        for _ in range(turns):
            await asyncio.sleep(0)
        await accepting.close()

        assert accepting.clients == 0
        with client, contextlib.suppress(ConnectionResetError):
            while await asyncio.to_thread(client.recv, 10):
                pass

    asyncio.run(scenario())


def test_many_clients_that_come_at_once_are_accepted() -> None:
    """Past bug: of ten thousand members that joined at once, some had their connections reset."""
    limit = Path("/proc/sys/net/core/somaxconn")
    count = min(300, int(limit.read_text()) if limit.exists() else 100)

    async def scenario() -> None:
        accepting = Acceptor(over_streams(greet))
        address = await accepting.start("127.0.0.1")
        with contextlib.ExitStack() as stack:
            for _ in range(count):  # the loop does not turn meanwhile
                stack.enter_context(socket.create_connection(address, timeout=PATIENCE_S))
            for _ in range(count // 10):
                await asyncio.sleep(0)
            assert accepting.clients == count
            await accepting.close()

    asyncio.run(scenario())


def test_clients_beyond_the_limit_are_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past bug: a thousand members that found no room wrote a thousand warnings, and again at each retry."""

    async def scenario() -> None:
        accepting = Acceptor(over_streams(greet), lambda client, address: False)
        address = await accepting.start("127.0.0.1")

        async def refused(count: int) -> None:
            for _ in range(count):
                client = socket.create_connection(address, timeout=PATIENCE_S)
                with client, contextlib.suppress(ConnectionResetError):
                    assert await asyncio.to_thread(client.recv, 10) == b""

        await refused(3)
        monkeypatch.setattr(acceptor, "_WARNED_AGAIN_S", 0)
        await refused(1)
        await accepting.close()

    asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "a client was closed: there are already 0 connections",
        "3 clients were closed: there are already 0 connections",
    ]


def test_what_is_written_goes_at_once() -> None:
    """Past bug: small answers were delayed until the one before was acknowledged, 40 ms."""
    at_once: list[int] = []

    async def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        one = writer.get_extra_info("socket")
        at_once.append(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        await greet(reader, writer)

    async def scenario() -> None:
        accepting = Acceptor(over_streams(look))
        reader, writer = await asyncio.open_connection(*await accepting.start("127.0.0.1"))
        assert await asyncio.wait_for(reader.readexactly(5), PATIENCE_S) == b"hello"
        await accepting.close()
        writer.transport.abort()

    asyncio.run(scenario())
    assert [bool(one) for one in at_once] == [True]


def test_files_that_have_run_out_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client waits in the system's queue, and is served once there is room."""
    monkeypatch.setattr(acceptor, "_PAUSE_S", 0.001)
    tried: list[int] = []
    accept = socket.socket.accept

    def scarce(one: socket.socket) -> tuple[socket.socket, object]:
        tried.append(1)
        if len(tried) < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(one)

    monkeypatch.setattr(socket.socket, "accept", scarce)

    async def scenario() -> None:
        accepting = Acceptor(over_streams(greet))
        reader, writer = await asyncio.open_connection(*await accepting.start("127.0.0.1"))
        assert await asyncio.wait_for(reader.readexactly(5), PATIENCE_S) == b"hello"
        await accepting.close()
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    asyncio.run(scenario())
    assert len(tried) == 4  # the last one finds nobody
    assert caplog.text.count("no client can be accepted") == 1  # at most once a minute


@pytest.mark.parametrize("families", [(socket.AF_INET6, socket.AF_INET), (socket.AF_INET6,)])
def test_a_kind_of_address_that_the_machine_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, families: tuple[int, ...]
) -> None:
    """A name can have an IPv6 address where the kernel knows none; without another nothing listens."""

    async def addresses(host: str, port: int) -> dict[tuple[int, tuple[object, ...]], None]:
        known: dict[int, tuple[object, ...]] = {
            socket.AF_INET: ("127.0.0.1", port),
            socket.AF_INET6: ("::1", port),
        }
        return {(family, known[family]): None for family in families}

    def lacking(family: int, address: tuple[object, ...]) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return listening(family, address)

    listening = acceptor._listening
    monkeypatch.setattr(acceptor, "_addresses", addresses)
    monkeypatch.setattr(acceptor, "_listening", lacking)

    async def scenario() -> None:
        accepting = Acceptor(over_streams(greet))
        if socket.AF_INET not in families:
            with pytest.raises(OSError, match="not supported"):
                await accepting.start("both")
            return
        reader, writer = await asyncio.open_connection(*await accepting.start("both"))
        assert await asyncio.wait_for(reader.readexactly(5), PATIENCE_S) == b"hello"
        await accepting.close()
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    asyncio.run(scenario())
