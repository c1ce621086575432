"""ACLs of the server in memory, beside the conformance suite: the test's own hand, and servers that lag."""

from __future__ import annotations

import pytest

from zkgroup.model.requests import (
    Code,
    Create,
    Exists,
    ExistsDone,
    ListMany,
    ListManyDone,
    Multi,
    MultiDone,
    MultiRefused,
    Outcome,
    Read,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    Request,
    SetData,
)
from zkgroup.testing import MemoryZooKeeper
from zkgroup.testing.memory_zookeeper import Step
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.zookeeper import Acl, Digest, Secret
from zkgroup.zookeeper.settings import CREATOR_ACL, OPEN_ACL

ADA = Digest("ada", Secret("canary"))
READ_ONLY = Acl("r", "world", "anyone")
NOBODY = Acl("r", "ip", "10.0.0.1")


def ask(client: MemoryClient, request: Request, incarnation: int = 1) -> Outcome:
    """In direct mode the answer is there at once."""
    outcomes: list[Outcome] = []
    client.submit(request, incarnation=incarnation, on_outcome=outcomes.append)
    return outcomes[0]


def set_data(path: str) -> Multi:
    return Multi((SetData(path, b"new", -1),))


def test_the_test_itself_is_refused_nothing() -> None:
    """It may read, write, delete and open again what is closed to every client."""
    server = MemoryZooKeeper()
    client = server.client()
    server.put("/n", b"0")
    server.set_acl("/", NOBODY)
    server.set_acl("/n", NOBODY)
    assert ask(client, Read("/n")) == Refused(Code.NO_AUTH, "/n")
    assert ask(client, Multi((Create("/m", b""),))) == MultiRefused(0, Code.NO_AUTH)

    server.put("/n", b"1")
    server.put("/m/below")
    server.remove("/m")
    found = server.find("/n")
    assert found is not None
    assert (found.data, found.stat.version, found.stat.aversion) == (b"1", 1, 1)
    assert server.acl("/n") == ((1, "ip", "10.0.0.1"),)
    server.set_acl("/n", *OPEN_ACL)
    assert isinstance(ask(client, set_data("/n")), MultiDone)
    assert server.acl("/n") == ((31, "world", "anyone"),)


@pytest.mark.parametrize(("path", "acl"), [("/none", [READ_ONLY]), ("/n", []), ("/n", CREATOR_ACL)])
def test_an_acl_that_cannot_be_set_is_an_error_of_the_test(path: str, acl: list[Acl]) -> None:
    """A wrong path would otherwise leave a test that shows nothing."""
    server = MemoryZooKeeper()
    server.put("/n")
    with pytest.raises(ValueError, match=path):
        server.set_acl(path, *acl)


def test_an_acl_goes_with_its_znode() -> None:
    """The next znode of the name is open."""
    server = MemoryZooKeeper()
    client = server.client()
    server.put("/n")
    server.set_acl("/n", NOBODY)
    server.remove("/n")
    server.put("/n")
    assert isinstance(ask(client, set_data("/n")), MultiDone)


def test_a_client_authenticates_on_every_connection() -> None:
    """After a break, and in the session after an expired one."""
    server = MemoryZooKeeper()
    client = server.client("a", auth=ADA, acl=CREATOR_ACL)
    assert isinstance(ask(client, Multi((Create("/n", b""),))), MultiDone)
    server.suspend("a")
    server.resume("a")
    assert isinstance(ask(client, set_data("/n")), MultiDone)
    server.expire("a")
    assert isinstance(ask(client, set_data("/n"), incarnation=2), MultiDone)


def test_a_change_of_acl_is_in_the_log() -> None:
    """Accepted and refused, with who asked."""
    server = MemoryZooKeeper()
    server.client("a")
    ada = server.client("ada", auth=ADA)
    server.put("/n")
    assert not isinstance(ada.set_acl("/n", *CREATOR_ACL), Code)
    done = server.log[-1]
    assert [(change.path, done.client, done.refused) for change in done.changes] == [("/n", "ada", None)]
    assert server.clients["a"].set_acl("/n", READ_ONLY) is Code.NO_AUTH
    refused = server.log[-1]
    assert (refused.client, refused.changes, refused.refused) == ("a", (), MultiRefused(0, Code.NO_AUTH))


def test_a_server_that_lags_has_the_acl_of_before() -> None:
    """Reads go by it, in bulk too; writes by that of the leader."""
    server = MemoryZooKeeper(stepped=True)
    client = server.client("a")
    server.settle()
    server.put("/n", b"0")
    server.catch_up("a")
    server.set_acl("/n", NOBODY)
    outcomes: list[Outcome] = []

    def asked(request: Request) -> Outcome:
        client.submit(request, incarnation=1, on_outcome=outcomes.append)
        server.deliver(Step("request", "a"))
        server.deliver(Step("reply", "a"))
        return outcomes[-1]

    read, listed = asked(ReadMany(("/n",))), asked(ListMany(("/n",)))
    assert isinstance(read, ReadManyDone)
    assert getattr(read.znodes[0], "data", None) == b"0"
    assert listed == ListManyDone(((),))
    assert isinstance(asked(Exists("/n")), ExistsDone)
    assert asked(set_data("/n")) == MultiRefused(0, Code.NO_AUTH)  # and its server caught up meanwhile
    assert asked(ReadMany(("/n",))) == ReadManyDone((Code.NO_AUTH,))
    assert asked(Exists("/n")) == Refused(Code.NO_AUTH, "/n")


def test_the_configuration_of_the_ensemble_may_be_read_only() -> None:
    """As servers from 3.5.3 on have it."""
    server = MemoryZooKeeper()
    client = server.client()
    assert isinstance(ask(client, Read("/zookeeper/config")), ReadDone)
    assert ask(client, set_data("/zookeeper/config")) == MultiRefused(0, Code.NO_AUTH)
