"""Recorded conversations with Kafka's coordinator, replayed: the pure coordinator gives the same answers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.worlds.recorded_groups import BEFORE, Difference, Replay, conversations
from zkgroup.coordinator.settings import CoordinatorSettings

RECORDED = conversations()
BROKERS = {
    "handcrafted": CoordinatorSettings(group_min_session_timeout_ms=10, group_max_size=4),
}
"""Settings of the recorded brokers where they are not Kafka's defaults."""

LATE = "Kafka's timer fired later than the request came"
EXCEPTIONS: Mapping[tuple[str, str], tuple[int, str]] = {
    ("handcrafted", "rejoin_updates_timeouts"): (15, "a rejoin changes the timeouts, as from Kafka 3.4 on"),
    ("handcrafted", "static"): (2, "an unregistered group.instance.id is an unknown member, as in 3.9.1"),
    ("handcrafted", "static_leave"): (2, "the same in LeaveGroup"),
    ("handcrafted", "voting"): (2, "the leader decides a tie"),
    ("handcrafted", "unparsable_subscription"): (
        9,
        "metadata is not parsed when a join phase completes, as in 3.9.1",
    ),
    ("handcrafted", "offsets"): (1, "a list names the group of unparsable_subscription"),
    ("handcrafted", "pipelined"): (1, "a connection with a parked request is not read: the server's part"),
    ("handcrafted", "sync_timer_one_follower"): (2, LATE),
    ("handcrafted", "static_absent"): (1, LATE),
    ("life-java-2.8.2", "a"): (1, LATE),
    ("life-librdkafka-2.3.0", "a"): (1, LATE),
    ("admin-consumer-group-command-2.8.2", "adminclient-1"): (1, "OffsetDelete is not replayed"),
}
"""Recording and client id: how many answers differ, and why."""

NEVER_ANSWERED = {
    ("handcrafted", "replaced_parked_join"): "a sync that is replaced is answered with 27",
    ("handcrafted", "disconnect_while_parked"): "the client was gone",
    ("handcrafted", "unparsable_subscription"): "Kafka's group waited for ever",
}
"""Requests that Kafka left without an answer, and the coordinator does not."""


def _replayed(name: str) -> Replay:
    replay = Replay(name, BROKERS.get(name, CoordinatorSettings()), BEFORE.get(name, {}))
    replay.run(RECORDED[name])
    return replay


def _by_client(differences: list[Difference]) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for each in differences:
        counts[each.file, each.client] = counts.get((each.file, each.client), 0) + 1
    return counts


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_conversation_gets_the_same_answers(name: str) -> None:
    """Error, generation, leader, members,
    protocol, assignment and offsets of every answer, except where `EXCEPTIONS` says why not.
    """
    replay = _replayed(name)

    expected = {key: count for key, (count, _) in EXCEPTIONS.items() if key[0] == name}
    assert _by_client(replay.differences) == expected, replay.differences[:5]
    answered = {(name, line.client) for line, answer in replay.unanswered() if answer is not None}
    assert answered == {key for key in NEVER_ANSWERED if key[0] == name}


def test_the_conversations_are_compared_in_full() -> None:
    """Nine clients, Kafka's tools and a hundred experiments."""
    assert sum(_replayed(name).compared for name in RECORDED) > 2100
    assert len(RECORDED) > 35
