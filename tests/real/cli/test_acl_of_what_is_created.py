"""`--zk-acl creator`: brokers, members and commands create nothing that anyone else may change."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.shell import Shell
from zkgroup.model.requests import ZnodeAcl
from zkgroup.zookeeper.blocking import Blocking

LASTING = ("--set", "zookeeper.session.timeout.ms=60s")
"""No slow machine ends this session."""


def _every_path(zk: Blocking, path: str = "/") -> list[str]:
    below = [f"{path.rstrip('/')}/{name}" for name in zk.children(path)[0]]
    return [path, *(one for child in below for one in _every_path(zk, child))]


def test_everything_that_is_created_belongs_to_its_creator(
    shell: Shell, witness: Blocking, tmp_path: Path
) -> None:
    """Chroot, broker, controller, topic, settings, member, offsets: its creator may do all, others read."""
    (tmp_path / "digest").write_text("ada:canary\n")
    whose = ("--zk-digest-file", str(tmp_path / "digest"), "--zk-acl", "creator")
    address = shell.environment["ZKGROUP_ZOOKEEPER"]
    shell.environment["ZKGROUP_ZOOKEEPER"] = f"{address}/made/here"

    assert shell.run("zookeeper", "create-chroot", *whose).code == 0
    with shell.start("broker", "run", "--id", "1", *LASTING, *whose) as broker:
        broker.until_event("controller")
        created = shell.run("topic", "create", "t", "--partitions", "1", "--set", "retention.ms=9", *whose)
        with shell.start("consume", "g", "--topic", "t", *LASTING, *whose) as member:
            member.until_event("assigned")
            offsets = shell.run("offsets", "set", "h", "t:0=5", "--execute", *whose)
            acls = witness.acl_each(_every_path(witness, "/made"))
            assert (created.code, offsets.code, member.stop(), broker.stop()) == (0, 0, 0, 0)

    found = {
        path: tuple((entry.perms, entry.scheme, entry.id.partition(":")[0]) for entry in one.acl)
        for path, one in acls.items()
        if isinstance(one, ZnodeAcl)
    }
    expected = ((31, "digest", "ada"), (1, "world", "anyone"))
    assert {path: acl for path, acl in found.items() if acl != expected} == {}
    for part in ("brokers/ids/1", "config/topics/t", "consumers/g/owners/t/0", "consumers/h/offsets/t/0"):
        assert f"/made/here/{part}" in found
