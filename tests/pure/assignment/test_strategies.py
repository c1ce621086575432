"""The strategy that a group uses, by the registrations and owners of its members."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from zkgroup.assignment import STRATEGIES, Strategy, agreed_strategy, assign, strategies
from zkgroup.assignment.strategies import inferred_strategy
from zkgroup.errors import AssignmentError, ConfigError
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition
from zkgroup.model.assignors import AssignorInput, Preference, strategy_names
from zkgroup.settings import GroupSettings

EQUAL = [EvaluatedMember(name, {"t": 1, "u": 1}) for name in ("g_a", "g_b")]
UNEQUAL = [EvaluatedMember("g_a", {"t": 1}), EvaluatedMember("g_b", {"t": 1, "u": 1})]
PARTITIONS = {"t": (0, 1, 2, 3), "u": (0, 1, 2)}


def old(name: str) -> Preference:
    """A registration of a version with one strategy, which it uses whatever others publish."""
    return Preference((name,), negotiates=False)


def of(text: str) -> Preference:
    return Preference(strategy_names(text))


JVM = Preference((), negotiates=False)


@pytest.mark.parametrize(
    ("published", "agreed"),
    [
        ([], None),
        ([JVM, JVM], None),
        ([of("range"), JVM], "range"),
        ([of("roundrobin"), JVM], "roundrobin"),
        ([of("sticky"), of("sticky")], "sticky"),
        ([of("sticky"), JVM], "range"),
        ([of("sticky,roundrobin"), JVM], "roundrobin"),
        ([of("sticky"), of("roundrobin")], "range"),
        ([of("range"), of("sticky,range")], "range"),
        ([of("sticky, range"), of("range,sticky"), of("sticky")], "sticky"),
        ([of("roundrobin,sticky"), of("sticky,roundrobin")], "roundrobin"),
        ([of("roundrobin,sticky"), of("sticky,roundrobin"), of("sticky,roundrobin")], "sticky"),
        ([of("elsewhere,sticky"), of("elsewhere,sticky")], "elsewhere"),
    ],
)
def test_members_use_the_best_strategy_that_all_have(published: list[Preference], agreed: str | None) -> None:
    """The one that most prefer of those that all have; JVM members have two (recipes 4)."""
    assert agreed_strategy(published) == agreed


@pytest.mark.parametrize(
    ("published", "agreed"),
    [
        ([old("sticky"), of("sticky")], "sticky"),
        ([old("sticky"), of("sticky,range")], "range"),
        ([old("sticky"), of("range,sticky")], "range"),
        ([old("sticky"), of("roundrobin,sticky")], "range"),
        ([old("roundrobin"), of("sticky,roundrobin")], "roundrobin"),
        ([old("range"), of("sticky")], "range"),
        ([old("sticky"), old("sticky"), JVM], "range"),
    ],
)
def test_beside_members_that_do_not_negotiate_the_group_does_what_they_do(
    published: list[Preference], agreed: str
) -> None:
    """They use sticky only if all publish just that, and any other strategy always (recipes 4)."""
    assert agreed_strategy(published) == agreed


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_owners_that_one_strategy_explains_identify_it(strategy: str) -> None:
    """Owners dealt out by range, or by round robin, are known as such where only that one explains them."""
    owners = assign(strategy, EQUAL, PARTITIONS).owners

    assert inferred_strategy(EQUAL, PARTITIONS, owners) == strategy


def test_owners_that_nothing_explains_are_taken_for_kafkas_default() -> None:
    """No owners at all, some only, and members to whom round-robin cannot deal."""
    for owners in ({}, {TopicPartition("t", 0): "g_b-0"}):
        assert inferred_strategy(EQUAL, PARTITIONS, owners) == "range"
        assert inferred_strategy(UNEQUAL, PARTITIONS, owners) == "range"


def test_a_strategy_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """`assign`, the agreement and the inference of JVM groups take a new strategy from the table."""

    def first_takes_all(group: AssignorInput) -> Assignment:
        return Assignment({TopicPartition("t", 0): "g_a-0"}, ())

    row = Strategy(first_takes_all, known_to_jvm=True)
    monkeypatch.setitem(STRATEGIES, "first", row)  # type: ignore[arg-type]

    assert assign("first", EQUAL, PARTITIONS).owners == {TopicPartition("t", 0): "g_a-0"}
    assert agreed_strategy([of("first"), JVM]) == "first"
    assert inferred_strategy(EQUAL, PARTITIONS, {TopicPartition("t", 0): "g_a-0"}) == "first"


@pytest.mark.parametrize("text", ["first", "range,first", "range,range", "range,", ""])
def test_settings_take_names_of_strategies_only(text: str) -> None:
    """Each row of the table, several with commas between; no other name, and none twice."""
    for name in (*STRATEGIES, "sticky, range"):
        assert GroupSettings(partition_assignment_strategy=name).partition_assignment_strategy == name
    with pytest.raises(ConfigError, match="partition_assignment_strategy"):
        GroupSettings(partition_assignment_strategy=text)


def _install(monkeypatch: pytest.MonkeyPatch, assignor: object) -> None:
    """Installs an entry point `own` of `zkgroup.assignors`."""

    class Installed:
        value = "package:assignor"

        @staticmethod
        def load() -> object:
            return assignor

    strategies._own_strategy.cache_clear()
    monkeypatch.setattr(strategies, "entry_points", lambda group, name: [Installed] if name == "own" else [])
    monkeypatch.setattr(strategies, "_own_strategy", strategies._own_strategy.__wrapped__)


def test_an_entry_point_is_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the typed input with what all members publish, and is a value of the setting."""
    seen: list[AssignorInput] = []

    def assignor(group: AssignorInput) -> Assignment:
        seen.append(group)
        return Assignment({TopicPartition("t", 0): "g_b-0"})

    _install(monkeypatch, assignor)
    members = [EvaluatedMember("g_a", {"t": 1}, capacity=2), EvaluatedMember("g_b", {"t": 1}, capacity=3)]

    assert assign("own", members, PARTITIONS).owners == {TopicPartition("t", 0): "g_b-0"}
    assign("own", [*members, EvaluatedMember("g_c", {"t": 1})], PARTITIONS)

    assert [[m.capacity for m in group.members] for group in seen] == [[2, 3], [None] * 3]
    assert GroupSettings(partition_assignment_strategy="own,range")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "expected an Assignment"),
        (Assignment({TopicPartition("t", 0): "g_a-1"}), "t-0 cannot go to g_a-1"),
        (Assignment({TopicPartition("t", 9): "g_a-0"}), "t-9"),
        (Assignment({TopicPartition("x", 0): "g_a-0"}), "x-0"),
        (Assignment({TopicPartition("t", 0): "g_a-00"}), "t-0 cannot go to g_a-00"),
        (Assignment({TopicPartition("t", 0): 0}), "AttributeError"),  # type: ignore[dict-item]
        (Assignment([TopicPartition("t", 0)]), "AttributeError"),  # type: ignore[arg-type]
        (ZeroDivisionError("2 / 0"), "ZeroDivisionError: 2 / 0"),
    ],
)
def test_a_wrong_result_of_an_entry_point_is_an_assignment_error(
    monkeypatch: pytest.MonkeyPatch, result: object, reason: str
) -> None:
    """Members keep what they have then, as with every AssignmentError."""

    def assignor(group: AssignorInput) -> object:
        if isinstance(result, Exception):
            raise result
        return result

    _install(monkeypatch, assignor)

    with pytest.raises(AssignmentError, match=reason):
        assign("own", EQUAL, PARTITIONS)


def test_two_entry_points_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members might take different ones; the same one, found twice, is one."""
    found = [SimpleNamespace(value=f"{name}:assignor", load=lambda: None) for name in ("one", "two")]
    monkeypatch.setattr(strategies, "entry_points", lambda group, name: found)
    strategies._own_strategy.cache_clear()

    with pytest.raises(ConfigError, match="found one:assignor and two:assignor"):
        strategies._own_strategy("twice")
