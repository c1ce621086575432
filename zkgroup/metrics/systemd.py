"""Notifies systemd of the state of a service, by the protocol of sd_notify(3)."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from zkgroup.metrics.probes import Probe, ServiceStates
from zkgroup.runtime.logs import get_logger

_log = get_logger("zkgroup.metrics")

PERIOD_S: Final = 1.0
"""Longest time between a change of state and its notice."""

SEND_S: Final = 1.0
"""Longest wait of one attempt for a manager that does not read now, for example while it is loaded anew."""


class NotifySocket:
    """The socket of the service manager, as the environment of a service with `Type=notify` names it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Reads `NOTIFY_SOCKET`, a path or `@` and an abstract name, `WATCHDOG_USEC` and `WATCHDOG_PID`."""
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.is_there = address.startswith(("@", "/"))
        """True if there is a service manager. Other kinds of addresses are those of virtual machines."""
        self.watchdog_s: float | None = None
        """Longest time that systemd waits for `WATCHDOG=1`; None if it does not wait for any."""
        if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with suppress(KeyError, ValueError):
                self.watchdog_s = int(environment["WATCHDOG_USEC"]) / 1_000_000

    def send(self, lines: Sequence[str]) -> bool:
        """Sends the lines as one message; returns False if the manager does not read now.

        A manager that is gone is logged and no error.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifying:
                notifying.settimeout(SEND_S)
                notifying.connect(self._address)
                notifying.sendall("\n".join(lines).encode())
        except TimeoutError:
            return False
        except OSError as error:
            _log.debug("systemd was not notified of %s: %s", lines, error)
        return True


class Notifier:
    """Probes the parts of this process on a thread of its own, and notifies systemd of what has changed."""

    def __init__(self, to: NotifySocket, probes: Callable[[], Sequence[Probe]]) -> None:
        """Starts the thread, if there is a service manager."""
        self._to, self._probes = to, probes
        self._states = ServiceStates(watched=to.watchdog_s is not None)
        self._period_s = min(PERIOD_S, (to.watchdog_s or PERIOD_S) / 2)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zkgroup-systemd", daemon=True)
        if to.is_there:
            self._thread.start()

    def close(self) -> None:
        """Notifies systemd that the service stops, if it reads. Idempotent."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._notify()
            self._closed.wait(self._period_s)
        self._notify()

    def _notify(self) -> None:
        if lines := self._states.news(self._probes(), is_closing=self._closed.is_set()):
            while not self._to.send(lines) and not self._closed.is_set():
                pass
