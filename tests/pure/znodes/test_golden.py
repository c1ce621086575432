"""Recorded znodes of 0.8.2.2: read, written byte for byte, and accepted or refused as there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.pure.znodes.codecs import codec_for
from tests.worlds import golden_data
from zkgroup.errors import CorruptZnodeError, UnsupportedRegexError
from zkgroup.java_regex import compile_java, normalise
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.consumers import Offset, Owner, Registration, subscription_kind
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.notifications import ConfigChange

FREQUENT = (
    Registration, Owner, Offset, BrokerRegistration, Topic, PartitionState, ControllerRegistration,
    ControllerEpoch, TopicConfig, ConfigChange,
)  # fmt: skip


def test_every_matching_znode_of_kafka_0_8_2_2_is_encoded_as_it_was_recorded() -> None:
    """Decoding and encoding gives the recorded bytes again."""
    seen: Counter[str] = Counter()
    for znode in golden_data.trees("kafka-0.8.2.2"):
        codec = codec_for(znode.path)
        if codec is None:
            continue
        decoded = codec.decode(znode.path, znode.data)

        assert decoded.encode() == znode.data, (znode.file, znode.path)
        seen[codec.__name__] += 1
    assert min(seen[codec.__name__] for codec in FREQUENT) >= 10


def test_every_recorded_registration_is_recognised_as_a_jvm_members() -> None:
    """Registrations that Kafka 0.8.2.2 wrote are of kind `jvm`."""
    kinds = {
        subscription_kind(znode.data)
        for znode in golden_data.trees("kafka-0.8.2.2")
        if codec_for(znode.path) is Registration
    }

    assert kinds == {"jvm"}


def test_a_reassignment_under_way_shows_adding_and_removing_replicas() -> None:
    """Version 3 topics have the adding and removing replicas, and the topic id."""
    topics = {
        znode.path: Topic.decode(znode.path, znode.data)
        for znode in golden_data.trees("kafka-2.8.2")
        if codec_for(znode.path) is Topic and "10-" in znode.file
    }
    moving = topics["/brokers/topics/move"]

    assert moving.version == 3
    assert moving.topic_id
    assert moving.adding[0] == (3,)
    assert moving.removing[0] == (2,)


REGISTRATIONS = golden_data.lines("kafka-0.8.2.2/registration-verdicts.jsonl")
OFFSETS = golden_data.lines("kafka-0.8.2.2/offset-verdicts.jsonl")


def topics_counted(registration: Registration) -> set[str]:
    """Which of the topics that existed then the foreigner takes part in."""
    existing = ("t3", "t4", "t10", "t14")
    wanted = registration.wanted()
    topics = getattr(wanted, "topics", None)
    if topics is not None:
        return {topic for topic in existing if topic in topics}
    pattern = compile_java(normalise(wanted.expression))  # type: ignore[union-attr]
    white = type(wanted).__name__ == "Whitelist"
    return {topic for topic in existing if bool(pattern.fullmatch(topic)) is white}


def test_there_are_as_many_verdicts_as_were_recorded() -> None:
    """A JVM member accepted or refused 66 registrations and 21 offsets."""
    assert (len(REGISTRATIONS), len(OFFSETS)) == (66, 21)


@pytest.mark.parametrize("case", REGISTRATIONS, ids=lambda case: case["case"])
def test_a_registration_is_readable_exactly_when_a_jvm_member_can_work_with_it(case: dict[str, Any]) -> None:
    """Corrupt data raises CorruptZnodeError, other data has the JVM's value."""
    data = golden_data.data_of(case)
    if case["verdict"] == "poison":
        with pytest.raises(CorruptZnodeError) as refused:
            Registration.decode("/consumers/g/ids/fp_py", data)
        assert refused.value.path == "/consumers/g/ids/fp_py"
        return
    registration = Registration.decode("/consumers/g/ids/fp_py", data)
    if case["case"] == "wildcard java only regex":
        with pytest.raises(UnsupportedRegexError, match="p"):
            topics_counted(registration)
        return

    foreigner_counts = case["jvm_owns"] == [0, 1]
    assert ("t4" in topics_counted(registration)) is foreigner_counts


@pytest.mark.parametrize("case", OFFSETS, ids=lambda case: repr(case["data"]))
def test_an_offset_is_readable_exactly_when_a_jvm_member_can_work_with_it(case: dict[str, Any]) -> None:
    """Corrupt data raises CorruptZnodeError with the path, other data has the JVM's value."""
    data = golden_data.data_of(case)
    if case["verdict"] == "poison":
        with pytest.raises(CorruptZnodeError, match="/consumers/g/offsets/t3/0"):
            Offset.decode("/consumers/g/offsets/t3/0", data)
        return
    offset = Offset.decode("/consumers/g/offsets/t3/0", data)

    read_first = case["first_offset_read"]
    if offset.position is None or case["out_of_range"]:
        # Nothing usable: the member starts by its reset policy, smallest in the recording.
        assert read_first == 0
    else:
        # At 20, the end of the partition, the member had nothing to read.
        assert offset.position == (read_first if read_first is not None else 20)
