"""`MemoryZooKeeper`: outcomes in direct mode, and the possible steps in stepped mode."""

from __future__ import annotations

import pytest

from zkgroup.errors import ConfigError
from zkgroup.model import Znode
from zkgroup.model.requests import (
    Check,
    Code,
    Connected,
    Create,
    Delete,
    Exists,
    ListChildren,
    ListMany,
    ListManyDone,
    Lost,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Outcome,
    Read,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Request,
    SessionEvent,
    SetData,
    Suspended,
    Sync,
    SyncDone,
    Unanswered,
)
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.testing.memory_zookeeper.client import MemoryClient


class Caller:
    """Submits requests of one client and keeps their outcomes."""

    def __init__(self, client: MemoryClient) -> None:
        self.client = client
        self.outcomes: list[Outcome] = []
        self.watches: list[str] = []
        self.events: list[SessionEvent] = []
        client.listen(self.events.append)

    def send(self, request: Request, incarnation: int = 1) -> None:
        self.client.submit(
            request, incarnation=incarnation, on_outcome=self.outcomes.append, on_watch=self.watches.append
        )

    def ask(self, request: Request, incarnation: int = 1) -> Outcome:
        self.send(request, incarnation)
        return self.outcomes[-1]


@pytest.fixture
def server() -> MemoryZooKeeper:
    return MemoryZooKeeper(FakeClock())


@pytest.fixture
def caller(server: MemoryZooKeeper) -> Caller:
    return Caller(server.client("a"))


@pytest.fixture
def stepped() -> MemoryZooKeeper:
    return MemoryZooKeeper(FakeClock(), stepped=True)


def connected(server: MemoryZooKeeper, name: str) -> Caller:
    caller = Caller(server.client(name))
    server.deliver(ServerStep("connect", name))
    server.deliver(ServerStep("session", name))
    return caller


def test_a_request_is_answered_at_once(caller: Caller) -> None:
    """In direct mode the outcome has been delivered when submit returns."""
    assert isinstance(caller.ask(Multi((Create("/a", b"1"),))), MultiDone)
    outcome = caller.ask(Read("/a"))
    assert isinstance(outcome, ReadDone)
    assert outcome.znode is not None
    assert outcome.znode.data == b"1"


def test_callbacks_may_submit_again(server: MemoryZooKeeper, caller: Caller) -> None:
    """A request from a callback is answered after the callback has returned, in order."""
    order: list[str] = []

    def first(_outcome: Outcome) -> None:
        caller.client.submit(Sync("/"), incarnation=1, on_outcome=lambda _: order.append("second"))
        order.append("first")

    caller.client.submit(Sync("/"), incarnation=1, on_outcome=first)
    assert order == ["first", "second"]


def test_a_refused_multi_changes_nothing_and_is_logged(server: MemoryZooKeeper, caller: Caller) -> None:
    """The log has the session, the operations and the refused one; the zxid is used up."""
    before = server.tree()
    refused = caller.ask(Multi((Create("/a", b""), Check("/none", 0))))
    assert refused == MultiRefused(1, Code.NO_NODE)
    assert server.tree() == before
    entry = server.log[-1]
    assert (entry.client, entry.refused, entry.changes) == ("a", refused, ())
    assert entry.zxid == server.log[-2].zxid + 1


def test_a_bounded_log_has_the_last_transactions() -> None:
    """Clients and watches do not depend on it."""
    server = MemoryZooKeeper(FakeClock(), log_limit=3)
    caller = Caller(server.client("a"))
    server.put("/a", b"")
    for number in range(20):
        server.put("/a", str(number).encode())
        assert len(server.log) <= 6
        kept = [entry.operations for entry in server.log[-3:]][-min(3, number + 1) :]
        values = [str(each).encode() for each in range(max(0, number - 2), number + 1)]
        assert kept == [(SetData("/a", value, -1),) for value in values]
    found = caller.ask(Read("/a"))
    assert isinstance(found, ReadDone)
    assert found.znode is not None
    assert (found.znode.data, found.znode.stat.version) == (b"19", 20)


def test_the_end_of_a_session_is_logged_as_deletions(server: MemoryZooKeeper, caller: Caller) -> None:
    """Ephemerals are deleted in one transaction, which counts in the parent's cversion and fires watches."""
    watcher = Caller(server.client("b"))
    caller.ask(Multi((Create("/e1", b"", ephemeral=True), Create("/e2", b"", ephemeral=True))))
    watcher.ask(Exists("/e1", watch=True))
    watcher.ask(ListChildren("/", watch=True))
    caller.client.close()
    entry = server.log[-1]
    assert entry.kind == "close_session"
    assert {change.path for change in entry.changes} == {"/e1", "/e2"}
    root = server.find("/")
    assert root is not None
    assert root.stat.pzxid == entry.zxid
    assert sorted(watcher.watches) == ["/", "/e1"]


def test_an_expired_client_gets_lost_before_it_reconnects(server: MemoryZooKeeper, caller: Caller) -> None:
    """Suspended, Lost, Connected with the next incarnation; the old one's requests are not sent."""
    server.expire("a")
    assert [type(event) for event in caller.events] == [Connected, Suspended, Lost, Connected]
    assert caller.client.incarnation == 2
    assert isinstance(caller.ask(Sync("/"), incarnation=1), NotSent)
    assert caller.ask(Sync("/"), incarnation=2) == SyncDone()


def test_a_suspended_client_sends_nothing(server: MemoryZooKeeper, caller: Caller) -> None:
    """Between suspend and resume every request is NotSent; the session goes on afterwards."""
    server.suspend("a")
    assert isinstance(caller.ask(Sync("/")), NotSent)
    server.resume("a")
    assert [type(event) for event in caller.events] == [Connected, Suspended, Connected]
    assert caller.ask(Sync("/")) == SyncDone()


def test_a_session_without_its_client_stays_at_the_server(server: MemoryZooKeeper, caller: Caller) -> None:
    """Its ephemerals stay until the server expires the session."""
    caller.ask(Multi((Create("/e", b"", ephemeral=True),)))
    former = caller.client.session
    caller.client.abandon(1, "own clock")
    assert caller.client.incarnation == 2
    assert "/e" in server.tree()
    assert former is not None
    server.expire_session(former.session_id)
    assert "/e" not in server.tree()


def test_what_is_not_there_is_named(server: MemoryZooKeeper) -> None:
    """A client, a session, or a znode; and a name that is taken."""
    server.client("a")
    for fault in (server.cut, server.suspend, server.resume, server.expire, server.ping, server.catch_up):
        with pytest.raises(ConfigError, match="there is no client 'nope': expected one of a"):
            fault("nope")
    with pytest.raises(ConfigError, match="there is no session 0x7"):
        server.expire_session(7)
    with pytest.raises(ConfigError, match="there is a client 'a' already"):
        server.client("a")
    with pytest.raises(ValueError, match="/nope: NoNode"):
        server.acl("/nope")


def test_put_and_remove_write_without_a_client(server: MemoryZooKeeper) -> None:
    """They create parents, and are in the log without a client."""
    server.put("/x/y", b"1")
    server.put("/x/y", b"2")
    assert server.tree()["/x/y"].data == b"2"
    server.remove("/x")
    assert set(server.tree()) == {"/"}
    assert {entry.client for entry in server.log} == {""}


def test_nothing_happens_by_itself(stepped: MemoryZooKeeper) -> None:
    """A request is executed in one step and its reply delivered in another."""
    caller = connected(stepped, "a")
    caller.send(Multi((Create("/a", b""),)))
    assert "/a" not in stepped.tree()
    assert stepped.pending() == [ServerStep("request", "a")]
    stepped.deliver(ServerStep("request", "a"))
    assert "/a" in stepped.tree()
    assert caller.outcomes == []
    stepped.deliver(ServerStep("reply", "a"))
    assert isinstance(caller.outcomes[0], MultiDone)
    assert stepped.pending() == []


def test_a_server_is_stale_until_it_catches_up(stepped: MemoryZooKeeper) -> None:
    """Reads are stale until a Sync, an own write or a `catch_up` step."""
    writer, reader = connected(stepped, "w"), connected(stepped, "r")
    stepped.deliver(ServerStep("catch_up", "w"))
    writer.send(Multi((Create("/a", b""),)))
    stepped.deliver(ServerStep("request", "w"))
    for request in (Read("/a"), Sync("/"), Read("/a")):
        reader.send(request)
        stepped.deliver(ServerStep("request", "r"))
        stepped.deliver(ServerStep("reply", "r"))
    stale, _, fresh = reader.outcomes
    assert stale == ReadDone(None)
    assert isinstance(fresh, ReadDone)
    assert fresh.znode is not None


def test_a_watch_fires_when_the_own_server_applies_the_change(stepped: MemoryZooKeeper) -> None:
    """A watch set on a stale server fires when that server applies the change."""
    writer, reader = connected(stepped, "w"), connected(stepped, "r")
    writer.send(Multi((Create("/a", b""),)))
    stepped.deliver(ServerStep("request", "w"))
    reader.send(Exists("/a", watch=True))
    stepped.deliver(ServerStep("request", "r"))
    assert ServerStep("watch", "r") not in stepped.pending()
    stepped.deliver(ServerStep("catch_up", "r"))
    stepped.deliver(ServerStep("watch", "r"))
    assert reader.watches == ["/a"]


@pytest.mark.parametrize(
    ("fault", "applied"), [("lost_reply", True), ("lost_request", False), ("late", False)]
)
def test_a_write_without_response_is_unanswered(stepped: MemoryZooKeeper, fault: str, applied: bool) -> None:
    """It was applied, was not, or will be: the client cannot know."""
    caller = connected(stepped, "a")
    caller.send(Multi((Create("/a", b""),)))
    stepped.deliver(ServerStep("request", "a"), fault)  # type: ignore[arg-type]
    stepped.deliver(ServerStep("reply", "a"))
    assert isinstance(caller.outcomes[0], Unanswered)
    assert ("/a" in stepped.tree()) is applied
    stepped.deliver_all()
    assert ("/a" in stepped.tree()) is (fault != "lost_request")
    assert len(caller.outcomes) == 1


def test_a_cut_leaves_every_request_unanswered_once(stepped: MemoryZooKeeper) -> None:
    """One of three requests in flight was executed; watches are removed and the client reconnects."""
    caller = connected(stepped, "a")
    for name in "xyz":
        caller.send(Multi((Create(f"/{name}", b""),)))
    stepped.cut("a", executed=1)
    stepped.deliver_all()
    assert [type(outcome) for outcome in caller.outcomes] == [Unanswered] * 3
    assert set(stepped.tree()) == {"/", "/x"}
    assert [type(event) for event in caller.events] == [Connected, Suspended, Connected]


def test_requests_of_a_broken_connection_may_come_late(stepped: MemoryZooKeeper) -> None:
    """They are executed as orphans until the client has reconnected, never afterwards."""
    caller = connected(stepped, "a")
    for name in "xy":
        caller.send(Multi((Create(f"/{name}", b""),)))
    stepped.cut("a", keep_requests=True)
    stepped.deliver(ServerStep("orphan", "a"))
    stepped.deliver(ServerStep("connect", "a"))
    stepped.deliver_all()
    assert set(stepped.tree()) == {"/", "/x"}


def test_a_client_learns_of_its_expiry_by_its_next_request(stepped: MemoryZooKeeper) -> None:
    """Nothing is executed for an ended session; a new one is opened only after Lost was delivered."""
    caller = connected(stepped, "a")
    stepped.expire("a")
    caller.send(Multi((Create("/a", b""),)))
    stepped.deliver(ServerStep("request", "a"))
    stepped.deliver(ServerStep("reply", "a"))
    assert isinstance(caller.outcomes[0], Unanswered)
    stepped.deliver(ServerStep("connect", "a"))
    assert ServerStep("connect", "a") not in stepped.pending()
    stepped.deliver_all()
    assert [type(event) for event in caller.events] == [Connected, Suspended, Lost, Connected]
    assert "/a" not in stepped.tree()


def test_sessions_are_overdue_by_the_servers_clock() -> None:
    """A session may expire when its timeout has passed since the last ping."""
    clock = FakeClock()
    server = MemoryZooKeeper(clock, stepped=True)
    connected(server, "a")
    clock.advance(5999)
    assert server.overdue() == []
    server.ping("a")
    clock.advance(5999)
    assert server.overdue() == []
    clock.advance(1)
    assert len(server.overdue()) == 1


def test_a_bulk_read_is_consistent(stepped: MemoryZooKeeper) -> None:
    """All znodes of one ReadMany are read at the same transaction."""
    caller = connected(stepped, "a")
    stepped.put("/x", b"1")
    stepped.write(Create("/y", b""), Delete("/x", 0))
    caller.send(ReadMany(("/x", "/y")))
    stepped.deliver(ServerStep("catch_up", "a"))
    stepped.deliver(ServerStep("request", "a"))
    stepped.deliver(ServerStep("reply", "a"))
    outcome = caller.outcomes[0]
    assert isinstance(outcome, ReadManyDone)
    assert [znode is not None for znode in outcome.znodes] == [True, False]


def test_a_bulk_read_in_parts_is_not_consistent(stepped: MemoryZooKeeper) -> None:
    """`bulk_paths` paths are read at a time, in order, each once; the response comes at the end."""
    stepped.bulk_paths = 2
    caller = connected(stepped, "a")
    for path in ("/v", "/w", "/x"):
        stepped.put(path, b"before")
    caller.send(ReadMany(("/v", "/w", "/x", "/y", "/z")))
    caller.send(ListMany(("/", "/v", "/none")))
    stepped.catch_up("a")
    stepped.deliver(ServerStep("request", "a"))
    for path in ("/w", "/x", "/z"):
        stepped.put(path, b"after")
    stepped.catch_up("a")
    stepped.deliver(ServerStep("request", "a"))
    assert ServerStep("reply", "a") not in stepped.pending()
    stepped.deliver_all()
    read, listed = caller.outcomes

    assert isinstance(read, ReadManyDone)
    found = [znode.data if isinstance(znode, Znode) else None for znode in read.znodes]
    assert found == [b"before", b"before", b"after", None, b"after"]
    assert isinstance(listed, ListManyDone)
    assert [names and sorted(names) for names in listed.children[1:]] == [(), None]


def test_a_bulk_read_in_parts_restarts_on_the_next_connection(stepped: MemoryZooKeeper) -> None:
    """The parts read on a broken connection are lost with its request."""
    stepped.bulk_paths = 1
    caller = connected(stepped, "a")
    stepped.put("/x", b"1")
    caller.send(ReadMany(("/x", "/y", "/z")))
    stepped.deliver(ServerStep("request", "a"))
    stepped.cut("a")
    stepped.deliver_all()
    caller.send(ReadMany(("/x",)))
    stepped.deliver_all()
    broken, whole = caller.outcomes

    assert isinstance(broken, Unanswered)
    assert isinstance(whole, ReadManyDone)
    assert len(whole.znodes) == 1
