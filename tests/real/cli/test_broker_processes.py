"""`broker run` as real processes that host partitions: killed, stopped, started again."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import becomes, eventually
from tests.worlds.other_clients import end_session_of
from tests.worlds.processes import Process
from tests.worlds.replica_managers import records_on_disk
from tests.worlds.shell import Shell
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint, PartitionState
from zkgroup.zookeeper.blocking import Blocking

QUICK = (
    *("--set", "zookeeper.session.timeout.ms=60s"),
    *("--set", "replica.lag.time.max.ms=60s"),
    *("--set", "replica.fetch.wait.max.ms=50ms"),
    *("--set", "controlled.shutdown.retry.backoff.ms=100ms"),
)
"""No slow machine ends a session or takes a follower out of the ISR; killed ones are ended by the test."""
T0 = TopicPartition("t", 0)
FILE_BYTES = 256 * 1024


class Brokers:
    """Processes by id, each with a folder of its own."""

    def __init__(self, shell: Shell, zookeeper: ServerTree, stack: ExitStack) -> None:
        self.shell = shell
        self._zookeeper = zookeeper
        self._stack = stack
        self.processes: dict[int, Process] = {}
        self.registered: dict[int, dict[str, Any]] = {}

    def start(self, *brokers: int, words: tuple[str, ...] = QUICK) -> None:
        for broker in brokers:
            self.processes[broker] = self._stack.enter_context(self.run(broker, *words))
        for broker in brokers:
            self.registered[broker] = self.processes[broker].until_event("registered")

    def run(self, broker: int | str, *words: str, fresh: bool = False) -> Process:
        folder = ("--data", str(self.folder(broker)))
        return self.shell.start("broker", "run", "--id", str(broker), *folder, *words, fresh=fresh)

    def kill(self, broker: int) -> None:
        """Its session lives on."""
        assert self.processes[broker].stop(signal.SIGKILL) == -signal.SIGKILL

    def end_session(self, witness: Blocking, broker: int) -> None:
        """Of one that was killed."""
        end_session_of(witness, BrokerRegistration.path(broker), self._zookeeper.server(0).port)

    def folder(self, broker: int | str) -> Path:
        return self.shell.home / f"broker-{broker}"

    def records(self, broker: int) -> list[str]:
        return [value.decode() for value in records_on_disk(self.folder(broker), TopicPartition("t", 0))]

    def produce(self, *lines: str) -> None:
        ran = self.shell.run("produce", "t", stdin="".join(f"{line}\n" for line in lines))
        assert ran.code == 0, ran


@pytest.fixture
def brokers(shell: Shell, zk_server: ServerTree) -> Iterator[Brokers]:
    """None is running yet."""
    with ExitStack() as stack:
        yield Brokers(shell, zk_server, stack)


def _state(witness: Blocking) -> PartitionState:
    path = PartitionState.path(T0)
    found = witness.find(path)
    return PartitionState(-1, -1, (), 0) if found is None else PartitionState.decode(path, found.data)


def test_no_acknowledged_record_is_lost_when_the_leader_is_killed(
    brokers: Brokers, witness: Blocking
) -> None:
    """It is also the controller. Another leads on; the killed one comes back into the ISR with its folder."""
    brokers.start(1, 2, 3)
    created = brokers.shell.run("topic", "create", "t", "--partitions", "1", "--replica-assignment", "1:2:3")
    assert created.code == 0, created
    brokers.processes[1].until_event("leader")
    brokers.produce("a", "b", "c")
    brokers.kill(1)
    brokers.end_session(witness, 1)
    eventually(lambda: _state(witness), lambda state: state.leader in (2, 3))
    brokers.produce("d")
    brokers.start(1)
    state = eventually(lambda: _state(witness), lambda state: set(state.isr) == {1, 2, 3})

    assert brokers.records(state.leader) == ["a", "b", "c", "d"]
    becomes(lambda: brokers.records(1), ["a", "b", "c", "d"])
    assert [brokers.processes[broker].stop() for broker in (1, 2, 3)] == [0, 0, 0]


def test_a_killed_broker_that_is_started_at_once_waits_for_its_old_session(
    brokers: Brokers, witness: Blocking
) -> None:
    """Its old session lives on, under another port; the folder says that it is its own.

    It leads on in its old term, and its follower learns of the new port.
    """
    brokers.start(1, 2)
    brokers.shell.run("topic", "create", "t", "--partitions", "1", "--replica-assignment", "1:2")
    brokers.processes[1].until_event("leader")
    brokers.produce("a")
    old = _czxid(witness, 1)
    brokers.kill(1)
    with brokers.run(1, *QUICK, "-vv") as again:
        eventually(lambda: again.errors, lambda errors: "registration.waits" in errors)
        waited_for = _czxid(witness, 1)
        brokers.end_session(witness, 1)
        registered = again.until_event("registered")
        assert (waited_for, registered["epoch"]) == (old, _czxid(witness, 1))
        assert registered["epoch"] > old
        eventually(lambda: _state(witness), lambda state: set(state.isr) == {1, 2})
        brokers.produce("b")

        becomes(lambda: [brokers.records(1), brokers.records(2)], [["a", "b"], ["a", "b"]])


def _czxid(witness: Blocking, broker: int) -> int:
    return witness.read(BrokerRegistration.path(broker)).stat.czxid


def test_sigterm_hands_leaderships_over_before_the_broker_ends(brokers: Brokers, witness: Blocking) -> None:
    """A controlled shutdown: another one leads when the process has ended, and nothing stood in the way."""
    brokers.start(1, 2)
    brokers.shell.run("topic", "create", "t", "--partitions", "1", "--replica-assignment", "2:1")
    brokers.processes[2].until_event("leader")
    brokers.produce("a")
    code = brokers.processes[2].stop()
    state = _state(witness)

    assert code == 0
    assert (state.leader, state.leader_epoch) == (1, 1)
    assert "controlled shutdown" not in brokers.processes[2].errors
    assert witness.exists(BrokerRegistration.path(2)) is None
    brokers.produce("b")
    assert brokers.records(1) == ["a", "b"]


def test_a_leader_whose_disk_fails_ends_and_another_leads(brokers: Brokers, witness: Blocking) -> None:
    """Exit code 1, saying where and what to do. What was acknowledged is there, and it comes back.

    Its files may not grow (RLIMIT_FSIZE; Python ignores SIGXFSZ, so the write fails with EFBIG).
    """
    big = "x" * (FILE_BYTES + 1)
    brokers.start(1, 2)
    brokers.shell.run("topic", "create", "t", "--partitions", "1", "--replica-assignment", "1:2")
    brokers.processes[1].until_event("leader")
    brokers.produce("a", "b")
    resource.prlimit(brokers.processes[1].pid, resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    brokers.produce(big)
    code = brokers.processes[1].wait()
    state = _state(witness)

    reason = (
        f"t-0, which this broker led: {brokers.folder(1)}/t-0/00000000000000000000.log: "
        "File too large; it stops, so that others can lead: free space or repair the disk, "
        "then start it again"
    )
    assert code == 1
    assert brokers.processes[1].errors.splitlines()[-1] == f"error: {reason}"
    assert [one["reason"] for one in brokers.processes[1].events if one["event"] == "failed"] == [reason]
    assert (state.leader, state.leader_epoch) == (2, 1)
    assert witness.exists(BrokerRegistration.path(1)) is None
    assert brokers.records(2) == ["a", "b", big]

    brokers.start(1)
    eventually(lambda: _state(witness), lambda state: set(state.isr) == {1, 2})
    assert brokers.records(1) == ["a", "b", big]
    assert [brokers.processes[broker].stop() for broker in (1, 2)] == [0, 0]


def test_a_second_signal_ends_the_wait_for_a_controller(brokers: Brokers, witness: Blocking) -> None:
    """Broker 1, the controller, is paused: a response would take three times 30 s. It leaves cleanly."""
    brokers.start(1)
    brokers.processes[1].until_event("controller")
    brokers.start(2)
    brokers.shell.run("topic", "create", "t", "--partitions", "1", "--replica-assignment", "2:1")
    brokers.processes[2].until_event("leader")
    brokers.processes[1].pause()
    brokers.processes[2].send(signal.SIGINT)
    code = brokers.processes[2].stop(signal.SIGTERM)

    assert code == 0
    assert "controlled shutdown given up" in brokers.processes[2].errors
    assert witness.exists(BrokerRegistration.path(2)) is None


def test_an_id_in_use_ends_with_code_6(brokers: Brokers, witness: Blocking) -> None:
    """It names session and host, and the first one stays what it was."""
    brokers.start(1)
    before = _czxid(witness, 1)
    with brokers.shell.start("broker", "run", "--id", "1", *QUICK) as other:
        assert other.wait() == 6
    assert "on host 127.0.0.1" in other.errors
    assert _czxid(witness, 1) == before


def test_a_zkgroup_broker_does_not_join_brokers_of_kafka(brokers: Brokers, witness: Blocking) -> None:
    """Exit code 6, naming their ids and what there is to do (recipes 15)."""
    witness.create_missing("/brokers", "/brokers/ids")
    real = BrokerRegistration.of([Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")], timestamp_ms=1)
    for number in (3, 12):
        witness.multi(Create(BrokerRegistration.path(number), real.encode(), ephemeral=True))
    with brokers.run(1, *QUICK) as refused:
        assert refused.wait() == 6

    assert "brokers of Kafka are registered: 3, 12" in refused.errors
    assert "--controller-only" in refused.errors


def test_a_folder_keeps_its_broker(brokers: Brokers) -> None:
    """`auto` takes the id that it remembers; another id is refused (exit code 2)."""
    brokers.start(1001)
    assert brokers.processes[1001].stop() == 0
    folder = ("--data", str(brokers.folder(1001)))
    with brokers.run("auto", *QUICK, *folder) as again:
        assert again.until_event("registered")["broker"] == 1001
        assert again.stop() == 0
    with brokers.run(5, *QUICK, *folder) as other:
        assert other.wait() == 2
    assert "is the folder of broker 1001, not of 5" in other.errors
