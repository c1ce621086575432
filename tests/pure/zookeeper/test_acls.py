"""The ACLs of new znodes, beside those of Kafka 2.8.2."""

from __future__ import annotations

import json

from tests.worlds.golden_data import FOLDER
from zkgroup.znodes.access import CLOSED_ROOTS
from zkgroup.zookeeper.acls import CreationAcls, acl_at
from zkgroup.zookeeper.settings import CREATOR_ACL, OPEN_ACL
from zkgroup.zookeeper.wire import pack_acl


def test_each_path_has_kafkas_acl() -> None:
    """As its brokers create the znodes with `zookeeper.set.acl`, and as its tool closes and opens them.

    The tool leaves out `/feature`, which its brokers close.
    """
    text = (FOLDER / "security" / "kafka-2.8.2-acls.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]

    def ours(path: str) -> list[list[object]]:
        """With the user that a server puts in place of `auth`."""
        entries = (entry.entry for entry in acl_at(path, CREATOR_ACL))
        return [[e.perms, "sasl", "kafka"] if e.scheme == "auth" else list(e) for e in entries]

    assert len(rows) > 40
    assert [row["path"] for row in rows if row["path"] != "/" and row["created"] != ours(row["path"])] == []
    acls = CreationAcls(CREATOR_ACL)
    paths = [*(row["path"] for row in rows), "/consumers/g"]
    assert [path for path in paths if acls.at(path) != pack_acl(acl_at(path, CREATOR_ACL))] == []
    assert [row["path"] for row in rows if row["secure"] != ours(row["path"])] == []
    everyone = [list(entry.entry) for entry in OPEN_ACL]
    assert [row["path"] for row in rows if row["unsecure"] != everyone] == ["/feature"]
    closed = {row["path"] for row in rows if row["secure"] != everyone}
    assert {"/" + path.split("/")[1] for path in closed} <= {"/", *CLOSED_ROOTS}


def test_what_a_user_creates_open_is_known() -> None:
    """The first path; what is in groups is meant to be open, secrets follow their parent."""
    user, nobody = CreationAcls(OPEN_ACL, lambda: 0.0), CreationAcls(OPEN_ACL)
    careful = CreationAcls(CREATOR_ACL, lambda: 0.0)
    found = []
    for path in ("/consumers/g", "/config/users/alice", "/config/topics/t", "/zkgroup/audit"):
        for one in (user, nobody, careful):
            one.at(path)
        found.append((user.opened, nobody.opened, careful.opened))
    assert found == [(None,) * 3] * 2 + [("/config/topics/t", None, None)] * 2
