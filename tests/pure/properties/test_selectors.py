"""Properties of every choice of a leader."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zkgroup.controller.machine.context import Brokers, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.selectors import Choice, PartitionElection
from zkgroup.znodes.brokers import PartitionState

IDS = st.integers(1, 6)
LISTS = st.lists(IDS, max_size=5, unique=True).map(tuple)
SETS = st.frozensets(IDS)


def sound(choice: object, live: frozenset[int], deleting: frozenset[int]) -> bool:
    """Whether the leader is live, in sync and safe from late deletions, and held replicas get no request."""
    assert isinstance(choice, Choice)
    return (
        choice.leader in choice.isr
        and choice.leader in live - deleting
        and choice.leader in choice.recipients
        and deleting.isdisjoint(choice.recipients)
        and len(set(choice.isr)) == len(choice.isr)
    )


@given(LISTS, LISTS, SETS, SETS, st.booleans())
def test_an_offline_election_is_clean_whenever_it_can_be(
    replicas: Brokers, isr: Brokers, live: frozenset[int], deleting: frozenset[int], unclean: bool
) -> None:
    """Without a live in-sync replica it is none, unclean, or of an emptied ISR."""
    able = [each for each in replicas if each in live - deleting]
    in_sync = [each for each in able if each in isr]

    answer = selectors.offline(PartitionElection(replicas, -1, isr, live, deleting), unclean=unclean)

    if in_sync:
        assert sound(answer, live, deleting)
        assert answer == Choice(in_sync[0], tuple(each for each in isr if each in live), tuple(able))
    elif isinstance(answer, Choice):
        assert sound(answer, live, deleting)
        assert answer.isr == (answer.leader,) == (able[0],)
        assert answer.unclean == (bool(isr) or len(replicas) > 1)
        assert unclean or not answer.unclean
    else:
        assert not able or (not unclean and (isr or len(replicas) > 1))


@given(LISTS, LISTS, SETS, SETS, IDS)
def test_an_isr_never_grows_by_decision(
    replicas: Brokers, isr: Brokers, live: frozenset[int], deleting: frozenset[int], leader: int
) -> None:
    """Only leaders add to it; no decision empties it."""
    before = LeaderIsrAndControllerEpoch(PartitionState(leader, 3, isr, 1), 0)
    shutting_down = frozenset(range(1, 7)) - live
    now = PartitionElection(replicas, leader, isr, live, deleting)
    answers = (
        selectors.preferred(now),
        selectors.reassigned(replicas, isr, live, deleting),
        selectors.controlled_shutdown(now, shutting_down),
    )

    for answer in answers:
        if isinstance(answer, Choice):
            assert sound(answer, live, deleting)
            assert set(answer.isr) <= set(isr)
    for broker in range(1, 7):
        after = selectors.without_replica(before, broker, replicas)
        if after is not None:
            new_leader, new_isr = after
            assert new_leader in (leader, -1)
            assert new_leader != broker
            assert set(new_isr) <= set(isr)
            assert new_isr or not isr
            assert (
                selectors.without_replica(
                    LeaderIsrAndControllerEpoch(PartitionState(new_leader, 4, new_isr, 1), 1),
                    broker,
                    replicas,
                )
                is None
            )
