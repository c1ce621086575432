"""`--zk-acl creator`, `zookeeper.set.acl`: nobody else may change what brokers, members, commands create."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.worlds.shell import Shell
from zkgroup.model.requests import ZnodeAcl
from zkgroup.zookeeper import ClientSettings, Digest, Secret, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

LASTING = ("--set", "zookeeper.session.timeout.ms=60s")
"""No slow machine ends this session."""

ADA = Digest("ada", Secret("canary"))


def _every_path(zk: Blocking, path: str) -> Iterator[str]:
    yield path
    for name in zk.children(path)[0]:
        yield from _every_path(zk, f"{path}/{name}")


def test_everything_that_is_created_belongs_to_its_creator(shell: Shell, tmp_path: Path) -> None:
    """Chroot, broker, controller, topic, settings, member, offsets: its creator may do all, others read.

    As of Kafka 2.8.2 (tests/golden/kafka-2.8.2 has the paths; the ACLs were read from it with
    `zookeeper.set.acl=true`): `/consumers` itself is open, and what has secrets is hidden.
    """
    (tmp_path / "digest").write_text(ADA.credential + "\n")
    user = ("--zk-digest-file", str(tmp_path / "digest"))
    whose = (*user, "--zk-acl", "creator")
    address = shell.environment["ZKGROUP_ZOOKEEPER"]
    shell.environment["ZKGROUP_ZOOKEEPER"] = f"{address}/made/here"

    assert shell.run("zookeeper", "create-chroot", *whose).code == 0
    closed = ("--set", "zookeeper.set.acl=true", *user)
    with shell.start("broker", "run", "--id", "1", *LASTING, *closed) as broker:
        broker.until_event("controller")
        created = shell.run("topic", "create", "t", "--partitions", "1", "--set", "retention.ms=9", *whose)
        of_broker = ("config", "alter", "--broker", "1", "--set", "log.cleaner.threads=2", "--execute")
        altered = shell.run(*of_broker, *whose)
        with shell.start("consume", "g", "--topic", "t", *LASTING, *whose) as member:
            member.until_event("assigned")
            offsets = shell.run("offsets", "set", "h", "t:0=5", "--execute", *whose)
            with ZooKeeperClient(address, ClientSettings(auth=ADA)) as client, Blocking(client) as owner:
                acls = owner.acl_each(list(_every_path(owner, "/made")))
            ended = (member.stop(), broker.stop())
    assert (created.code, altered.code, offsets.code, *ended) == (0, 0, 0, 0, 0)

    found = {
        path.removeprefix("/made/here"): {(e.perms, e.scheme, e.id.partition(":")[0]) for e in one.acl}
        for path, one in acls.items()
        if isinstance(one, ZnodeAcl)
    }
    everyone, mine = (1, "world", "anyone"), (31, "digest", "ada")
    assert found.pop("/consumers") == {(31, "world", "anyone")}
    hidden = ("/config/users", "/config/brokers", "/config/brokers/1")
    assert [found.pop(path) for path in hidden] == [{mine}] * 3
    assert {path: acl for path, acl in found.items() if acl != {everyone, mine}} == {}
    for part in ("/brokers/ids/1", "/config/topics/t", "/consumers/g/owners/t/0", "/consumers/h/offsets/t/0"):
        assert part in found
