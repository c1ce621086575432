"""One Kafka broker on one ZooKeeper 3.4.6 for all tests here, and groups of members of both kinds."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.long.interop.jars import MissingToolError, compiled, kafka_jars
from tests.long.interop.members import HERE, Host, Kind, Ledger, Member
from tests.long.interop.servers import VERSION, Producer, RealBroker, RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.long.interop.tooled import OurBrokers, running_brokers
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.other_clients import kazoo_on
from tests.worlds.processes import preforked as preforked

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def jars() -> Path:
    """Kafka 0.8.2.2 and the compiled members; skips with the reason where Maven or Java is missing.

    With ZKGROUP_TEST_INTEROP=required (as in CI wherever the tools are installed) that is a failure.
    """
    try:
        folder = kafka_jars(VERSION)
        compiled(HERE / "Members.java", f"{folder}/*")
    except MissingToolError as missing:
        if os.environ.get("ZKGROUP_TEST_INTEROP") == "required":
            raise
        pytest.skip(f"no real Kafka: {missing}")
    return folder


def fetched(release: str, fetch: Callable[[str], Path] = kafka_jars) -> None:
    """Fetches what the cache lacks; skips or fails as `jars` does."""
    try:
        fetch(release)
    except MissingToolError as missing:
        if os.environ.get("ZKGROUP_TEST_INTEROP") == "required":
            raise
        pytest.skip(f"no real Kafka: {missing}")


@pytest.fixture(scope="session")
def real_zookeeper(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealZooKeeper]:
    server = RealZooKeeper(tmp_path_factory.mktemp("zookeeper-3.4.6"))
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def brokers(
    request: pytest.FixtureRequest,
    real_zookeeper: RealZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OurBrokers]:
    """Three zkgroup brokers as processes, below a chroot with the name of the file of the tests."""
    name = request.path.stem.removeprefix("test_")
    with running_brokers(real_zookeeper, tmp_path_factory.mktemp(name), f"/{name}") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def group_brokers(
    real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurBrokers]:
    """The same for all tests of consumer groups: the first group takes seconds, as it gets 50 slots."""
    with running_brokers(real_zookeeper, tmp_path_factory.mktemp("groups"), "/groups") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def broker(real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBroker]:
    server = RealBroker(real_zookeeper, tmp_path_factory.mktemp("broker"))
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def box(jars: Path) -> Iterator[Toolbox]:
    """Kafka's tools in one JVM."""
    with Toolbox() as toolbox:
        yield toolbox


@pytest.fixture(scope="session")
def jvm_members(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Members of Kafka's own consumer, in one JVM."""
    yield from _hosting("jvm", tmp_path_factory)


@pytest.fixture(scope="session")
def python_members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """zkgroup members, in one process beside this one."""
    yield from _hosting("python", tmp_path_factory)


def _hosting(kind: Kind, folders: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(kind, folders.mktemp("members") / f"{kind}.log")
    try:
        yield host
    finally:
        host.end()


@pytest.fixture
def tree(real_zookeeper: RealZooKeeper) -> Iterator[KazooClient]:
    """A client of its own that reads the znodes."""
    with kazoo_on(real_zookeeper.address) as client:
        yield client


@pytest.fixture
def producer(broker: RealBroker) -> Iterator[Producer]:
    with broker.producer() as producer:
        yield producer


@dataclass
class Scene:
    """One topic of ten partitions and one group on it."""

    broker: RealBroker
    tree: KazooClient
    topic: str
    group: str
    partitions: int
    folder: Path
    hosts: Mapping[Kind, Host]
    ledger: Ledger = field(default_factory=Ledger)
    own: list[Host] = field(default_factory=list)
    """Processes of single members."""

    def start(self, kind: Kind, name: str, *, alone: bool = False) -> Member:
        """Starts a member and adds it to the ledger. A member alone in its process can be killed."""
        if alone:
            self.own.append(Host(kind, self.folder / f"{self.group}-{name}.log"))
        host = self.own[-1] if alone else self.hosts[kind]
        member = Member(host, self.broker.zookeeper.address, self.group, name, self.topic)
        self.ledger.members.append(member)
        return member

    def kill(self, member: Member) -> None:
        """Kills a member that is alone in its process; its session ends."""
        session = self.tree.get(f"/consumers/{self.group}/ids/{member.id}")[1].ephemeralOwner
        member.kill()
        self.broker.zookeeper.end_session(session)

    def close(self) -> None:
        """Ends every member, cleanly where it can."""
        for member in self.ledger.members:
            member.end()
        for host in self.own:
            host.end()

    def registered(self) -> list[str]:
        path = f"/consumers/{self.group}/ids"
        return sorted(self.tree.get_children(path)) if self.tree.exists(path) else []

    def owners(self) -> dict[int, str]:
        """Partition -> thread id, from one read of the owner znodes."""
        parent = f"/consumers/{self.group}/owners/{self.topic}"
        if not self.tree.exists(parent):
            return {}
        waiting = {p: self.tree.get_async(f"{parent}/{p}") for p in self.tree.get_children(parent)}
        found = {}
        for partition, answer in waiting.items():
            answer.wait(PATIENCE_S)
            if answer.successful():
                found[int(partition)] = answer.get()[0].decode()
        return found

    def offsets(self) -> dict[int, int]:
        """Partition -> committed offset; those never committed (-1 too) are absent."""
        parent = f"/consumers/{self.group}/offsets/{self.topic}"
        if not self.tree.exists(parent):
            return {}
        found = {}
        for partition in self.tree.get_children(parent):
            value = int(self.tree.get(f"{parent}/{partition}")[0])
            if value >= 0:
                found[int(partition)] = value
        return found

    def wait_owned_by(self, members: list[Member]) -> dict[int, str]:
        """Waits until the owners are the range assignment of exactly these members with one thread each."""
        expected = range_owners([f"{m.id}-0" for m in members], self.partitions)
        eventually(lambda: self.owners() == expected, what=f"owners are {expected}")
        return expected


def range_owners(threads: list[str], partitions: int) -> dict[int, str]:
    """The range assignment of one topic, written again from PartitionAssignor.scala@0.8.2.2."""
    ordered = sorted(threads, key=lambda name: name.encode("utf-16-be"))
    each, extra = divmod(partitions, len(ordered))
    owners: dict[int, str] = {}
    for index, thread in enumerate(ordered):
        first = each * index + min(index, extra)
        owners.update(dict.fromkeys(range(first, first + each + (index < extra)), thread))
    return owners


@pytest.fixture
def make_scene(
    broker: RealBroker,
    box: Toolbox,
    tree: KazooClient,
    jvm_members: Host,
    python_members: Host,
    tmp_path: Path,
) -> Iterator[Callable[..., Scene]]:
    """Makes a new topic and group on each call; every member that still runs at the end leaves."""
    scenes: list[Scene] = []
    hosts: dict[Kind, Host] = {"jvm": jvm_members, "python": python_members}

    def make(topic: str | None = None, partitions: int = 10) -> Scene:
        number = next(_numbers)
        name = topic or f"orders-{number}"
        if topic is None:
            broker.create_topic(box, name, partitions)
        scene = Scene(broker, tree, name, f"mixed-{number}", partitions, tmp_path, hosts)
        scenes.append(scene)
        return scene

    try:
        yield make
    finally:
        for scene in scenes:
            scene.close()
