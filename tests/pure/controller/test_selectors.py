"""Who leads, who is in sync, who gets LeaderAndIsr."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.worlds.controller_clusters import leadership
from zkgroup.controller.machine.context import Brokers, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.selectors import Choice, NoChoice, NotNeeded, PartitionElection
from zkgroup.znodes.brokers import NO_LEADER, PartitionState


def election(
    replicas: Brokers, isr: Brokers, live: list[int], leader: int = NO_LEADER, deleting: Collection[int] = ()
) -> PartitionElection:
    """A partition before its election."""
    return PartitionElection(replicas, leader, isr, live, deleting)


def reason(answer: object) -> str:
    """Of an answer that is none."""
    assert isinstance(answer, NoChoice)
    return answer.reason


def test_the_first_live_replica_begins_and_all_live_ones_are_in_sync() -> None:
    """In the order of the replica list, whatever the order of the live ones."""
    assert selectors.initialise((3, 1, 2), [1, 2]) == Choice(1, (1, 2), (1, 2))
    assert selectors.initialise((3, 1, 2), {2, 1, 3}) == Choice(3, (3, 1, 2), (3, 1, 2))


def test_without_a_live_replica_a_partition_does_not_begin() -> None:
    """It stays new."""
    assert reason(selectors.initialise((3, 1), [2])) == "no replica of 3, 1 is live"
    assert reason(selectors.initialise((), [2])) == "it has no replicas"


def test_a_replica_about_to_be_deleted_does_not_begin() -> None:
    """What a late request may delete is neither leader nor in sync (recipes 17)."""
    assert selectors.initialise((3, 1, 2), [1, 2, 3], deleting=[3]) == Choice(1, (1, 2), (1, 2))


def test_the_replica_list_comes_before_the_isr() -> None:
    """1 stands first in the ISR, 2 in the replica list. The ISR keeps its order."""
    assert selectors.offline(election((3, 2, 1), (1, 3, 2), [1, 2])) == Choice(2, (1, 2), (2, 1))


def test_an_unclean_election_needs_to_be_allowed() -> None:
    """No broker of the ISR is live; if it is allowed the ISR is the new leader alone."""
    assert reason(selectors.offline(election((1, 2, 3), (1,), [2, 3]))) == (
        "no in-sync replica of 1 is live, and unclean election is off"
    )
    assert selectors.offline(election((1, 2, 3), (1,), [2, 3]), unclean=True) == Choice(
        2, (2,), (2, 3), unclean=True
    )


def test_a_clean_election_is_preferred_to_an_unclean_one() -> None:
    """Allowed or not, an in-sync replica wins over an earlier one that is not."""
    assert selectors.offline(election((1, 2, 3), (3,), [2, 3]), unclean=True) == Choice(3, (3,), (2, 3))


def test_no_replica_is_live() -> None:
    """Allowed or not, there is no broker to elect."""
    assert reason(selectors.offline(election((1, 2), (1, 2), [3]))) == "no replica of 1, 2 is live"
    assert (
        reason(selectors.offline(election((1, 2), (1, 2), [3]), unclean=True)) == "no replica of 1, 2 is live"
    )


def test_an_empty_isr_elects_the_only_replica_there_is() -> None:
    """Left by a Kafka controller. There is no other who could know more (recipes 15)."""
    assert selectors.offline(election((2,), (), [1, 2])) == Choice(2, (2,), (2,))
    assert reason(selectors.offline(election((2,), (), [1]))) == "no replica of 2 is live"
    assert reason(selectors.offline(election((), (), [1]))) == "it has no replicas"


def test_an_empty_isr_of_several_replicas_takes_an_operator() -> None:
    """None of them is known to have everything (recipes 15)."""
    assert "only an unclean election" in reason(selectors.offline(election((1, 2), (), [1, 2])))
    assert selectors.offline(election((1, 2), (), [1, 2]), unclean=True) == Choice(
        1, (1,), (1, 2), unclean=True
    )


def test_a_held_replica_is_not_elected_and_is_sent_nothing() -> None:
    """Not even uncleanly; a late request may delete it (recipes 17)."""
    assert selectors.offline(election((1, 2, 3), (9,), [1, 2, 3], deleting=[1]), unclean=True) == Choice(
        2, (2,), (2, 3), unclean=True
    )


@pytest.mark.parametrize(
    ("word", "broker_setting", "allowed"),
    [
        ("true", False, True),
        ("TRUE", False, True),
        ("false", True, False),
        ("yes", True, False),
        (None, True, True),
        (None, False, False),
    ],
)
def test_a_topic_overrides_the_broker_both_ways(
    word: str | None, broker_setting: bool, allowed: bool
) -> None:
    """The topic's own word first; a word that is neither loses nothing."""
    overrides = {} if word is None else {"unclean.leader.election.enable": word}

    assert selectors.unclean_allowed(overrides, broker_setting) is allowed


def test_a_preferred_replica_must_be_live_and_in_sync() -> None:
    """Otherwise the election is refused, whichever other broker could lead."""
    assert (
        reason(selectors.preferred(election((1, 2), (1, 2), [2], leader=2)))
        == "the preferred replica 1 is not live"
    )
    assert "not in sync; in sync are 2" in reason(
        selectors.preferred(election((1, 2), (2,), [1, 2], leader=2))
    )
    assert selectors.preferred(election((1, 2), (2, 1), [1, 2], leader=2)) == Choice(1, (2, 1), (1, 2))
    assert reason(selectors.preferred(election((), (2,), [2], leader=2))) == "the replica list is empty"


def test_a_preferred_replica_that_leads_already_is_not_elected() -> None:
    """No write, also where it is not live any more."""
    assert selectors.preferred(election((1, 2), (1, 2), [1, 2], leader=1)) == NotNeeded(1)
    assert selectors.preferred(election((1, 2), (1, 2), [], leader=1)) == NotNeeded(1)


def test_all_replicas_get_the_leader_of_a_preferred_election() -> None:
    """Also one that is down: the sender leaves it out. A held one receives nothing."""
    answer = selectors.preferred(election((1, 2, 3), (2, 1), [1, 2], leader=2, deleting=[3]))

    assert answer == Choice(1, (2, 1), (1, 2))


def test_the_target_has_an_order_of_its_own() -> None:
    """The first of the target that is live and in sync; the ISR stays as it is."""
    assert selectors.reassigned((5, 4, 6), (1, 4, 5), [4, 5, 6]) == Choice(5, (1, 4, 5), (5, 4, 6))
    assert selectors.reassigned((5, 4, 6), (1, 4, 5), [1, 4, 6]) == Choice(4, (1, 4, 5), (5, 4, 6))
    assert "no replica of the target 5, 4 is live and in sync" in reason(
        selectors.reassigned((5, 4), (1, 5), [1, 4])
    )


def test_brokers_that_stop_neither_lead_nor_stay_in_sync() -> None:
    """All that are shutting down, not the asking one alone; they get LeaderAndIsr too
    (K26)."""
    answer = selectors.controlled_shutdown(election((1, 2, 3, 4), (4, 2, 1, 3), [3, 4]), [1, 2])

    assert answer == Choice(3, (4, 3), (1, 2, 3, 4))


def test_a_broker_that_stops_needs_a_successor_in_sync() -> None:
    """Otherwise the partition is left alone."""
    answer = selectors.controlled_shutdown(election((1, 2, 3), (1, 2), [3]), [1, 2])

    assert reason(answer) == "no in-sync replica of 1, 2 stays"


def test_a_leader_that_goes_offline_leaves_no_leader() -> None:
    """-1, and the ISR without it; a follower's leaves the leader."""
    assert selectors.without_replica(leadership(1, (1, 2)), 1, (1, 2, 3)) == (NO_LEADER, (2,))
    assert selectors.without_replica(leadership(1, (1, 2)), 2, (1, 2, 3)) == (1, (1,))


def test_the_last_member_stays_in_the_isr() -> None:
    """It alone has everything, whatever unclean election says (K39)."""
    assert selectors.without_replica(leadership(1, (1,)), 1, (1, 2, 3)) == (NO_LEADER, (1,))


def test_the_last_eligible_leader_stays_in_the_isr() -> None:
    """A leader that has not received a shorter list takes a former replica in, which may not lead."""
    assert selectors.without_replica(leadership(3, (3, 2)), 3, (3, 1)) == (NO_LEADER, (3,))
    assert selectors.without_replica(leadership(3, (3, 2)), 2, (3, 1)) == (3, (3,))
    assert selectors.without_replica(leadership(2, (2, 4)), 2, (3, 1)) == (NO_LEADER, (2, 4))


def test_a_leader_that_is_on_no_list_does_not_lead_without_being_in_sync() -> None:
    """Past bug: it stayed the leader of an ISR without it."""
    assert selectors.without_replica(leadership(2, (2, 3)), 3, (3, 1)) == (NO_LEADER, (3,))
    assert selectors.without_replica(leadership(2, (2, 3)), 2, (3, 1)) == (NO_LEADER, (3,))


def test_what_is_out_already_needs_no_write() -> None:
    """Without leader, without ISR, and the last member for the second time."""
    assert selectors.without_replica(leadership(1, (1, 2)), 3, (1, 2, 3)) is None
    assert selectors.without_replica(leadership(NO_LEADER, ()), 1, (1, 2, 3)) is None
    assert selectors.without_replica(leadership(NO_LEADER, (1,)), 1, (1, 2, 3)) is None


def test_the_state_of_a_later_controller_is_not_overwritten() -> None:
    """A greater controller epoch in it says that a newer controller is active."""
    assert leadership(1, (1,), epoch=6).is_of_later_controller(5)
    assert not leadership(1, (1,), epoch=5).is_of_later_controller(5)
    assert not leadership(1, (1,), epoch=4).is_of_later_controller(5)


def test_a_decision_raises_the_leader_epoch_and_keeps_what_it_does_not_know() -> None:
    """Every decision, by one; the epoch is that of the controller that decides."""
    state = PartitionState(1, 7, (1, 2), 1, {"leader_recovery_state": 1})
    before = LeaderIsrAndControllerEpoch(state, 9)

    after = before.decided(2, (2,), 12)

    assert after == PartitionState(2, 8, (2,), 12, {"leader_recovery_state": 1})
