"""Records what a ZooKeeper of some release leaves on its disks, for `tests/golden/zookeeper`.

    python -m tests.long.interop.zookeeper_files 3.5.9 FOLDER    one server
    python -m tests.long.interop.zookeeper_files 3.8.4 FOLDER    three servers; snapshots plain, gz and snappy

One session of every kind of transaction: creates, sets and deletes with no, empty and binary data, sequential
names, ephemerals of sessions that end politely and by expiry, multis that commit and that fail, ACLs, a
quota, containers and times to live, and a change of the ensemble; many writes at once while snapshots are
taken, so that these are fuzzy; of three servers the leader is killed. Then all are killed, and FOLDER has
`server-N` with `version-2` and `formatted` (what ZooKeeper's own tools print), and `tree.jsonl`, which a
client walked last.

The servers are those that Kafka 2.8.2 and 3.9.1 carry, from Maven (`tests.long.interop.jars`).
"""

from __future__ import annotations

import gzip
import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import Create2, long_struct
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from tests.long.interop.formatted import formatted
from tests.long.interop.jars import kafka
from tests.long.interop.processes import Process
from tests.long.interop.servers import four_letters, opens_sessions
from tests.long.interop.walks_as_json import walked
from tests.waiting import PATIENCE_S, eventually
from zkgroup.zookeeper.embedded.server import ReservedPort

MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
OPTIONS: Final = ("-Dznode.container.checkIntervalMs=300", "-Dzookeeper.forceSync=no", "-Duser.timezone=UTC")


class Release(NamedTuple):
    """A release, and how it is run."""

    kafka: str
    """The release of Kafka that carries it."""
    packing: tuple[str, ...]
    """`snapshot.compression.method` of each server."""


RELEASES: Final = {"3.5.9": Release("2.8.2", ("",)), "3.8.4": Release("3.9.1", ("", "gz", "snappy"))}


class CreateContainer(Create2):
    """A container: its type in place of a plain create's. Source: CreateMode.CONTAINER."""

    type = 19


class CreateTtl(Create2):
    """A znode with a time to live, an hour unless set. Source: zookeeper.jute, CreateTTLRequest."""

    type = 21
    ttl_ms = 3_600_000

    def serialize(self) -> bytearray:
        return super().serialize() + long_struct.pack(self.ttl_ms)


class CreateShortTtl(CreateTtl):
    """A znode whose time to live ends at once."""

    ttl_ms = 10


class CreateLongTtl(CreateTtl):
    """A znode with nearly the longest time to live."""

    ttl_ms = 2**40 - 1 - 2**30


class Servers:
    """All servers of one ensemble, as processes."""

    def __init__(self, release: Release, folder: Path) -> None:
        self.release, self.folder = release, folder
        self._held = [[ReservedPort() for _ in range(3)] for _ in release.packing]
        self.ports = [client.number for client, _, _ in self._held]
        self.members = [
            f"127.0.0.1:{quorum.number}:{election.number}:participant;127.0.0.1:{client.number}"
            for client, quorum, election in self._held
        ]
        self.processes: dict[int, Process] = {}
        for number in range(1, len(self.ports) + 1):
            self._lay_out(number)
            self.start(number)

    def data(self, number: int) -> Path:
        """The dataDir of a server, counted from 1."""
        return self.folder / f"data-{number}"

    def _lay_out(self, number: int) -> None:
        self.data(number).mkdir()
        (self.data(number) / "myid").write_text(f"{number}\n")
        dynamic = self.folder / f"{number}.dynamic"
        dynamic.write_text("".join(f"server.{n}={member}\n" for n, member in enumerate(self.members, 1)))
        packing = self.release.packing[number - 1]
        settings = {
            "tickTime": 500,
            "initLimit": 20,
            "syncLimit": 10,
            "dataDir": self.data(number),
            "dynamicConfigFile": dynamic,
            "standaloneEnabled": "false",
            "reconfigEnabled": "true",
            "skipACL": "yes",
            "extendedTypesEnabled": "true",
            "snapCount": 200,
            "preAllocSize": 64,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **({"snapshot.compression.method": packing} if packing else {}),
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.folder / f"{number}.cfg").write_text(text)

    def start(self, number: int) -> None:
        """Starts a server, the first time or after a kill."""
        java, *rest = kafka(self.release.kafka, MAIN, str(self.folder / f"{number}.cfg"))
        log = self.folder / f"{number}.log"
        self.processes[number] = Process([java, *OPTIONS, *rest], log)

    def wait_ready(self) -> None:
        """Waits until every server serves."""
        for number, port in enumerate(self.ports, 1):
            process = self.processes[number]
            eventually(
                lambda port=port: opens_sessions(port), what=f"server {number} serves: {process.tail()}"
            )

    def role(self, number: int) -> str:
        """`leader`, `follower` or ``."""
        answer = four_letters(self.ports[number - 1], "srvr")
        return next((line[6:] for line in answer.splitlines() if line.startswith("Mode: ")), "")

    def zxids(self) -> set[str]:
        """The last zxid of each server."""
        answers = [four_letters(port, "srvr") for port in self.ports]
        return {line for answer in answers for line in answer.splitlines() if line.startswith("Zxid: ")}

    def kill(self) -> None:
        for process in self.processes.values():
            process.kill()
        for port in itertools.chain(*self._held):
            port.release()


class Session:
    """The operations on the ensemble."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._address = ",".join(f"127.0.0.1:{port}" for port in servers.ports)
        self.client = self._connected(30.0)

    def _connected(self, timeout_s: float) -> KazooClient:
        client = KazooClient(self._address, timeout=timeout_s)
        client.start(PATIENCE_S)
        return client

    def close(self) -> None:
        with suppress(KazooException):
            self.client.stop()
        self.client.close()

    def run(self) -> None:
        """Runs all operations, in order."""
        self._plain()
        self._multis()
        self._acls_and_quota()
        self._burst(0)
        self._sessions()
        self._lifetimes()
        self._reconfigure()
        self._burst(1)
        if len(self._servers.ports) > 1:
            self._lose_the_leader()
            self._burst(2)
        eventually(lambda: len(self._servers.zxids()) == 1, what="all servers have the same")

    def _plain(self) -> None:
        client = self.client
        client.create("/plain", b"")
        self._request(Create2("/plain/null", None, OPEN_ACL_UNSAFE, 0))
        client.create("/plain/bytes", bytes(range(256)))
        client.create("/plain/Größe-名", "Wert ✓".encode())
        for count in range(3):
            client.create("/plain/number-", str(count).encode(), sequence=True)
            client.set("/plain/bytes", b"\xff" * count)
        client.delete("/plain/number-0000000004")
        client.create("/plain/number-", b"again", sequence=True, include_data=True)

    def _multis(self) -> None:
        good = self.client.transaction()
        good.create("/multi", b"m")
        good.create("/multi/a", b"1")
        good.check("/multi", 0)
        good.set_data("/multi/a", b"2")
        good.create("/multi/b", b"")
        good.delete("/multi/b")
        good.commit()
        bad = self.client.transaction()
        bad.set_data("/multi/a", b"never")
        bad.check("/multi", 7)
        bad.delete("/multi/a")
        bad.commit()

    def _acls_and_quota(self) -> None:
        client = self.client
        acls = [make_digest_acl("reader", "secret", read=True), make_acl("world", "anyone", all=True)]
        client.create("/acl", b"", acl=acls)
        client.set_acls("/acl", [make_acl("world", "anyone", read=True, write=True)])
        client.set_acls("/acl", [make_acl("ip", "127.0.0.1", all=True)])
        client.ensure_path("/zookeeper/quota/plain")
        for name in ("limits", "stats"):
            client.create(f"/zookeeper/quota/plain/zookeeper_{name}", b"count=1000,bytes=-1")
        for path in ("/missing", "/plain"):
            with suppress(KazooException):
                client.delete(path)  # no such znode; not empty

    def _burst(self, number: int) -> None:
        """Sends many writes at the same time, while snapshots are taken."""
        top = f"/burst-{number}"
        self.client.create(top, b"")
        for _ in range(2):
            done = [
                self.client.create_async(f"{top}/z{count:03}-", b"x" * count, sequence=True)
                for count in range(60)
            ]
            paths = [each.get(PATIENCE_S) for each in done]
            done = [self.client.set_async(path, b"y" * 40) for path in paths]
            done += [self.client.delete_async(path) for path in paths[::3]]
            for each in done:
                each.get(PATIENCE_S)

    def _sessions(self) -> None:
        self.client.create("/sessions", b"")
        self.client.create("/sessions/mine", b"stays", ephemeral=True)
        polite = self._connected(8.0)
        for name in ("a", "b"):
            polite.create(f"/sessions/polite-{name}", b"", ephemeral=True, sequence=True)
        polite.create("/sessions/deleted", b"", ephemeral=True)
        polite.delete("/sessions/deleted")
        polite.stop()
        polite.close()
        subprocess.run([sys.executable, "-c", EXPIRING, self._address], check=True, timeout=PATIENCE_S)
        eventually(lambda: self.client.get_children("/sessions") == ["mine"], what="the session expires")

    def _lifetimes(self) -> None:
        for name in ("kept", "emptied"):
            self._request(CreateContainer(f"/container-{name}", b"c", OPEN_ACL_UNSAFE, 4))
            self.client.create(f"/container-{name}/child", b"")
        self.client.delete("/container-emptied/child")
        self._request(CreateLongTtl("/ttl-long", b"t", OPEN_ACL_UNSAFE, 5))
        self._request(CreateShortTtl("/ttl-short", None, OPEN_ACL_UNSAFE, 5))
        self._request(CreateTtl("/ttl-number-", b"t", OPEN_ACL_UNSAFE, 6))
        eventually(lambda: self.client.exists("/container-emptied") is None, what="the container goes")
        eventually(lambda: self.client.exists("/ttl-short") is None, what="the time to live ends")

    def _reconfigure(self) -> None:
        """Adds and removes an observer that never runs."""
        held = [ReservedPort() for _ in range(3)]
        quorum, election, client = (port.number for port in held)
        member = f"server.9=127.0.0.1:{quorum}:{election}:observer;127.0.0.1:{client}"
        self.client.reconfig(joining=member, leaving=None, new_members=None)
        self.client.reconfig(joining=None, leaving="9", new_members=None)
        for port in held:
            port.release()

    def _lose_the_leader(self) -> None:
        servers = self._servers
        (leader,) = [number for number in servers.processes if servers.role(number) == "leader"]
        servers.processes[leader].kill()

        def writes() -> bool:
            with suppress(KazooException):
                self.client.set("/plain", b"while one is away")
                return True
            return False

        eventually(writes, what="the others go on")
        servers.start(leader)
        servers.wait_ready()

    def _request(self, request: Any) -> None:
        result = self.client.handler.async_result()
        self.client._call(request, result)
        result.get(PATIENCE_S)


EXPIRING: Final = """
import os, sys
from kazoo.client import KazooClient
from zkgroup.zookeeper.embedded.server import ReservedPort
client = KazooClient(sys.argv[1], timeout=2.0)
client.start(30)
for name in ("one", "two"):
    client.create("/sessions/expiring-" + name, b"", ephemeral=True)
os._exit(0)
"""


@contextmanager
def _running(release: Release, folder: Path) -> Iterator[tuple[Servers, Session]]:
    with ExitStack() as stack:
        servers = Servers(release, folder)
        stack.callback(servers.kill)
        servers.wait_ready()
        session = Session(servers)
        stack.callback(session.close)
        yield servers, session


def record(version: str, target: Path) -> None:
    """Runs the session on a release and fills the folder `target`, which must not exist."""
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="zkgroup-files-") as scratch:
        with _running(RELEASES[version], Path(scratch)) as (servers, session):
            session.run()
            (target / "tree.jsonl").write_text(walked(session.client), encoding="utf-8")
            servers.kill()
        for number in servers.processes:
            _keep(servers.data(number) / "version-2", target / f"server-{number}")
    files = sorted(file for file in target.glob("server-*/version-2/*") if file.name[0] in "sl")
    for file, text in formatted(files).items():
        place = file.parent.parent / "formatted"
        place.mkdir(exist_ok=True)
        (place / f"{_plain_name(file)}.txt.gz").write_bytes(_packed(text.encode()))


def _keep(source: Path, target: Path) -> None:
    """Copies snapshots and logs; what the server did not pack is gzipped."""
    (target / "version-2").mkdir(parents=True)
    for file in sorted(source.iterdir()):
        if not file.name.startswith(("snapshot.", "log.")):
            continue
        if file.suffix in (".gz", ".snappy"):
            shutil.copy(file, target / "version-2")
        else:
            (target / "version-2" / f"{file.name}.gz").write_bytes(_packed(file.read_bytes()))


def _plain_name(file: Path) -> str:
    return ".".join(file.name.split(".")[:2])


def _packed(raw: bytes) -> bytes:
    return gzip.compress(raw, 9, mtime=0)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in RELEASES:
        sys.exit(__doc__)
    record(sys.argv[1], Path(sys.argv[2]))
