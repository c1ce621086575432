"""Members whose server is cut off from the others of its ensemble, while they still reach it."""

from __future__ import annotations

from tests.real.consumer.cut_off_members import Work, cut_off_a_member
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.zookeeper.blocking import Blocking


def test_a_member_at_a_server_cut_off_stops_before_others_begin(
    zk_chaos: ChaosZooKeeper, witness: Blocking
) -> None:
    """F13: S7 and S8 hold, nothing is lost, and healed the group shares again.

    At a leader, and cut off in one way only: tests/long/consumer.
    """
    cut_off_a_member(zk_chaos, Work(zk_chaos, witness), "follower")
