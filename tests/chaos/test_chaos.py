"""The short version of `python -m tests.chaos`, and the schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.round import run_round
from tests.chaos.schedule import OTHERS, PAIRED, draw, pairs
from zkgroup.testing.peer_links import PeerLinks
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

CHOSEN = (("F37", "F12"), ("F38", "F1"))


def test_a_seed_is_a_schedule() -> None:
    """R68: the same faults and operations again; another seed is another schedule."""
    assert draw(7, 8) == draw(7, 8)
    assert draw(7, 8) != draw(8, 8)


def test_rounds_go_through_all_pairs() -> None:
    """Section 4 of the fault catalogue: no pair is left to chance."""
    rounds = -(-len(pairs()) // 8)
    slots = [slot for seed in range(rounds) for slot in draw(seed, 8)]

    tried = {frozenset((slot.first.kind, slot.second.kind)) for slot in slots}
    assert tried >= {frozenset((one, other)) for one in PAIRED for other in PAIRED}
    assert {kind for pair in tried for kind in pair} == {*PAIRED, *OTHERS}


@pytest.mark.integration
@pytest.mark.timeout(900)  # where it does not come to rest it says what is amiss
def test_a_short_round_on_real_servers(
    zk_chaos_processes: EmbeddedZooKeeper, zk_peer_links: PeerLinks, tmp_path: Path
) -> None:
    """F1, F12, F37, F38: S1-S4, S7-S17, L6, L7 by logs and records, and every acknowledged line."""
    slots = draw(5, len(CHOSEN), CHOSEN)
    done = run_round(zk_chaos_processes, zk_peer_links, tmp_path / "home", 5, slots, calm_s=1.0)

    assert done.wrong == []
    assert done.report is not None
    assert done.report.decided >= {"S11", "S12", "S13", "S14", "S15", "S16", "S17", "L6", "L7", "lines"}
    assert done.group is not None
    assert done.group.decided >= {"S1", "S2", "S3", "S4", "S7", "S8", "S9", "S10"}
    assert done.group.figures.deliveries > 0
    figures = done.report.figures
    assert figures.elections >= 2
    assert figures.acknowledged_lines >= 100
    assert {kind.split()[0] for kind in done.bitten} >= {"F1", "F12", "F37", "F38"}
