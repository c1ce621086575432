"""Ends the session of a killed process when the test says so, instead of after its timeout.

So the timeout can be long: a slow machine ends no session by accident, and no test waits for a timeout.
"""

from __future__ import annotations

from tests.waiting import PATIENCE_S
from zkgroup.zookeeper import raw_connection
from zkgroup.zookeeper.blocking import Blocking

_SECRET = 0xB3415C00
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


def end_session_of(zk: Blocking, path: str, port: int) -> None:
    """Closes the session that owns this ephemeral znode, at a server's port, as an expiry would."""
    end_session(zk.read(path).stat.ephemeral_owner, port)


def end_session(session_id: int, port: int) -> None:
    """Closes a session by a second connection with its password. Raises ConnectionError when it has ended."""
    raw_connection.end_session(port, session_id, password_of(session_id), PATIENCE_S)


def password_of(session_id: int) -> bytes:
    """The password of a session as servers compute it (ZooKeeperServer.generatePasswd).

    It is 16 bytes of java.util.Random, seeded by the session id.
    """
    seed = ((session_id ^ _SECRET) ^ _MULTIPLIER) & _MASK
    found = b""
    for _ in range(4):
        seed = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        found += (seed >> 16).to_bytes(4, "little")
    return found
