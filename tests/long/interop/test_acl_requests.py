"""Drawn requests of clients with drawn ACLs are answered as by Kafka 2.8.2, by a broker and by its guards.

    python -m tests.long.interop.test_acl_requests OUT.jsonl.gz

records the answers of Kafka for the short test.
"""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.long.interop.conftest import fetched
from tests.long.interop.servers import RealBroker, RealZooKeeper
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.drawn_acl_requests import (
    GROUPS,
    TOPICS,
    USERS,
    Case,
    differences,
    drawn,
    refusals,
    words_of,
)
from tests.worlds.unhurried import unhurried
from zkgroup.broker import Broker, SecuritySettings
from zkgroup.security.acls import AclBinding
from zkgroup.wire.acls import AclCreation, AclFilterFields, CreateAclsRequest, DeleteAclsRequest
from zkgroup.wire.admin_apis import CreatableTopic, CreateTopicsRequest
from zkgroup.wire.groups import OffsetCommitRequest, OffsetToCommit, TopicToCommit
from zkgroup.wire.messages import Request, decode_response, encode_request
from zkgroup.wire.metadata import FindCoordinatorRequest, MetadataRequest
from zkgroup.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from zkgroup.zookeeper.embedded.server import ReservedPort

KAFKA, COUNT, SEED = "2.8.2", 100, 11
RECORDED, RECORDED_SEED = 20, 12
_numbers = itertools.count(1)
PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "listener.name.clients.plain.sasl.jaas.config": "".join(
        [
            "org.apache.kafka.common.security.plain.PlainLoginModule required",
            *(f' user_{user}="{password}"' for user, password in USERS.items()),
            ";",
        ]
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}


class Connection:
    """A client that has logged in."""

    def __init__(self, port: int, user: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._stream = self._socket.makefile("rb")
        self.ask(SaslHandshakeRequest("PLAIN"), 1)
        self.ask(SaslAuthenticateRequest(f"\0{user}\0{USERS[user]}".encode()), 1)

    def ask(self, request: Request, version: int) -> Any:
        answer = self.exchange(encode_request(request, 7, "test", version=version))
        return decode_response(request.RESPONSE, answer[4:], version=version)[1]

    def exchange(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        size = self._stream.read(4)
        assert size, frame
        return size + self._stream.read(int.from_bytes(size, "big"))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class Asked:
    """One broker with the topics and groups of the requests, and a connection of each user."""

    def __init__(
        self, port: int, held: ExitStack, *, is_open: bool, coordinators: tuple[int, ...] = (0,)
    ) -> None:
        self._is_open = is_open
        self._of = {user: Connection(port, user) for user in USERS}
        for one in self._of.values():
            held.callback(one.close)
        admin = self._of["admin"]
        topics = tuple(CreatableTopic(topic=one, partitions=1, replication_factor=1) for one in TOPICS)
        admin.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 4)
        eventually(lambda: self._are_led(TOPICS), what="the topics are led")
        for key_type in coordinators:
            eventually(
                lambda key_type=key_type: not admin.ask(FindCoordinatorRequest("mine", key_type), 1).error,
                what="coordinators",
            )
        offset = (OffsetToCommit(partition=0, offset=5, metadata=""),)
        named = tuple(TopicToCommit(topic=one, partitions=offset) for one in TOPICS)
        for group in GROUPS:
            eventually(
                lambda group=group: (
                    not any(
                        part.error
                        for one in admin.ask(OffsetCommitRequest(group=group, topics=named), 2).topics
                        for part in one.partitions
                    )
                ),
                what="offsets",
            )

    def _are_led(self, topics: Iterable[str]) -> bool:
        found = self._of["admin"].ask(MetadataRequest.of(*topics), 4).topics
        return all(not one.error and all(not part.error for part in one.partitions) for one in found)

    def row(self, case: Case) -> dict[str, Any]:
        """The answers to the requests of a case, for `differences`."""
        admin = self._of["admin"]
        every = AclFilterFields(resource_type=1, pattern_type=1, operation=1, permission=1)
        admin.ask(DeleteAclsRequest(filters=(every,)), 2)
        made = admin.ask(CreateAclsRequest(creations=tuple(map(_creation, case.acls))), 2)
        assert not any(one.error for one in made.results), made
        return {
            "open": self._is_open,
            "acls": [words_of(one) for one in case.acls],
            "exchanges": [
                [user, frame.hex(), admin.exchange(frame).hex(), self._of[user].exchange(frame).hex()]
                for user, frame in case.requests
            ],
        }


def _creation(binding: AclBinding) -> AclCreation:
    (kind, name, pattern_type), entry = binding
    return AclCreation(resource_type=kind, resource_name=name, pattern_type=pattern_type, **entry._asdict())


@contextmanager
def kafka(zookeeper: RealZooKeeper, folder: Path, *, is_open: bool) -> Iterator[Asked]:
    """A broker of Kafka."""
    internal, clients = ReservedPort(), ReservedPort()
    listeners = f"PLAINTEXT://127.0.0.1:{internal.number},CLIENTS://127.0.0.1:{clients.number}"
    more = {
        **PROPERTIES,
        "listeners": listeners,
        "advertised.listeners": listeners,
        "allow.everyone.if.no.acl.found": str(is_open).lower(),
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
    }
    with ExitStack() as held:
        held.callback(internal.release)
        held.callback(clients.release)
        broker = RealBroker(zookeeper, folder, 1, f"/acl-requests-{next(_numbers)}", KAFKA, **more)
        held.callback(broker.stop)
        broker.wait_ready()
        yield Asked(clients.number, held, is_open=is_open, coordinators=(0, 1))


@contextmanager
def ours(zookeeper: RealZooKeeper, *, is_open: bool) -> Iterator[Asked]:
    """A broker of zkgroup."""
    properties = {**PROPERTIES, "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0"}
    security = SecuritySettings.of({**properties, "allow.everyone.if.no.acl.found": str(is_open).lower()})
    address = f"{zookeeper.address}/acl-requests-{next(_numbers)}"
    settings = replace(unhurried(), auto_create_topics_enable=False)
    with ExitStack() as held:
        broker = held.enter_context(Broker(address, broker=1, settings=settings, security=security))
        broker.wait_registered(PATIENCE_S)
        assert broker.listeners is not None
        yield Asked(int(broker.listeners["CLIENTS"].rpartition(":")[2]), held, is_open=is_open)


@pytest.mark.parametrize("is_open", [False, True])
def test_clients_are_answered_as_by_kafka(
    real_zookeeper: RealZooKeeper, tmp_path: Path, is_open: bool
) -> None:
    """1,000 requests, 50 sets of ACLs: by guards exactly, by a broker as to what is refused and listed."""
    fetched(KAFKA)
    with kafka(real_zookeeper, tmp_path / "kafka", is_open=is_open) as theirs:
        rows = [theirs.row(case) for case in drawn(COUNT // 2, SEED + is_open)]
    assert [each for row in rows for each in differences(row)] == []

    with ours(real_zookeeper, is_open=is_open) as asked:
        found = [asked.row(case) for case in drawn(COUNT // 2, SEED + is_open)]
    pairs = zip(map(refusals, rows), map(refusals, found), strict=True)
    wrong = [pair for each in pairs for pair in zip(*each, strict=True) if pair[0] != pair[1]]
    assert wrong == [], "\n".join(map(str, wrong))


def record(file: Path) -> None:
    """Writes the rows of Kafka's answers."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        zookeeper = RealZooKeeper(Path(folder) / "zookeeper")
        held.callback(zookeeper.stop)
        zookeeper.wait_ready()
        rows = []
        for is_open in (False, True):
            with kafka(zookeeper, Path(folder) / f"kafka-{is_open}", is_open=is_open) as asked:
                rows += [asked.row(case) for case in drawn(RECORDED // 2, RECORDED_SEED + is_open)]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
