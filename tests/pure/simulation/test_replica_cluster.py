"""Three replicas under random schedules, the schedules of KIP-101, and schedules with planted bugs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.pure.simulation.replica_cluster import Cluster, ViolationError, run
from tests.worlds.replica_managers import (
    TP,
    DirectoryHosts,
    Hosts,
    MemoryHosts,
    answered,
    append,
    end,
    pair,
    replicate,
    watermark,
)
from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.broker.replicas.leader_state import LeaderState
from zkgroup.broker.replicas.replica import Replica
from zkgroup.wire.messages import ErrorCode

SCHEDULES = 20
STEPS = 200


@pytest.fixture(params=["memory", "directory"])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Hosts:
    return MemoryHosts() if request.param == "memory" else DirectoryHosts(tmp_path)


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_no_acknowledged_record_is_lost_and_no_replicas_differ(seed: int) -> None:
    """Under crashes, lost folders, late decisions and open ISR writes; afterwards all replicas are equal."""
    cluster = run(MemoryHosts(), seed, STEPS)

    assert cluster.acked


@pytest.mark.parametrize("seed", range(2))
def test_no_acknowledged_record_is_lost_on_disk(tmp_path: Path, seed: int) -> None:
    """The same with files."""
    run(DirectoryHosts(tmp_path), seed, STEPS)


def test_schedules_reach_everything() -> None:
    """Each step occurs, and leader epochs change while records are acknowledged."""
    clusters = [run(MemoryHosts(), seed, STEPS) for seed in range(100, 104)]
    steps = {name for cluster in clusters for name in cluster.steps}

    assert steps >= {
        "append",
        "delete",
        "ask",
        "answer",
        "written",
        "tell",
        "drop",
        "elect",
        "crash",
        "lose",
        "start",
    }
    assert all(cluster.state.leader_epoch > 5 for cluster in clusters)


def test_kip_101_scenario_1_a_follower_that_restarts_does_not_cut_what_was_acknowledged(hosts: Hosts) -> None:
    """A follower without the new high watermark restarts, and is elected before it fetches again.

    With the cut to the high watermark of former protocols the second record is lost.
    """
    leader, follower = hosts.open(1), hosts.open(2)
    pair(leader, follower)
    append(leader, 0, b"m1")
    assert replicate(leader, follower, TP)
    append(leader, 0, b"m2")
    follower.take(TP, *answered(leader, follower))
    answered(leader, follower)  # the leader acknowledges m2; its answer does not arrive
    assert (watermark(leader), watermark(follower)) == (2, 1)
    follower.close()
    again = hosts.open(2)
    again.become_follower(TP, 0)
    leader.close()

    assert again.become_leader(TP, 1, (1, 2), {2}) is ErrorCode.NONE
    back = hosts.open(1)
    back.become_follower(TP, 1)
    assert replicate(again, back, TP)

    assert hosts.records(1) == hosts.records(2) == [b"m1", b"m2"]
    again.close()
    back.close()


def test_kip_101_scenario_2_logs_that_grew_apart_become_equal(hosts: Hosts) -> None:
    """Both were down; the one with fewer records leads first, and appends another at the same offset."""
    one, two = hosts.open(1), hosts.open(2)
    pair(one, two)
    append(one, 0, b"m1")
    assert replicate(one, two, TP)
    append(one, 0, b"m2")
    one.close()
    two.close()

    two = hosts.open(2)
    assert two.become_leader(TP, 1, (1, 2), {2}) is ErrorCode.NONE
    append(two, 1, b"m3")
    one = hosts.open(1)
    one.become_follower(TP, 1)
    assert end(one) == end(two) == 2, "of the same length, and not the same"
    assert replicate(two, one, TP)

    assert hosts.records(1) == hosts.records(2) == [b"m1", b"m3"]
    assert hosts.epochs(1) == ((0, 0), (1, 1))
    one.close()
    two.close()


def test_kip_279_fast_failovers_leave_nothing_behind(hosts: Hosts) -> None:
    """Successive leaders append records that no other gets; one exchange does not find where the logs
    diverge."""
    one, two = hosts.open(1), hosts.open(2)
    pair(one, two)
    append(one, 0, b"m1")
    assert replicate(one, two, TP)
    append(one, 0, b"lost in 0")
    two.become_leader(TP, 1, (1, 2), {2})
    append(two, 1, b"lost in 1", b"lost too")
    one.become_leader(TP, 2, (1, 2), {1})
    append(one, 2, b"m2")
    two.become_leader(TP, 3, (1, 2), {2})
    append(two, 3, b"m3")

    one.become_follower(TP, 3)
    assert replicate(two, one, TP)

    assert hosts.records(1) == hosts.records(2) == [b"m1", b"lost in 1", b"lost too", b"m3"]
    one.close()
    two.close()


def _cuts_to_the_high_watermark(
    replica: Replica, leader_epoch: int, level_at: int | None = None
) -> ErrorCode:
    error = FOLLOW(replica, leader_epoch, level_at)
    if replica.high_watermark < replica.end_offset:
        replica._log.truncate_to(replica.high_watermark)
    return error


def _waits_for_those_it_has_heard(term: LeaderState, log_end_offset: int, present: int) -> int:
    ends = [end for broker in term._maximal_isr if (end := term._end(broker)) is not None]
    return max(present, min([log_end_offset, *ends]))


FOLLOW = Replica.follow


@pytest.mark.parametrize(
    ("kind", "name", "without", "seed"),
    [
        pytest.param(LeaderEpochs, "diverging", lambda *_: None, 4, id="rule 1, diverging"),
        pytest.param(Replica, "follow", _cuts_to_the_high_watermark, 17, id="rule 1, no cut"),
        pytest.param(LeaderState, "high_watermark", _waits_for_those_it_has_heard, 0, id="rule 2, not heard"),
        pytest.param(LeaderState, "set_maximal_isr", lambda *_: None, 0, id="rule 2, the ISR"),
        pytest.param(Replica, "_lacks", lambda *_: None, 11, id="rule 4"),
    ],
)
def test_a_rule_that_is_taken_out_is_missed(
    monkeypatch: pytest.MonkeyPatch, kind: type, name: str, without: Callable[..., object], seed: int
) -> None:
    """Some schedule then loses an acknowledged record, or ends with replicas that differ.

    The seed whose schedule did when this was written runs first.
    """
    monkeypatch.setattr(kind, name, without)

    with pytest.raises(ViolationError):
        _run_all((seed, *range(40)))


def _run_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        run(MemoryHosts(), seed, STEPS)


def test_a_schedule_that_fails_names_its_seed() -> None:
    """The seed of a failure, which reproduces it."""
    cluster = Cluster(MemoryHosts(), 42)
    cluster.committed[0] = b"something else"
    append(cluster.up[1], 0, b"a")
    for follower in (2, 3):
        replicate(cluster.up[1], cluster.up[follower], TP, broker_epoch=9)

    with pytest.raises(ViolationError, match=r"^seed 42: broker 1 has b'a' at 0, another b'something else'"):
        cluster.check()
    cluster.close()
