"""Before something is overwritten or deleted: what is shown, what is asked, and how it is undone."""

from __future__ import annotations

import shlex

import pytest

from tests.real.cli.terminal import QUESTION, on_terminal
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell


@pytest.fixture
def idle(groups: ServerGroups) -> ServerGroups:
    """A group without members, with offsets 0 and 10 of two partitions of a topic."""
    groups.topic("orders", 2)
    groups.parents("billing", "orders")
    for number in range(2):
        groups.offset("billing", "orders", number, 10 * number)
    return groups


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("offsets set billing orders:1=42", "42     +32"),
        ("group delete billing", "would delete group billing: 8 znodes, 2 committed offsets, 0 members"),
        ("topic delete orders", "would delete topic orders: 1 znode"),
    ],
)
def test_the_preview_is_shown_before_the_question(
    shell: Shell, idle: ServerGroups, words: str, message: str
) -> None:
    """On a terminal the plan comes before the question; a no changes nothing and is exit 2."""
    code, screen = on_terminal(*words.split(), "--execute", env=shell.environment, answer="n\n")

    before, _, after = screen.partition(QUESTION)
    assert (code, message in before) == (2, True), screen
    assert "nothing was changed" in after
    assert shell.undo_files == []
    assert idle.offset_of("billing", "orders", 1) == 10


def test_no_answer_is_an_interruption(shell: Shell, idle: ServerGroups) -> None:
    """The end of the input, as Ctrl-C: exit 130, on a line of its own, and nothing is changed."""
    words = ("offsets", "set", "billing", "orders:1=42", "--execute")

    code, screen = on_terminal(*words, env=shell.environment, answer="\x04")

    assert (code, screen.splitlines()[-1]) == (130, "interrupted")
    assert idle.offset_of("billing", "orders", 1) == 10


def test_after_a_yes_it_is_done_and_printed(shell: Shell, idle: ServerGroups) -> None:
    """The same rows again, as done, and how it is undone."""
    words = ("offsets", "set", "billing", "orders:1=42", "--execute")

    code, screen = on_terminal(*words, env=shell.environment, answer="y\n")

    after = screen.partition(QUESTION)[2]
    assert (code, idle.offset_of("billing", "orders", 1)) == (0, 42)
    assert "to undo: zkgroup undo" in after
    assert "1 offset changed" in after


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_undo_command_is_for_the_same_ensemble(shell: Shell, idle: ServerGroups, place: str) -> None:
    """Where `-z` was typed, the undo command has it too: it works as printed."""
    address = shell.environment["ZKGROUP_ZOOKEEPER"]
    assert address
    shell.environment["ZKGROUP_ZOOKEEPER"] = None
    words = ["offsets", "set", "billing", "orders:1=42", "--execute"]
    where = ["-z", address]

    ran = shell.run(*([*where, *words] if place == "before" else [*words, *where]))
    (back,) = [line for line in ran.err.splitlines() if line.startswith("to undo: ")]
    assert idle.offset_of("billing", "orders", 1) == 42
    done = shell.run(*shlex.split(back.removeprefix("to undo: zkgroup ")))

    assert (done.code, idle.offset_of("billing", "orders", 1)) == (0, 10)


def test_the_undo_command_names_profile_and_files(shell: Shell, idle: ServerGroups) -> None:
    """All options of the connection, quoted where a shell needs it."""
    folder = shell.home / "config" / "zkgroup"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        f'[profiles.p]\nzookeeper = "{shell.environment["ZKGROUP_ZOOKEEPER"]}"\n'
    )
    shell.environment["ZKGROUP_ZOOKEEPER"] = None
    digest = shell.home / "my digest"
    digest.write_text("alice:s3cret\n")
    words = ("--profile", "p", "group", "delete", "billing", "--execute", "--zk-digest-file", str(digest))

    ran = shell.run(*words)

    (file,) = shell.undo_files
    options = f"--profile p --zk-digest-file '{digest}'"
    assert f"to undo: zkgroup {options} undo {file.stem} --execute\n" in ran.err
