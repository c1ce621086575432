"""Recorded conversations with Kafka's coordinator, sent to a broker's port: it gives the same answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from tests.wired.broker.groups.recorded_groups_at_the_port import ServerReplay
from tests.worlds.recorded_groups import BEFORE, conversations
from zkgroup.broker.settings import BrokerSettings

RECORDED = conversations()
BROKERS = {"handcrafted": BrokerSettings(group_min_session_timeout_ms=10, group_max_size=4)}
"""Settings of the recorded brokers where they are not Kafka's defaults."""

LATE = "Kafka's timer fired later than the request came"
EMPTY_ID = "the empty group id has no znode: it has no offsets, and a commit of it is refused"
INSTANCE = "an unregistered group.instance.id is an unknown member, as in 3.9.1"
EXCEPTIONS: Mapping[tuple[str, str], tuple[int, str]] = {
    ("handcrafted", "rejoin_updates_timeouts"): (15, "a rejoin changes the timeouts, as from Kafka 3.4 on"),
    ("handcrafted", "static"): (2, INSTANCE),
    ("handcrafted", "static_leave"): (2, INSTANCE),
    ("handcrafted", "voting"): (2, "the leader decides a tie"),
    ("handcrafted", "unparsable_subscription"): (
        9,
        "metadata is not parsed when a join phase completes, as in 3.9.1",
    ),
    ("handcrafted", "offsets"): (1, "a list names the group of unparsable_subscription"),
    ("handcrafted", "empty_group_id"): (5, EMPTY_ID),
    ("handcrafted", "unknown_ids"): (1, "a list names the group with the empty id"),
    ("handcrafted", "sync_timer_one_follower"): (2, LATE),
    ("handcrafted", "static_absent"): (1, LATE),
    ("life-java-2.8.2", "a"): (1, LATE),
    ("life-librdkafka-2.3.0", "a"): (1, LATE),
    ("offsets-v0", "offsets_v0"): (
        5,
        "versions 0 and 1 share offsets; the driver wrote to ZooKeeper; a group id with a slash is refused",
    ),
}
"""Recording and client id: how many answers differ, and why."""

ANSWERED = {
    ("handcrafted", "replaced_parked_join"): "a sync that is replaced is answered with 27",
    ("handcrafted", "disconnect_while_parked"): "the replayed connection stays open",
    ("handcrafted", "unparsable_subscription"): "Kafka's group waited for ever",
}
"""Requests that Kafka left without an answer, and the broker does not."""


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_conversation_gets_the_same_answers_at_the_port(name: str) -> None:
    """Every recorded one, but for the differences in `EXCEPTIONS`."""
    replay = ServerReplay(name, BROKERS.get(name, BrokerSettings()), BEFORE.get(name, {}))
    replay.run(RECORDED[name])

    expected = {key: count for key, (count, _) in EXCEPTIONS.items() if key[0] == name}
    found = Counter((each.file, each.client) for each in replay.differences)
    assert found == expected, replay.differences[:5]
    answered = {(file, client) for file, client, is_answered in replay.unanswered() if is_answered}
    assert answered == {key for key in ANSWERED if key[0] == name}
    assert replay.compared == len([one for one in RECORDED[name] if one.direction == "response"])
    assert {each.client for each in replay.closed} <= {"oversized_api", ""}
