"""`zkgroup group copy`, `rename`, `prune`, and `offsets` of all groups, on a real server."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell


def _offsets(shell: Shell) -> dict[str, list[int]]:
    found = shell.json("offsets", "show", "--all-groups")["groups"]
    return {one["group"]: [row["offset"] for row in one["offsets"]] for one in found}


def test_groups_as_a_whole(shell: Shell, groups: ServerGroups, tmp_path: Path) -> None:
    """Each is shown first, then made, then undone; a member refuses it in the transaction."""
    groups.topic("orders", 2)
    for name, start in (("billing", 10), ("audit", 100)):
        groups.parents(name, "orders")
        for number in range(2):
            groups.offset(name, "orders", number, start + number)
    was = {"audit": [100, 101], "billing": [10, 11]}

    assert shell.run("group", "copy", "billing", "test").code == 0
    assert shell.run("group", "rename", "audit", "auditing").out.startswith("would rename group audit")
    assert _offsets(shell) == was
    shell.run("group", "copy", "billing", "test", "--execute")
    renamed = shell.json("group", "rename", "audit", "auditing", "--execute")
    assert (renamed["offsets"], renamed["executed"]) == (2, True)
    assert _offsets(shell) == {"auditing": [100, 101], "billing": [10, 11], "test": [10, 11]}
    assert shell.run("undo", renamed["undo"], "--execute").code == 0
    assert _offsets(shell) == {**was, "test": [10, 11]}

    table = shell.run("offsets", "show", "--all-groups").out.splitlines()
    lines = shell.run("offsets", "show", "--all-groups", "--format", "csv").out.splitlines()
    assert [row.split() for row in table[:2]] == [
        ["GROUP", "TOPIC", "PARTITION", "OFFSET"], ["audit", "orders", "0", "100"]
    ]  # fmt: skip
    assert (len(lines), lines[1].startswith("audit,orders,0,100,")) == (7, True)
    rows = shell.run("offsets", "export", "audit", "billing", "--format", "kafka-csv")
    assert rows.out.splitlines()[0] == "audit,orders,0,100"
    groups.living("live", "orders", 2)
    refused = shell.run("offsets", "reset", "--all-groups", "--all-topics", "--to", "1", "--execute")
    assert (refused.code, "live" in refused.err) == (4, True)
    reset = _offsets(shell)
    assert [reset[name] for name in ("audit", "billing", "test")] == [[1, 1]] * 3
    saved = tmp_path / "kafka.csv"
    saved.write_text(rows.out)
    assert shell.run("offsets", "import", str(saved), "--execute").code == 0
    assert shell.run("group", "rename", "live", "dead", "--execute").code == 2
    assert shell.run("group", "copy", "billing", "live", "--execute").code == 2

    assert shell.json("group", "prune", "--idle", "90d")["groups"] == []
    pruned = shell.json("group", "prune", "--idle", "1ms", "test", "live", "--execute")["groups"]
    assert [(one["group"], one["executed"], one["offsets"]) for one in pruned] == [("test", True, 2)]
    assert shell.run("offsets", "delete", "audit", "--older-than", "1ms", "--execute").code == 0
    left = _offsets(shell)
    assert left.keys() == {"billing", "live"}
    assert left["billing"] == [10, 11]
