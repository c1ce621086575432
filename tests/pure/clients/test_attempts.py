"""What the producer knows of a record that was not acknowledged, for any answers and losses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from zkgroup.clients.producer import Attempts, partition_of_key
from zkgroup.wire.messages import ErrorCode

FATES = ("acknowledged", "refused", "lost", "gone", "moved", "moved_after", "late_follower")


def response(partition: int, code: int, offset: int) -> SimpleNamespace:
    """As kafka-python decodes it."""
    one = SimpleNamespace(index=partition, error_code=code, base_offset=offset)
    return SimpleNamespace(responses=[SimpleNamespace(name="orders", partition_responses=[one])])


@given(st.lists(st.sampled_from(FATES), min_size=1, max_size=30))
def test_a_record_that_is_said_to_be_missing_is_not_in_the_log(fates: list[str]) -> None:
    """Attempts go on with the same batch until it is acknowledged; a resolved one is in the log never."""
    attempts, appended = Attempts(), 0
    for fate in fates:
        before = attempts.sent({3})
        if fate in ("acknowledged", "lost", "moved_after", "late_follower"):
            appended += 1
        match fate:
            case "acknowledged":
                attempts.answered(before, response(3, ErrorCode.NONE, 7))
            case "refused":
                attempts.answered(before, response(3, ErrorCode.MESSAGE_TOO_LARGE, -1))
            case "moved":
                attempts.answered(before, response(3, ErrorCode.NOT_LEADER_FOR_PARTITION, -1))
            case "moved_after":
                attempts.answered(before, response(3, ErrorCode.NOT_LEADER_FOR_PARTITION, 7))
            case "late_follower":
                attempts.answered(before, response(3, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1))
        if fate == "acknowledged":
            assert (3 in attempts.repeated) or appended == 1, "a duplicate is reported"
            assert 3 not in attempts.unresolved
            appended = 0
        assert not appended or 3 in attempts.unresolved
    if not {"lost", "gone", "moved_after", "late_follower"} & set(fates):
        assert not attempts.unresolved, "nothing was lost, so every outcome is certain"
        assert not attempts.repeated


def test_partitions_are_apart() -> None:
    """A request for two of which one is answered with an error."""
    attempts = Attempts()
    before = attempts.sent({1, 2})
    attempts.answered(before, response(1, ErrorCode.NONE, 0))
    assert attempts.unresolved == {2}


def test_a_request_without_an_answer_says_nothing() -> None:
    """acks=0."""
    attempts = Attempts()
    attempts.answered(attempts.sent({1}), None)
    assert attempts.unresolved == {1}


@pytest.mark.parametrize("partitions", [[0], [0, 1, 2], [3, 5, 9]])
@given(key=st.binary(max_size=40))
def test_keys_go_where_kafkas_producers_put_them(partitions: list[int], key: bytes) -> None:
    """`toPositive(murmur2(key)) % numPartitions` of the DefaultPartitioner."""
    assert partition_of_key(key, partitions) == partitions[(murmur2(key) & 0x7FFFFFFF) % len(partitions)]


def test_a_key_of_kafkas_own_tests() -> None:
    """`murmur2("21")` is -973932308 (org.apache.kafka.common.utils.UtilsTest)."""
    assert partition_of_key(b"21", range(7)) == (-973932308 & 0x7FFFFFFF) % 7
