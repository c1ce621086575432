"""The members of the day as processes, each behind its own network proxies, and an operator past them."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.programs.on_servers import OnServers
from tests.programs.real_day.member import GROUP, TOPICS
from tests.waiting import becomes
from zkgroup.errors import ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.proxies import PeerLinks
from zkgroup.znodes.brokers import Topic, brokers_path, topics_path
from zkgroup.znodes.consumers import Offset, Owner
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

SEATS: Final = 4
PARTITIONS: Final = 6
"""Of each topic at the beginning."""
PARTITIONS_MAX: Final = 12
STOP_S: Final = 90.0
SET_BACK: Final = 5
"""By how many records a foreign client sets an offset back."""


class Seat:
    """The place of one member: after a leave or a kill another member is started in it."""

    def __init__(self, number: int, home: Path, network: ChaosZooKeeper) -> None:
        self.number, self.network = number, network
        self.wrong: list[str] = []
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        self._followers = 0
        self._name = ""

    @property
    def is_running(self) -> bool:
        """Whether its process runs. A process that has ended by itself is recorded in `wrong`."""
        if self._process is None:
            return False
        if (code := self._process.poll()) is None:
            return True
        told = self._errors.read_text("utf-8", "replace")[-1_000:]
        self.wrong.append(f"{self._name} ended by itself with code {code}: {told}")
        self._forget()
        return False

    @property
    def _errors(self) -> Path:
        return self._home / f"seat-{self.number}.err"

    def start(self, *, same_name: bool = False) -> None:
        """Starts a member, with the name of the former one if `same_name`."""
        if self.is_running:
            return
        if not same_name or not self._name:
            self._name = f"m{self.number}-{self._followers}"
        self._followers += 1
        history = self._home / f"{self._name}.{self._followers}.history.jsonl"
        words = (self.network.address, self._name, str(history))
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.programs.real_day.member", *words],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
            )

    def kill(self) -> None:
        if self.is_running:
            assert self._process is not None
            self._process.kill()
            self._process.wait(STOP_S)
        self._forget()

    def signal(self, which: signal.Signals) -> None:
        if self.is_running:
            assert self._process is not None
            self._process.send_signal(which)

    def wait_left(self) -> None:
        """Waits for the end after SIGTERM; a member that does not end is killed and recorded in `wrong`."""
        if self._process is None:
            return
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"{self._name} did not leave within {STOP_S:g} s")
            self.kill()
            return
        if code not in (0, -signal.SIGTERM):  # it had not got as far as to handle it
            self.wrong.append(f"{self._name} left with code {code}")
        self._forget()

    def _forget(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None


class Cast(OnServers):
    """All members, the servers and the operator."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, links: PeerLinks, home: Path, chroot: str) -> None:
        super().__init__(zookeeper, links, home, chroot)
        self.seats: list[Seat] = []
        self.planted: list[int] = []
        """The zxids of the foreign client's writes."""

    def place(self, stack: ExitStack) -> None:
        for number in range(SEATS):
            network = stack.enter_context(ChaosZooKeeper(self.zookeeper, self.chroot))
            self.seats.append(Seat(number, self.home, network))
            stack.callback(self.seats[number].kill)

    @property
    def wrong(self) -> list[str]:
        return [why for seat in self.seats for why in seat.wrong]

    def partitions(self) -> list[TopicPartition]:
        znodes = [self.zk.read(Topic.path(name)) for name in TOPICS]
        topics = {
            name: Topic.decode(znode.path, znode.data) for name, znode in zip(TOPICS, znodes, strict=True)
        }
        return [TopicPartition(name, n) for name, topic in topics.items() for n in topic.partitions]

    def unowned(self) -> list[TopicPartition]:
        """Partitions without an owner."""
        every = self.partitions()
        found = self.zk.read_many([Owner.path(GROUP, tp) for tp in every])
        return [tp for tp in every if found[Owner.path(GROUP, tp)] is None]

    def settle(self) -> None:
        """Returns once every partition has an owner."""
        becomes(
            self.unowned,
            [],
            what=lambda: f"partitions without an owner; {self.wrong}",
            ignoring=(ZkGroupError,),
        )

    def make_topics(self) -> None:
        self.zk.create_missing(brokers_path(), topics_path())
        for name in TOPICS:
            self.zk.multi(Create(Topic.path(name), Topic(dict.fromkeys(range(PARTITIONS), (0,))).encode()))

    def start_all(self) -> None:
        for seat in self.seats:
            seat.start()
        self.settle()

    def grow(self, topic: str) -> bool:
        """Adds a partition; False where the topic has the most already."""
        znode = self.zk.read(Topic.path(topic))
        before = Topic.decode(znode.path, znode.data).partitions
        if len(before) >= PARTITIONS_MAX:
            return False
        after = Topic({**before, len(before): (0,)})
        self.zk.multi(SetData(znode.path, after.encode(), znode.stat.version))
        return True

    def set_back(self, number: int) -> bool:
        """Sets an offset back as a foreign client, in an owned partition; whether there was one."""
        every = self.partitions()
        tp = every[number % len(every)]
        owner, offset = self.zk.find(Owner.path(GROUP, tp)), self.zk.find(Offset.path(GROUP, tp))
        if owner is None or offset is None:
            return False
        value = Offset.decode(offset.path, offset.data).value
        if value is None or value <= SET_BACK:
            return False
        done = self.zk.multi(SetData(offset.path, Offset(value - SET_BACK).encode(), offset.stat.version))
        assert done.zxid is not None
        self.planted.append(done.zxid)
        return True

    def heal(self) -> None:
        """Ends every fault."""
        self.network.heal(cut=True)
        self.network.heal_servers()
        for seat in self.seats:
            seat.network.heal(cut=True)
            seat.signal(signal.SIGCONT)

    def leave(self) -> None:
        """Stops all members cleanly."""
        for seat in self.seats:
            seat.signal(signal.SIGTERM)
        for seat in self.seats:
            seat.wait_left()
