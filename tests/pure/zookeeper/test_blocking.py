"""Plain calls that wait, over the memory server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.stores import ServerlessStore
from zkgroup.errors import (
    AccessDeniedError,
    ConfigError,
    NotFoundError,
    OperationRefusedError,
    OutcomeUnknownError,
    RequestTooBigError,
    StoreUnavailableError,
)
from zkgroup.model.requests import (
    AclEntry,
    Check,
    Code,
    Connected,
    Create,
    ListMany,
    ListManyDone,
    Lost,
    Multi,
    MultiRefused,
    NotSent,
    Outcome,
    Read,
    ReadAclsDone,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    Request,
    Session,
    SessionEvent,
    SetData,
    Unanswered,
    ZnodeAcl,
    ZnodeStat,
)
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.zookeeper.blocking import Blocking

SESSION = Session(1, 0x77, 6000)


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    """Over an empty memory server."""
    store = MemoryZooKeeper().client()
    with Blocking(store, timeout_s=PATIENCE_S) as blocking:
        yield blocking
    store.close()


class Scripted(ServerlessStore):
    """A store that answers each request with the next outcome of a list, the last one for ever."""

    def __init__(self, *outcomes: Outcome, events: tuple[SessionEvent, ...] = (Connected(SESSION),)) -> None:
        super().__init__(*events)
        self.outcomes = list(outcomes)
        self.requests: list[Request] = []

    def submit(self, request: Request, *, on_outcome: Callable[[Outcome], None], **_: object) -> None:
        self.requests.append(request)
        if self.outcomes:
            on_outcome(self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0])


def test_what_is_written_is_read(blocking: Blocking) -> None:
    """One by one, many at once, and listed."""
    blocking.create_missing("/a", "/a/b")
    blocking.multi(Create("/a/c", b"1"), SetData("/a/c", b"2", 0))
    assert blocking.read("/a/c").data == b"2"
    assert blocking.find("/none") is None
    assert {path: found and found.data for path, found in blocking.read_many(["/a/c", "/none"]).items()} == {
        "/a/c": b"2",
        "/none": None,
    }
    names, stat = blocking.children("/a")
    assert (sorted(names), stat.children_count) == (["b", "c"], 2)
    assert blocking.list_many(["/a/b", "/none"]) == {"/a/b": (), "/none": None}
    assert blocking.exists("/none") is None
    assert blocking.exists("/a") == stat
    blocking.sync()


def test_a_missing_znode_is_reported_on_request(blocking: Blocking) -> None:
    """`read` and `children` need it to exist."""
    with pytest.raises(NotFoundError, match="/none"):
        blocking.read("/none")
    with pytest.raises(NotFoundError, match="/none"):
        blocking.children("/none")


def test_a_multi_that_is_refused_raises(blocking: Blocking) -> None:
    """faults.md, finding 9: kazoo's does not. The error has code and path of the refused operation."""
    blocking.create_missing("/a")
    with pytest.raises(OperationRefusedError) as caught:
        blocking.multi(Check("/a", 0), Create("/a", b""))
    assert (caught.value.code, caught.value.path) == (Code.NODE_EXISTS.value, "/a")
    with pytest.raises(OperationRefusedError, match="NoNode"):
        blocking.create_missing("/none/child")


def test_reads_are_tried_again() -> None:
    """They change nothing; the last answer counts."""
    store = Scripted(Unanswered("lost"), NotSent("suspended"), ReadDone(None))
    assert Blocking(store).find("/a") is None
    assert store.requests == [Read("/a")] * 3


def test_reads_are_tried_until_the_time_is_over() -> None:
    """Then the last error is raised."""
    with pytest.raises(StoreUnavailableError, match="cable"):
        Blocking(Scripted(Unanswered("cable")), timeout_s=0.3).find("/a")


def test_writes_are_submitted_once() -> None:
    """The outcome is raised as unknown or as not sent."""
    unknown = Scripted(Unanswered("lost"))
    with pytest.raises(OutcomeUnknownError, match="lost"):
        Blocking(unknown).multi(Create("/a", b""))
    with pytest.raises(OutcomeUnknownError, match="lost"):
        Blocking(unknown).create_missing("/a")
    assert len(unknown.requests) == 2
    unsent = Scripted(NotSent("suspended"))
    with pytest.raises(StoreUnavailableError, match="suspended") as caught:
        Blocking(unsent).multi(Create("/a", b""))
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert len(unsent.requests) == 1


def test_no_answer_in_time_is_an_unknown_outcome() -> None:
    """For a write; for a read nothing was found out."""
    with pytest.raises(OutcomeUnknownError):
        Blocking(Scripted(), timeout_s=0.05).multi(Create("/a", b""))
    with pytest.raises(StoreUnavailableError):
        Blocking(Scripted(), timeout_s=0.05).find("/a")


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (MultiRefused(0, Code.NO_AUTH), AccessDeniedError),
        (MultiRefused(0, Code.BAD_VERSION), OperationRefusedError),
        (NotSent("1,100,000 bytes", too_big=True), RequestTooBigError),
    ],
)
def test_refusals_are_raised_as_what_the_caller_can_do(outcome: Outcome, error: type[Exception]) -> None:
    """Change the ACL, read again, or make a smaller request."""
    with pytest.raises(error):
        Blocking(Scripted(outcome)).multi(Create("/a", b""))


def test_a_forbidden_read_is_an_error() -> None:
    """Also where it is one of many."""
    with pytest.raises(AccessDeniedError, match="/a"):
        Blocking(Scripted(Refused(Code.NO_AUTH, "/a"))).find("/a")
    with pytest.raises(AccessDeniedError, match="/b"):
        Blocking(Scripted(ReadManyDone((None, Code.NO_AUTH)))).read_many(["/a", "/b"])
    with pytest.raises(AccessDeniedError, match="/b"):
        Blocking(Scripted(ListManyDone((None, Code.NO_AUTH)))).list_many(["/a", "/b"])


def test_bulk_reads_are_one_request() -> None:
    """However many paths."""
    store = Scripted(ReadManyDone((None, None)), ListManyDone((None,)))
    blocking = Blocking(store)
    blocking.read_many(["/a", "/b"])
    blocking.list_many(["/c"])
    assert store.requests == [ReadMany(("/a", "/b")), ListMany(("/c",))]


def test_forbidden_paths_are_reported_one_by_one_on_request() -> None:
    """One forbidden znode does not hide the others."""
    acl = ZnodeAcl((AclEntry(31, "world", "anyone"),), ZnodeStat(*range(11)))
    store = Scripted(
        ReadManyDone((None, Code.NO_AUTH)), ListManyDone((("x",), Code.NO_AUTH)), ReadAclsDone((acl, None))
    )
    blocking = Blocking(store)
    assert blocking.read_each(["/a", "/b"]) == {"/a": None, "/b": Code.NO_AUTH}
    assert blocking.list_each(["/a", "/b"]) == {"/a": ("x",), "/b": Code.NO_AUTH}
    assert blocking.acl_each(["/a", "/b"]) == {"/a": acl, "/b": None}


def test_what_ended_the_store_for_good_is_raised() -> None:
    """Waiting would not mend it."""
    fatal = ConfigError("the chroot is missing")
    blocking = Blocking(Scripted(events=(Lost(1, "chroot", fatal),)), timeout_s=PATIENCE_S)
    with pytest.raises(ConfigError, match="chroot"):
        blocking.wait_connected()
    with pytest.raises(ConfigError, match="chroot"):
        blocking.find("/a")


def test_no_connection_in_time_is_an_error() -> None:
    """By every call."""
    blocking = Blocking(Scripted(events=()), timeout_s=0.05)
    with pytest.raises(StoreUnavailableError, match="could not be reached"):
        blocking.wait_connected()
    with pytest.raises(StoreUnavailableError):
        blocking.multi(Create("/a", b""))


def test_close_stops_listening() -> None:
    """The store stays as it is."""
    store = Scripted()
    with Blocking(store):
        assert len(store.listeners) == 1
    assert store.listeners == []


def test_a_multi_is_one_request() -> None:
    """With the operations as given."""
    store = Scripted(MultiRefused(0, Code.NODE_EXISTS))
    with pytest.raises(OperationRefusedError):
        Blocking(store).multi(Create("/a", b""))
    assert store.requests == [Multi((Create("/a", b""),))]


def test_a_read_with_a_closed_client_is_not_tried_again() -> None:
    """It fails at once, and not at its deadline: the client does not come back."""
    closed = StoreUnavailableError("the client was closed")
    store, clock = Scripted(events=(Lost(1, "closed", closed),)), FakeClock()
    with (
        Blocking(store, timeout_s=PATIENCE_S, clock=clock) as blocking,
        pytest.raises(StoreUnavailableError) as raised,
    ):
        blocking.read("/a")
    assert raised.value is closed
    assert clock.now_ms() == FakeClock().now_ms()
