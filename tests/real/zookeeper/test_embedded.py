"""The embedded ZooKeeper: real server processes that start, survive drills and never stay behind."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.leaks import process_state
from tests.project import ROOT
from tests.waiting import PATIENCE_S, becomes, ended, eventually, joined
from zkgroup.errors import ConfigError, EmbeddedServerError
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper, ServerState, java


@pytest.fixture(scope="module")
def single() -> Iterator[EmbeddedZooKeeper]:
    """One server for the tests that leave it as it was."""
    with EmbeddedZooKeeper(fsync=False) as zookeeper:
        yield zookeeper


@pytest.fixture(scope="module")
def trio() -> Iterator[EmbeddedZooKeeper]:
    """Three servers for the tests that leave them as they were."""
    with EmbeddedZooKeeper(3, fsync=False) as zookeeper:
        yield zookeeper


@pytest.fixture(scope="module")
def stopped() -> Iterator[EmbeddedZooKeeper]:
    """One whose server was paused, and stopped then."""
    with EmbeddedZooKeeper(fsync=False) as zookeeper:
        zookeeper.server(0).pause()
        zookeeper.server(0).stop()
        yield zookeeper


@pytest.fixture(scope="module")
def two() -> Iterator[list[EmbeddedZooKeeper]]:
    """Two at once, each started by a thread that has ended."""
    zookeepers = [EmbeddedZooKeeper(fsync=False) for _ in range(2)]
    threads = [threading.Thread(target=zookeeper.start) for zookeeper in zookeepers]
    for thread in threads:
        thread.start()
    joined(*threads)
    yield zookeepers
    for zookeeper in zookeepers:
        zookeeper.stop()


def mode(zookeeper: EmbeddedZooKeeper, number: int) -> str:
    """As it says; nothing while it serves nobody."""
    lines = zookeeper.server(number).ask("srvr").splitlines()
    return next((line.removeprefix("Mode: ") for line in lines if line.startswith("Mode: ")), "")


def leaders(zookeeper: EmbeddedZooKeeper) -> list[int]:
    """Numbers of the servers that lead: one, or none while they elect."""
    return [number for number in range(3) if mode(zookeeper, number) == "leader"]


def test_a_started_server_serves(single: EmbeddedZooKeeper) -> None:
    """`start` returns when it is ready, with our tick and session limits."""
    assert single.server(0).ask("ruok") == "imok"
    becomes(lambda: mode(single, 0), "standalone")
    conf = single.server(0).ask("conf").splitlines()
    assert "tickTime=500" in conf
    assert "maxSessionTimeout=60000" in conf
    single.create_chroot("/serves")


def test_a_started_ensemble_has_one_leader(trio: EmbeddedZooKeeper) -> None:
    """Every server of it is ready when `start` returns."""
    becomes(lambda: sorted(mode(trio, number) for number in range(3)), ["follower", "follower", "leader"])
    assert trio.address == ",".join(trio.addresses)
    assert len(set(trio.pids)) == 3


def test_two_at_once_do_not_meet(two: list[EmbeddedZooKeeper]) -> None:
    """Started at the same time from two threads, each has its own ports and data."""
    assert two[0].address != two[1].address
    assert two[0].data_dir != two[1].data_dir
    assert [zookeeper.server(0).ask("ruok") for zookeeper in two] == ["imok", "imok"]


def test_a_wanted_port_in_use_is_named(tmp_path: Path) -> None:
    """The error names the port; nothing is left running and the data folder is free again."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        zookeeper = EmbeddedZooKeeper(port=port, data_dir=tmp_path)
        with pytest.raises(EmbeddedServerError, match=f"port {port}"):
            zookeeper.start()
    with EmbeddedZooKeeper(port=port, data_dir=tmp_path) as started:
        assert started.address == f"127.0.0.1:{port}"


def test_a_data_folder_serves_one_zookeeper(single: EmbeddedZooKeeper) -> None:
    """A second one on the same folder would destroy the data of the first."""
    with pytest.raises(EmbeddedServerError, match="another ZooKeeper"):
        EmbeddedZooKeeper(data_dir=single.data_dir).start()
    assert single.server(0).ask("ruok") == "imok"


def test_missing_java_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install; nothing is left behind."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EmbeddedServerError, match=r"needs Java 17 or later.*Install"):
        EmbeddedZooKeeper().start()


def test_missing_pyspark_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra to install."""
    monkeypatch.setattr(java, "find_spec", lambda _name: None)
    with pytest.raises(EmbeddedServerError, match=r"pip install 'zkgroup\[embedded\]'"):
        EmbeddedZooKeeper().start()


def test_pyspark_is_located_but_not_imported() -> None:
    """Starting a server costs no import of pyspark and none of kazoo's."""
    program = (
        "import sys; from zkgroup.zookeeper.embedded.java import find_jars; assert len(find_jars()) == 10; "
        "sys.exit('pyspark' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, timeout=PATIENCE_S).returncode
        == 0
    )


def test_a_server_that_gives_up_shows_its_log(tmp_path: Path) -> None:
    """The error holds the end of the log, which tells the reason."""
    zookeeper = EmbeddedZooKeeper(data_dir=tmp_path, config={"tickTime": "none"})
    with pytest.raises(EmbeddedServerError, match=r'stopped \(status 2\)(.|\n)*"none"'):
        zookeeper.start()


def test_an_even_number_of_servers_is_refused() -> None:
    """It makes no better quorum than one server fewer."""
    with pytest.raises(ConfigError, match="odd number, found 2"):
        EmbeddedZooKeeper(2)


def test_stop_leaves_nothing() -> None:
    """No process, no folder; stopping again is no error."""
    zookeeper = EmbeddedZooKeeper(fsync=False).start()
    pids, folder = zookeeper.pids + zookeeper.launcher_pids, zookeeper.data_dir
    zookeeper.stop()
    zookeeper.stop()
    assert not any(is_running(pid) for pid in pids)
    assert not folder.exists()


def is_running(pid: int) -> bool:
    """Whether this process exists and is more than an entry waiting for its parent."""
    return process_state(pid) not in ("", "Z")


_PARENT = """
import sys, threading, time, os
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper
zookeeper = EmbeddedZooKeeper(int(sys.argv[1]), data_dir=sys.argv[2], fsync=False)
thread = threading.Thread(target=zookeeper.start)
thread.start()
thread.join()
if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
print(*zookeeper.pids, *zookeeper.launcher_pids, flush=True)
time.sleep(60)
"""


def test_a_killed_parent_leaves_no_server(tmp_path: Path) -> None:
    """None of three: kill -9, though the thread that started them is gone and a forked sibling lives on."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, "3", str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert parent.stdout is not None
        with parent.stdout:
            pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2 * 3
        assert all(is_running(pid) for pid in pids)
        os.kill(parent.pid, signal.SIGKILL)
        ended(parent)
        eventually(lambda: not any(is_running(pid) for pid in pids), what=f"servers {pids} are gone")
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        ended(parent)


def test_a_killed_launcher_leaves_no_server(single: EmbeddedZooKeeper) -> None:
    """The one process between us and the server may be shot as well."""
    (pid,), (launcher,) = single.pids, single.launcher_pids
    os.kill(launcher, signal.SIGKILL)
    try:
        eventually(lambda: not is_running(pid), what="the server is gone")
        assert single.pids == ()
    finally:
        single.revive()
    assert single.server(0).ask("ruok") == "imok"


def test_a_server_outlives_the_thread_that_started_it(two: list[EmbeddedZooKeeper]) -> None:
    """Linux's parent-death signal would end it with the thread."""
    for zookeeper in two:
        pidfd = os.pidfd_open(zookeeper.pids[0])
        try:
            assert select.select([pidfd], [], [], 0.3) == ([], [], [])
        finally:
            os.close(pidfd)
        assert zookeeper.server(0).ask("ruok") == "imok"


def test_an_interrupt_in_the_terminal_is_not_the_servers(single: EmbeddedZooKeeper) -> None:
    """Ctrl-C goes to the foreground process group; servers are not in it."""
    groups = {os.getpgid(pid) for pid in single.pids + single.launcher_pids}
    assert os.getpgrp() not in groups


def test_a_restart_keeps_data_port_and_address(tmp_path: Path) -> None:
    """What was written before a SIGKILL is there afterwards, and again after an orderly end."""
    with EmbeddedZooKeeper(data_dir=tmp_path) as zookeeper:
        address = zookeeper.address
        zookeeper.create_chroot("/kept")
        nodes = node_count(zookeeper)
        server = zookeeper.server(0)
        server.kill()
        assert server.state is ServerState.STOPPED
        assert server.pid is None
        server.restart()
        assert (zookeeper.address, node_count(zookeeper)) == (address, nodes)
    with EmbeddedZooKeeper(data_dir=tmp_path) as zookeeper:
        assert node_count(zookeeper) == nodes
    assert (tmp_path / "server-0" / "version-2").is_dir()
    assert (tmp_path / "server-0" / "zookeeper.log").is_file()


def node_count(zookeeper: EmbeddedZooKeeper) -> str:
    lines = zookeeper.server(0).ask("srvr").splitlines()
    return next(line for line in lines if line.startswith("Node count"))


def test_a_port_stays_reserved_while_its_server_is_down(stopped: EmbeddedZooKeeper) -> None:
    """Nobody else can bind it meanwhile, so a restart never fails for that."""
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", stopped.server(0).port))


def test_a_paused_server_accepts_and_does_not_answer(single: EmbeddedZooKeeper) -> None:
    """As a hung machine: its sockets stay open. It goes on when resumed."""
    server = single.server(0)
    server.pause()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"ruok")
            assert select.select([connection], [], [], 0.3) == ([], [], [])
            server.resume()
            connection.settimeout(PATIENCE_S)
            assert connection.recv(4) == b"imok"
    finally:
        server.resume()


def test_a_paused_server_can_be_stopped(stopped: EmbeddedZooKeeper) -> None:
    """At once, although it takes no signal but SIGKILL and SIGCONT."""
    assert stopped.pids == ()
    assert stopped.server(0).state is ServerState.STOPPED


def test_an_ensemble_continues_without_its_leader(trio: EmbeddedZooKeeper) -> None:
    """The other two elect; the killed one comes back as a follower."""
    (leader,) = eventually(lambda: leaders(trio))
    rest = [number for number in range(3) if number != leader]
    trio.server(leader).kill()
    becomes(lambda: sorted(mode(trio, number) for number in rest), ["follower", "leader"])
    trio.revive()
    becomes(lambda: mode(trio, leader), "follower")


def test_a_drill_on_a_stopped_server_is_an_error(stopped: EmbeddedZooKeeper) -> None:
    """Pausing what does not run is a mistake in the test that does it."""
    with pytest.raises(EmbeddedServerError, match="is not running"):
        stopped.server(0).pause()
