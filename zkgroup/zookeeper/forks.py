"""What becomes of clients in a forked child: nothing, and loudly so.

Parent and child share the server's connection: a byte that the child reads or writes is one of the
parent's. So the child closes its copies of the descriptors without a word on them, and every use of
the client there raises `ForkedClientError`. Prefer the start method `spawn`.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from zkgroup.zookeeper.multiread import SUPPORT


class Forkable(Protocol):
    def after_fork_in_child(self) -> None:
        """Takes no lock: its holder may not exist in this process."""
        ...


_clients: weakref.WeakSet[Forkable] = weakref.WeakSet()


def guard(client: Forkable) -> None:
    """From now on the client learns when it wakes up in a child."""
    _clients.add(client)


def _after_fork_in_child() -> None:
    SUPPORT.after_fork()
    for client in tuple(_clients):
        client.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
