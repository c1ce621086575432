"""Wildcards: Kafka's normalisation, Java's expressions, internal topics."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds import golden_data
from zkgroup.assignment.wildcards import compile_java, evaluate, normalise
from zkgroup.errors import ConfigError, UnsupportedRegexError
from zkgroup.model import Blacklist, StaticSubscription, Subscription, Whitelist

VERDICTS = golden_data.lines("java-regex/verdicts.jsonl")
NAMES = (golden_data.FOLDER / "java-regex/names.txt").read_text().split()


@pytest.mark.parametrize(
    ("expression", "normalised"),
    [
        (' "a, b" ', "a|b"),
        ("white1,white2", "white1|white2"),
        (' "solo , page-views" ', "solo|page-views"),
        ("\t'\"a b\"'\x00", "ab"),
        ("a'b", "a'b"),
        ("a{1,2}", "a{1|2}"),
        ("\u00a0a", "\u00a0a"),
        ("", ""),
        ('"', ""),
    ],
)
def test_normalisation(expression: str, normalised: str) -> None:
    """Trim, comma to bar, no spaces, no quotes at the ends; again changes nothing."""
    assert normalise(expression) == normalised
    assert normalise(normalised) == normalised


def accepts(subscription: Subscription, topic: str, exclude_internal: bool = True) -> bool:
    return topic in evaluate(subscription, [topic], exclude_internal)


@pytest.mark.parametrize(
    ("subscription", "topic", "accepted"),
    [
        (Whitelist("white1,white2"), "white2", True),
        (Whitelist("white1,white2"), "black1", False),
        (Whitelist("white_listed-topic.+"), "white_listed-topic1", True),
        (Whitelist(r"test-(?!bad\b)[\w]+"), "test-good", True),
        (Whitelist(r"test-(?!bad\b)[\w]+"), "test-bad", False),
        (Whitelist("top"), "topic", False),
        (Whitelist("opic"), "topic", False),
        (Whitelist("a|top"), "topic", False),
        (Blacklist("black1"), "white2", True),
        (Blacklist("black1"), "black1", False),
        (Blacklist("top"), "topic", True),
    ],
)
def test_filters_of_kafkas_own_suite(subscription: Subscription, topic: str, accepted: bool) -> None:
    """The whole name decides."""
    assert accepts(subscription, topic) is accepted


@pytest.mark.parametrize("subscription", [Whitelist(".+"), Blacklist("x")], ids=["white", "black"])
def test_internal_topics_are_left_out_of_both_lists_by_the_readers_setting(
    subscription: Subscription,
) -> None:
    """Only the exact name is internal; a static subscription may name it."""
    assert not accepts(subscription, "__consumer_offsets")
    assert accepts(subscription, "__consumer_offsets", exclude_internal=False)
    assert accepts(subscription, "__consumer_offsets2")
    assert accepts(StaticSubscription({"__consumer_offsets": 1}), "__consumer_offsets")


def test_all_topics_of_a_wildcard_have_its_thread_count() -> None:
    """Topics that exist now, each with the same threads."""
    assert evaluate(Whitelist("a.*", 3), ["b", "ab", "a"], True) == {"a": 3, "ab": 3}


def test_a_static_subscription_names_topics_that_need_not_exist() -> None:
    """They have no partitions until they are created."""
    assert evaluate(StaticSubscription({"t": 2}), [], True) == {"t": 2}


@pytest.mark.parametrize(
    "name", ["\ud800", "\U0001f600", "a/b", "", ".", "..", "a\x00b", "a\x1b[2J", "\ue000"]
)
def test_a_name_that_no_znode_can_have_is_no_topic(name: str) -> None:
    """A foreign registration may have such a name: no znode of that name is read."""
    assert evaluate(StaticSubscription({name: 1, "t": 2}), [], True) == {"t": 2}


def test_an_expression_means_what_java_makes_of_it_or_is_refused() -> None:
    """Whatever is evaluated matches the names that a JVM matched, the rest is refused.

    How much is supported is the next test's subject.
    """
    assert len(VERDICTS) > 500
    assert [case for case in VERDICTS if not _agrees_with_java(case)] == []


def _agrees_with_java(case: dict[str, Any]) -> bool:
    try:
        pattern = compile_java(case["expression"])
    except UnsupportedRegexError:
        return True  # never a different answer
    except ConfigError:
        return case["matches"] is None
    return case["matches"] == [name for name in NAMES if pattern.fullmatch(name)]


def test_most_of_what_java_compiles_is_supported() -> None:
    """Refusing is safe and useless: of the recorded expressions at least 7 in 10 are evaluated."""
    compiled = [case["expression"] for case in VERDICTS if case["matches"] is not None]

    assert sum(map(is_supported, compiled)) > 0.7 * len(compiled)
    assert len(compiled) > 300


def is_supported(expression: str) -> bool:
    try:
        compile_java(expression)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(
    ("expression", "construct"),
    [
        (r"\p{Lower}+", r"\p"),
        (r"\Qa.b\E", r"\Q"),
        (r"[a-z&&[^b]]", "intersection"),
        ("[a[b]]", "a class inside a class"),
        ("[[:alpha:]]", "a class inside a class"),
        ("a(?i)b", "not at the start"),
        ("(?x)a b", "the flags"),
        (r"\h", r"\h"),
        (r"\R", r"\R"),
        (r"\X", r"\X"),
        (r"a\z", r"\z"),
        (r"a\Z", r"\Z"),
        (r"\Ga", r"\G"),
        (r"(?<n>a)", "a named group"),
        (r"(a)\1", r"\1"),
        (r"\x{61}", r"\x"),
        ("(?<=a*)b", "look-behind"),
        ("{1}", "nothing before it"),
        ("^*a", "a repeated assertion"),
    ],
)
def test_what_python_would_evaluate_otherwise_is_refused_by_name(expression: str, construct: str) -> None:
    """The error names the construct, so that a person can rewrite the expression."""
    with pytest.raises(UnsupportedRegexError) as refused:
        compile_java(expression)

    assert construct in str(refused.value)


@pytest.mark.parametrize(
    "expression", ["(", "a)", "[a", "*", "a**", "a{", "a{2,1}", "\\", "(?P<n>a)", "(?#c)a", r"\y", "[z-a]"]
)
def test_what_is_no_java_expression_is_refused_as_such(expression: str) -> None:
    """Even where Python could make something of it: a JVM member fails its rebalance on it."""
    with pytest.raises(ConfigError, match="no Java regular expression") as refused:
        compile_java(expression)

    assert not isinstance(refused.value, UnsupportedRegexError)
