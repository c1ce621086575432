"""Members on a real ZooKeeper server: sessions, kills, pauses, restarts."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, becomes, ended, eventually, next_like
from tests.worlds.public_apis import Api, Application, orders, settings
from zkgroup import Admin, GroupMember
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import ConfigError, StoreUnavailableError, ZkGroupError
from zkgroup.model.requests import Create
from zkgroup.sources.files import FileSource
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.brokers import Topic
from zkgroup.zookeeper.blocking import Blocking

SESSION_MS = 4000
"""Where a session has to end by itself."""
LONG_MS = 20_000
"""Where none may, however busy the machine."""
REAL: dict[str, Any] = {"server_tick_ms": 500, "session_timeout_ms": LONG_MS}


@pytest.fixture
def blocking(zk_server: ServerTree, witness: Blocking) -> Blocking:
    """A third party on the server, which has a topic of four partitions."""
    witness.create_missing("/brokers", "/brokers/ids", "/brokers/topics")
    topic = Topic(dict.fromkeys(range(4), (0,)))
    witness.multi(Create(Topic.path("orders"), topic.encode()))
    return witness


def owners(blocking: Blocking) -> Mapping[int, str]:
    names = blocking.list_many(["/consumers/g/owners/orders"])["/consumers/g/owners/orders"] or ()
    found = blocking.read_many([f"/consumers/g/owners/orders/{name}" for name in names])
    return {int(p.rpartition("/")[2]): (z.data or b"").decode() for p, z in found.items() if z is not None}


def offsets(blocking: Blocking) -> Mapping[int, int]:
    found = blocking.read_many([f"/consumers/g/offsets/orders/{number}" for number in range(4)])
    return {int(p.rpartition("/")[2]): int(z.data or b"-1") for p, z in found.items() if z is not None}


def test_two_members_share_and_leave_together_with_their_sessions(
    api: Api, zk_server: ServerTree, blocking: Blocking
) -> None:
    """A clean leave removes registration and owners at once."""
    with api.member(zk_server.address, settings=settings(consumer_id="a", **REAL)) as first:
        first.wait_until_stable(PATIENCE_S)
        with api.member(zk_server.address, settings=settings(consumer_id="b", **REAL)) as second:
            second.wait_until_stable(PATIENCE_S)
            first.commit({orders(0)[0]: 17})
            shared = owners(blocking)
        alone = blocking.children("/consumers/g/ids")[0]
        first.wait_until_stable(PATIENCE_S)

        assert shared == {0: "g_a-0", 1: "g_a-0", 2: "g_b-0", 3: "g_b-0"}
        assert alone == ("g_a",)
        assert owners(blocking) == dict.fromkeys(range(4), "g_a-0")
    assert blocking.children("/consumers/g/ids")[0] == ()
    assert owners(blocking) == {}
    assert offsets(blocking)[0] == 17


def test_a_lost_session_is_reported_and_survived(
    api: Api, zk_chaos_server: ChaosZooKeeper, blocking: Blocking
) -> None:
    """The server ends the session; the same member is back with new tokens."""
    app = Application()
    with api.member(zk_chaos_server.address, app=app, settings=settings(consumer_id="a", **REAL)) as member:
        member.wait_until_assigned(PATIENCE_S)
        before = app.next("assigned")
        (session_id,) = zk_chaos_server.sessions()

        zk_chaos_server.expire_session(session_id)

        assert app.next("lost") == orders(0, 1, 2, 3)
        after = app.next("assigned")
        assert all(new.token > old.token for new, old in zip(after, before, strict=True))
        assert [lease.is_valid for lease in before] == [False] * 4
        assert owners(blocking) == dict.fromkeys(range(4), "g_a-0")


def test_a_commit_whose_reply_was_lost_is_resolved(
    api: Api, zk_chaos_server: ChaosZooKeeper, blocking: Blocking
) -> None:
    """Read back after the reconnect and reported as what it is: applied (recipes 10)."""
    with api.member(zk_chaos_server.address, settings=settings(consumer_id="a", **REAL)) as member:
        member.wait_until_stable(PATIENCE_S)
        dropped = zk_chaos_server.drop_reply("multi")

        result = member.commit({orders(0)[0]: 17})

        dropped.wait()
        assert result.committed == {orders(0)[0]: 17}
        assert offsets(blocking)[0] == 17


def test_a_short_restart_of_the_server_revokes_nothing(
    api: Api, zk_server: ServerTree, blocking: Blocking
) -> None:
    """Suspended shorter than the session: the same tokens afterwards, no callback."""
    app = Application()
    long = settings(consumer_id="a", server_tick_ms=500, session_timeout_ms=60_000)
    with api.member(zk_server.address, app=app, settings=long) as member:
        member.wait_until_assigned(PATIENCE_S)
        before = {lease.topic_partition: lease.token for lease in member.leases()}
        app.next("assigned")

        zk_server.server(0).kill()
        zk_server.server(0).restart()

        def commits() -> bool:
            return bool(member.commit({orders(0)[0]: 5}).committed)

        eventually(commits, ignoring=(ZkGroupError,))
        assert {lease.topic_partition: lease.token for lease in member.leases()} == before
        assert app.seen.empty()


def test_close_does_not_wait_for_a_server_that_hangs(
    api: Api, zk_server: ServerTree, blocking: Blocking
) -> None:
    """L9: it returns while the server is still stopped; the server ends the session by itself later."""
    member = api.member(zk_server.address, settings=settings(consumer_id="a", **REAL))
    member.start()
    member.wait_until_assigned(PATIENCE_S)
    zk_server.server(0).pause()
    try:
        member.close(timeout_s=1.0)
    finally:
        zk_server.server(0).resume()

    assert member.state is MemberState.CLOSED
    becomes(lambda: owners(blocking), {})


def test_a_missing_server_is_reported_in_time(api: Api) -> None:
    """StoreUnavailableError after connection_timeout_ms; no thread is left."""
    told = r"expected 127\.0\.0\.1:1 to answer within 1 s, found 127\.0\.0\.1:1: Connection refused"
    with pytest.raises(StoreUnavailableError, match=told):
        api.member("127.0.0.1:1", settings=settings(connection_timeout_ms=1000)).start()


def test_a_missing_chroot_is_a_configuration_error(
    api: Api, zk_server: ServerTree, blocking: Blocking
) -> None:
    """Nothing is created."""
    with pytest.raises(ConfigError, match="nowhere"):
        api.member(zk_server.address + "/nowhere", settings=settings(**REAL)).start()
    assert blocking.exists("/nowhere") is None


class Process:
    """`tests.real.consumer.member_process`, and what it said."""

    def __init__(self, address: str, folder: Path, consumer_id: str, session_ms: int) -> None:
        command = [sys.executable, "-m", "tests.real.consumer.member_process"]
        self._process = subprocess.Popen(
            [*command, address, str(folder), consumer_id, str(session_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.said: queue.Queue[dict[str, Any]] = queue.Queue()
        self.records: list[tuple[int, int]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "record":
                self.records.append((event["partition"], event["offset"]))
            else:
                self.said.put(event)

    def next(self, name: str) -> dict[str, Any]:
        return next_like(self.said, lambda event: event["event"] == name, what=name)

    def wait_assigned(self, partitions: list[int]) -> None:
        """Until it was assigned these and no others; those whose owner is slow may come after the rest."""
        came: list[int] = []
        while len(came) < len(partitions):
            came += self.next("assigned")["partitions"]
        assert sorted(came) == partitions

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        """A clean end, or the end of what is left of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            ended(self._process)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders").mkdir()
    for partition in range(4):
        append(tmp_path, partition, 50)
    return tmp_path


def append(folder: Path, partition: int, count: int) -> None:
    with (folder / "orders" / f"{partition}.log").open("a") as file:
        file.writelines(f"line {number}\n" for number in range(count))


@pytest.fixture
def start(zk_chaos_server: ChaosZooKeeper, folder: Path) -> Iterator[Callable[..., Process]]:
    processes: list[Process] = []

    def started(consumer_id: str, session_ms: int = LONG_MS) -> Process:
        processes.append(Process(zk_chaos_server.address, folder, consumer_id, session_ms))
        return processes[-1]

    yield started
    for process in processes:
        process.end()


def test_the_others_take_over_from_a_killed_process(
    start: Callable[..., Process], zk_chaos_server: ChaosZooKeeper, folder: Path, blocking: Blocking
) -> None:
    """Nothing is lost, only the uncommitted tail comes again, and the killed one may come back.

    Its session is ended at the server as its expiry would end it, which takes no time.
    """
    first = start("a")
    first.next("assigned")
    (session_id,) = zk_chaos_server.sessions()
    second = start("b")
    becomes(lambda: set(owners(blocking).values()), {"g_a-0", "g_b-0"})
    becomes(lambda: offsets(blocking), dict.fromkeys(range(4), 50))

    first.send(signal.SIGSTOP)
    zk_chaos_server.expire_session(session_id)
    first.send(signal.SIGKILL)
    for partition in range(4):
        append(folder, partition, 50)

    becomes(lambda: set(owners(blocking).values()), {"g_b-0"})
    becomes(lambda: offsets(blocking), dict.fromkeys(range(4), 100))
    everything = {(partition, offset) for partition in range(4) for offset in range(100)}
    becomes(lambda: {*first.records, *second.records}, everything)  # said, and read here
    tail = sorted(set(first.records) & set(second.records))
    assert all(offset >= 50 for _, offset in tail)

    third = start("a")
    third.wait_assigned([0, 1])
    becomes(lambda: len(set(owners(blocking).values())), 2)


def test_a_process_that_was_stopped_too_long_has_lost_its_share(
    start: Callable[..., Process], folder: Path, blocking: Blocking
) -> None:
    """S8: after a pause beyond the session it delivers nothing of the old claim, is told, and rejoins."""
    first = start("a", SESSION_MS)
    first.next("assigned")
    becomes(lambda: len(first.records), 200)
    # what was said last is processed with the next step of the loop: a revocation before would repeat it
    becomes(lambda: offsets(blocking), dict.fromkeys(range(4), 50))
    second = start("b")
    second.wait_assigned([2, 3])

    first.send(signal.SIGSTOP)
    becomes(lambda: set(owners(blocking).values()), {"g_b-0"})
    append(folder, 0, 10)
    becomes(lambda: second.records.count((0, 59)), 1)
    becomes(lambda: offsets(blocking)[0], 60)
    first.send(signal.SIGCONT)

    assert first.next("lost")["partitions"] == [0, 1]
    first.wait_assigned([0, 1])
    append(folder, 0, 1)
    eventually(lambda: (0, 60) in first.records + second.records)
    assert [place for place in first.records if place in second.records] == []


def test_a_consumer_of_files_on_a_real_server(
    api: Api, zk_server: ServerTree, blocking: Blocking, folder: Path
) -> None:
    """Reads, commits at close, and the next run goes on behind it."""
    with api.consumer(zk_server.address, source=FileSource(folder), settings=settings(**REAL)) as consumer:
        first = _taken(consumer, 200)
        assert consumer.state is MemberState.STABLE
    for partition in range(4):
        append(folder, partition, 1)
    with api.consumer(zk_server.address, source=FileSource(folder), settings=settings(**REAL)) as consumer:
        second = _taken(consumer, 4)

    assert first == [(partition, offset) for partition in range(4) for offset in range(50)]
    assert second == [(partition, 50) for partition in range(4)]
    assert offsets(blocking) == dict.fromkeys(range(4), 51)


def _taken(consumer: Any, count: int) -> list[tuple[int, int]]:
    """So many records, sorted; then it is stopped, and nothing more comes."""
    taken: list[tuple[int, int]] = []
    for record in consumer:
        taken.append((record.partition, record.offset))
        if len(taken) == count:
            consumer.stop()
    return sorted(taken)


def test_a_frozen_group_moves_nothing_until_the_end(zk_server: ServerTree, blocking: Blocking) -> None:
    """A member that joins owns nothing until somebody ends the freeze; another freeze ends by itself."""

    def member(name: str) -> GroupMember:
        own = settings(consumer_id=name, **REAL)
        return GroupMember(zk_server.address, group="g", topics=["orders"], settings=own)

    with Admin(zk_server.address) as admin, member("b") as b:
        b.wait_until_stable(PATIENCE_S)
        before = {lease.topic_partition: lease.token for lease in b.leases()}
        until_ms = admin.freeze_group("g", reason="deploy", for_ms=600_000).written
        with member("a") as a:
            a.wait_until_assigned(PATIENCE_S)
            found = admin.describe_group("g")
            assert (list(a.leases()), found.state.value) == ([], "frozen")
            assert found.frozen is not None
            assert found.frozen.until_ms == until_ms
            assert {lease.topic_partition: lease.token for lease in b.leases()} == before

            admin.unfreeze_group("g")
            eventually(lambda: len(a.leases()) == len(b.leases()) == 2)
            admin.freeze_group("g", reason="deploy", for_ms=1)
            eventually(lambda: admin.verify_group("g").frozen is None)
