"""`zkgroup user`: users are added, listed, deleted and undone, and no output has a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.shell import Shell
from zkgroup.security.passwords import is_password


def test_a_user_is_added_before_any_broker_runs_and_deleted_and_brought_back(shell: Shell) -> None:
    """From stdin and from a file; each change is previewed, recorded and undone."""
    file = shell.home / "password"
    file.write_text("from a file\n", encoding="utf-8")
    add = ("user", "add", "alice", "--mechanism")

    preview = shell.json(*add, "SCRAM-SHA-256", stdin="geheim\n")
    assert shell.json("user", "list")["users"] == []
    done = shell.json(*add, "SCRAM-SHA-256", "--iterations", "8192", "--execute", stdin="geheim\n")
    second = shell.run(*add, "SCRAM-SHA-512", "--password-file", str(file), "--execute")
    removed = shell.json("user", "delete", "alice", "--mechanism", "SCRAM-SHA-256", "--execute")
    undone = shell.json("undo", "--execute")

    assert (preview["executed"], done["executed"]) == (False, True)
    assert done["credentials"] == [{"mechanism": "SCRAM-SHA-256", "change": "added", "iterations": 8192}]
    assert second.lines[-1].split() == ["SCRAM-SHA-512", "added", "4096"]
    assert [one["change"] for one in (*removed["credentials"], *undone["credentials"])] == [
        "removed",
        "added",
    ]
    listed = shell.run("user", "list")
    assert [line.split() for line in listed.lines[1:]] == [
        ["alice", "SCRAM-SHA-256", "8192"],
        ["alice", "SCRAM-SHA-512", "4096"],
    ]
    outputs = (second, listed, shell.run("undo", "list"), shell.run("undo", removed["undo"], "--force"))
    for ran in outputs:
        assert "stored_key" not in ran.out + ran.err
    assert "credentials of alice" in outputs[2].out


def test_a_password_is_hashed_for_the_file_of_plain_users(lone_shell: Shell) -> None:
    """The line is the hash alone, so that a script can put the name before it; no ensemble is asked."""
    ran = lone_shell.run("user", "hash", stdin="geheim\n")

    assert (ran.code, ran.err) == (0, "")
    assert is_password(ran.out.removesuffix("\n"), "geheim")


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["hash"], "", "a line on stdin"),
        (["add", "alice", "--mechanism", "SCRAM-SHA-256"], "\n", "a line on stdin"),
        (["add", "alice", "--mechanism", "SCRAM-SHA-1"], "x\n", "SCRAM-SHA-512"),
        (["add", "alice", "--mechanism", "SCRAM-SHA-256", "--iterations", "1"], "x\n", "4096"),
        (["add", "alice", "--mechanism", "SCRAM-SHA-256", "--password-file", "none"], "", "none"),
    ],
)
def test_a_password_that_cannot_be_is_refused_before_an_ensemble_is_asked(
    lone_shell: Shell, tmp_path: Path, arguments: list[str], stdin: str, said: str
) -> None:
    """Exit code 2, with what was expected."""
    ran = lone_shell.run("user", *arguments, "-z", "127.0.0.1:1", stdin=stdin)

    assert ran.code == 2
    assert said in ran.err
