"""Names of groups, topics, members and threads."""

from __future__ import annotations

import re

import pytest

from zkgroup.errors import ConfigError
from zkgroup.znodes import ids


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "a\n", "a\x00"])
def test_bad_group_and_topic_names_are_refused(name: str) -> None:
    """Empty, dots alone and illegal characters are refused, unlike in Kafka's own check."""
    with pytest.raises(ConfigError, match="expected letters"):
        ids.validate_group(name)
    with pytest.raises(ConfigError, match="expected letters"):
        ids.validate_topic(name)


def test_a_topic_name_has_at_most_255_characters() -> None:
    """The limit is Kafka 0.8's."""
    assert ids.validate_topic("t" * 255) == "t" * 255
    with pytest.raises(ConfigError, match="at most 255"):
        ids.validate_topic("t" * 256)


def test_a_new_topic_has_a_name_that_folders_can_have() -> None:
    """`<topic>-<partition>` is a file name, of at most 255 bytes. Older topics may have longer names."""
    assert ids.validate_new_topic("t" * 249) == "t" * 249
    with pytest.raises(ConfigError, match="at most 249"):
        ids.validate_new_topic("t" * 250)


@pytest.mark.parametrize(
    "name", ["", "a/b", "a\x00", "a\nb", "a\x7f", "a\x85", "\ud800", "\U0001f600", "\uffff"]
)
def test_bad_consumer_ids_are_refused(name: str) -> None:
    """A slash would register one level deeper; ZooKeeper refuses the others in paths."""
    with pytest.raises(ConfigError, match="consumer id"):
        ids.validate_consumer_id(name)


def test_a_generated_member_id_has_kafkas_shape() -> None:
    """Group, host, epoch milliseconds and 8 hex digits; an explicit id is used as it is."""
    generated = ids.make_member_id("g", None, "my-host.local", 1396019241689, "631e0040")

    assert generated == "g_my-host.local-1396019241689-631e0040"
    assert re.fullmatch(r"g_.+-[0-9]{13}-[0-9a-f]{8}", generated)
    assert ids.make_member_id("g", "a-1", "h", 1, "00000000") == "g_a-1"


@pytest.mark.parametrize(
    ("group", "member", "host"),
    [
        ("test", "test_MAC-AO6517-1396019241689-631e0040", "MAC-AO6517"),
        ("ggen", "ggen_localhost-1795216246599-760e4866", "localhost"),
        ("a_b-c", "a_b-c_x_y-z.net-1396019241689-00000000", "x_y-z.net"),
        ("g", "g_a", None),
        ("g", "g_h-139601924168-631e0040", None),
        ("g", "g_h-1396019241689-631E0040", None),
        ("g", "other_h-1396019241689-631e0040", None),
        ("g", "g_-1396019241689-631e0040", None),
    ],
)
def test_the_host_is_read_from_the_right(group: str, member: str, host: str | None) -> None:
    """Group and host may hold the separators themselves."""
    assert ids.member_host(group, member) == host


def test_the_start_time_is_read_too() -> None:
    """A generated id contains the start time of its process."""
    parsed = ids.parse_member_id("g", "g_h-1396019241689-631e0040")

    assert parsed == ids.GeneratedId("h", 1396019241689)


def test_thread_ids_are_split_from_the_right() -> None:
    """A member whose id has the form of a thread id keeps its id."""
    assert ids.thread_id("g_c-1", 0) == "g_c-1-0"
    assert ids.split_thread_id("g_c-1-0") == ("g_c-1", 0)
    assert ids.split_thread_id("g_c-11") == ("g_c", 11)


@pytest.mark.parametrize("text", ["", "g_a", "-1", "g_a-", "g_a-01", "g_a-x", "g_a-1\n", "g_a-١"])
def test_what_is_no_thread_id(text: str) -> None:
    """Anything that Kafka would not write is no thread id."""
    with pytest.raises(ValueError, match="no thread id"):
        ids.split_thread_id(text)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("0", 0),
        ("42", 42),
        ("2147483647", 2147483647),
        *[(other, None) for other in ("²", "٣", "007", "+7", "-1", "", "x", "1 ", "1\n", "9" * 5000)],
    ],
)
def test_a_znode_is_named_by_a_number_only_as_kafka_writes_it(name: str, number: int | None) -> None:
    """Past bug: `²` is a digit for `str.isdigit`, and then `int` failed."""
    assert ids.number_of(name) == number
