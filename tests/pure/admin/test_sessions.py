"""`describe_session`: connections that servers report, znodes that a session holds, and what is unknown."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin import sessions
from zkgroup.admin.sessions import describe_session
from zkgroup.errors import NotFoundError
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.zookeeper.server_connections import (
    ServerConnections,
    read_admin_connections,
    read_cons,
)

SERVERS = (("zk1", 2181), ("zk2", 2181))
CONS = """\
 /127.0.0.1:57502[1](queued=0,recved=35,sent=35,sid=0x10004d8f7ef0028,lop=GETD,est=1795996880076,to=10000,\
lcxid=0x40000021,lzxid=0x112,lresp=81893738,llat=0,minlat=0,avglat=0,maxlat=1)
 /[0:0:0:0:0:0:0:1]:57510[1](queued=0,recved=1,sent=1,sid=0xff00000000000001,lop=SESS,est=1,to=6000)
 /127.0.0.1:57518[0](queued=0,recved=1,sent=0)

"""
ADMIN = {
    "connections": [
        {
            "remote_socket_address": "127.0.0.1:56916",
            "session_id": -(1 << 56) | 1,
            "last_operation": "GETD",
            "established": 1795996958759,
            "session_timeout": 10000,
        }
    ],
    "secure_connections": [],
    "command": "connections",
    "error": None,
}
"""Replies of ZooKeeper 3.9.3 and 3.8.4; the id of a server with a myid above 127 is negative in Java."""


def test_replies_of_servers_are_read() -> None:
    """The connection that asks has no session; a sentence of refusal is no list of connections."""
    first, second = read_cons("zk1:2181", CONS)
    (admin,) = read_admin_connections("zk1:2181", ADMIN)

    assert (first.client, first.session_id, first.session_timeout_ms, first.connected_ms) == (
        "127.0.0.1:57502", 0x10004D8F7EF0028, 10_000, 1795996880076
    )  # fmt: skip
    assert (second.client, second.last_operation) == ("[0:0:0:0:0:0:0:1]:57510", "SESS")
    assert (admin.client, admin.session_id, admin.connected_ms) == (
        "127.0.0.1:56916", 0xFF00000000000001, 1795996958759
    )  # fmt: skip
    for reply in ("", "cons is not executed because it is not in the whitelist."):
        with pytest.raises(ValueError, match=r"whitelist|no reply"):
            read_cons("zk1:2181", reply)
    with pytest.raises(ValueError, match="KeyError"):
        read_admin_connections("zk1:2181", {"connections": [{"session_id": 1}]})


class Asked:
    """Servers whose connections the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, ServerConnections] = {}
        monkeypatch.setattr(sessions, "read_connections", self._read)

    def _read(self, host: str, port: int, **_: object) -> ServerConnections:
        return self.answers.get(host) or ServerConnections(server=f"{host}:{port}")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_a_session_is_told_by_what_it_holds(asked: Asked) -> None:
    """A member with its host, process and partitions; broker, controller; of no other session."""
    world = MemoryGroups()
    MemoryCluster(world)
    world.topic("orders", 2)
    member = world.member("billing", "app1-1396019241689-631e0040", {"orders": 1}, {"pid": "4711"})
    world.member("billing", "other", {"orders": 1})
    world.own("billing", "orders", 1, "billing_app1-1396019241689-631e0040-0", member)
    holder = world.server.find(ControllerRegistration.path())
    assert holder is not None

    found = describe_session(world.ensemble, member, SERVERS)
    cluster = describe_session(world.ensemble, holder.stat.ephemeral_owner, SERVERS)

    assert [(one.kind, one.who) for one in found.znodes] == [
        ("member", "billing_app1-1396019241689-631e0040 of group billing on app1, pid 4711"),
        ("owner", "orders-1 of group billing"),
    ]
    assert [one.kind for one in cluster.znodes] == ["broker", "broker", "broker", "controller"]
    assert found.is_whole


def test_what_is_unknown_is_no_absence(asked: Asked) -> None:
    """Only where every server has answered does nothing found mean that there is no such session."""
    world = MemoryGroups()
    refused = ServerConnections(server="zk2:2181", reason="cons: not in the whitelist")

    with pytest.raises(NotFoundError, match=r"connected to zk1:2181, zk2:2181.*session 0x7 --input FOLDER"):
        describe_session(world.ensemble, 7, SERVERS)
    asked.answers = {"zk2": refused}
    unknown = describe_session(world.ensemble, 7, SERVERS)
    asked.answers["zk1"] = ServerConnections(server="zk1:2181", connections=read_cons("zk1:2181", CONS))
    found = describe_session(world.ensemble, 0x10004D8F7EF0028, SERVERS)

    assert (unknown.is_whole, unknown.unanswered) == (False, ("zk2:2181: cons: not in the whitelist",))
    assert (found.is_whole, [one.client for one in found.connections]) == (True, ["127.0.0.1:57502"])
