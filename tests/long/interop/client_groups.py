"""Consumer groups of real clients, each member in a process that a test can kill or stop, and their judge."""

from __future__ import annotations

import itertools
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.long.interop.client_programs import pythons, version_of
from tests.long.interop.deliveries import Deliveries, Line
from tests.long.interop.jars import compiled, java, kafka_jars
from tests.long.interop.members import HERE
from tests.long.interop.processes import Process
from tests.long.interop.releases import EVERYTHING, NEWEST
from tests.waiting import eventually

TOGETHER = "together"
"""All clients in one group."""
PATIENT = {"session.timeout.ms": "60000", "heartbeat.interval.ms": "200", "max.poll.interval.ms": "300000"}
"""Settings of members that stay; they notice a rebalance with the next heartbeat."""
EXPIRING = {**PATIENT, "session.timeout.ms": "10000"}
"""Settings of members that a test kills, or stops and lets go on. The timeout is so long that a slow machine
hardly ever lets them expire earlier: then a partition may have two owners until the former one knows.
"""
IDLE = {**EXPIRING, "max.poll.interval.ms": "10000"}
"""Settings of members that stop polling. librdkafka wants the second timeout no shorter than the first."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Client:
    """One release of a client."""

    name: str
    """`Java` or a name that `client_members.py` knows."""
    release: str
    python: str = sys.executable

    def __str__(self) -> str:
        return f"{self.name} {self.release}"

    def command(self) -> list[str]:
        if self.name != "Java":
            return [self.python, str(HERE / "client_members.py"), self.name]
        jars = kafka_jars(self.release)
        classes = compiled(HERE / "ClientMembers.java", f"{jars}/*")
        return java(f"{classes}:{jars}/*", "ClientMembers", log=jars / "log4j.properties")

    @property
    def has_cooperative(self) -> bool:
        since = {"Java": "2.4", "librdkafka": "1.6", "kafka-python": "3.0"}.get(self.name)
        return since is not None and _numbered(self.release) >= _numbered(since)

    @property
    def has_static(self) -> bool:
        """Whether it has `group.instance.id`."""
        since = {"Java": "2.3", "librdkafka": "1.6", "kafka-python": "2.3", "aiokafka": "0.7"}[self.name]
        return _numbered(self.release) >= _numbered(since)


def _numbered(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def clients() -> list[Client]:
    """Those that take part."""
    variables = {"kafka-python": "ZKGROUP_INTEROP_KAFKA_PYTHON", "librdkafka": "ZKGROUP_INTEROP_LIBRDKAFKA"}
    others = {name: pythons(variable)[1:] if EVERYTHING else [] for name, variable in variables.items()}
    found = [
        Client(name, version_of(name, python), python)
        for name in ("kafka-python", "librdkafka", "aiokafka")
        for python in (sys.executable, *others.get(name, ()))
    ]
    javas = ("2.0.1", "2.3.1", "2.8.2", NEWEST) if EVERYTHING else ("2.8.2", NEWEST)
    return [*found, *(Client("Java", release) for release in javas)]


class MemberProcess:
    """A process of one client; its members start and end by lines of its input."""

    def __init__(self, client: Client, log: Path) -> None:
        self.client = client
        output = log.with_suffix(".lines")
        self.process = Process(client.command(), log, commands=True, output=output)
        self._output = output.open("rb")
        self._part = b""
        self._lines: dict[str, list[Line]] = {}

    def start(self, name: str, *words: str) -> None:
        """Starts a member."""
        self._lines[name] = []
        self.process.tell("start", name, *words)

    def lines(self, name: str) -> list[Line]:
        """The lines of a member so far, in order."""
        *lines, self._part = (self._part + self._output.read()).split(b"\n")
        for line in map(json.loads, lines):
            self._lines[line["member"]].append(line)
        return self._lines[name]

    def end(self) -> None:
        """Ends the process; no member leaves."""
        if self.process.running:
            self.process.kill()
        self.process.end()
        self._output.close()


class MemberProcesses:
    """Processes for members, kept from test to test as long as they run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started = 0
        self._running: dict[tuple[Client, int], MemberProcess] = {}
        self._ended: list[MemberProcess] = []

    @property
    def pids(self) -> list[int]:
        """The pids of the processes that continue after a test."""
        return [one.process.pid for one in self._running.values()]

    def __call__(self, client: Client, number: int) -> MemberProcess:
        """The process of this number of a client."""
        found = self._running.get((client, number))
        if found is None or not found.process.running:
            self._ended += [found] if found is not None else []
            self._started += 1
            log = self._folder / f"{client.name}-{client.release}-{self._started}.log"
            found = self._running[client, number] = MemberProcess(client, log)
        return found

    def end(self) -> None:
        for one in (*self._running.values(), *self._ended):
            one.end()


class GroupMember:
    """One member in its process."""

    def __init__(self, at: MemberProcess, name: str, words: Sequence[str]) -> None:
        self.at, self.name = at, name
        at.start(name, *words)
        self._gone = False
        self._notes: list[Line] = []

    def lines(self, *events: str) -> list[Line]:
        """Its lines so far, and those of its signals; all, or those with some events."""
        lines = [*self.at.lines(self.name), *self._notes]
        return [line for line in lines if not events or line["event"] in events]

    def tell(self, word: str) -> None:
        self.at.process.tell(word, self.name)

    def hold(self) -> None:
        """From now on it commits nothing."""
        self.tell("hold")
        self.wait("holding")

    def stall(self) -> None:
        """From now on it does not poll."""
        self.tell("stall")
        self.wait("stalled")

    def kill(self) -> None:
        """Sends SIGKILL to its process."""
        self.at.process.kill()
        self._note("killed")
        self._gone = True

    def stop(self) -> None:
        """Sends SIGSTOP to its process."""
        self.at.process.pause()
        self._note("stopped")

    def resume_process(self) -> None:
        """Sends SIGCONT to its process."""
        self.at.process.signal(signal.SIGCONT)

    def begin_close(self) -> None:
        if not self._gone:
            self._gone = True
            self.tell("close")

    def close(self) -> None:
        """Closes the consumer."""
        self.begin_close()
        self.wait("closed")

    def wait(self, event: str) -> None:
        def printed() -> bool:
            assert not self.lines("failed"), self.lines("failed")
            return bool(self.lines(event))

        eventually(printed, what=lambda: f"{event!r} of {self.name}: {self.lines()[-5:]}")

    def _note(self, event: str) -> None:
        self._notes.append({"member": self.name, "event": event, "at": now_us()})


@dataclass
class Served:
    """Brokers, as a group's test needs them."""

    bootstrap: Callable[[], str]
    create: Callable[[str, int], None]
    """Creates a topic with so many partitions, which are served then."""
    committed: Callable[[str, str], Mapping[int, int]]
    """The committed offsets of a group in a topic."""


@dataclass
class ClientGroup:
    """A group on a topic of its own, with two partitions for each of its clients."""

    served: Served
    processes: MemberProcesses
    clients: Sequence[Client]
    name: str = field(default_factory=lambda: f"group-{next(_numbers)}")
    ends: dict[int, int] = field(default_factory=dict)
    """Partition -> how many records it has."""
    members: list[GroupMember] = field(default_factory=list)
    """All members so far."""
    in_one_process: bool = False
    """Whether members of one client share a process, which no test kills."""

    def __post_init__(self) -> None:
        self.partitions = range(2 * len(self.clients))
        self.ends = dict.fromkeys(self.partitions, 0)
        self.served.create(self.name, len(self.partitions))

    def start(
        self, number: int, settings: Mapping[str, str] = PATIENT, assignor: str = "range"
    ) -> GroupMember:
        """Starts a member of the client of this number."""
        client = self.clients[number]
        same = self.clients[:number].count(client)
        words = [f"{name}={one}" for name, one in settings.items()]
        member = GroupMember(
            self.processes(client, 0 if self.in_one_process else same),
            f"{self.name}-{number}-{len(self.members)}",
            [self.served.bootstrap(), self.name, self.name, assignor, *words],
        )
        self.members.append(member)
        return member

    def start_all(self, settings: Mapping[str, str] = PATIENT) -> list[GroupMember]:
        """Starts a member of each client; returns when they share the partitions."""
        members = [self.start(number, settings) for number in range(len(self.clients))]
        self.wait_shared(members)
        return members

    def produce(self, each: int) -> None:
        """Writes so many records more to each partition."""
        refused: list[Any] = []
        settings = {"bootstrap.servers": self.served.bootstrap(), "linger.ms": 1, "enable.idempotence": True}
        producer = Producer(settings)  # idempotent: a request that is repeated appends nothing twice
        for _ in range(each):
            for partition in self.partitions:
                producer.produce(
                    self.name,
                    b"value",
                    partition=partition,
                    on_delivery=lambda error, _: refused.append(error),
                )
        producer.flush()
        assert refused == [None] * (each * len(self.partitions)), refused
        for partition in self.partitions:
            self.ends[partition] += each

    def deliveries(self) -> Deliveries:
        lines = [line for member in self.members for line in member.lines()]
        failed = [line for line in lines if line["event"] == "failed"]
        assert not failed, f"{failed}; {self.tails()}"
        return Deliveries(lines)

    def wait_shared(self, members: Iterable[GroupMember]) -> dict[str, frozenset[int]]:
        """The partitions of these members, once they own all of them, each as many as the others."""
        names = [member.name for member in members]

        def owned() -> dict[str, frozenset[int]]:
            found = self.deliveries()
            return {name: found.owned(name) for name in names}

        def is_fair(owned: dict[str, frozenset[int]]) -> bool:
            sizes = sorted(map(len, owned.values()))
            return (
                sizes[-1] - sizes[0] <= 1
                and sum(sizes) == len(self.partitions)
                and frozenset().union(*owned.values()) == {*self.partitions}
            )

        return eventually(owned, is_fair, what=lambda: f"{names} share; {self.tails()}")

    def wait_read(self) -> None:
        """Waits until every record is read."""
        eventually(
            lambda: self.deliveries().missing(self.ends),
            lambda missing: not missing,
            what=lambda: f"all is read; {self.tails()}",
        )

    def wait_committed(self, *, but_for: Iterable[GroupMember] = ()) -> None:
        """Waits until all records are read and, but for those of some members' partitions, committed."""
        self.wait_read()

        def open_ends() -> dict[int, int]:
            found = self.deliveries()
            without = frozenset[int]().union(*(found.owned(one.name) for one in but_for))
            return {
                p: end for p, end in self.ends.items() if found.committed.get(p) != end and p not in without
            }

        eventually(
            open_ends, lambda ends: not ends, what=lambda: f"{self.ends} are committed; {self.tails()}"
        )

    def lines_since(self, at: int, *events: str, without: Iterable[GroupMember] = ()) -> list[Line]:
        """The lines with these events since a time, in microseconds."""
        return [
            line
            for member in self.members
            if member not in without
            for line in member.lines(*events)
            if line["at"] > at
        ]

    def revoked_since(self, at: int, member: str) -> frozenset[int]:
        """The partitions that a member has given up since a time, whether or not it has got them again."""
        lines = self.lines_since(at, "revoked", "lost")
        return frozenset(one for line in lines if line["member"] == member for one in line["partitions"])

    def assert_well(self) -> None:
        """Checks that each record was read, none again that was committed, and that all are committed."""
        found = self.deliveries()
        assert not found.breaches, "\n".join((*found.breaches, self.tails()))
        assert not found.missing(self.ends)
        assert not found.invented(self.ends)
        stored = self.served.committed(self.name, self.name)
        assert stored == found.committed == self.ends

    def tails(self) -> str:
        """The last lines of each member, for messages."""
        return "\n".join(
            f"{one.name} ({one.at.client}): {[line for line in one.lines() if line['event'] != 'read'][-8:]}"
            for one in self.members
        )

    def close(self) -> None:
        """Ends every member, cleanly where it can."""
        for member in self.members:
            if member.at.process.running:
                member.resume_process()
                member.begin_close()
        for member in self.members:
            if member.at.process.running:
                eventually(
                    lambda member=member: member.lines("closed", "failed", "killed"),
                    what=lambda member=member: f"{member.name} closes: {member.lines()[-3:]}",
                )


def now_us() -> int:
    """The time of the lines that are printed from now on, or later."""
    return time.time_ns() // 1000


def crews() -> Iterator[tuple[str, list[Client]]]:
    """The clients of a group, by name: all together, and three members of each one."""
    everyone = clients()
    yield TOGETHER, everyone
    for one in everyone:
        yield str(one), [one] * 3


CREWS = dict(crews())
WHOLE = tuple(CREWS) if EVERYTHING else (TOGETHER,)
"""The groups of the tests that start many processes."""


def alone_with(ability: str) -> list[str]:
    """The names of the groups of one client each that has an ability."""
    return [name for name, (one, *_) in CREWS.items() if name != TOGETHER and getattr(one, ability)]
