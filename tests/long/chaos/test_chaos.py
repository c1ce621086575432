"""The short version of `python -m tests.programs.chaos`, its schedule, and a weakened fence that it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.chaos.moves import MOVE_STEPS, exchange, step_of
from tests.programs.chaos.round import Round, run_round
from tests.programs.chaos.schedule import BROKERS, OTHERS, PAIRED, Fault, Slot, draw, pairs
from zkgroup.testing.proxies import PeerLinks
from zkgroup.znodes.brokers import PartitionState
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

QUIET = (("create", 1), ("grow", 2), ("freeze", 3))
"""Operations that stand in no move's way."""
SHORT = (
    Slot(Fault("F37", "any", 7, 1_000, "union"), Fault("F12", "any", 1, 1_000), 300, QUIET, ("pause", 0)),
    Slot(Fault("F37", "any", 8, 1_000, "led"), Fault("F1", "follower", 2, 1_000), 300, QUIET, ("kill", 1)),
    Slot(Fault("F38", "any", 9, 1_000, "held"), Fault("F1", "follower", 3, 1_000), 0, QUIET, ("restart", 0)),
)
HELD = (Slot(Fault("F38", "any", 9, 400, "held"), Fault("F8", "any", 1, 400), 0, QUIET, ("none", 0)),)


def test_a_seed_is_a_schedule() -> None:
    """The same seed draws the same faults and operations; another seed draws another schedule."""
    assert draw(7, 8) == draw(7, 8)
    assert draw(7, 8) != draw(8, 8)


def test_rounds_go_through_all_pairs() -> None:
    """faults.md: consecutive rounds have every pair of faults, and every step of a move."""
    rounds = -(-len(pairs()) // 8)
    slots = [slot for seed in range(rounds) for slot in draw(seed, 8)]

    tried = {frozenset((slot.first.name, slot.second.name)) for slot in slots}
    assert tried >= {frozenset((one, other)) for one in PAIRED for other in PAIRED}
    assert {name for pair in tried for name in pair} == {*PAIRED, *OTHERS}
    assert {f"F37:{step}" for step in MOVE_STEPS} < set(OTHERS)


def test_the_steps_of_a_reassignment_are_distinguished() -> None:
    """F37: each write of a move is a step; the last write that is stored decides the step."""
    before, target = (1, 2, 3), (4, 1, 3)
    union = (4, 1, 3, 2)
    written = {
        "asked": (True, before, PartitionState(2, 5, before, 1)),
        "union": (True, union, PartitionState(2, 5, before, 1)),
        "announced": (True, union, PartitionState(2, 6, before, 1)),
        "in sync": (True, union, PartitionState(2, 6, (1, 2, 3, 4), 1)),
        "led": (True, union, PartitionState(4, 7, (1, 2, 3, 4), 1)),
        "shrunk": (True, union, PartitionState(4, 7, (1, 3, 4), 1)),
        "ended": (False, target, PartitionState(4, 7, (1, 3, 4), 1)),
    }

    found = {
        name: step_of(target, asked=asked, replicas=replicas, state=state, epoch_before=5)
        for name, (asked, replicas, state) in written.items()
    }

    assert found == {name: name for name in MOVE_STEPS}


@pytest.mark.parametrize("now", [(1, 2, 3), (4, 2), (3, 1)])
@pytest.mark.parametrize("number", range(12))
def test_a_move_in_which_the_controller_is_killed_has_all_steps(now: tuple[int, ...], number: int) -> None:
    """F37: one replica is replaced by another, for any number drawn."""
    target = exchange(now, BROKERS, number)

    assert target is not None
    assert exchange((*now, *(set(BROKERS) - set(now))), BROKERS, number) is None
    assert len(target) == len(set(target)) == len(now)
    assert len(set(target) - set(now)) == len(set(now) - set(target)) == 1


def test_a_short_round_on_real_servers(
    zk_chaos_processes: EmbeddedZooKeeper, zk_peer_links: PeerLinks, tmp_path: Path
) -> None:
    """F1, F12, F37, F38: S1-S17, L6, L7 by logs and records, and every acknowledged record.

    The controller is killed when the replica list of a move is written and no broker has got a request, and
    when a replica of the target leads and no old one is removed. A replaced controller's write is refused.
    """
    done = run_round(zk_chaos_processes, zk_peer_links, tmp_path / "home", 5, SHORT, calm_s=1.0)

    assert done.wrong == []
    assert done.report is not None
    assert done.report.decided >= {"S11", "S12", "S13", "S14", "S15", "S16", "S17", "L6", "L7", "records"}
    assert done.group is not None
    assert done.group.decided >= {f"S{number}" for number in range(1, 11)}
    assert done.group.figures.deliveries > 0
    figures = done.report.figures
    assert figures.elections >= 2
    assert figures.acknowledged_records >= 100
    assert {"F1", "F12", "F37 union", "F37 led", "F38 held write"} <= set(+done.bitten)
    assert (done.figures["held writes refused"], done.figures["held writes accepted"]) == (1, 0)


def test_a_controller_that_does_not_check_its_epoch_is_found(
    zk_chaos_processes: EmbeddedZooKeeper, zk_peer_links: PeerLinks, tmp_path: Path
) -> None:
    """F38, a mistake planted: the held write of a replaced controller is accepted, and S11 reports it."""
    home, entry = tmp_path / "home", ("-m", "tests.programs.chaos.weakened")
    done: Round = run_round(zk_chaos_processes, zk_peer_links, home, 6, HELD, calm_s=1.0, entry=entry)

    assert done.bitten["F38 held write"] == done.figures["held writes accepted"] == 1
    found = [why for why in done.wrong if why.startswith("S11") and "holds /controller" in why]
    assert any("/brokers/topics/held-9/" in why for why in found), done.wrong
