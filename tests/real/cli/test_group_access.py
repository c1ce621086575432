"""`zkgroup acl zookeeper`: a group without brokers that strangers cannot join."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.testing.memory_zookeeper.tree import digest_id
from zkgroup.zookeeper import Digest, Secret

LASTING = ("--set", "zookeeper.session.timeout.ms=60s")
"""No slow machine ends this session."""


def test_a_closed_group_takes_its_members_and_shows_others_what_they_may_see(
    shell: Shell, groups: ServerGroups, tmp_path: Path
) -> None:
    """A member joins with its credentials, another user is refused, a third one reads offsets alone."""
    groups.topic("t", 1)
    users = {name: Digest(name, Secret(f"canary of {name}")) for name in ("ada", "bob", "eve")}
    options = {}
    for name, user in users.items():
        (tmp_path / name).write_text(f"{user.credential}\n")
        options[name] = ("--zk-digest-file", str(tmp_path / name))
    ids = {name: f"digest:{digest_id(user)}" for name, user in users.items()}
    rights = ("--member", ids["bob"], "--offset-reader", ids["eve"])
    assert shell.run("offsets", "set", "g", "t:0=5", "--execute").code == 0

    nobody = shell.run("acl", "zookeeper", "apply", "g", *rights, "--execute")
    preview = shell.json("acl", "zookeeper", "plan", "g", *rights, *options["ada"])
    done = shell.json("acl", "zookeeper", "apply", "g", *rights, "--execute", *options["ada"])
    with shell.start("consume", "g", "--topic", "t", *LASTING, *options["bob"]) as member:
        member.until_event("assigned")
        stranger = shell.run("consume", "g", "--topic", "t", *options["eve"])
        after = shell.json("acl", "zookeeper", "plan", "g", *options["ada"])
        offset = shell.run("znode", "get", "/consumers/g/offsets/t/0", *options["eve"])
        shown = shell.json("offsets", "show", "g", *options["eve"])
        owner = shell.run("znode", "get", "/consumers/g/owners/t/0", *options["eve"])
        assert member.stop() == 0
    opened = shell.run("undo", done["undo"], "--execute", *options["bob"])

    assert (nobody.code, "found no credentials" in nobody.err) == (2, True)
    assert (preview["now"]["members"], preview["executed"]) == (["world:anyone"], False)
    assert done["executed"]
    assert after["paths"] == []
    assert after["now"] == {
        "members": sorted([ids["ada"], ids["bob"]]),
        "offset_readers": [ids["eve"]],
        "watchers": [],
    }
    assert (stranger.code, "the ACL refuses this member" in stranger.err) == (1, True)
    assert (offset.code, owner.code) == (0, 1)
    assert [(row["offset"], row["owner"]) for row in shown["offsets"]] == [(5, None)]
    assert opened.code == 0
    assert shell.json("acl", "zookeeper", "plan", "g")["now"]["members"] == ["world:anyone"]
    assert "canary" not in "".join(ran.err + ran.out for ran in (nobody, stranger, offset, owner, opened))
