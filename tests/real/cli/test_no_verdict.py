"""Exit code 124: a command that cannot know what became of its write."""

from __future__ import annotations

import pytest

from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.zookeeper.blocking import Blocking


def test_a_write_without_an_answer_and_without_a_reading_back_is_124(
    shell: Shell, groups: ServerGroups, zk_chaos_server: ChaosZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither done (0) nor merely out of reach (7): the undo command is printed, and what to do is said."""
    groups.topic("orders", 1)
    groups.parents("billing", "orders")
    groups.offset("billing", "orders", 0, 10)
    dropped = zk_chaos_server.drop_reply("multi", then_refuse=True)

    class Hasty(Blocking):
        """Waits for a moment only where no answer can come any more."""

        @property
        def _timeout_s(self) -> float:
            return 0.1 if dropped.happened else 60.0

        @_timeout_s.setter
        def _timeout_s(self, given_s: float) -> None:
            """It is not as given."""

    monkeypatch.setattr("zkgroup.zookeeper.blocking.Blocking", Hasty)
    words = ("offsets", "set", "billing", "orders:0=42", "--execute", "-z", zk_chaos_server.address)
    ran = shell.run(*words)

    dropped.wait()
    assert (ran.code, ran.out) == (124, "")
    assert "the write may or may not have been applied" in ran.err
    assert "reading back failed" in ran.err
    assert "check before you repeat" in ran.err
    assert (
        f"to undo: zkgroup -z {zk_chaos_server.address} undo {shell.undo_files[0].stem} --execute" in ran.err
    )
    assert groups.offset_of("billing", "orders", 0) == 42  # it was applied: another number would not show it


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
