"""ACLs of `MemoryZooKeeper` that the conformance suite does not check: direct writes, and stale servers."""

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
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.zookeeper import Acl, Digest, Secret
from zkgroup.zookeeper.settings import CREATOR_ALL_ACL, OPEN_ACL

ADA = Digest("ada", Secret("canary"))
READ_ONLY = Acl("r", "world", "anyone")
NOBODY = Acl("r", "ip", "10.0.0.1")


def ask(client: MemoryClient, request: Request, incarnation: int = 1) -> Outcome:
    """The outcome, which in direct mode is there at once."""
    outcomes: list[Outcome] = []
    client.submit(request, incarnation=incarnation, on_outcome=outcomes.append)
    return outcomes[0]


def set_data(path: str) -> Multi:
    return Multi((SetData(path, b"new", -1),))


def test_direct_writes_bypass_acls() -> None:
    """A test may read, write, delete and open znodes that are closed to every client."""
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


@pytest.mark.parametrize(("path", "acl"), [("/none", [READ_ONLY]), ("/n", []), ("/n", CREATOR_ALL_ACL)])
def test_an_acl_that_cannot_be_set_raises_an_error(path: str, acl: list[Acl]) -> None:
    """Otherwise a test with a wrong path would show nothing."""
    server = MemoryZooKeeper()
    server.put("/n")
    with pytest.raises(ValueError, match=path):
        server.set_acl(path, *acl)


def test_an_acl_goes_with_its_znode() -> None:
    """A recreated znode has the open ACL."""
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
    client = server.client("a", auth=ADA, acl=CREATOR_ALL_ACL)
    assert isinstance(ask(client, Multi((Create("/n", b""),))), MultiDone)
    server.suspend("a")
    server.resume("a")
    assert isinstance(ask(client, set_data("/n")), MultiDone)
    server.expire("a")
    assert isinstance(ask(client, set_data("/n"), incarnation=2), MultiDone)


def test_a_change_of_acl_is_in_the_log() -> None:
    """Accepted and refused changes are logged with their session."""
    server = MemoryZooKeeper()
    server.client("a")
    ada = server.client("ada", auth=ADA)
    server.put("/n")
    assert not isinstance(ada.set_acl("/n", *CREATOR_ALL_ACL), Code)
    done = server.log[-1]
    assert [(change.path, done.client, done.refused) for change in done.changes] == [("/n", "ada", None)]
    assert server.clients["a"].set_acl("/n", READ_ONLY) is Code.NO_AUTH
    refused = server.log[-1]
    assert (refused.client, refused.changes, refused.refused) == ("a", (), MultiRefused(0, Code.NO_AUTH))


def test_a_stale_server_has_the_former_acl() -> None:
    """Reads on the stale server follow the former ACL; writes follow the leader's."""
    server = MemoryZooKeeper(stepped=True)
    client = server.client("a")
    server.deliver_all()
    server.put("/n", b"0")
    server.catch_up("a")
    server.set_acl("/n", NOBODY)
    outcomes: list[Outcome] = []

    def asked(request: Request) -> Outcome:
        client.submit(request, incarnation=1, on_outcome=outcomes.append)
        server.deliver(ServerStep("request", "a"))
        server.deliver(ServerStep("reply", "a"))
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
