"""Ports that stay ours from the choice to the end, also while a server is down.

A port is held by a socket that is bound but does not listen. On Linux two sockets that both set
SO_REUSEADDR may share a port as long as at most one listens (socket(7)), and Java sets it on its server
sockets; so the server can listen while we go on holding, and nobody else is given the port between the
choice and the server's start, or during a restart.
"""

from __future__ import annotations

import socket
import sys
from typing import NamedTuple

from zkgroup.errors import EmbeddedServerError

HOST = "127.0.0.1"


class PeerPorts(NamedTuple):
    """Where a server of an ensemble listens for the others."""

    quorum: int
    """Followers open connections to their leader's."""
    election: int


class HeldPort:
    """One TCP port of the loopback interface, held until `release`."""

    def __init__(self, wanted: int | None = None) -> None:
        """Takes `wanted`, or any free port. Raises EmbeddedServerError where somebody listens on it."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if wanted is not None:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HOST, wanted or 0))
        except OSError as error:
            self._socket.close()
            raise EmbeddedServerError(
                f"port {wanted} of {HOST} cannot be used: {error.strerror}. "
                "Stop the program that listens on it or choose another port"
            ) from error
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self._socket.close()  # elsewhere a second socket could not listen

    def release(self) -> None:
        """Lets the port go. May be called again."""
        self._socket.close()
