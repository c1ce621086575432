"""The proxy that holds single writes: which writes it holds, and that their writer's session lives on."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.programs.chaos.cluster import SESSION_MS
from tests.programs.chaos.gate import GatedZooKeeper
from tests.programs.on_servers import hold
from tests.waiting import PATIENCE_S, eventually
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

SET = 5
CHROOT = "/gate"


class StoppedClient:
    """A client that sends no pings, as a process under SIGSTOP: a bare connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._send(struct.pack(">iqiqi", 0, 0, SESSION_MS, 0, 16) + bytes(17))  # ConnectRequest
        self.granted_ms = struct.unpack_from(">i", self.receive(), 4)[0]

    def set(self, xid: int, path: str, data: bytes) -> None:
        name = path.encode()
        body = struct.pack(f">i{len(name)}si{len(data)}si", len(name), name, len(data), data, -1)
        self._send(struct.pack(">ii", xid, SET) + body)

    def receive(self) -> bytes:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            assert piece, "the server closed the connection"
            data += piece
        return data

    def _send(self, body: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(body)) + body)


@pytest.fixture
def gate(zk_chaos_processes: EmbeddedZooKeeper) -> Iterator[GatedZooKeeper]:
    with GatedZooKeeper(zk_chaos_processes) as network:
        yield network


def test_a_stopped_clients_write_arrives_beyond_its_session(gate: GatedZooKeeper) -> None:
    """A write held for longer than its session is executed; the next one is held; other paths pass."""
    held, other = f"{CHROOT}/held", f"{CHROOT}/other"
    gate.close_gate(held)
    port = int(gate.addresses[0].rpartition(":")[2])
    with ExitStack() as stack:
        zk = stack.enter_context(Blocking(stack.enter_context(ZooKeeperClient(gate.direct_address))))
        zk.wait_connected()
        zk.create_missing(CHROOT, held, other)
        client = StoppedClient(port)  # its session begins here, without pings until a write is held
        stack.enter_context(client.socket)
        assert client.granted_ms == SESSION_MS
        client.set(1, other, b"passes")
        assert struct.unpack_from(">iqi", client.receive())[::2] == (1, 0)

        client.set(2, held, b"late")
        client.set(3, held, b"later")
        eventually(lambda: gate.is_holding)
        hold(SESSION_MS / 1000 * 1.5)
        assert zk.read(held).stat.version == 0
        gate.let_go()
        xid, zxid, error = struct.unpack_from(">iqi", client.receive())

        assert (xid, error) == (2, 0)
        assert gate.answered == (zxid,)
        eventually(lambda: gate.is_holding)
        zk.sync("/")
        assert zk.read(held).data == b"late"
        gate.open_gate()
        assert struct.unpack_from(">i", client.receive())[0] == 3
        assert not gate.is_holding
