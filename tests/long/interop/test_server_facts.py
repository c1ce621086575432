"""The facts about ZooKeeper on which the recipes depend, on a ZooKeeper 3.4.6 and on the embedded 3.9.

No zkgroup code takes part: these are facts of the server. Each test names the recipe that depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NotEmptyError
from kazoo.protocol.states import ZnodeStat

from tests.long.interop.servers import RealZooKeeper
from tests.long.interop.wire import (
    GET_CHILDREN,
    GET_DATA,
    MULTI_READ,
    UNIMPLEMENTED,
    WireSession,
    bulk,
    text,
)
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.other_clients import kazoo_on
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

Connect = Callable[..., KazooClient]


@pytest.fixture(scope="session")
def embedded_address() -> Iterator[str]:
    with EmbeddedZooKeeper() as server:
        yield server.address


@pytest.fixture(params=["3.4.6", "3.9"])
def address(request: pytest.FixtureRequest) -> str:
    if request.param == "3.9":
        return str(request.getfixturevalue("embedded_address"))
    return str(request.getfixturevalue("real_zookeeper").address)


@pytest.fixture
def connect(address: str) -> Iterator[Connect]:
    """Makes sessions of their own; all are closed at the end."""
    clients: list[KazooClient] = []

    def make() -> KazooClient:
        client = KazooClient(address, timeout=60)
        client.start(PATIENCE_S)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.stop()
        client.close()


@pytest.fixture
def zk(connect: Connect, request: pytest.FixtureRequest) -> Iterator[KazooClient]:
    """A session below a path of this test's own, relative to which all paths are."""
    client = connect()
    root = f"/facts-{abs(hash(request.node.name))}"
    client.create(root)
    client.chroot = root
    yield client
    client.chroot = ""
    client.delete(root, recursive=True)


def attempt(client: KazooClient, *steps: tuple[object, ...]) -> list[object]:
    """One transaction from (method name, arguments...); its results, exceptions among them."""
    transaction = client.transaction()
    for name, *arguments in steps:
        getattr(transaction, str(name))(*arguments)
    return list(transaction.commit())


def refused(results: list[object]) -> list[type[Exception]]:
    return [type(result) for result in results if isinstance(result, Exception)]


def stat(client: KazooClient, path: str) -> ZnodeStat:
    found = client.exists(path)
    assert found is not None, path
    return found


def test_cversion_counts_every_creation_and_deletion(zk: KazooClient, connect: Connect) -> None:
    """By one each, singly, inside a transaction and at the end of a session (recipes 3)."""
    zk.create("/ids")
    zk.create("/ids/a")
    zk.delete("/ids/a")
    assert stat(zk, "/ids").cversion == 2
    assert refused(attempt(zk, ("create", "/ids/b"), ("create", "/ids/c"), ("delete", "/ids/b"))) == []
    assert stat(zk, "/ids").cversion == 5
    other = connect()
    other.chroot = zk.chroot
    other.create("/ids/d", ephemeral=True)
    other.create("/ids/e", ephemeral=True)
    other.stop()
    assert zk.get_children("/ids") == ["c"]
    assert stat(zk, "/ids").cversion == 9


def test_a_name_that_left_and_came_back_shows_in_cversion(zk: KazooClient) -> None:
    """The same children with a cversion two higher than the names explain (recipes 3)."""
    zk.create("/ids")
    zk.create("/ids/a")
    before = stat(zk, "/ids")
    zk.delete("/ids/a")
    zk.create("/ids/a")
    after = stat(zk, "/ids")
    assert zk.get_children("/ids") == ["a"]
    assert (after.cversion - before.cversion, after.czxid == before.czxid) == (2, True)
    assert after.pzxid > before.pzxid


def test_a_group_with_members_cannot_be_emptied_in_a_transaction(zk: KazooClient) -> None:
    """Delete and create of `ids` is NotEmpty with a member, else restarts cversion (recipes 8)."""
    zk.create("/ids")
    zk.create("/ids/a", ephemeral=True)
    guard = (("delete", "/ids"), ("create", "/ids"))
    assert NotEmptyError in refused(attempt(zk, *guard, ("create", "/after")))
    assert zk.exists("/after") is None
    zk.delete("/ids/a")
    before = stat(zk, "/ids")
    assert refused(attempt(zk, *guard)) == []
    after = stat(zk, "/ids")
    assert (before.cversion, after.cversion) == (2, 0)
    assert after.czxid > before.czxid


def test_a_claim_with_one_blocked_partition_creates_nothing(zk: KazooClient) -> None:
    """NodeExists on one owner leaves no other owner and no bumped offset (recipes 5)."""
    for path, value in (("/owners", b""), ("/offsets", b""), ("/offsets/0", b"5"), ("/owners/1", b"g_b-0")):
        zk.create(path, value)
    claim = (
        ("create", "/owners/0", b"g_a-0", None, True),
        ("set_data", "/owners/0", b"g_a-0", 0),
        ("set_data", "/offsets/0", b"5", 0),
        ("create", "/owners/1", b"g_a-0", None, True),
    )
    assert NodeExistsError in refused(attempt(zk, *claim))
    assert zk.exists("/owners/0") is None
    assert stat(zk, "/offsets/0").version == 0


def test_a_znode_created_and_set_in_one_transaction_has_version_one(zk: KazooClient) -> None:
    """The version marks a zkgroup claim, since a JVM member's owner has version 0 (recipes 5)."""
    done = attempt(zk, ("create", "/owner", b"g_a-0", None, True), ("set_data", "/owner", b"g_a-0", 0))
    assert refused(done) == []
    data, found = zk.get("/owner")
    assert (data, found.version, found.czxid == found.mzxid) == (b"g_a-0", 1, True)
    assert refused(attempt(zk, ("check", "/owner", 0))) == [BadVersionError]
    assert refused(attempt(zk, ("check", "/owner", 1))) == []


def test_a_stale_commit_passes_once_the_offset_was_created_again(zk: KazooClient) -> None:
    """Versions restart at 0, so deletion of offsets under a living group breaks the fence (recipes 6)."""
    zk.create("/offset", b"7")
    zk.set("/offset", b"7")
    fence = stat(zk, "/offset")
    assert fence.version == 1
    zk.delete("/offset")
    zk.create("/offset", b"9")
    zk.set("/offset", b"9")
    assert refused(attempt(zk, ("set_data", "/offset", b"8", fence.version))) == []
    assert zk.get("/offset")[0] == b"8"
    assert stat(zk, "/offset").czxid != fence.czxid


def test_owner_before_offset_lets_a_release_hit_the_successor(zk: KazooClient, connect: Connect) -> None:
    """Read in the wrong order, the release removes another member's znode (recipes 7)."""

    def claim(client: KazooClient, thread: bytes) -> None:
        version = stat(client, "/offset").version
        steps = (("create", "/owner", thread, None, True), ("set_data", "/owner", thread, 0))
        assert refused(attempt(client, *steps, ("set_data", "/offset", b"3", version))) == []

    successor = connect()
    successor.chroot = zk.chroot
    zk.create("/offset", b"3")
    claim(zk, b"g_a-0")
    offset_first = stat(zk, "/offset").version
    mine = zk.get("/owner")[0] == b"g_a-0"
    zk.delete("/owner")
    claim(successor, b"g_b-0")
    offset_last = stat(zk, "/offset").version
    assert mine
    right = attempt(zk, ("check", "/offset", offset_first), ("delete", "/owner", 1))
    assert BadVersionError in refused(right)
    assert zk.get("/owner")[0] == b"g_b-0"
    wrong = attempt(zk, ("check", "/offset", offset_last), ("delete", "/owner", 1))
    assert refused(wrong) == []
    assert zk.exists("/owner") is None


def test_members_of_one_client_share_a_session(zk: KazooClient) -> None:
    """A delete by a neighbour on the same session passes every check but the text (recipes 1)."""
    done = attempt(zk, ("create", "/owner", b"g_a-0", None, True), ("set_data", "/owner", b"g_a-0", 0))
    assert refused(done) == []
    data, found = zk.get("/owner")
    assert found.ephemeralOwner == zk.client_id[0]
    assert data != b"g_b-0"
    assert refused(attempt(zk, ("check", "/owner", 1), ("delete", "/owner", 1))) == []


def test_a_silent_death_leaves_the_registration_for_a_while(zk: KazooClient, address: str) -> None:
    """The znode of a session whose connection is gone stays, then goes with the session (recipes 2)."""
    with WireSession(address, session_ms=6000) as silent:
        silent.create_ephemeral(f"{zk.chroot}/member", "1")
    with pytest.raises(NodeExistsError):
        zk.create("/member", b"2", ephemeral=True)
    eventually(lambda: zk.exists("/member") is None, what="the registration went with its session")
    zk.create("/member", b"2", ephemeral=True)


def test_non_bmp_names_are_refused(zk: KazooClient) -> None:
    """consumer-group 2.3: no name holds a character above U+FFFF, so UTF-16 order decides nothing."""
    with pytest.raises(KazooException):
        zk.create("/\U0001f600")
    zk.create("/\uff5e")


class TestBulkReads:
    """Operation 22 (recipes 3)."""

    def test_an_old_server_hangs_up(self, real_zookeeper: RealZooKeeper) -> None:
        """3.4.6 says Unimplemented and closes the connection, with whatever else is on it."""
        with WireSession(real_zookeeper.address) as session:
            error, _ = session.call(MULTI_READ, bulk([(GET_DATA, "/", False)]))
            assert error == UNIMPLEMENTED
            with pytest.raises(ConnectionError):  # soon after: a request in between may still be answered
                session.next_notification(60.0)

    def test_the_watch_flag_is_ignored(self, embedded_address: str) -> None:
        """A watch asked for in a bulk read never fires; the same read by itself does."""
        with kazoo_on(embedded_address) as client:
            client.create("/bulk", b"1")
            with WireSession(embedded_address) as session:
                session.multi_read([(GET_DATA, "/bulk", True)])
                client.set("/bulk", b"2")
                assert session.call(GET_DATA, text("/bulk") + b"\1")[0] == 0
                assert session.next_notification(0.3) is None
                client.set("/bulk", b"3")
                assert session.next_notification(60.0) is not None

    def test_children_come_without_a_stat(self, embedded_address: str) -> None:
        """Of the two only getChildren is served: names and nothing else, so the parent is read too."""
        with WireSession(embedded_address) as session:
            alone = session.call(GET_CHILDREN, text("/") + b"\0")[1]
            bulk = session.multi_read([(GET_CHILDREN, "/", False)])
        header, trailer = 9, 9
        assert bulk[header:-trailer] == alone
