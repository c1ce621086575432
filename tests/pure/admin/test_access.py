"""Closing and opening the znodes of a cluster: both ways, from every state, with changes meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.admin import access as module
from zkgroup.admin.access import change_access, diagnose_access, diagnose_ports, plan_access, read_access
from zkgroup.admin.change import ChangeRecord
from zkgroup.errors import AccessDeniedError, PartlyDoneError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.requests import AclEntry, SetAcls
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint
from zkgroup.zookeeper import Digest, Secret
from zkgroup.zookeeper.blocking import Blocking

ADA, EVE = Digest("ada", Secret("a")), Digest("eve", Secret("e"))
EVERYONE = AclEntry(31, "world", "anyone")
BEFORE = ("/brokers/ids/1", "/brokers/topics/t/partitions/0/state", "/config/users/u", "/zkgroup/config")
OTHERS = ("/consumers/g/ids/m", "/elsewhere")
BY = ChangeRecord(undo_id="1", command="zookeeper secure", user="ada")


class AccessWorld:
    """A cluster with a group and another program's znode, and an operator who logs in as Ada."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PATHS_AT_ONCE", 2)
        self.server = MemoryZooKeeper(FakeClock())
        for path in (*BEFORE, *OTHERS):
            self.server.put(path, b"x")
        self.store = MeddledStore(self.server.client("operator", auth=ADA))
        self.ensemble = Ensemble(zk=Blocking(self.store), clock=self.server.clock)

    def run(self, target: module.Target) -> int:
        return change_access(self.ensemble, plan_access(self.ensemble, target))

    def acls(self) -> Mapping[str, tuple[AclEntry, ...]]:
        return {path: self.server.acl(path) for path in ["/", *self.server.tree()]}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> AccessWorld:
    return AccessWorld(monkeypatch)


def test_a_cluster_is_closed_and_opened_again(world: AccessWorld) -> None:
    """`/` too; what has secrets is hidden; groups, their parent and other programs' znodes stay."""
    before = world.acls()
    closed = world.run("closed")
    after = world.acls()

    (mine,) = after["/config/users"]
    assert (mine.perms, mine.scheme) == (31, "digest")
    changed = {path: acl for path, acl in after.items() if acl != before[path]}
    hidden = {"/config/users", "/config/users/u"}
    readable = (mine, AclEntry(1, "world", "anyone"))
    assert changed == {path: (mine,) if path in hidden else readable for path in changed}
    assert set(before) - set(changed) == {"/consumers", "/consumers/g", "/consumers/g/ids", *OTHERS}
    assert closed == len(changed) == world.run("open")
    assert world.acls() == before
    assert world.run("open") == 0


@pytest.mark.parametrize("target", ["closed", "open"])
def test_an_interrupted_change_is_finished_by_the_next(world: AccessWorld, target: module.Target) -> None:
    """After every number of requests: it ends as one that was not interrupted."""
    if target == "open":
        world.run("closed")
    start = world.acls()
    whole = world.run(target)
    expected = world.acls()
    for number in range(1, (whole + 1) // 2 + 1):
        for path, acl in start.items():
            world.ensemble.zk.set_acls(module.AclChange(path, acl))

        def killed() -> None:
            raise KeyboardInterrupt

        world.store.before = before_nth(SetAcls, number, killed)
        with pytest.raises(KeyboardInterrupt):
            world.run(target)
        world.store.before = lambda _: None
        assert world.run(target) == whole - 2 * (number - 1)
        assert world.acls() == expected


def test_what_is_created_meanwhile_is_closed_too(world: AccessWorld) -> None:
    """A broker that still creates open znodes is waited for a few times, then named."""
    world.store.before = before_nth(SetAcls, 3, lambda: world.server.put("/brokers/topics/late", b""))
    world.run("closed")
    assert EVERYONE not in world.acls()["/brokers/topics/late"]

    names = iter(range(1000))
    world.store.before = lambda request: (
        isinstance(request, SetAcls) and world.server.put(f"/brokers/topics/{next(names)}", b"")
    )
    world.server.put("/admin/delete_topics", b"")
    with pytest.raises(PartlyDoneError, match=r"a process still creates others: /brokers/topics/\d"):
        world.run("closed")


def test_who_may_not_is_told_what_is_left(world: AccessWorld) -> None:
    """Of another user's znodes; those that may not be read are counted as closed, but not passed over."""
    world.run("closed")
    other = Ensemble(zk=Blocking(world.server.client("other", auth=EVE)), clock=world.server.clock)
    assert read_access(other).holds == "closed"
    with pytest.raises(AccessDeniedError, match=r"0 znodes set; \d+ znodes may not be changed by this user"):
        change_access(other, plan_access(other, "open"))
    with pytest.raises(AccessDeniedError, match=r"1 znode may not be changed by this user: /config/users;"):
        change_access(other, plan_access(other, "closed"))
    world.server.put("/brokers/topics/open", b"")
    some = ["/brokers/topics/open", "/brokers"]
    with pytest.raises(PartlyDoneError, match=r"1 znode set; 1 znode may not be changed by this user: /br"):
        module.set_acls(other, some, lambda _: (EVERYONE,), lambda: some[1:], "")


def test_the_preview_names_brokers_that_would_be_shut_out(world: AccessWorld) -> None:
    """Their registrations are open; the way back is offered where everything was open."""
    plan = plan_access(world.ensemble, "closed")
    assert [note.split(":")[0] for note in plan.notes] == ["/brokers/ids/1"]
    whole = module.access_change(world.ensemble, plan)
    assert (whole.no_undo, whole.is_effective) == (None, True)
    world.run("closed")
    world.server.put("/brokers/topics/open", b"")
    partly = module.access_change(world.ensemble, plan_access(world.ensemble, "closed"))
    assert partly.no_undo is not None
    assert partly.write(BY) == 1


def test_the_doctor_says_which_holds(world: AccessWorld) -> None:
    """Open and closed are facts, a cluster that is closed in part is a warning; a large one is looked at
    from the root."""
    texts = [diagnose_access(read_access(world.ensemble))]
    world.run("closed")
    texts.append(diagnose_access(read_access(world.ensemble)))
    world.server.put("/brokers/topics/late", b"")
    texts.append(diagnose_access(read_access(world.ensemble)))
    texts.append(diagnose_access(read_access(world.ensemble, limit=7)))

    assert [(text.severity, text.detail.split(":")[0]) for text in texts] == [
        ("info", "open"),
        ("info", "closed"),
        ("warning", "closed in part"),
        ("info", "closed (of the 3000 nearest to the root)"),
    ]
    assert texts[2].detail.endswith(": /brokers/topics/late")


def test_secrets_that_everyone_reads_are_open(world: AccessWorld) -> None:
    """Though nobody else may change them; closing hides them again."""
    world.run("closed")
    mine = world.server.acl("/config/users")
    everyone = AclEntry(1, "world", "anyone")
    world.ensemble.zk.set_acls(module.AclChange("/config/users/u", (*mine, everyone)))
    assert read_access(world.ensemble).open == ("/config/users/u",)
    assert world.run("closed") == 1
    assert world.server.acl("/config/users/u") == mine


def test_the_doctor_names_ports_that_take_anybody(world: AccessWorld) -> None:
    """Where a listener of TLS or SASL shows that the cluster is meant to be closed; else it is only told."""
    plain = Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")
    secure = Endpoint("OUT", "h", 9093, "SASL_SSL")

    def found(*endpoints: Endpoint) -> list[tuple[str, str]]:
        one = BrokerRegistration.of(endpoints, timestamp_ms=1, version=4)
        access = read_access(world.ensemble)
        return [(each.severity, each.detail.split(" may ")[0]) for each in diagnose_ports({1: one}, access)]

    assert found(plain) == found(secure) == []
    named = "open: whoever reaches PLAINTEXT://h:9092"
    assert found(plain, secure) == [("warning", named)]
    world.run("closed")
    assert found(plain) == [("info", named)]
