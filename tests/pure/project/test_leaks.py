"""The leak watch: each kind of leftover fails a test; a resource that a wider fixture keeps does not."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.project import ROOT

PRELUDE = """
import os, socket, subprocess, sys, threading
import pytest
from tests import leaks
leaks.GRACE_S = 0.3
SLEEP = [sys.executable, "-c", "import time; time.sleep(20)"]
"""

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

RESTARTED = """
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

NAMED_SOCKETS = """
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

NOT_CLEANED_UP = """
@pytest.fixture(scope="module")
def server():
    one = socket.create_server(("127.0.0.1", 0))
    yield one
    server.kept = one

def test_use(server): pass
"""

MODULES = {
    **{kind.replace(" ", "_"): body for kind, (body, _) in LEAKS.items()},
    "restarted": RESTARTED,
    "named_sockets": NAMED_SOCKETS,
    "not_cleaned_up": NOT_CLEANED_UP,
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of one pytest run of all modules under this project's conftest."""
    folder = tmp_path_factory.mktemp("leaks")
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    for name, body in MODULES.items():
        (folder / f"test_{name}.py").write_text(PRELUDE + body)
    options = ["-rA", "--tb=short", "-p", "no:randomly", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def _outcomes(output: str, module: str) -> Counter[str]:
    """The outcomes of a module: how many tests passed, and how many left something behind."""
    lines = [line.split() for line in output.splitlines() if f" test_{module}.py::" in line]
    return Counter(words[0] for words in lines if words[0] in ("PASSED", "FAILED", "ERROR"))


def _is_printed(output: str, pattern: str) -> bool:
    return any(fnmatch.fnmatch(line, f"*{pattern}") for line in output.splitlines())


@pytest.mark.parametrize("kind", LEAKS)
def test_leftover_fails_the_test_that_made_it(output: str, kind: str) -> None:
    """A thread, socket or process that outlives its test is an error that names it."""
    assert _outcomes(output, kind.replace(" ", "_")) == {"PASSED": 2, "ERROR": 1}
    assert _is_printed(output, "the test 'test_it' left behind*")
    assert _is_printed(output, LEAKS[kind][1])


def test_wider_fixture_keeps_its_server_and_may_restart_it(output: str) -> None:
    """A process belongs to its module fixture until the fixture ends, even if a test restarts it."""
    assert _outcomes(output, "restarted") == {"PASSED": 3}


def test_wider_fixture_may_open_sockets_that_it_names(output: str) -> None:
    """A proxy opens sockets when its clients reconnect; a socket that the fixture does not name is a leak."""
    assert _outcomes(output, "named_sockets") == {"PASSED": 3, "ERROR": 1}
    assert _is_printed(output, "the test 'test_leak' left behind*")


def test_wider_fixture_that_does_not_clean_up_is_an_error(output: str) -> None:
    """Everything that a module fixture kept must be gone after its teardown."""
    assert _outcomes(output, "not_cleaned_up") == {"PASSED": 1, "ERROR": 1}
    assert _is_printed(output, "the module fixture 'server' left behind*")
