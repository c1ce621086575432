"""Settings of a member's process pass the pipe with their secrets, and stay off command lines."""

from __future__ import annotations

import pytest

from zkgroup.demo.group.worker import MemberChildSettings, decode_settings, encode_settings
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.settings import CREATOR_ACL, Digest, Sasl, Secret, Tls


def child_settings(connection: ClientSettings) -> MemberChildSettings:
    return MemberChildSettings(
        "ada", "host:2181", "demo", "records", "out", "history", 550, 4000, 500, connection
    )


@pytest.mark.parametrize(
    "connection",
    [
        ClientSettings(),
        ClientSettings(auth=Digest("ada", Secret("with:colon")), tls=Tls(ca_file="ca.pem")),
        ClientSettings(auth=Sasl(username="ada", password=Secret("pw")), acl=CREATOR_ACL),
        ClientSettings(
            tls=Tls(cert_file="cert.pem", key_file="key.pem", key_password=Secret("k"), check_host_name=False)
        ),
    ],
    ids=["plain", "digest and tls", "sasl", "mutual tls"],
)
def test_orders_come_back_as_given(connection: ClientSettings) -> None:
    """Encoding and decoding are inverse for every way to connect."""
    line = encode_settings(child_settings(connection))

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_settings(line) == child_settings(connection)


def test_orders_do_not_print_their_secrets() -> None:
    """A traceback or a log that shows the settings shows no password."""
    assert "geheim" not in repr(child_settings(ClientSettings(auth=Digest("ada", Secret("geheim")))))
