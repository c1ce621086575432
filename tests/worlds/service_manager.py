"""The service manager of processes with `NOTIFY_SOCKET`."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.waiting import joined


@contextmanager
def service_manager(address: str) -> Iterator[queue.Queue[list[str]]]:
    """The notices in their order, each as its lines. It reads all the time, as systemd does: the kernel
    keeps few, and who sends more has to wait."""
    notices: queue.Queue[list[str]] = queue.Queue()

    def read() -> None:
        while text := listening.recv(4096):
            notices.put(text.decode().split("\n"))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address)
        reader = threading.Thread(target=read, name="service-manager")
        reader.start()
        try:
            yield notices
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ending:
                ending.sendto(b"", address)
            joined(reader)
