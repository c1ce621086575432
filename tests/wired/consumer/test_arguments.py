"""What the application hands in by mistake is its own error, never the member's end."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.public_apis import Api, MemberWorld, orders
from zkgroup.consumer._base import MemberBase
from zkgroup.consumer.aio import AsyncConsumer, AsyncGroupMember
from zkgroup.consumer.callbacks import AsyncRebalanceListener, RebalanceListener
from zkgroup.consumer.consumer_engine import ConsumerBase
from zkgroup.consumer.sync import Consumer, GroupMember
from zkgroup.errors import ConfigError
from zkgroup.history import HistoryFile
from zkgroup.model import Whitelist
from zkgroup.sources.memory import MemorySource

ZERO, ONE = orders(0, 1)
NO_OFFSETS: list[dict[Any, Any]] = [
    {ZERO: "5"},
    {ZERO: 1.5},
    {ZERO: None},
    {ZERO: True},
    {ZERO: -1},
    {ZERO: 2**63},
    {("orders", 0): 5},
    {"orders-0": 5},
]


@pytest.mark.parametrize("wrong", NO_OFFSETS, ids=repr)
def test_a_commit_of_what_is_no_offset_is_refused_at_once(
    api: Api, world: MemberWorld, wrong: dict[Any, Any]
) -> None:
    """ConfigError, nothing is committed, and the member goes on."""
    with api.member(client=world.client("a")) as member:
        member.wait_until_assigned(PATIENCE_S)
        member.commit({ZERO: 1})

        with pytest.raises(ConfigError, match="expected"):
            member.commit({ONE: 1, **wrong})

        assert world.offsets() == {0: 1, 1: -1, 2: -1, 3: -1}
        assert member.commit({ZERO: 2}).committed == {ZERO: 2}


def test_a_consumer_checks_offsets_too(api: Api, world: MemberWorld) -> None:
    """Those of a commit and of a seek."""
    with api.consumer(client=world.client("a"), source=MemorySource()) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)

        with pytest.raises(ConfigError, match="expected an offset"):
            consumer.commit({ZERO: "5"})
        with pytest.raises(ConfigError, match="expected an offset"):
            consumer.seek(ZERO, 1.5)

        assert consumer.commit({ZERO: 2}).committed == {ZERO: 2}


def test_partitions_are_checked_before_the_member_gets_them(api: Api, world: MemberWorld) -> None:
    """`hand_back` and `committed` of something else are ConfigErrors."""
    with api.member(client=world.client("a")) as member:
        member.wait_until_assigned(PATIENCE_S)

        with pytest.raises(ConfigError, match="TopicPartition"):
            member.hand_back(["orders-0"])
        with pytest.raises(ConfigError, match="TopicPartition"):
            member.committed([("orders", 0)])

        assert len(member.leases()) == 4


@pytest.mark.parametrize("kind", [GroupMember, AsyncGroupMember, Consumer, AsyncConsumer])
def test_all_four_classes_take_the_same_arguments(kind: type) -> None:
    """Declared once for members and once for consumers, which take a source too."""
    parameters = inspect.signature(kind).parameters.values()
    is_consumer = issubclass(kind, ConsumerBase)

    assert " ".join(each.name for each in parameters) == (
        f"address group topics {'source ' if is_consumer else ''}"
        "settings listener client connection history metrics clock"
    )
    assert [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY] == ["address"]
    assert kind.__init__ is (ConsumerBase if is_consumer else MemberBase).__init__  # type: ignore[misc]
    with pytest.raises(TypeError, match="group"):
        kind("127.0.0.1:2181", topics=["orders"])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"address": ["127.0.0.1:2181"]}, r"address: expected a text, found \['127.0.0.1:2181'\]"),
        ({"address": "127.0.0.1:port"}, "is not HOST:PORT"),
        ({"address": None}, "exactly one of an address and a client"),
        ({"group": None}, "group: expected a name, found None"),
        ({"group": 7}, "group: expected a name, found 7"),
        ({"topics": None}, "topics: expected a list or a mapping, found None"),
        ({"topics": [["orders"]]}, r"topics: expected names, found \['orders'\]"),
        ({"topics": {7: 1}}, "topics: expected names, found 7"),
        ({"topics": Whitelist(None)}, "topics: expected a Java expression, found None"),  # type: ignore[arg-type]
        ({"topics": Whitelist("a", "2")}, "threads: expected a whole number above 0"),  # type: ignore[arg-type]
        ({"settings": {}}, "settings: expected an instance of GroupSettings, found {}"),
        ({"listener": 7}, "listener: expected an instance of .*RebalanceListener"),
        ({"listener": RebalanceListener}, "listener: expected an instance of .*RebalanceListener"),
        ({"client": "127.0.0.1:2181", "address": None}, "client: expected a ZooKeeperClient"),
        ({"connection": 5000}, "connection: expected an instance of ClientSettings, found 5000"),
        ({"history": "history.jsonl"}, "history: expected a HistorySink such as HistoryFile"),
        ({"history": HistoryFile}, "history: expected a HistorySink such as HistoryFile"),
        ({"metrics": "on"}, "metrics: expected a MetricsSink"),
        ({"clock": 12}, "clock: expected a Clock"),
    ],
    ids=repr,
)
def test_a_wrong_argument_is_named_when_the_member_is_made(
    api: Api, wrong: dict[str, Any], told: str
) -> None:
    """Before any thread or connection, on both kinds of member."""
    named = {"address": "127.0.0.1:1", "group": "g", "topics": ["orders"], "settings": None, **wrong}
    kinds = (GroupMember, Consumer) if api.loop is None else (AsyncGroupMember, AsyncConsumer)

    for kind in kinds:
        source = {} if kind in (GroupMember, AsyncGroupMember) else {"source": MemorySource()}
        with pytest.raises(ConfigError, match=told):
            kind(**named, **source)


@pytest.mark.parametrize("wrong", [None, "data/", MemorySource], ids=repr)
def test_a_source_is_an_instance_of_a_source(api: Api, wrong: Any) -> None:
    """`source=None` is what a missing configuration value becomes."""
    with pytest.raises(ConfigError, match="source: expected an instance of RecordSource"):
        api.consumer("127.0.0.1:1", source=wrong)


def test_a_listener_belongs_to_its_api(api: Api) -> None:
    """Coroutines would never be awaited on the one, and would stop the loop of the other."""
    other = AsyncRebalanceListener() if api.loop is None else RebalanceListener()
    kind = GroupMember if api.loop is None else AsyncGroupMember

    with pytest.raises(ConfigError, match="listener: expected an instance of"):
        kind("127.0.0.1:1", group="g", topics=["orders"], listener=other)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, "5", True, float("nan")], ids=repr)
def test_a_wait_needs_a_number_of_seconds(api: Api, world: MemberWorld, wrong: Any) -> None:
    """Also the one of `close`, which used to end the member's thread; infinity means without limit."""
    with api.consumer(client=world.client("a"), source=MemorySource()) as consumer:
        for wait in (
            lambda: consumer.wait_until_assigned(wrong),
            lambda: consumer.wait_until_stable(wrong),
            lambda: consumer.hand_back([], wrong),
            lambda: consumer.poll(wrong),
            lambda: consumer.close(wrong),
        ):
            with pytest.raises(ConfigError, match="timeout_s: expected a number of seconds"):
                wait()

        consumer.wait_until_assigned(float("inf"))
        assert len(consumer.leases()) == 4
        consumer.close(float("inf"))


def test_a_consumer_is_asked_about_records_and_partitions_only(api: Api, world: MemberWorld) -> None:
    """`ack(None)` and a partition that is none are the caller's error, not silently nothing."""
    with api.consumer(client=world.client("a"), source=MemorySource()) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)

        for record in (None, ZERO, {"offset": 1}):
            with pytest.raises(ConfigError, match="record: expected a Record as it was delivered, found"):
                consumer.ack(record)
        for call in (consumer.lease, consumer.position, consumer.pause, consumer.resume):
            with pytest.raises(ConfigError, match="expected each as a TopicPartition, found 'orders-0'"):
                call("orders-0")
        with pytest.raises(ConfigError, match="expected each as a TopicPartition"):
            consumer.pause([ZERO])
        with pytest.raises(ConfigError, match="expected each as a TopicPartition"):
            consumer.seek(("orders", 0), 1)
        with pytest.raises(ConfigError, match="expected a list of TopicPartition"):
            consumer.committed(None)
        with pytest.raises(ConfigError, match="expected a list of TopicPartition"):
            consumer.end_offsets(ZERO)
        for times in ([ZERO], {ZERO: -1}, {ZERO: "now"}, {"orders-0": 1}):
            with pytest.raises(ConfigError, match=r"epoch milliseconds|expected each as a TopicPartition"):
                consumer.offsets_for_times(times)
        for offsets in ([ZERO], 5):
            with pytest.raises(ConfigError, match="expected a mapping of TopicPartition to offset"):
                consumer.commit(offsets)
        for count in (0, "5", None, True):
            with pytest.raises(ConfigError, match="max_records: expected a whole number above 0"):
                consumer.poll(0.0, count)

        assert consumer.paused == frozenset()
        assert consumer.commit({ZERO: 2}).committed == {ZERO: 2}


def test_a_commit_of_nothing_at_all_is_refused(api: Api, world: MemberWorld) -> None:
    """`None` means "what is processed" to a `Consumer` alone."""
    with api.member(client=world.client("a")) as member, pytest.raises(ConfigError, match="mapping"):
        member.commit(None)
