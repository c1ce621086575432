"""Requests under way on one connection, without kazoo: order, holding back, and what a break means."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tests.worlds.scripted_server import STAT
from zkgroup.model.requests import (
    AclEntry,
    Code,
    Create,
    CreateMissingDone,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    ListManyDone,
    Multi,
    NotSent,
    Outcome,
    Read,
    ReadAclsDone,
    ReadDone,
    ReadManyDone,
    Refused,
    SetData,
    Sync,
    SyncDone,
    Unanswered,
    ZnodeAcl,
    ZnodeStat,
)
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.acls import KNOWN_S, CreationAcls
from zkgroup.zookeeper.bulk_requests import CreateMissingCall, ListManyCall, ReadAclsCall, ReadManyCall
from zkgroup.zookeeper.pipeline import RequestPipeline
from zkgroup.zookeeper.requests import Call, ExistsCall, ListCall, MultiCall, ReadCall, RefusedHere, SyncCall
from zkgroup.zookeeper.settings import OPEN_ACL
from zkgroup.zookeeper.sockets import SharedSocket
from zkgroup.zookeeper.wire import ChrootPaths, Op

ACLS = CreationAcls(OPEN_ACL)
PATHS = ChrootPaths("")
HELLO = struct.pack("!iiiqi", 36, 0, 4000, 7, 16) + bytes(16)


class ConnectedExchange:
    """An exchange on a socket pair; the test is the server."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        ours.setblocking(False)
        self.theirs = theirs
        self.rings = 0
        self.outcomes: list[Outcome] = []
        self.watched: list[str] = []
        self.pipeline = RequestPipeline(ClientSettings(), PATHS, self._wake)
        self.sock = SharedSocket(ours, self.pipeline.receive)
        theirs.sendall(HELLO)
        self.sock.fill()
        self.pipeline.attach(self.sock)
        self.pipeline.accept()

    def _wake(self) -> None:
        self.rings += 1

    def submit(self, *calls: Call) -> None:
        for call in calls:
            assert self.pipeline.offer(call)
        self.pipeline.begin()
        self.sock.flush()

    def asked(self) -> list[tuple[int, int, bytes]]:
        """Requests that have arrived: xid, operation, body."""
        self.theirs.setblocking(False)
        try:
            data = self.theirs.recv(1 << 20)
        except BlockingIOError:
            return []
        found = []
        while data:
            (size,) = struct.unpack_from("!i", data)
            xid, op = struct.unpack_from("!ii", data, 4)
            found.append((xid, op, data[12 : 4 + size]))
            data = data[4 + size :]
        return found

    def answer(self, xid: int, body: bytes = b"", error: int = 0, zxid: int = 9) -> None:
        self.theirs.sendall(struct.pack("!iiqi", 16 + len(body), xid, zxid, error) + body)
        self.sock.fill()
        self.pipeline.begin()
        self.sock.flush()

    def sync(self) -> Call:
        return SyncCall(Sync("/"), PATHS, self.outcomes.append)

    def multi(self, size: int) -> Call:
        request = Multi((SetData("/n", bytes(size), 0),))
        return MultiCall(request, PATHS, ACLS, self.outcomes.append)

    def read(self, watch: bool = False) -> Call:
        return ReadCall(Read("/a", watch), PATHS, self.outcomes.append, self.watched.append)


@pytest.fixture
def world() -> Iterator[ConnectedExchange]:
    """Connected."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ConnectedExchange(ours, theirs)


def test_a_break_reports_exactly_the_bytes_sent(world: ConnectedExchange) -> None:
    """No reply up to the last request with a sent byte, NotSent after it."""
    while world.sock.unsent < 500_000:
        world.submit(world.multi(100_000))
    assert world.sock.sent > 0
    size = world.multi(100_000).size + 4
    whole, part = divmod(world.sock.sent, size)
    world.pipeline.offer(world.sync())  # never begun
    world.pipeline.detach()
    kinds = [type(outcome) for outcome in world.outcomes]
    touched = whole + (part > 0)
    assert kinds == [Unanswered] * touched + [NotSent] * (len(kinds) - touched)
    assert len(kinds) - touched >= 2


def test_the_highest_zxid_seen_does_not_go_down(world: ConnectedExchange) -> None:
    """An answer without a state of its own carries a lower one; the next server must not be older."""
    for zxid in (9, 12, 0, -1, 11):
        world.submit(world.sync())
        world.answer(world.asked()[0][0], b"\0\0\0\1/", zxid=zxid)
    assert world.outcomes == [SyncDone()] * 5
    assert world.pipeline.zxid == 12


def test_after_a_break_nothing_is_taken(world: ConnectedExchange) -> None:
    """Until the next connection is up."""
    world.pipeline.detach()
    assert not world.pipeline.offer(world.sync())
    assert world.outcomes == []


def test_a_ping_without_answer_is_forgotten_with_its_connection(world: ConnectedExchange) -> None:
    """Past bug: its age ended each handshake that followed, until one happened to be fast enough."""
    world.pipeline.ping()
    assert world.pipeline.oldest is not None

    world.pipeline.detach()

    assert world.pipeline.oldest is None
    assert not world.pipeline.pinging


def test_what_was_given_up_takes_nothing_more_on_any_connection(world: ConnectedExchange) -> None:
    """Also where the connection comes up at the same moment; what waits is not begun."""
    assert world.pipeline.offer(world.sync())
    world.pipeline.refuse_more(drop_waiting=True)
    world.pipeline.accept()
    assert not world.pipeline.offer(world.sync())
    world.pipeline.begin()
    world.sock.flush()
    assert world.asked() == []
    world.pipeline.refuse_unsent("given up")
    assert world.outcomes == [NotSent("given up")]


def test_a_call_that_is_given_up_from_a_callback_stops_those_behind_it(world: ConnectedExchange) -> None:
    """Of two calls begun together the second does not leave when the first one's outcome gives up."""

    def give_up(_outcome: Outcome) -> None:
        world.pipeline.refuse_more(drop_waiting=True)

    world.submit(RefusedHere(NotSent("big", too_big=True), give_up), world.sync())
    assert world.asked() == []


def test_a_callback_of_a_break_cannot_slip_anything_in(world: ConnectedExchange) -> None:
    """A request submitted while outcomes of a disconnect are reported is reported as NotSent too."""
    late: list[Outcome] = []

    def on_outcome(_outcome: Outcome) -> None:
        assert world.pipeline.offer(SyncCall(Sync("/"), PATHS, late.append))

    world.submit(SyncCall(Sync("/"), PATHS, on_outcome))
    world.pipeline.detach()
    assert [type(outcome) for outcome in late] == [NotSent]


def test_a_request_refused_here_is_answered_in_its_turn(world: ConnectedExchange) -> None:
    """Behind those under way."""
    too_big = NotSent("big", too_big=True)
    world.submit(world.sync(), RefusedHere(too_big, world.outcomes.append), world.sync())
    assert world.outcomes == []
    (first, *_), (second, *_) = world.asked()
    world.answer(first)
    assert world.outcomes == [SyncDone(), too_big]
    world.answer(second)
    assert world.outcomes == [SyncDone(), too_big, SyncDone()]


@pytest.mark.parametrize("call_type", [ReadCall, ListCall])
@pytest.mark.parametrize("meanwhile", ["nothing", "created", "forbidden"])
def test_a_watched_read_of_nothing_waits_for_the_creation(
    world: ConnectedExchange, call_type: type[ReadCall | ListCall], meanwhile: str
) -> None:
    """getData and getChildren set no watch, so exists follows; a creation in between is reported at once."""
    request = Read("/a", True) if call_type is ReadCall else ListChildren("/a", True)
    call = call_type(request, PATHS, world.outcomes.append, world.watched.append)
    world.submit(call, world.sync())
    (first, *_), (second, *_) = world.asked()
    world.answer(first, error=-101)
    assert world.outcomes == [ReadDone(None) if call_type is ReadCall else ListChildrenDone((), None)]
    world.answer(second)
    ((third, op, body),) = world.asked()
    assert (op, body[-1:]) == (Op.EXISTS, b"\1")
    if meanwhile == "created":
        world.answer(third, STAT)
        assert world.watched == ["/a"]
        return
    world.answer(third, error=-101 if meanwhile == "nothing" else -102)
    assert world.watched == []
    world.answer(-1, struct.pack("!iii", 1, 3, 2) + b"/a", zxid=-1)
    assert world.watched == (["/a"] if meanwhile == "nothing" else [])


def test_a_watch_stands_from_the_answer_on_and_fires_once(world: ConnectedExchange) -> None:
    """Only for those who asked for one."""
    exists = ExistsCall(Exists("/a", True), PATHS, world.outcomes.append, world.watched.append)
    world.submit(world.read(watch=True), world.read(), exists)
    first, second, third = (xid for xid, *_ in world.asked())
    world.answer(first, struct.pack("!i", -1) + STAT)
    world.answer(second, struct.pack("!i", -1) + STAT)
    world.answer(third, error=-101)
    assert isinstance(world.outcomes[-1], ExistsDone)
    for _ in range(2):
        world.answer(-1, struct.pack("!iii", 3, 3, 2) + b"/a", zxid=-1)
    assert world.watched == ["/a", "/a"]


def test_creating_missing_znodes_reads_first_and_delays_other_requests(world: ConnectedExchange) -> None:
    """One packet where everything exists; else the missing ones in order, and then what came after."""
    world.pipeline.multi_read = True
    made = CreateMissingCall(("/a", "/b", "/c"), PATHS, ACLS, world.outcomes.append)
    world.submit(made, world.sync())
    ((look, op, _),) = world.asked()
    assert op == Op.MULTI_READ
    there = struct.pack("!iBii", 4, 0, 0, -1) + STAT
    missing = struct.pack("!iBii", -1, 0, -101, -101)
    world.answer(look, missing + there + missing)
    created = world.asked()
    assert [(op, body[4:6]) for _, op, body in created] == [(Op.CREATE, b"/a"), (Op.CREATE, b"/c")]
    world.answer(created[0][0], error=-110)  # somebody was faster
    world.answer(created[1][0])
    assert world.outcomes == [CreateMissingDone()]
    ((last, op, _),) = world.asked()
    assert op == Op.SYNC
    world.answer(last)
    assert world.outcomes == [CreateMissingDone(), SyncDone()]


@pytest.mark.parametrize("paths", [("/a",), ("/a", "/b")])
def test_creating_existing_znodes_reads_each(world: ConnectedExchange, paths: tuple[str, ...]) -> None:
    """Past bug: plain reads, of a single path or on an old server, had no decoder here."""
    world.pipeline.multi_read = False
    world.submit(CreateMissingCall(paths, PATHS, ACLS, world.outcomes.append))
    looks = world.asked()
    assert [op for _, op, _ in looks] == [Op.GET_DATA] * len(paths)
    for xid, *_ in looks:
        world.answer(xid, struct.pack("!i", -1) + STAT)
    assert world.outcomes == [CreateMissingDone()]


def test_creating_missing_znodes_reports_the_first_refusal(world: ConnectedExchange) -> None:
    """Requests after it are answered before it is raised."""
    world.pipeline.multi_read = True
    world.submit(CreateMissingCall(("/a", "/b"), PATHS, ACLS, world.outcomes.append))
    ((look, *_),) = world.asked()
    world.answer(look, struct.pack("!iBii", -1, 0, -101, -101) * 2)
    (first, *_), (second, *_) = world.asked()
    world.answer(first, error=-102)
    assert world.outcomes == []
    world.answer(second, error=-101)
    assert world.outcomes == [Refused(Code.NO_AUTH, "/a")]


def test_a_break_while_making_what_is_missing_leaves_it_unknown(world: ConnectedExchange) -> None:
    """One of them may have been made."""
    world.pipeline.multi_read = True
    world.submit(CreateMissingCall(("/a", "/b"), PATHS, ACLS, world.outcomes.append), world.sync())
    ((look, *_),) = world.asked()
    world.answer(look, struct.pack("!iBii", -1, 0, -101, -101) * 2)
    world.pipeline.detach()
    assert [type(outcome) for outcome in world.outcomes] == [Unanswered, NotSent]


def test_a_bulk_read_waits_until_it_is_known_how(world: ConnectedExchange) -> None:
    """And everything behind it, for the order's sake."""
    world.submit(ReadManyCall(("/a", "/b"), PATHS, world.outcomes.append), world.sync())
    assert world.asked() == []
    assert world.pipeline.needs_multi_read
    assert not world.pipeline.can_begin
    world.pipeline.multi_read = False
    assert world.pipeline.can_begin
    world.pipeline.begin()
    world.sock.flush()
    first, second, third = world.asked()
    assert [op for _, op, _ in (first, second, third)] == [Op.GET_DATA, Op.GET_DATA, Op.SYNC]
    world.answer(first[0], error=-102)
    world.answer(second[0], error=-101)
    assert world.outcomes == [ReadManyDone((Code.NO_AUTH, None))]


def test_bulk_listings_one_by_one(world: ConnectedExchange) -> None:
    """The same answers as by multiRead."""
    world.pipeline.multi_read = False
    world.submit(ListManyCall(("/a", "/b"), PATHS, world.outcomes.append))
    (first, op, _), (second, *_) = world.asked()
    assert op == Op.GET_CHILDREN
    world.answer(first, struct.pack("!ii", 1, 1) + b"x")
    world.answer(second, error=-101)
    assert world.outcomes == [ListManyDone((("x",), None))]


def test_acls_are_read_one_by_one_without_knowing_the_server(world: ConnectedExchange) -> None:
    """No multiRead reads ACLs; a path that may not be read is reported by itself."""
    assert world.pipeline.multi_read is None
    world.submit(ReadAclsCall(("/a", "/b", "/c"), PATHS, world.outcomes.append))
    (first, op, body), (second, *_), (third, *_) = world.asked()
    assert (op, body) == (Op.GET_ACL, struct.pack("!i", 2) + b"/a")
    entry = struct.pack("!iii", 1, 31, 5) + b"world" + struct.pack("!i", 6) + b"anyone"
    world.answer(first, entry + STAT)
    world.answer(second, error=-102)
    world.answer(third, error=-101)
    acl = ZnodeAcl((AclEntry(31, "world", "anyone"),), ZnodeStat(*range(1, 12)))
    assert world.outcomes == [ReadAclsDone((acl, Code.NO_AUTH, None))]


OPEN_ENTRY = struct.pack("!iii", 1, 31, 5) + b"world" + struct.pack("!i", 6) + b"anyone"
CLOSED_ENTRY = struct.pack("!iii", 1, 31, 4) + b"sasl" + struct.pack("!i", 3) + b"ada"
CLOSED_READABLE = struct.pack("!i", 2) + CLOSED_ENTRY[4:] + struct.pack("!ii", 1, 5) + OPEN_ENTRY[12:]


def test_a_client_with_credentials_learns_the_acl_of_a_group(world: ConnectedExchange) -> None:
    """Two packets before the first create, then none for a minute; later requests wait meanwhile."""
    now = [0.0]
    acls = CreationAcls(OPEN_ACL, lambda: now[0])

    def create(path: str) -> MultiCall:
        return MultiCall(Multi((Create(path, b""),)), PATHS, acls, world.outcomes.append)

    offset = "/consumers/g/offsets/t"
    world.submit(create(offset), create("/consumers/g/ids/early"))
    (first, op, body), (second, *_) = world.asked()
    assert (op, body[4:]) == (Op.GET_ACL, b"/consumers/g/offsets")
    world.answer(first, error=-101)
    assert world.asked() == []
    world.answer(second, CLOSED_ENTRY + STAT)
    (multi, op, body), (early, last, later) = world.asked()
    assert (op, last, CLOSED_ENTRY in body, CLOSED_ENTRY in later) == (Op.MULTI, Op.MULTI, True, True)

    world.submit(create("/consumers/g/ids/m"), create("/elsewhere"))
    (inside, op, body), (outside, _, other) = world.asked()
    assert (op, CLOSED_ENTRY in body, OPEN_ENTRY in other) == (Op.MULTI, True, True)
    for done in (multi, early, inside, outside):
        world.answer(done, error=-4)
    now[0] = KNOWN_S
    world.submit(create("/consumers/g/ids/m"))
    ((xid, op, _),) = world.asked()
    assert op == Op.GET_ACL
    world.answer(xid, error=-102)
    ((_, op, body),) = world.asked()
    assert (op, OPEN_ENTRY in body) == (Op.MULTI, True)


@pytest.mark.parametrize(
    ("parent", "expected"),
    [(CLOSED_ENTRY, CLOSED_ENTRY), (CLOSED_READABLE, CLOSED_ENTRY), (OPEN_ENTRY, OPEN_ENTRY)],
)
def test_a_secret_in_a_closed_cluster_is_hidden(
    world: ConnectedExchange, parent: bytes, expected: bytes
) -> None:
    """Also where its creator was not told to: everyone could read and replace a password else."""
    acls = CreationAcls(OPEN_ACL, lambda: 0.0)
    request = Multi((Create("/config/users/ada", b""),))
    world.submit(MultiCall(request, PATHS, acls, world.outcomes.append))
    ((xid, op, body),) = world.asked()
    assert (op, body[4:]) == (Op.GET_ACL, b"/config/users")
    world.answer(xid, parent + STAT)
    ((_, op, body),) = world.asked()
    assert (op, expected in body, CLOSED_READABLE in body) == (Op.MULTI, True, False)


def test_a_client_without_credentials_learns_nothing(world: ConnectedExchange) -> None:
    """It can be no member of a closed group: a join costs no packet more."""
    request = Multi((Create("/consumers/g/ids/m", b""),))
    world.submit(MultiCall(request, PATHS, ACLS, world.outcomes.append))
    ((_, op, _),) = world.asked()
    assert op == Op.MULTI


def test_a_break_while_learning_creates_nothing(world: ConnectedExchange) -> None:
    """Nor does one that is too big with the ACL of the group; an odd reply delays nothing."""
    acls = CreationAcls(OPEN_ACL, lambda: 0.0)
    request = Multi((Create("/consumers/g/ids/m", b""),))
    world.pipeline.settings = ClientSettings(max_request_bytes=10)
    world.submit(MultiCall(request, PATHS, acls, world.outcomes.append))
    ((xid, *_),) = world.asked()
    world.answer(xid, CLOSED_ENTRY + STAT)
    world.pipeline.settings = ClientSettings()
    for _ in range(2):
        acls = CreationAcls(OPEN_ACL, lambda: 0.0)
        world.submit(MultiCall(request, PATHS, acls, world.outcomes.append), world.sync())
        ((xid, *_),) = world.asked()
        if len(world.outcomes) == 1:
            world.answer(xid, b"no ACL")
            ((xid, op, _),) = world.asked()
            assert op == Op.SYNC
            world.answer(xid)
    world.pipeline.detach()
    too_big, odd, synced, lost, _ = world.outcomes
    assert (odd, synced) == (lost, SyncDone())
    assert isinstance(too_big, NotSent)
    assert too_big.too_big
    assert lost == NotSent("the connection was lost before the request was sent")


def test_a_bulk_read_that_is_refused_as_a_whole_is_an_error(world: ConnectedExchange) -> None:
    """Once; what else comes of it is dropped."""
    world.pipeline.multi_read = True
    world.pipeline.settings = ClientSettings(bulk_paths=1)
    world.submit(ReadManyCall(("/a", "/b"), PATHS, world.outcomes.append))
    (first, *_), (second, *_) = world.asked()
    world.answer(first, error=-127)
    world.answer(second, struct.pack("!iBii", -1, 0, -101, -101))
    assert world.outcomes == [NotSent("the server is overloaded and did not execute the request")]


def test_every_submit_rings_once(world: ConnectedExchange) -> None:
    """After the request is in the queue of the connection thread."""
    for number in range(1, 4):
        world.pipeline.offer(world.sync())
        assert world.rings == number
        assert world.pipeline.waiting


def test_no_more_packets_than_the_window_are_unanswered(world: ConnectedExchange) -> None:
    """Each answer lets one more go; what is asked after a bulk read goes after its last packet."""
    world.pipeline.multi_read = True
    world.pipeline.settings = ClientSettings(bulk_paths=1, max_in_flight=2)
    paths = ("/a", "/b", "/c", "/d")
    world.submit(ReadManyCall(paths, PATHS, world.outcomes.append), world.sync())
    gone = world.asked()
    assert [op for _, op, _ in gone] == [Op.MULTI_READ] * 2
    assert not world.pipeline.idle
    missing = struct.pack("!iBii", -1, 0, -101, -101)
    for op in (Op.MULTI_READ, Op.MULTI_READ, Op.SYNC):
        world.answer(gone.pop(0)[0], missing)
        (more,) = world.asked()
        assert more[1] == op
        gone.append(more)
    world.answer(gone.pop(0)[0], missing)
    assert world.asked() == []
    assert world.outcomes == [ReadManyDone((None,) * 4)]
    assert world.pipeline.idle


def test_what_waits_for_the_window_ends_with_the_connection(world: ConnectedExchange) -> None:
    """A partly sent bulk read has no answer; a write that was not begun was not sent."""
    world.pipeline.multi_read = True
    world.pipeline.settings = ClientSettings(bulk_paths=1, max_in_flight=1)
    world.submit(ReadManyCall(("/a", "/b", "/c"), PATHS, world.outcomes.append), world.multi(3), world.sync())
    assert len(world.asked()) == 1
    world.pipeline.detach()
    assert [type(outcome) for outcome in world.outcomes] == [Unanswered, NotSent, NotSent]
    assert world.pipeline.idle
