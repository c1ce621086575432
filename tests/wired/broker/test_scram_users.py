"""Users with SCRAM credentials at a broker's port: the answers are those of Kafka 2.8.2."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.waiting import PATIENCE_S
from tests.worlds.recorded_logins import conversations
from tests.worlds.wire_requests import REQUESTS
from zkgroup.security.scram import ScramCredential
from zkgroup.testing import KafkaCluster
from zkgroup.wire.messages import Api, decode_response
from zkgroup.znodes.config import EntityConfig

OF_USERS = (Api.DESCRIBE_USER_SCRAM_CREDENTIALS, Api.ALTER_USER_SCRAM_CREDENTIALS)


def _rows(api: int, frame: bytes) -> list[Any]:
    answer: Any = decode_response(REQUESTS[api].RESPONSE, frame[4:])[1]
    rows = [
        (row.user.replace("%20", " ").replace("%2F", "/"), row.error, row.error_message)
        for row in answer.users
    ]
    return sorted(rows) if api == Api.ALTER_USER_SCRAM_CREDENTIALS else sorted(map(str, rows))


def test_users_are_described_and_altered_as_by_kafka(kafka_cluster: KafkaCluster) -> None:
    """Each recorded conversation: errors, texts and credentials, but that all names are decoded."""
    kafka_cluster.zookeeper.put("/config/users/alice", _alice())
    host, _, port = kafka_cluster.address(1).rpartition(":")
    asked = 0
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        stream = connection.makefile("rb")
        for case in conversations():
            for sent, came in case.exchanges:
                api = int.from_bytes(sent[4:6], "big")
                if api not in OF_USERS or came is None:
                    continue
                connection.sendall(sent)
                size = stream.read(4)
                answer = size + stream.read(int.from_bytes(size, "big"))
                assert _rows(api, answer) == _rows(api, came), case.case
                asked += 1
    assert asked > 15


def _alice() -> bytes:
    """Both credentials, with the iterations of the recorded broker."""
    texts = {
        mechanism: ScramCredential.of_password(mechanism, "x", iterations, b"salt" * 4).encode()
        for mechanism, iterations in (("SCRAM-SHA-256", 4096), ("SCRAM-SHA-512", 8192))
    }
    return EntityConfig(texts).encode()


def test_a_client_makes_a_user_with_its_password(kafka_cluster: KafkaCluster) -> None:
    """librdkafka sends a salted password: the credential is that of the password. Then it is removed."""
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000)
    made = UserScramCredentialUpsertion("olga", info, b"geheim", b"0123456789abcdef")

    admin.alter_user_scram_credentials([made])["olga"].result(PATIENCE_S)

    znode = kafka_cluster.zookeeper.find("/config/users/olga")
    assert znode is not None
    (text,) = EntityConfig.decode(znode.path, znode.data).overrides.values()
    expected = ScramCredential.of_password("SCRAM-SHA-512", "geheim", 5000, b"0123456789abcdef")
    assert text == expected.encode()
    described = admin.describe_user_scram_credentials(["olga"])["olga"].result(PATIENCE_S)
    assert [one.iterations for one in described.scram_credential_infos] == [5000]
    removed = UserScramCredentialDeletion("olga", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([removed])["olga"].result(PATIENCE_S)
    left = kafka_cluster.zookeeper.find("/config/users/olga")
    assert left is not None
    assert EntityConfig.decode(left.path, left.data).overrides == {}


def test_a_damaged_credential_is_an_error_of_its_user_alone(kafka_cluster: KafkaCluster) -> None:
    """Others are described; the text names the znode and nothing of the credential."""
    kafka_cluster.zookeeper.put("/config/users/alice", _alice())
    kafka_cluster.zookeeper.put("/config/users/bad", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2Vj"}}')
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})

    found = admin.describe_user_scram_credentials(["alice", "bad"])

    assert len(found["alice"].result(PATIENCE_S).scram_credential_infos) == 2
    with pytest.raises(Exception, match="/config/users/bad: expected salt=") as caught:
        found["bad"].result(PATIENCE_S)
    assert "c2Vj" not in str(caught.value)
