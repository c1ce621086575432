"""The checker's own range computation, compared with `zkgroup.assignment`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zkgroup.assignment import assign
from zkgroup.history.group.assignment_invariants import plain_range
from zkgroup.model import EvaluatedMember

TOPICS = st.sampled_from(["a", "b"])
MEMBERS = st.dictionaries(
    st.text("ab-1\uff5e\U0001f600", min_size=1, max_size=3), st.dictionaries(TOPICS, st.integers(1, 12))
)
PARTITIONS = st.dictionaries(TOPICS, st.lists(st.integers(0, 30), max_size=15))


@given(MEMBERS, PARTITIONS)
def test_both_computations_agree(
    members: dict[str, dict[str, int]], partitions: dict[str, list[int]]
) -> None:
    """Two implementations that share no code give the same owners."""
    owners = assign(
        "range", [EvaluatedMember(name, wanted) for name, wanted in members.items()], partitions
    ).owners

    assert plain_range(members, partitions) == {
        (tp.topic, tp.partition): thread for tp, thread in owners.items()
    }
