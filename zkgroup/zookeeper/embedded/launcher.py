"""Runs one server as a child process, and ends it when the process that started the launcher has ended.

    python -I -S launcher.py PARENT_PID pid|output COMMAND [ARGUMENT ...]

It is a program of its own, so it imports nothing of zkgroup. It waits, and exits with the server's status.
Standard output gets the server's pid, and standard error what the server prints; with `output` the server has
standard output for itself.

PR_SET_PDEATHSIG in the parent is not enough: Linux sends that signal when the *thread* that spawned the child
ends (prctl(2)), and any thread may start a server. The launcher has one thread, so it uses the signal for its
own child: the server ends if the launcher is killed. The launcher watches the parent through a pidfd, which
follows the process. A pipe does not work: a forked sibling keeps its other end open.
"""

import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1
_POLL_MS = 200
"""Milliseconds between two checks of the parent on a system without pidfd (not Linux, or before 5.3)."""


def _exec_server(command: list[str], launcher: int, *, has_output: bool) -> None:
    os.setsid()  # the parent handles a Ctrl-C in the terminal
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != launcher:  # it ended before the line above took effect
        os._exit(1)
    if not has_output:
        os.dup2(2, 1)
    os.execv(command[0], command)  # noqa: S606 - the parent's own command


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _wait(parent: int, server: int) -> int:
    """The server's wait status. Kills the server once the parent has ended."""
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


def main(parent: int, command: list[str], *, has_output: bool) -> int:
    """The exit status as of a shell: 128 + n for a server ended by signal n."""
    launcher = os.getpid()
    server = os.fork()
    if server == 0:
        try:
            _exec_server(command, launcher, has_output=has_output)
        finally:
            os._exit(127)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: os.kill(server, received))
    if not has_output:
        os.write(1, b"%d\n" % server)
    os.close(1)
    status = os.waitstatus_to_exitcode(_wait(parent, server))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[3:], has_output=sys.argv[2] == "output"))
