"""The proxy before a client port: it knows sessions, and the kinds of requests.

It understands ZooKeeper's framing (a length before each packet) and just enough of the packets to know
the kind of a request, its reply, and a session's id and password.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from dataclasses import dataclass, field
from typing import Literal

from zkgroup.testing.proxy import LARGEST_PIECE, Connection, Proxy, Way

Kind = Literal["create", "delete", "exists", "read", "set", "list", "sync", "multi", "multi_read"]
OPCODES: dict[Kind, tuple[int, ...]] = {  # ZooDefs.OpCode@3.9.5
    "create": (1, 15),
    "delete": (2,),
    "exists": (3,),
    "read": (4,),
    "set": (5,),
    "list": (8, 12),
    "sync": (9,),
    "multi": (14,),
    "multi_read": (22,),
}


class Dropped:
    """Tells whether an armed `drop_reply` or `drop_request` has hit."""

    def __init__(self, opcodes: tuple[int, ...], *, executed: bool, then_refuse: bool = False) -> None:
        self.opcodes = opcodes
        self.executed = executed
        self.then_refuse = then_refuse
        self._hit = threading.Event()

    def hit(self) -> None:
        self._hit.set()

    @property
    def happened(self) -> bool:
        """Whether it has hit by now."""
        return self._hit.is_set()

    def wait(self, timeout_s: float = 30.0) -> None:
        """Raises TimeoutError when no such request came."""
        if not self._hit.wait(timeout_s):
            raise TimeoutError(f"no request of kind {self.opcodes} in {timeout_s:g} s")


@dataclass(eq=False)
class ClientConnection(Connection):
    """A client's connection and its session."""

    session_id: int = 0
    password: bytes = b""
    doomed: dict[int, Dropped] = field(default_factory=dict)
    """xid of requests whose reply must not arrive."""
    unanswered: set[int] = field(default_factory=set)
    """xid of requests whose reply has not been passed on; pings are none."""


class ClientProxy(Proxy[ClientConnection]):
    """In front of one server's client port."""

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self.armed: Dropped | None = None
        self.most_unanswered = 0
        """Requests of one connection."""
        self.requests = 0
        self.unanswered = 0
        """Summed up over the requests: how many of its connection waited then, itself included."""

    def _connection(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> ClientConnection:
        return ClientConnection(client, server)

    async def _read(self, reader: asyncio.StreamReader, way: Way, first: bool) -> bytes | None:
        """A packet with its length in front; None at the end. A four-letter command passes as it is."""
        try:
            head = await reader.readexactly(4)
            (length,) = struct.unpack(">i", head)
            if not 0 <= length < LARGEST_PIECE:
                return head + await reader.read(LARGEST_PIECE)
            return head + await reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def _look(self, connection: ClientConnection, piece: bytes, way: Way, first: bool) -> bytes:
        """Notes sessions and arms the drop of a reply."""
        if first:
            if way is self.to_client and len(piece) >= 24:
                connection.session_id, length = struct.unpack_from(">qi", piece, 12)
                connection.password = piece[24 : 24 + length]
        elif way is self.to_server and len(piece) >= 12:
            xid, opcode = struct.unpack_from(">ii", piece, 4)
            if xid > 0:
                connection.unanswered.add(xid)
                self.most_unanswered = max(self.most_unanswered, len(connection.unanswered))
                self.requests += 1
                self.unanswered += len(connection.unanswered)
            if self.armed is not None and opcode in self.armed.opcodes:
                connection.doomed[xid] = self.armed
                self.armed = None
        return piece

    def _arrives(self, connection: ClientConnection, piece: bytes, way: Way) -> bool:
        xid = struct.unpack_from(">i", piece, 4)[0] if len(piece) > 8 else 0
        if way is self.to_client:
            connection.unanswered.discard(xid)
        doom = connection.doomed.get(xid)
        if doom is None or doom.executed is not (way is self.to_client):
            return True
        self.refusing |= doom.then_refuse
        connection.abort()
        doom.hit()
        return False
