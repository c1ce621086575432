"""The short version of `python -m tests.programs.chaos.groups`, and a planted mistake that it finds."""

from __future__ import annotations

from pathlib import Path

from tests.programs.chaos.groups.round import run_round
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


def test_a_short_round_under_ten_members(zk_server_process: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """One coordinator is killed, one paused beyond its session: rules G1 to G7, and no group is stuck."""
    found = run_round(zk_server_process, tmp_path / "home", 296, 0.0, clients=10, processes=2)

    assert found.wrong == []
    figures = found.figures
    assert figures["committed"] > 50
    assert figures["fences"] > 4
    assert figures["generations"] >= 2
    assert figures["killed below the session"] == figures["paused beyond the session"] == 1


def test_a_coordinator_that_forgets_generations_is_found(
    zk_server_process: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """A mistake planted: after a failover generation 1 is given again."""
    entry = ("-m", "tests.programs.chaos.groups.weakened", "load")
    found = run_round(
        zk_server_process, tmp_path / "home", 288, 0.0, clients=10, processes=2, faults=("kill",), entry=entry
    )

    assert any(why.startswith("G1") for why in found.wrong), found.wrong
