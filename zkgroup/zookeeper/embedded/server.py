"""One server process: start, kill, pause, resume, restart, stop; and reserved ports."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple

from zkgroup.errors import EmbeddedServerError
from zkgroup.zookeeper.embedded.class_archive import archive_to_write, keep_archive
from zkgroup.zookeeper.four_letter_words import read_fields, send_word
from zkgroup.zookeeper.raw_connection import opens_sessions

_LAUNCHER = Path(__file__).with_name("launcher.py")
_POLL_S = 0.02
_ANSWER_S = 2.0
"""Seconds to wait for one reply of a server that starts, before the next attempt."""
_ASK_S = 60.0
"""Seconds to wait for a reply to a single attempt."""
_FIRST_PROBE_S = 0.1
READY_S = 120.0
"""Longest time until a server serves sessions: a busy machine is no failure."""
_STOP_S = 5.0
_ENDED_S = 60.0
"""Longest time until a signal has its effect that no process can refuse."""
_ARCHIVE_S = 30.0
"""Seconds that a server which writes an archive of its classes has for its end, once for each Java."""
_LOG_LINES = 15
_ENDED_BY_SIGTERM = 128 + signal.SIGTERM
"""Exit status of a Java process that has ended in order after SIGTERM."""


def launched(
    prints: Literal["pid", "output"], command: Sequence[str], **options: Any
) -> subprocess.Popen[bytes]:
    """Starts a command that ends when this process has ended, with a pipe for what `launcher.py` prints.

    `command` begins with a path. The process is the launcher, which passes SIGTERM on.
    """
    words = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), prints, *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True, **options)


class ServerState(Enum):
    """The state of a server by the last call that changed it."""

    STOPPED = "stopped"
    """Not started, stopped, or killed."""
    RUNNING = "running"
    """Started, or resumed."""
    PAUSED = "paused"
    """Suspended by SIGSTOP."""


class EmbeddedServer:
    """A ZooKeeper server process. Made by EmbeddedZooKeeper; the methods are for tests and drills.

    Not thread-safe: one thread at a time. A process forked from the one that started the server can
    neither signal nor stop it.
    """

    def __init__(
        self, number: int, port: int, folder: Path, command: Callable[[], list[str]], *, in_ensemble: bool
    ) -> None:
        """Does not start the process yet.

        Args:
            number: position in the ensemble, from 0.
            port: the client port.
            folder: the folder with `zoo.cfg`.
            command: makes the command line of the server.
            in_ensemble: whether it is one of several servers.
        """
        self.number = number
        """Position in the ensemble, from 0. Its `myid` is one more."""
        self.port = port
        """The client port."""
        self.folder = folder
        """The folder with `zoo.cfg`, `zookeeper.log` and, once started, `version-2`."""
        self.state = ServerState.STOPPED
        """The state by the last call that changed it."""
        self.stood_still = False
        """True if it was paused since its start: it may end by itself even after `resume` (`revive`)."""
        self._command = command
        self._in_ensemble = in_ensemble
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._archive: Path | None = None
        """The file that the running server writes at its end, an archive of its classes."""

    @property
    def writes_archive(self) -> bool:
        """True if it writes an archive of its classes when it is ended by SIGTERM."""
        return self._archive is not None

    @property
    def address(self) -> str:
        """`HOST:PORT` of the client port."""
        return f"{HOST}:{self.port}"

    @property
    def log_path(self) -> Path:
        """The file with the output of the server."""
        return self.folder / "zookeeper.log"

    @property
    def pid(self) -> int | None:
        """Process id of the server itself (of Java); None while it is not running."""
        running = self._process is not None and self._process.poll() is None
        return self._pid if running else None

    @property
    def launcher_pid(self) -> int | None:
        """Process id of the launcher, a child of this process; None while it is not running."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process is not None else None

    def ask(self, word: str) -> str:
        """The reply to a four-letter word. Raises OSError if the server does not reply."""
        return send_word(HOST, self.port, word, _ASK_S)

    def spawn(self) -> None:
        """Starts the process and returns at once. Raises EmbeddedServerError if Java is missing."""
        command = self._command()
        with self.log_path.open("ab") as log:
            process = launched("pid", command, stdin=subprocess.DEVNULL, stderr=log, cwd=self.folder)
        assert process.stdout is not None
        with process.stdout as output:
            pid = output.readline()
        if not pid:
            process.wait()
            raise EmbeddedServerError(self._explain("could not be started"))
        self._process, self._pid, self.state = process, int(pid), ServerState.RUNNING
        self._archive = archive_to_write(command)
        self.stood_still = False

    def wait_ready(self, deadline: float) -> None:
        """Waits until the server serves sessions. `deadline` is a time of time.monotonic().

        Raises EmbeddedServerError with the end of the log when it stops or is not ready in time.
        """
        if self._process is None:
            raise EmbeddedServerError(f"server {self.number} ({self.address}) has not been started")
        timeout_s = _FIRST_PROBE_S
        while not self._is_ready(timeout_s):
            timeout_s = min(timeout_s * 1.2, _ANSWER_S)
            if time.monotonic() > deadline:
                raise EmbeddedServerError(self._explain("was not ready in time"))
            try:
                self._process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            raise EmbeddedServerError(self._explain(f"stopped (status {self._process.returncode})"))

    def _is_ready(self, timeout_s: float) -> bool:
        """Returns whether it is this server, has a mode and, in an ensemble, opens sessions.

        A server never replies on a connection that it accepted before it was complete, so the first
        attempts have a short timeout.
        """
        try:
            if "Mode" not in read_fields(send_word(HOST, self.port, "srvr", timeout_s)):
                return False
            data = read_fields(send_word(HOST, self.port, "conf", _ANSWER_S)).get("dataDir")
            if data is None:  # it has lost its quorum since the last request
                return False
            if Path(data).parent.resolve() != self.folder.resolve():
                raise EmbeddedServerError(
                    f"{self.address} is answered by another ZooKeeper, with its data in {data}"
                )
            return not self._in_ensemble or opens_sessions(self.port, timeout_s)
        except OSError:
            return False

    def kill(self) -> None:
        """Ends the server by SIGKILL and waits for its end; its data and port stay."""
        self._signal(signal.SIGKILL)
        self._await_end()

    def pause(self) -> None:
        """Pauses the server by SIGSTOP until `resume`: its sockets stay open and it does not reply."""
        self._signal(signal.SIGSTOP)
        self._await_stopped()
        self.state, self.stood_still = ServerState.PAUSED, True

    def resume(self) -> None:
        """Continues a paused server by SIGCONT."""
        self._signal(signal.SIGCONT)
        self.state = ServerState.RUNNING

    def restart(self, timeout_s: float = READY_S) -> None:
        """Stops it if it runs, starts it again on its data and port, and waits until it is ready."""
        self.stop()
        self.spawn()
        self.wait_ready(time.monotonic() + timeout_s)

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Ends the server by SIGTERM, and by SIGKILL after `timeout_s`. Does nothing if it is not running."""
        self.begin_stop()
        self._await_end(max(timeout_s, _ARCHIVE_S) if self.writes_archive else timeout_s)

    def begin_stop(self) -> None:
        """Sends SIGTERM and does not wait."""
        with suppress(EmbeddedServerError):
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a paused process takes no other signal

    def begin_kill(self) -> None:
        """Sends SIGKILL and does not wait. Does nothing if the server is not running."""
        with suppress(EmbeddedServerError):
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """Sends a signal to the server. Raises EmbeddedServerError if there is no process."""
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):  # it may have ended just now
                os.kill(pid, number)
                return
        raise EmbeddedServerError(f"server {self.number} ({self.address}) is not running")

    def _await_stopped(self) -> None:
        """Waits until all threads have stopped, on a system that reports it: the signal only starts that."""
        threads = Path(f"/proc/{self.pid}/task")
        until = time.monotonic() + _ENDED_S
        with suppress(OSError):
            while time.monotonic() < until and not all(_is_stopped(each) for each in threads.iterdir()):
                time.sleep(_POLL_S / 10)

    def _await_end(self, timeout_s: float = _STOP_S) -> None:
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.begin_kill()
                self._process.wait(_ENDED_S)
        if self._archive is not None and self._process is not None:
            is_complete = self._process.returncode in (0, _ENDED_BY_SIGTERM)
            keep_archive(self._archive, is_complete=is_complete)
            self._archive = None
        self.state = ServerState.STOPPED

    def _explain(self, what: str) -> str:
        lines = self.log_path.read_text("utf-8", "replace").splitlines() if self.log_path.exists() else []
        end = "\n  ".join(lines[-_LOG_LINES:]) or "(empty)"
        return f"ZooKeeper server {self.number} on {self.address} {what}; end of {self.log_path}:\n  {end}"


def _is_stopped(thread: Path) -> bool:
    """Returns whether a thread is stopped, by the third field of its `stat` (proc(5)). Raises OSError."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"


HOST = "127.0.0.1"


class PeerPorts(NamedTuple):
    """The ports at which a server of an ensemble listens for the others."""

    quorum: int
    """Followers connect to this port of their leader."""
    election: int


class ReservedPort:
    """One TCP port of the loopback interface, reserved until `release`."""

    def __init__(self, wanted: int | None = None) -> None:
        """Reserves `wanted`, or any free port. Raises EmbeddedServerError if the port is in use."""
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
        """Releases the port. Idempotent."""
        self._socket.close()
