"""`zkgroup` processes without the time that Python takes to import it: forked off a process that has.

What runs is what `python -c "from zkgroup_cli.app import main; main()"` runs: a process with its own pid,
signals, environment, folder, standard streams, exit code, and Python's own end. Only the imports were done
before. Tests of what happens while a process starts begin one afresh, and so does one test of each command
that serves: a module that lacks an import of its own would not be seen here.

The server has one thread, since what is forked off has no other. It ends when its standard input does, so
at the latest with the process that started it, and what it has forked off is killed then.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

PROGRAM = "from zkgroup_cli.app import main; main()"
PRELOADED = (
    "zkgroup_cli.app",
    "zkgroup_cli.commands.broker",
    "zkgroup_cli.broker_events",
    "zkgroup_cli.commands.consume",
    "zkgroup_cli.member_events",
    "zkgroup_cli.commands.offsets",
    "zkgroup_cli.commands.produce",
    "zkgroup_cli.sources",
    "zkgroup_cli.commands.topic",
    "zkgroup.broker.broker",
    "zkgroup.broker.controller_only",
    "zkgroup.consumer.sync",
    "zkgroup.zookeeper.embedded",
)
_SIZE = 256 * 1024
"""Of a request, at most: the arguments and the environment of one process."""


class Started:
    """A process of the server's, with as much of `subprocess.Popen` as tests use."""

    def __init__(self, channel: socket.socket, args: Sequence[str], files: list[IO[bytes] | None]) -> None:
        self._channel = channel
        self.args = args
        self.stdin, self.stdout, self.stderr = files
        self.returncode: int | None = None
        self.pid = int(self._told())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()
        self.wait()

    def poll(self) -> int | None:
        """The exit code, once it has ended; that of a signal is its number, negative."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._channel.settimeout(timeout)
            try:
                self.returncode = int(self._told())
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0) from None
            self._channel.close()
        return self.returncode

    def _told(self) -> bytes:
        told = self._channel.recv(64)
        assert told, "the process that starts others has ended: see its error on stderr"
        return told

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Prefork:
    """The server, as tests see it. It starts at once; the first process waits until it has imported all."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "prefork")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with listener:
            listener.bind(self.address)
            listener.listen(64)
            # without the first path, which would be this folder, whose modules have names that others have
            command = [sys.executable, "-P", __file__, str(listener.fileno())]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env=dict(os.environ)
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def commands(self, folder: Path) -> None:
        """Puts `zkgroup` and `python` into the folder, for shells: what ends by itself comes from the server.

        What serves is the real one, since others have to signal it: it becomes another process's child here.
        """
        for name, real in (
            ("zkgroup", Path(sys.executable).with_name("zkgroup")),
            ("python", sys.executable),
        ):
            file = folder / name
            file.write_text(
                _COMMAND.format(python=sys.executable, real=str(real), name=name, to=self.address)
            )
            file.chmod(0o755)

    def start(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        new_session: bool = False,
    ) -> Started:
        """A `zkgroup` with these arguments. Each stream is a descriptor, `subprocess.PIPE`, or inherited."""
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel.connect(self.address)
        given: list[int] = []
        opened: list[int] = []
        files: list[IO[bytes] | None] = []
        for number, stream in enumerate((stdin, stdout, stderr)):
            if stream == subprocess.PIPE:
                theirs, ours = os.pipe() if number == 0 else reversed(os.pipe())
                opened.append(theirs)
                given.append(theirs)
                files.append(os.fdopen(ours, "wb" if number == 0 else "rb"))
            else:
                given.append(number if stream is None else stream)
                files.append(None)
        request = {
            "name": "zkgroup",
            "args": list(args),
            "env": dict(env),
            "cwd": str(Path.cwd()),
            "new_session": new_session,
        }
        socket.send_fds(channel, [json.dumps(request).encode()], given)
        for descriptor in opened:
            os.close(descriptor)
        return Started(channel, ["zkgroup", *args], files)


_COMMAND = """#!{python} -IS
import json, os, socket, sys
args = sys.argv[1:]
if args[:1] in (["consume"], ["zookeeper"]) or args[:2] == ["broker", "run"]:
    os.execv({real!r}, [{real!r}, *args])
channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel.connect({to!r})
told = dict(name={name!r}, args=args, env=dict(os.environ), cwd=os.getcwd(), new_session=False)
socket.send_fds(channel, [json.dumps(told).encode()], [0, 1, 2])
channel.recv(64)
code = int(channel.recv(64))
sys.exit(code if code >= 0 else 128 - code)
"""


# --- the server -----------------------------------------------------------------------------------


class Request(NamedTuple):
    """What to run, with which streams, and where to tell of it."""

    channel: socket.socket
    told: dict[str, Any]
    streams: list[int]


class Server:
    """Forks on request, and tells of each process its pid and, later, its exit code."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._channels: dict[int, socket.socket] = {}
        self._wakened, self._waker = os.pipe()
        os.set_blocking(self._wakened, False)
        os.set_blocking(self._waker, False)
        self._selector = selectors.DefaultSelector()
        for source in (listener, self._wakened, sys.stdin.fileno()):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> Request | None:
        """Returns in a process forked off, with what it is to run; None in the server, at its end."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker)
        while True:
            ready = {key.fileobj for key, _ in self._selector.select()}
            if self._wakened in ready:
                self._reap()
            if sys.stdin.fileno() in ready:
                self._end()
                return None
            if self._listener in ready:
                request = self._accept()
                if request is not None and self._fork(request):
                    return request

    def _accept(self) -> Request | None:
        channel, _ = self._listener.accept()
        data, streams, _, _ = socket.recv_fds(channel, _SIZE, 3)
        if not data:
            channel.close()
            return None
        return Request(channel, json.loads(data), streams)

    def _fork(self, request: Request) -> bool:
        """Whether this is the new process."""
        pid = os.fork()
        if pid:
            self._channels[pid] = request.channel
            for stream in set(request.streams):
                os.close(stream)
            with contextlib.suppress(OSError):  # whoever asked is gone
                request.channel.send(b"%d" % pid)
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for one in (self._listener, request.channel, *self._channels.values()):
            one.close()
        os.close(self._wakened)
        os.close(self._waker)
        return True

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wakened, 4096):
                pass
        while self._channels:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._channels.pop(pid) as channel, contextlib.suppress(OSError):
                channel.send(b"%d" % os.waitstatus_to_exitcode(status))

    def _end(self) -> None:
        for pid in self._channels:
            os.kill(pid, signal.SIGKILL)
        for pid in self._channels:
            os.waitpid(pid, 0)


def become(request: Request) -> None:
    """This process gets its environment, folder and streams."""
    told = request.told
    if told["new_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(told["env"])
    time.tzset()
    os.chdir(told["cwd"])
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
    for stream in set(request.streams):
        os.close(stream)
    encoding, errors = sys.__stdout__.encoding, sys.__stderr__.errors
    sys.stdin = sys.__stdin__ = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding, errors, closefd=False)  # noqa: SIM115
    sys.argv = told["args"] if told["name"] == "python" else ["zkgroup", *told["args"]]


def _serve(descriptor: int) -> Callable[[], None] | None:
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # so that no collection touches, and copies, what is shared
    request = Server(socket.socket(fileno=descriptor)).serve()
    if request is None:
        return None
    become(request)
    if request.told["name"] == "python":
        return lambda: runpy.run_path(sys.argv[0], run_name="__main__") and None
    return importlib.import_module("zkgroup_cli.app").main


if __name__ == "__main__":
    if run := _serve(int(sys.argv[1])):
        run()
