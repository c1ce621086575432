"""Brokers as processes, each behind its own network proxies, on three real servers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.programs.chaos.gate import GatedZooKeeper
from tests.programs.chaos.schedule import BROKERS
from tests.programs.on_servers import OnServers, hold
from tests.waiting import becomes, eventually
from tests.worlds.prefork import Started, started
from zkgroup.admin.cluster.brokers import read_states, registrations
from zkgroup.errors import ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.testing.proxies import PeerLinks
from zkgroup.znodes.admin_requests import PreferredElection, Reassignment, delete_topics_path
from zkgroup.znodes.brokers import PartitionState, Topic, topics_path
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

SESSION_MS = 4_000
SETTINGS = {
    "zookeeper.session.timeout.ms": f"{SESSION_MS}ms",
    "zookeeper.connection.timeout.ms": "60s",
    "replica.lag.time.max.ms": "2s",
    "controlled.shutdown.retry.backoff.ms": "200ms",
    "leader.imbalance.check.interval.seconds": "15s",
}
CHECK_S = 0.25
"""Between two reads of the whole cluster: they cost the brokers time on a small machine."""
CALM_S = SESSION_MS / 1000 + 1
ENTRY = ("-c", "from zkgroup_cli.app import main; main()")
"""What Python is started with to be a broker."""
RECORDS = "records"
"""The topic that records are produced to; it is moved and never deleted."""


class Node:
    """One broker: its folder, its connection to ZooKeeper, and its present process."""

    def __init__(
        self, broker: int, home: Path, network: GatedZooKeeper, entry: Sequence[str] = ENTRY
    ) -> None:
        self.broker = broker
        self.data = home / f"broker-{broker}"
        self.network = network
        self.died: list[str] = []
        """Descriptions of processes that ended by themselves."""
        self.is_paused = False
        self._events = home / f"broker-{broker}.ndjson"
        self._errors = home / f"broker-{broker}.err"
        self._entry = entry
        self._process: subprocess.Popen[bytes] | Started | None = None
        self._told_before = 0
        """Bytes of events when the present process was started."""

    @property
    def has_told(self) -> bool:
        """Whether the present process has printed an event; before that, SIGTERM ends it at once."""
        return self._events.exists() and self._events.stat().st_size > self._told_before

    @property
    def is_running(self) -> bool:
        """Whether its process runs. A process that has ended by itself is recorded in `died`."""
        if self._process is None:
            return False
        code = self._process.poll()
        if code is None:
            return True
        told = self._errors.read_text("utf-8", "replace")[-2_000:]
        self.died.append(f"broker {self.broker} ended by itself with code {code}: {told}")
        self._process = None
        return False

    def start(self) -> None:
        if self.is_running:
            return
        words = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        words += ["--id", str(self.broker), "--data", str(self.data), "--format", "ndjson"]
        env = {**os.environ, "ZKGROUP_ZOOKEEPER": self.network.address}
        self._told_before = self._events.stat().st_size if self._events.exists() else 0
        with self._events.open("ab") as out, self._errors.open("ab") as errors:
            if self._entry == ENTRY:
                self._process = started(
                    ["broker", "run", *words], env, stdout=out.fileno(), stderr=errors.fileno()
                )
            else:
                command = [sys.executable, *self._entry, "broker", "run", *words]
                self._process = subprocess.Popen(command, stdout=out, stderr=errors, env=env)

    def kill(self) -> None:
        """Kills the process with SIGKILL, even while it is paused."""
        if self.is_running:
            assert self._process is not None
            self._process.kill()
            self._process.wait()
        self._process, self.is_paused = None, False

    def pause(self) -> None:
        if self.is_running:
            assert self._process is not None
            self._process.send_signal(signal.SIGSTOP)
            self.is_paused = True

    def resume(self) -> None:
        if self.is_running and self.is_paused:
            assert self._process is not None
            self._process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def ask_to_stop(self) -> None:
        """Sends SIGTERM, which begins a controlled shutdown."""
        if self.is_running and not self.is_paused:
            assert self._process is not None
            self._process.terminate()

    def wait_stopped(self, timeout_s: float = 120.0) -> int | None:
        """The exit code of a process that was asked to stop; None where none runs, or it had to be killed."""
        if self._process is None:
            return None
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self._process = None
        return code

    def wipe(self) -> None:
        """Deletes the data folder of the broker, which must not run."""
        shutil.rmtree(self.data, ignore_errors=True)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events that all its processes printed, in order; a killed one may have torn its last line."""
        found = []
        for line in self._events.read_text().splitlines() if self._events.exists() else ():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found


class ChaosCluster(OnServers):
    """Four brokers, three servers, and a client that bypasses all proxies."""

    def __init__(
        self,
        zookeeper: EmbeddedZooKeeper,
        links: PeerLinks,
        home: Path,
        chroot: str,
        entry: Sequence[str] = ENTRY,
    ) -> None:
        super().__init__(zookeeper, links, home, chroot)
        self.nodes: dict[int, Node] = {}
        self._entry = entry

    def place(self, stack: ExitStack) -> None:
        for broker in BROKERS:
            network = stack.enter_context(GatedZooKeeper(self.zookeeper, self.chroot))
            self.nodes[broker] = Node(broker, self.home, network, self._entry)
            stack.callback(self.nodes[broker].kill)

    @property
    def ensemble(self) -> Ensemble:
        return Ensemble(self.zk, SystemClock())

    def registered(self) -> set[int]:
        return set(registrations(self.ensemble))

    def controller(self) -> int | None:
        found = self.zk.find(ControllerRegistration.path())
        return None if found is None else ControllerRegistration.decode(found.path, found.data).broker

    def topics(self) -> dict[str, Topic]:
        names = self.zk.list_many([topics_path()])[topics_path()] or ()
        found = self.zk.read_many([Topic.path(name) for name in names])
        return {
            name: Topic.decode(znode.path, znode.data)
            for name in sorted(names)
            if (znode := found[Topic.path(name)]) is not None
        }

    def states(self) -> dict[TopicPartition, PartitionState | None]:
        every = [TopicPartition(name, n) for name, topic in self.topics().items() for n in topic.partitions]
        return dict(read_states(self.ensemble, every))

    def stillborn(self, states: Mapping[TopicPartition, PartitionState | None]) -> set[TopicPartition]:
        """Partitions that cannot lead: their only in-sync replica never got a request for them (ADR 0018)."""
        return {
            tp
            for tp, state in states.items()
            if state is not None
            and tp.topic != RECORDS
            and len(state.isr) == 1
            and not (self.nodes[state.isr[0]].data / str(tp)).exists()
        }

    def unrest(self) -> str:
        """What is wrong for a cluster at rest; empty where nothing is."""
        self.zk.sync("/")
        live = self.registered()
        if live != set(BROKERS):
            return f"registered are {sorted(live)}"
        if self.controller() is None:
            return "there is no active controller"
        if self.zk.find(PreferredElection.path()) is not None:
            return "a preferred election is still asked for"
        if marked := self.zk.list_many([delete_topics_path()])[delete_topics_path()]:
            return f"still to be deleted: {marked}"
        topics, states = self.topics(), self.states()
        stillborn = self.stillborn(states)
        asked = self.zk.find(Reassignment.path())
        if asked is not None and not stillborn.issuperset(
            Reassignment.decode(asked.path, asked.data).targets
        ):
            return f"there is {asked.path}: {asked.data!r}"
        for tp, state in states.items():
            if tp in stillborn:
                continue
            if state is None or state.leader not in live:
                return f"{tp} is not led: {state}"
            if set(state.isr) != set(topics[tp.topic].partitions[tp.partition]):
                return f"of {topics[tp.topic].partitions[tp.partition]} only {state.isr} are in sync for {tp}"
        return ""

    def start_all(self) -> None:
        """Starts every broker that does not run, and waits until all are registered."""
        for node in self.nodes.values():
            node.start()
        becomes(self.registered, set(BROKERS), what=self.told, ignoring=(ZkGroupError,))

    def _quietly(self, read: Any) -> Any:
        try:
            return read()
        except ZkGroupError:
            return None

    def told(self) -> str:
        """For failure messages: the brokers that run, and those that ended by themselves."""
        running = [broker for broker, node in self.nodes.items() if node.is_running]
        died = [why for node in self.nodes.values() for why in node.died]
        return f"running {running}, registered {self._quietly(self.registered)}, {died}"

    def heal(self) -> None:
        """Ends every fault and resumes paused processes."""
        self.network.heal(cut=True)
        self.network.heal_servers()
        for node in self.nodes.values():
            node.network.heal(cut=True)
            node.resume()

    def rest(self) -> float:
        """Waits until the cluster is at rest; the seconds until then. Raises AssertionError with the fault.

        It is at rest once nothing was wrong for longer than a session, so that no expiry is still to come.
        """
        began_s = calm_from_s = time.monotonic()
        now = "ZooKeeper does not answer"

        def is_calm() -> bool:
            nonlocal now, calm_from_s
            hold(CHECK_S)
            try:
                now = self.unrest()
            except ZkGroupError as error:
                now = str(error)
            if now:
                calm_from_s = time.monotonic()
            return time.monotonic() - calm_from_s > CALM_S

        eventually(is_calm, what=lambda: f"{now}; {self.told()}")
        return calm_from_s - began_s
