"""Finds what a test leaves behind: threads, open sockets and child processes.

A picture is taken before the test's own fixtures and again after them; what is new and does not go
away within `GRACE_S` is a leak. Session and module fixtures may keep what they started: what appears
while one is set up is theirs, and so are the processes named by its value's `pids` (a server that
is restarted in a test gets a new process) and the sockets named by its `socket_inodes` (servers whose
link was cut open a new connection through its proxy). Processes are found by parent and by a mark in their
environment, so grandchildren whose parent was killed are found as well.

Sockets and processes are read from /proc; elsewhere than on Linux only threads are watched.
"""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import PATIENCE_S

GRACE_S = PATIENCE_S
"""Processes whose parent was killed end once they have imported what they need to notice it."""

MARK = "ZKGROUP_TEST_PROCESS"
"""Environment variable that all descendants of this test process inherit."""

_PROC = Path("/proc")
_HARMLESS_COMMANDS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@dataclass(frozen=True)
class Picture:
    """What was there at one moment. Sockets by inode, processes by (pid, start time)."""

    threads: frozenset[threading.Thread]
    sockets: frozenset[str]
    processes: frozenset[tuple[int, str]]

    @classmethod
    def take(cls) -> Picture:
        """The present moment of this process."""
        return cls(frozenset(threading.enumerate()), frozenset(_sockets()), frozenset(_descendants()))

    def __or__(self, other: Picture) -> Picture:
        return Picture(
            self.threads | other.threads, self.sockets | other.sockets, self.processes | other.processes
        )

    def __sub__(self, other: Picture) -> Picture:
        return Picture(
            frozenset(thread for thread in self.threads - other.threads if thread.is_alive()),
            self.sockets - other.sockets,
            self.processes - other.processes,
        )

    def __and__(self, other: Picture) -> Picture:
        return Picture(
            self.threads & other.threads, self.sockets & other.sockets, self.processes & other.processes
        )

    def __bool__(self) -> bool:
        return bool(self.threads or self.sockets or self.processes)

    def lines(self) -> Iterator[str]:
        """One line for each thing, precise enough to find who made it."""
        for thread in sorted(self.threads, key=lambda one: one.name):
            target = getattr(thread, "_target", None)
            name = getattr(target, "__qualname__", None)
            where = f", runs {getattr(target, '__module__', '?')}.{name}" if name else ""
            yield f"thread {thread.name!r} (daemon={thread.daemon}{where})"
        for inode in sorted(self.sockets):
            fd = _sockets().get(inode)
            yield "socket closed meanwhile" if fd is None else f"socket fd {fd} {_ends(fd)}"
        for pid, _ in sorted(self.processes):
            yield f"process {pid} ({_state(pid)}): {_command(pid) or '?'}"


EMPTY = Picture(frozenset(), frozenset(), frozenset())


@dataclass
class Keepers:
    """What living session, package and module fixtures started, by fixture."""

    kept: dict[object, Picture] = field(default_factory=dict)
    values: dict[object, object] = field(default_factory=dict)
    last: Picture | None = None
    """At the end of the test before, where it left nothing behind."""

    def allowed(self) -> Picture:
        """Everything that may outlive a test now."""
        everything = EMPTY
        for picture in self.kept.values():
            everything |= picture
        pids = {pid for value in self.values.values() for pid in _pids_of(value)}
        inodes = {inode for value in self.values.values() for inode in getattr(value, "socket_inodes", ())}
        own = frozenset(one for one in _descendants() if one[0] in pids)
        return everything | Picture(frozenset(), frozenset(inodes), own)


def mark_descendants() -> None:
    """Marks the environment, once for each test process (each xdist worker is one)."""
    os.environ[MARK] = f"{os.getpid()}-{uuid.uuid4().hex}"


def leaked(
    before: Picture, allowed: Callable[[], Picture], among: Picture | None = None
) -> tuple[Picture, Picture]:
    """What is new since `before` (or of `among`) and stays, although `GRACE_S` was given to end it.

    With it the last picture taken: the next test begins with that one, as a picture costs more than a test.
    """
    deadline = time.monotonic() + GRACE_S
    pause_s = 0.005
    while True:
        now = Picture.take()
        rest = (now & among if among is not None else now) - before
        if rest:
            rest -= allowed()
        if not rest or time.monotonic() > deadline:
            return rest, now
        if rest.sockets:
            gc.collect()  # one in a reference cycle is closed here, and warns
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.2)


def _pids_of(value: object) -> Iterable[int]:
    """What a fixture's value says about its own processes, now."""
    for name in ("pids", "launcher_pids"):
        pids = getattr(value, name, ())
        yield from pids() if callable(pids) else pids


def _sockets() -> dict[str, int]:
    """The descriptor of each open socket of this process, by inode."""
    found: dict[str, int] = {}
    folder = f"{_PROC}/self/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")  # noqa: PTH115 - twice a test, with no path built
        except OSError:
            continue
        if target.startswith("socket:["):
            found[target[8:-1]] = int(name)
    return found


def _ends(fd: int) -> str:
    try:
        with socket.socket(fileno=os.dup(fd)) as one:
            family = one.family.name
            local = one.getsockname()
            try:
                return f"{family} {local} -> {one.getpeername()}"
            except OSError:
                return f"{family} {local}"
    except OSError:
        return "(closed meanwhile)"


_strangers: set[str] = set()
"""Processes known not to be ours, forgotten when they end: the list is read several times a test."""


_last_without: str | None = None
"""The pid that was given last when this process had no descendant."""


def _last_pid() -> str | None:
    """The pid that was given last (proc(5), /proc/loadavg)."""
    try:
        return (_PROC / "loadavg").read_text().rpartition(" ")[2]
    except OSError:
        return None


def _descendants() -> set[tuple[int, str]]:
    """Children of this process and everything that carries its mark.

    Where there was none, and no process has been started since, /proc is not searched.
    """
    global _last_without
    last = _last_pid()
    if last is not None and last == _last_without:
        return set()
    found = _search()
    _last_without = None if found else last
    return found


def _search() -> set[tuple[int, str]]:
    if not _PROC.is_dir():
        return set()
    mark = f"{MARK}={os.environ.get(MARK, '-')}".encode()
    names = {name for name in os.listdir(_PROC) if name.isdigit()} - {str(os.getpid())}  # noqa: PTH208
    _strangers.intersection_update(names)
    found = set()
    for name in names - _strangers:
        status = _stat(int(name))
        if status is None:
            continue
        parent, started = status
        kernel_thread = parent in (0, 2)
        ours = parent == os.getpid() or (not kernel_thread and _marked(int(name), mark))
        if ours is None:
            continue
        if ours and not _harmless(int(name)):
            found.add((int(name), started))
        else:
            _strangers.add(name)
    return found


def _marked(pid: int, mark: bytes) -> bool | None:
    """Whether a process inherited the mark; None when it cannot be told (yet)."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    return mark in environment.split(b"\0") if environment else None


def _stat(pid: int) -> tuple[int, str] | None:
    """Parent and start time of a process (proc(5), /proc/pid/stat)."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), fields[19]


def process_state(pid: int) -> str:
    """The letter of its state (proc(5), /proc/pid/stat); empty for none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:  # one that ends between opening and reading is ESRCH, not ENOENT
        return ""
    return text.rpartition(")")[2].split()[0]


def _state(pid: int) -> str:
    words = {"": "gone meanwhile", "Z": "ended, but nobody waited for it", "T": "stopped", "t": "traced"}
    return words.get(process_state(pid), "running")


def _command(pid: int) -> str:
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()[:160]


def _harmless(pid: int) -> bool:
    command = _command(pid)
    return any(name in command for name in _HARMLESS_COMMANDS)
