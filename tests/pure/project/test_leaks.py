"""The leak watch itself: each kind of leftover fails a test, what a wider fixture keeps does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.project import ROOT

pytest_plugins = ["pytester"]

Run = Callable[[str], pytest.RunResult]

PRELUDE = """
import os, socket, subprocess, sys, threading
import pytest
from tests import leaks
leaks.GRACE_S = 0.3
SLEEP = [sys.executable, "-c", "import time; time.sleep(20)"]
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a test module in a process of its own, under this project's conftest."""
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(body: str) -> pytest.RunResult:
        pytester.makepyfile(PRELUDE + body)
        return pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider")

    return run


LEAKS = {
    "thread": (
        """
event = threading.Event()
def test_it():
    threading.Thread(target=event.wait, args=(20,), name="forgotten", daemon=True).start()
def test_after():
    event.set()
""",
        "thread 'forgotten' (daemon=True, runs threading.*wait*",
    ),
    "socket": (
        """
kept = []
def test_it():
    one = socket.create_server(("127.0.0.1", 0))
    kept.append(one)
def test_after():
    kept[0].close()
""",
        "socket fd * AF_INET ('127.0.0.1', *",
    ),
    "child": (
        """
kept = []
def test_it():
    kept.append(subprocess.Popen(SLEEP))
def test_after():
    kept[0].kill()
    kept[0].wait()
""",
        "process * (running): *time.sleep(20)*",
    ),
    "unwaited child": (
        """
kept = []
def test_it():
    kept.append(subprocess.Popen([sys.executable, "-c", ""]))
    os.waitid(os.P_PID, kept[0].pid, os.WEXITED | os.WNOWAIT)
def test_after():
    kept[0].wait()
""",
        "process * (ended, but nobody waited for it)*",
    ),
    "orphaned grandchild": (
        """
pids = []
def test_it():
    code = f"import subprocess; print(subprocess.Popen({SLEEP!r}, stdout=subprocess.DEVNULL).pid)"
    pids.append(int(subprocess.check_output([sys.executable, "-W", "ignore", "-c", code])))
def test_after():
    os.kill(pids[0], 9)
""",
        "process * (running): *time.sleep(20)*",
    ),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_leftover_fails_the_test_that_made_it(run: Run, kind: str) -> None:
    """A thread, socket or process that outlives its test is an error that names it."""
    body, expected = LEAKS[kind]

    result = run(body)

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the test 'test_it' left behind*", f"*{expected}"])


def test_wider_fixture_keeps_its_server_and_may_restart_it(run: Run) -> None:
    """A module fixture's process is its own, also after a restart inside a test, until its end."""
    result = run(
        """
class Server:
    def __init__(self): self.start()
    def start(self): self.process = subprocess.Popen(SLEEP)
    def stop(self): self.process.kill(); self.process.wait()
    @property
    def pids(self): return (self.process.pid,)

@pytest.fixture(scope="module")
def server():
    one = Server()
    yield one
    one.stop()

def test_use(server): pass
def test_restart(server):
    server.stop()
    server.start()
def test_use_again(server): pass
"""
    )

    result.assert_outcomes(passed=3)


def test_wider_fixture_may_open_sockets_that_it_names(run: Run) -> None:
    """As a proxy does when those that use it connect anew; another socket is a leak as ever."""
    result = run(
        """
class Proxy:
    def __init__(self): self.open = []
    def listen(self): self.open.append(socket.create_server(("127.0.0.1", 0)))
    @property
    def socket_inodes(self): return [str(os.fstat(one.fileno()).st_ino) for one in self.open]

@pytest.fixture(scope="module")
def proxy():
    one = Proxy()
    yield one
    for listener in one.open: listener.close()

def test_use(proxy): proxy.listen()
def test_leak(proxy): proxy.other = socket.create_server(("127.0.0.1", 0))
def test_after(proxy): proxy.other.close()
"""
    )

    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*the test 'test_leak' left behind*"])


def test_wider_fixture_that_does_not_clean_up_is_an_error(run: Run) -> None:
    """What a module fixture kept must be gone after its teardown."""
    result = run(
        """
@pytest.fixture(scope="module")
def server():
    one = socket.create_server(("127.0.0.1", 0))
    yield one
    server.kept = one

def test_use(server): pass
"""
    )

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the module fixture 'server' left behind*"])
