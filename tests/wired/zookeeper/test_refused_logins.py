"""Servers that demand a login: a wrong one, or none, ends the client at once, with one line of log."""

from __future__ import annotations

import logging

import pytest

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.scripted_server import Peer, ScriptedServer
from zkgroup.errors import AuthenticationError
from zkgroup.zookeeper import ClientSettings, Digest, Sasl, Secret, ZooKeeperClient
from zkgroup.zookeeper.wire import AUTH_DEMANDED

ADA = Sasl(username="ada", password=Secret("canary"))
DIGEST = Digest("ada", Secret("canary"))
AUTH_XID = -4
AUTH_FAILED = -115
NO_TOKEN = b"\xff" * 4


def _demanding(peer: Peer, number: int) -> None:
    """ZooKeeperServer@3.9.1 with `sessionRequireClientSASLAuth`: a digest is taken, and is no login."""
    peer.greet()
    while True:
        asked = peer.asked()
        peer.reply(asked.xid, error=0 if asked.xid == AUTH_XID else AUTH_DEMANDED)
        if asked.xid != AUTH_XID:
            return


def test_a_refused_first_token_is_not_a_server_without_sasl() -> None:
    """ZooKeeperServer@3.9.1, `processSasl`: AUTHFAILED, and no token, as to a ticket for another name."""

    def refuse(peer: Peer, _: int) -> None:
        peer.greet()
        peer.reply(peer.asked().xid, NO_TOKEN, error=AUTH_FAILED)

    with (
        ScriptedServer(refuse) as server,
        ZooKeeperClient(server.address, ClientSettings(auth=ADA)) as client,
        pytest.raises(AuthenticationError, match="refused the client's credentials"),
    ):
        client.wait_connected(PATIENCE_S)


@pytest.mark.parametrize(
    ("auth", "words"),
    [(ADA, "refused the client's credentials"), (None, "found no credentials"), (DIGEST, "found a digest;")],
    ids=["sasl", "nothing", "digest"],
)
def test_a_server_that_demands_a_login_ends_the_client(
    caplog: pytest.LogCaptureFixture, auth: Sasl | Digest | None, words: str
) -> None:
    """kazoo ends its loop with a traceback, or connects again and again; neither says what is wrong."""
    with (
        ScriptedServer(_demanding) as server,
        ZooKeeperClient(f"{server.address}/chroot", ClientSettings(auth=auth)) as client,
        pytest.raises(AuthenticationError, match=words) as caught,
    ):
        client.wait_connected(PATIENCE_S)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.exc_info for record in errors] == [None]
    assert "canary" not in caplog.text + str(caught.value)


def test_a_crash_that_repeats_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Who waits is told its error; the log has one traceback, however often the client tries."""
    connections: list[int] = []

    def script(peer: Peer, number: int) -> None:
        connections.append(number)
        peer.greet()
        peer.asked()
        peer.reply(5)  # to no request: kazoo raises RuntimeError

    with (
        ScriptedServer(script) as server,
        ZooKeeperClient(server.address, ClientSettings(auth=DIGEST)) as client,
    ):
        eventually(lambda: len(connections), lambda count: count > 2)
        eventually(lambda: str(client._unconnected(1.0)), lambda text: "xids do not match" in text)
    assert len([record for record in caplog.records if record.exc_info]) == 1
