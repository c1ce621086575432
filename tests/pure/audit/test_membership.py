"""Who was registered, what they wanted, and what they should have owned."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog, registration
from zkgroup.assignment.strategies import inputs_digest
from zkgroup.audit.findings.membership import (
    ExpectedOwners,
    demand,
    existence,
    expected_owners,
    least_moves,
    numbers_of,
    partitions_at,
    topics_wanted,
)
from zkgroup.audit.findings.rules import TimeRange, gaps, merged, overlaps
from zkgroup.audit.inputs.facts import registration_of
from zkgroup.model import EvaluatedMember, TopicPartition
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment

OURS = {"zkgroup": "1", "strategy": "sticky"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _span(start: int, end: int | None = None) -> TimeRange:
    return TimeRange(start, start, end, end)


def _wants(text: str = registration(), **extensions: str) -> Registration:
    found = registration_of(text.encode() if not extensions else registration(**extensions).encode())
    assert found is not None
    return found


def test_spans_are_merged_cut_and_searched_for_gaps() -> None:
    """Spans that touch are merged; overlaps and gaps keep the end of an open span open."""
    spans = [_span(5, 9), _span(1, 3), _span(3, 4), _span(20)]

    assert merged(spans) == [_span(1, 4), _span(5, 9), _span(20)]
    assert overlaps([_span(2, 6), _span(8)], merged(spans)) == [
        _span(2, 4),
        _span(5, 6),
        _span(8, 9),
        _span(20),
    ]
    assert gaps(_span(2, 30), merged(spans)) == [_span(4, 5), _span(9, 20)]
    assert gaps(_span(2), [_span(1, 4)]) == [_span(4)]
    assert gaps(_span(2), []) == []
    assert overlaps([_span(1, 3)], [_span(3, 5)]) == []


def test_topics_are_known_as_they_stood() -> None:
    """At a zxid a topic has the partitions of its last write up to then, and none once it is deleted."""
    log = AuditLog()
    log.topic("t", 1)
    grown = log.topic("t", 2)
    log.topic("u", 1)
    deleted = log.delete("/brokers/topics/t")
    facts = log.facts()

    assert partitions_at(facts, grown - 1) == {"t": (0,)}
    assert partitions_at(facts, grown) == {"t": (0, 1)}
    assert partitions_at(facts, deleted) == {"u": (0,)}
    assert [(span.from_zxid, span.to_zxid) for span in existence(facts, "t", 0)] == [(1, deleted)]
    assert [(span.from_zxid, span.to_zxid) for span in existence(facts, "t", 1)] == [(grown, deleted)]
    assert numbers_of(b"no json") == ()
    assert registration_of(b"no json") is None


def test_a_wildcard_leaves_internal_topics_out_unless_it_says_otherwise() -> None:
    """As JVM members do, whose registrations never say; ours publish what they do."""
    topics = ("__consumer_offsets", "t")
    text = '{"version":1,"subscription":{".*":2},"pattern":"white_list"%s}'

    assert topics_wanted(_wants(text % ""), topics) == {"t": 2}
    assert topics_wanted(_wants(text % ',"exclude_internal":"true"'), topics) == {"t": 2}
    assert topics_wanted(_wants(text % ',"exclude_internal":"false"'), topics) == dict.fromkeys(topics, 2)
    assert topics_wanted(_wants(text.replace(".*", "[a&&b]") % ""), topics) is None


def test_a_partition_is_in_demand_while_a_member_wants_it_and_it_exists() -> None:
    """Demand begins when the wanted topic is made and ends with the last member that wants it."""
    log = AuditLog()
    first = log.join("g", "g_a", 1, {"t": 1})
    log.join("g", "g_b", 2, {"u": 1})
    made = log.topic("t", 1)
    log.join("g", "g_c", 3, {"t": 1})
    log.leave("g", "g_a", 1)
    left = log.leave("g", "g_c", 3)

    found = demand(log.facts(), "g", "t", 0)

    assert first < made
    assert [(span.from_zxid, span.to_zxid) for span in found] == [(made, left)]


def test_jvm_members_plan_by_range_unless_round_robin_explains_their_owners() -> None:
    """Members that publish no strategy plan by range, or by round robin where it explains their owners."""
    members = {"g_a": _wants(), "g_b": _wants()}
    partitions = {"t": (0, 1)}
    by_range = expected_owners(members, partitions, {}, None)
    assert by_range is not None
    assert (by_range.strategy, by_range.owners) == ("range", {T0: "g_a-0", T1: "g_b-0"})

    topics = {"t": (0, 1, 2, 3), "u": (0, 1, 2)}
    wide = {name: _wants(registration({"t": 1, "u": 1})) for name in members}
    robin = expected_owners(
        {name: _wants(registration({"t": 1, "u": 1}, strategy="roundrobin")) for name in members},
        topics,
        {},
        None,
    )
    assert robin is not None
    inferred = expected_owners(wide, topics, robin.owners, None)
    assert inferred is not None
    assert (robin.strategy, inferred.strategy) == ("roundrobin", "roundrobin")


def test_sticky_is_the_stored_plan_and_only_where_all_publish_it() -> None:
    """The stored plan counts while its digest fits; a member that does not publish sticky makes it range."""
    members = {"g_a": _wants(**OURS), "g_b": _wants(**OURS)}
    evaluated = [EvaluatedMember(name, {"t": 1}, negotiates=False) for name in members]
    stored = StoredAssignment(
        5, inputs_digest("sticky", evaluated, {"t": (0, 1)}), {T0: "g_b-0", T1: "g_a-0"}
    )

    assert expected_owners(members, {"t": (0, 1)}, {}, stored) == ExpectedOwners(
        "sticky", evaluated, stored.owners
    )
    assert expected_owners(members, {"t": (0, 1, 2)}, {}, stored) is None
    assert expected_owners(members, {"t": (0, 1)}, {}, None) is None

    mixed = expected_owners({**members, "g_c": _wants()}, {"t": (0, 1)}, {}, stored)
    assert mixed is not None
    assert mixed.strategy == "range"


def test_the_least_moves_are_those_of_the_evenest_assignment() -> None:
    """Six partitions held 3 and 3 need 2 moves for a third member; an unreadable wildcard gives no count."""
    members = {"g_a": _wants(), "g_b": _wants(), "g_c": _wants()}
    before = {TopicPartition("t", n): "g_a-0" if n < 3 else "g_b-0" for n in range(6)}

    assert least_moves(members, {"t": tuple(range(6))}, before) == 2
    assert least_moves(members, {"t": tuple(range(6))}, {}) == 0
    unknown = _wants('{"version":1,"subscription":{"[a&&b]":1},"pattern":"white_list"}')
    assert least_moves({"g_x": unknown}, {"t": (0,)}, before) is None


def test_the_fewest_moves_of_a_mixed_group_are_searched_for_while_it_is_small() -> None:
    """A foreign registration may ask for 2,147,483,647 threads; of equals any number is counted at once."""
    before = {T0: "g_a-0", T1: "g_a-0"}
    topics = {"t": (0, 1), "u": (0,)}
    mixed = {"g_a": _wants(), "g_b": _wants(registration({"t": 1, "u": 1}))}
    huge = {"g_a": _wants(), "g_b": _wants(registration({"t": 2_147_483_647, "u": 1}))}

    assert least_moves(mixed, topics, before) == 0
    assert least_moves(huge, topics, before) is None
    assert least_moves({"g_a": _wants(registration({"t": 90_000}))}, topics, before) == 1
