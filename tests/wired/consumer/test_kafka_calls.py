"""Calls that users of kafka-python know: assignment, subscription, offsets of the source, lag."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.project import ROOT
from tests.waiting import PATIENCE_S
from tests.wired.consumer.records import every, filled, places, polled
from tests.worlds.public_apis import Api, MemberWorld, orders, settings
from zkgroup import AsyncConsumer, Consumer
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import ConfigError, MemberClosedError, NotOwnerError, SourceUnavailableError
from zkgroup.model import TopicPartition, Whitelist
from zkgroup.settings import GroupSettings
from zkgroup.sources.port import Bounds, RecordSource, SourceRecord

ZERO, ONE = orders(0, 1)
CALLS = (
    "assignment", "beginning_offsets", "commit", "committed", "end_offsets", "lag", "offsets_for_times",
    "pause", "paused", "poll", "position", "resume", "seek", "seek_to_beginning", "seek_to_end", "stop",
    "stopped", "subscribe", "subscription",
)  # fmt: skip
NOT_OWNED = TopicPartition("orders", 9)


class Away(RecordSource):
    """Its records cannot be read at the moment."""

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        raise SourceUnavailableError("the disk is away")

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        return []


def stamped(times_ms: Sequence[int], partition: int = 0) -> Any:
    source = filled(0)
    for time_ms in times_ms:
        source.append("orders", partition, b"x", timestamp_ms=time_ms)
    return source


@pytest.mark.parametrize("call", CALLS)
def test_each_call_is_on_both_classes_and_in_the_page(call: str) -> None:
    """docs/library.md has a row for each, with what it returns or does."""
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]

    assert hasattr(Consumer, call)
    assert hasattr(AsyncConsumer, call)
    assert [row for row in rows if re.search(rf"`{call}[`(]", row.split("|")[1])]


def test_assignment_is_what_is_owned_now(api: Api, world: MemberWorld) -> None:
    """Of a member and of a consumer; empty once the partitions went to another member."""
    with api.member(client=world.client("a")) as first:
        first.wait_until_stable(PATIENCE_S)
        assert first.assignment() == frozenset(orders(0, 1, 2, 3))

        with api.consumer(client=world.client("b"), source=filled(0)) as second:
            second.wait_until_stable(PATIENCE_S)

            assert first.assignment() | second.assignment() == frozenset(orders(0, 1, 2, 3))
            assert len(first.assignment()) == len(second.assignment()) == 2


def test_subscription_is_the_topics_asked_for(api: Api, world: MemberWorld) -> None:
    """Names of a list or mapping, started or not; of an expression those that matched."""
    named = api.member(client=world.client("a"), topics={"orders": 2, "missing": 1})
    assert named.subscription() == {"orders", "missing"}

    world.topic("other", 1)
    with api.member(client=world.client("b"), group="h", topics=Whitelist("o.*")) as member:
        member.wait_until_assigned(PATIENCE_S)

        assert member.subscription() == {"orders", "other"}


@pytest.mark.parametrize("kind", ["member", "consumer"])
def test_subscribe_changes_the_topics_of_a_member(api: Api, world: MemberWorld, kind: str) -> None:
    """What is still wanted is kept with its token, the rest is revoked, new topics are claimed."""
    world.topic("bills", 2)
    more = {"source": filled(0)} if kind == "consumer" else {}
    with getattr(api, kind)(client=world.client("a"), **more) as member:
        member.wait_until_assigned(PATIENCE_S)
        tokens = {lease.topic_partition: lease.token for lease in member.leases()}

        member.subscribe(["orders", "bills"])
        member.wait_until_assigned(PATIENCE_S)

        bills = [TopicPartition("bills", 0), TopicPartition("bills", 1)]
        assert member.subscription() == {"orders", "bills"}
        assert member.assignment() == {*orders(0, 1, 2, 3), *bills}
        kept = {lease.topic_partition: lease.token for lease in member.leases() if lease.topic == "orders"}
        assert kept == tokens

        member.subscribe({"bills": 1})
        member.wait_until_assigned(PATIENCE_S)

        assert member.assignment() == frozenset(bills)
        assert world.owners() == {}
        with pytest.raises(ConfigError, match="topics: expected a list or a mapping"):
            member.subscribe("orders")
        assert member.subscription() == {"bills"}


def test_a_subscription_outlives_the_session(api: Api, world: MemberWorld) -> None:
    """Registered anew after the loss of its session, a member still wants what it subscribed to last."""
    world.topic("bills", 1)
    with api.member(client=world.client("a")) as member:
        member.wait_until_assigned(PATIENCE_S)
        member.subscribe(["bills"])
        member.wait_until_assigned(PATIENCE_S)

        (before,) = member.leases()

        world.server.expire("a")
        world.until(lambda: [lease for lease in member.leases() if lease.token != before.token], "the claim")

        assert member.assignment() == {TopicPartition("bills", 0)}


def test_committed_of_one_partition_is_its_offset(api: Api, world: MemberWorld) -> None:
    """kafka-python's form; several partitions give a mapping, as before."""
    with api.member(client=world.client("a")) as member:
        member.wait_until_assigned(PATIENCE_S)
        member.commit({ZERO: 7})

        assert member.committed(ZERO) == 7
        assert member.committed(ONE) is None
        assert member.committed([ZERO, ONE]) == {ZERO: 7, ONE: None}


def test_beginning_and_end_offsets_are_those_of_the_source(api: Api, world: MemberWorld) -> None:
    """Of any partitions, owned or not."""
    source = filled(5, [0])
    source.drop_before(ZERO, 2)
    with api.consumer(client=world.client("a"), source=source) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)

        assert consumer.beginning_offsets([ZERO, NOT_OWNED]) == {ZERO: 2, NOT_OWNED: 0}
        assert consumer.end_offsets([ZERO, ONE]) == {ZERO: 5, ONE: 0}
        assert consumer.end_offsets([]) == {}


def test_offsets_that_the_source_cannot_say_name_the_partition(api: Api, world: MemberWorld) -> None:
    """The reason is the source's; the consumer goes on."""
    with api.consumer(client=world.client("a"), source=Away()) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)

        with pytest.raises(SourceUnavailableError, match="orders-0 are unknown: the disk is away"):
            consumer.end_offsets([ZERO])
        assert consumer.lag(ZERO) == {ZERO: None}
        assert consumer.assignment()


def test_seek_to_beginning_and_to_end(api: Api, world: MemberWorld) -> None:
    """Of the partitions named, or of all that are owned; a commit may then go back."""
    source = filled(5, [0, 1])
    source.drop_before(ZERO, 1)
    with api.consumer(client=world.client("a"), source=source) as consumer:
        polled(consumer, 9)

        consumer.seek_to_beginning(ZERO)

        assert (consumer.position(ZERO), consumer.position(ONE)) == (1, 5)
        assert places(polled(consumer, 4)) == [(0, n) for n in range(1, 5)]
        consumer.seek_to_beginning()
        assert (consumer.position(ZERO), consumer.position(ONE)) == (1, 0)
        consumer.seek_to_end()
        assert (consumer.position(ZERO), consumer.position(ONE)) == (5, 5)
        assert consumer.commit().committed[ZERO] == 5
        consumer.seek_to_beginning(ZERO)
        assert consumer.commit().committed == {ZERO: 1}
        with pytest.raises(NotOwnerError):
            consumer.seek_to_beginning(NOT_OWNED)


def test_offsets_for_times(api: Api, world: MemberWorld) -> None:
    """The first record at or after the time of each partition; None where all are older."""
    source = stamped([100, 200, 300])
    source.append("orders", 1, b"x", timestamp_ms=150)
    with api.consumer(client=world.client("a"), source=source) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)

        found = consumer.offsets_for_times({ZERO: 150, ONE: 150})
        assert found == {ZERO: 1, ONE: 0}
        assert consumer.offsets_for_times({ZERO: 301, ONE: 0}) == {ZERO: None, ONE: 0}


def test_a_source_without_times_is_named(api: Api, world: MemberWorld) -> None:
    """A clear error instead of a wrong offset."""
    with api.consumer(client=world.client("a"), source=Away()) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)

        with pytest.raises(ConfigError, match="Away does not know the times of its records"):
            consumer.offsets_for_times({ZERO: 1})


def test_lag_is_log_end_minus_position(api: Api, world: MemberWorld) -> None:
    """Of all that are owned, or of those named; None while the start is not known."""
    source = filled(5, [0])
    with api.consumer(client=world.client("a"), source=source) as consumer:
        polled(consumer, 5)
        source.append("orders", 0, b"6")
        consumer.pause(ZERO)
        consumer.seek(ZERO, 2)

        lag = consumer.lag()

        assert lag == {ZERO: 4, ONE: 0, **dict.fromkeys(orders(2, 3), 0)}
        assert consumer.lag(ZERO) == {ZERO: 4}
        with pytest.raises(NotOwnerError):
            consumer.lag(NOT_OWNED)


def test_a_closed_consumer_asks_its_source_nothing(api: Api, world: MemberWorld) -> None:
    """The source is closed with it."""
    with api.consumer(client=world.client("a"), source=filled(1)) as consumer:
        polled(consumer, 4)
    with pytest.raises(MemberClosedError):
        consumer.end_offsets([ZERO])


def test_stop_only_asks_of_a_member_and_of_a_consumer(api: Api, world: MemberWorld) -> None:
    """What is owned stays owned until `close`; waits and polls end."""
    for name, made in (("a", api.member), ("b", api.consumer)):
        more = {"source": filled(1)} if name == "b" else {}
        with made(client=world.client(name), group=name, **more) as one:
            one.wait_until_assigned(PATIENCE_S)

            one.stop()

            assert one.stopped
            assert len(one.assignment()) == 4
            if name == "b":
                assert one.poll(timeout_s=PATIENCE_S) == {}
                assert list(one) == []
            assert one.state is MemberState.STABLE
        assert one.state is MemberState.CLOSED


def test_commits_come_every_five_seconds_by_default(api: Api, world: MemberWorld) -> None:
    """Kafka's default since 0.9."""
    assert GroupSettings().auto_commit_interval_ms == 5_000
    with api.consumer(client=world.client("a"), source=filled(3, [0]), settings=settings()) as consumer:
        assert places(polled(consumer, 3)) == every(3, [0])
        consumer.poll(timeout_s=0.05)

        begun_ms = world.clock.now_ms()
        world.until(lambda: world.offsets().get(0) == 3, "the commit by timer")
        assert world.clock.now_ms() - begun_ms <= 5_100
