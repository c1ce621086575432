"""`zkgroup acl list|add|remove`: previewed, made, listed in the words of Kafka's tools, and undone."""

from __future__ import annotations

import pytest

from tests.worlds.shell import Shell


def test_acls_are_added_listed_removed_and_brought_back(shell: Shell) -> None:
    """Options take any case; a list of a topic has every ACL that decides about it."""
    add = ("acl", "add", "--principal", "User:alice", "--operation", "Read", "--operation", "DESCRIBE")

    preview = shell.json(*add, "--topic", "orders")
    assert shell.json("acl", "list")["acls"] == []
    done = shell.json(*add, "--topic", "orders", "--group", "billing", "--execute")
    shell.run("acl", "add", "--principal", "User:*", "--operation", "all", "--deny", "--host", "::1",
              "--topic", "or", "--prefixed", "--execute")  # fmt: skip

    assert (preview["executed"], len(preview["added"])) == (False, 2)
    assert (done["executed"], len(done["added"]), done["removed"]) == (True, 4, [])
    listed = shell.run("acl", "list", "--topic", "orders")
    assert [line.split() for line in listed.lines[1:]] == [
        ["TOPIC", "or", "PREFIXED", "User:*", "0:0:0:0:0:0:0:1", "ALL", "DENY"],
        ["TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"],
        ["TOPIC", "orders", "LITERAL", "User:alice", "*", "DESCRIBE", "ALLOW"],
    ]
    of_group = {
        "resource_type": "GROUP",
        "name": "billing",
        "pattern_type": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    removed = shell.json("acl", "remove", "--operation", "read", "--group", "billing", "--execute")
    assert (removed["added"], removed["removed"]) == ([], [of_group])
    assert of_group not in shell.json("acl", "list", "--principal", "User:alice")["acls"]
    undone = shell.json("undo", "--execute")
    assert (undone["added"], undone["removed"]) == ([of_group], [])
    assert of_group in shell.json("acl", "list", "--group", "billing")["acls"]
    assert "ACLs in /kafka-acl/Group/billing" in shell.run("undo", "list").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "--principal", "User:a", "--operation", "read"], "expected a topic, a group"),
        (["remove"], "expected a topic, a group"),
        (["add", "--principal", "User:a", "--operation", "write", "--group", "g"], "read, describe, delete"),
        (["add", "--principal", "User:a", "--operation", "read", "--cluster", "--prefixed"], "no cluster"),
        (["add", "--principal", "User:a", "--operation", "dream", "--topic", "t"], "idempotent_write"),
    ],
)
def test_an_acl_that_cannot_be_is_refused_before_an_ensemble_is_asked(
    lone_shell: Shell, arguments: list[str], said: str
) -> None:
    """Exit code 2, with what was expected."""
    ran = lone_shell.run("acl", *arguments, "-z", "127.0.0.1:1")

    assert ran.code == 2
    assert said in " ".join(ran.err.split())
