"""Runs one server and ends it when the process that asked for it is gone, however that went.

    python -I -S launcher.py PARENT_PID COMMAND [ARGUMENT ...]

Started as a program of its own, so it imports nothing of zkgroup. It writes the server's pid to
standard output, waits, and exits with the server's status.

Why a process and not PR_SET_PDEATHSIG in the parent: Linux sends that signal when the *thread* that
spawned the child ends (prctl(2)), and a server is started from whatever thread comes along. Here it is
used one level down, where there is one thread: it ends the server if this launcher is killed. The
launcher itself watches the parent through a pidfd, which follows the process. A pipe would not do:
a forked sibling keeps its other end open.
"""

import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1
_POLL_MS = 200
"""Where there is no pidfd (not Linux, or before 5.3), the parent is looked at this often."""


def _exec_server(command: list[str], launcher: int) -> None:
    os.setsid()  # a Ctrl-C in the terminal is the parent's to handle
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != launcher:  # it ended before the line above took effect
        os._exit(1)
    os.dup2(2, 1)
    os.execv(command[0], command)  # noqa: S606 - the parent's own command


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _wait(parent: int, server: int) -> int:
    """The server's wait status. Kills it once the parent is gone."""
    poll = select.poll()
    descriptors = [_pidfd(pid) for pid in (parent, server)]
    for descriptor in descriptors:
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    timeout = None if None not in descriptors else _POLL_MS
    while True:
        if os.getppid() != parent:
            os.kill(server, signal.SIGKILL)
            return os.waitpid(server, 0)[1]
        ended, status = os.waitpid(server, os.WNOHANG)
        if ended:
            return status
        poll.poll(timeout)


def main(parent: int, command: list[str]) -> int:
    """Exit status as a shell gives it: 128 + n for a server ended by signal n."""
    launcher = os.getpid()
    server = os.fork()
    if server == 0:
        try:
            _exec_server(command, launcher)
        finally:
            os._exit(127)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: os.kill(server, received))
    os.write(1, b"%d\n" % server)
    os.close(1)
    status = os.waitstatus_to_exitcode(_wait(parent, server))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
