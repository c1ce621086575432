"""Exit code 124: a command that cannot know what became of its write, as a real process."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.testing.chaos import ChaosZooKeeper

PROGRAM = "from zkgroup_cli.main import main; main()"


def test_a_write_without_an_answer_and_without_a_reading_back_is_124(
    shell: Shell, groups: ServerGroups, zk_chaos_server: ChaosZooKeeper
) -> None:
    """Neither done (0) nor merely out of reach (7): the undo command is printed, and what to do is said."""
    groups.topic("orders", 1)
    groups.parents("billing", "orders")
    groups.offset("billing", "orders", 0, 10)
    words = ("offsets", "set", "billing", "orders:0=42", "--execute", "--connect-timeout", "8s")
    dropped = zk_chaos_server.drop_reply("multi", then_refuse=True)

    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, "-z", zk_chaos_server.address],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **{name: value for name, value in shell.environment.items() if value}},
        check=False,
    )

    dropped.wait()
    assert ran.returncode == 124
    assert ran.stdout == ""
    assert "the write may or may not have been applied" in ran.stderr
    assert "reading back failed" in ran.stderr
    assert "look before you repeat" in ran.stderr
    assert f"offsets undo {shell.undo_files[0].stem} --execute" in ran.stderr
    assert groups.offset_of("billing", "orders", 0) == 42  # it was applied: another number could not be told


def test_a_write_whose_answer_is_lost_is_read_back(
    shell: Shell, groups: ServerGroups, zk_chaos_server: ChaosZooKeeper
) -> None:
    """With ZooKeeper in reach again there is a verdict: exit code 0."""
    groups.topic("orders", 1)
    groups.parents("billing", "orders")
    groups.offset("billing", "orders", 0, 10)
    dropped = zk_chaos_server.drop_reply("multi")

    ran = shell.run("offsets", "set", "billing", "orders:0=42", "--execute", "-z", zk_chaos_server.address)

    dropped.wait()
    assert ran.code == 0
    assert groups.offset_of("billing", "orders", 0) == 42
