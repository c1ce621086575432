"""Starts `zkgroup` processes by forking a process that has imported Python's modules already.

A forked process runs what `python -c "from zkgroup_cli.app import main; main()"` runs, with its own pid,
signals, environment, working directory, standard streams and exit code. Only the imports were done before
the fork. Tests of the start of a process start a fresh Python, and so does one test of each command that
serves, because a module with a missing import would pass here.

The server has one thread, since a fork copies no other. It ends when its standard input is closed, at the
latest with the process that started it, and then kills all processes that it forked.
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
    "zkgroup.metrics.prometheus",
    "zkgroup.metrics.serving",
    "zkgroup.zookeeper.embedded",
)
_SIZE = 256 * 1024
"""Of a request, at most: the arguments and the environment of one process."""


class Started:
    """A process forked by the server, with the part of `subprocess.Popen` that tests use."""

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
        """The exit code, or None while it runs; negative, the number of the signal that ended it."""
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

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    @property
    def socket_inode(self) -> str:
        """The inode of the socket that tells its end; empty once it has ended."""
        return "" if self._channel.fileno() < 0 else str(os.fstat(self._channel.fileno()).st_ino)


class Prefork:
    """The fork server. It starts at once; the first process waits until the server has done its imports."""

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
        """Writes the scripts `zkgroup` and `python` for shells; commands that end run in forked processes.

        Commands that serve run as real processes, since tests signal them: they are children of the shell.
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
        """Starts `zkgroup` with these arguments. A stream is a descriptor, `subprocess.PIPE` or inherited."""
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


servers: list[Prefork] = []
"""Those of this process that run."""


def started(
    args: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: int | None = None,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = subprocess.PIPE,
    new_session: bool = False,
    fresh: bool = False,
) -> Started | subprocess.Popen[bytes]:
    """`zkgroup` as a process. `fresh`: it imports everything itself, as a user's does."""
    if servers and not fresh:
        return servers[-1].start(
            args, env, stdin=stdin, stdout=stdout, stderr=stderr, new_session=new_session
        )
    command = [sys.executable, "-c", PROGRAM, *args]
    return subprocess.Popen(
        command, env=dict(env), stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=new_session
    )


_COMMAND = """#!{python} -IS
import json, os, socket, sys
args = sys.argv[1:]
serving = (["consume"], ["exporter"], ["zookeeper"], ["broker", "run"])
if args[:1] in serving or args[:2] in serving or "--every" in args:
    os.execv({real!r}, [{real!r}, *args])
channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel.connect({to!r})
told = dict(name={name!r}, args=args, env=dict(os.environ), cwd=os.getcwd(), new_session=False)
socket.send_fds(channel, [json.dumps(told).encode()], [0, 1, 2])
channel.recv(64)
code = int(channel.recv(64))
sys.exit(code if code >= 0 else 128 - code)
"""


class Request(NamedTuple):
    """The command to run, its streams, and the socket that receives the pid and the exit code."""

    channel: socket.socket
    told: dict[str, Any]
    streams: list[int]


class Server:
    """Forks on request and sends the pid and, later, the exit code of each process."""

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
        """Serves requests. Returns the request in each forked process, and None in the server at its end."""
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
        """Forks for one request; True in the new process."""
        pid = os.fork()
        if pid:
            self._channels[pid] = request.channel
            for stream in set(request.streams):
                os.close(stream)
            with contextlib.suppress(OSError):  # the requester has closed its socket
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
    """Gives this process its environment, working directory and streams."""
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
