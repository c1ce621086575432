"""The labelled accidents of `tests/golden` as incidents: each is one, and little else is reported."""

from __future__ import annotations

import pytest

from tests.worlds.audit_folders import INCIDENTS, Incident, findings, incidents, source
from zkgroup.audit import incidents as package
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.incidents.attribution import incidents_of, numbered, only_of, with_causes
from zkgroup.audit.incidents.incident import Incident as Told
from zkgroup.audit.inputs.facts import Facts

TITLES = {
    "poison registration": "00:00:07 g_poison registered in g with data that no JVM member can read;"
    " t-0..3 had no owner for up to 10.1 s",
    "foreign owner deleted by a JVM release": "00:00:19 session …07 took g's t-0 from g_a, until the owner"
    " deleted that claim",
    "zombie commit and rewind": "00:00:23 session …08 took g's t-0..3 from g_a, which kept committing:"
    " offsets 1000 → 21",
    "partitions without owner": "00:00:25 session …08 ended and with it the owners of g's t-0..3; t-0..3"
    " had no owner for 4.1 s, while g_a kept committing",
    "registered but idle": "00:00:30 session …09, which is no member, claimed idle's t-0; t-0..3 had no"
    " owner for up to 11.4 s",
    "owner adopted from another session": "00:00:42 session …0b, which is no member, claimed adopt's"
    " t-0..3, while adopt_d kept committing; t-0..3 had no owner for 2.6 s",
    "member paused past its session": "00:00:54 member pause_e of pause was paused for longer than its"
    " session timeout of 3.0 s",
    "empty reassignment stuck": "00:00:58 a reassignment did not finish: the request names no"
    " partition, and Kafka 0.8.2.2 never removes such a one; stood for 2.0 s, until session …01 deleted it"
    " by hand",
    "reassignment lost at failover": "00:01:03 brokers 3 and 1 were lost: the reassignment of mv-0 stopped;"
    " mv-0 lacked replicas; another controller was elected",
    "controller deleted by hand": "00:01:13 session …01, which is not the controller's, deleted"
    " /controller: 1 election",
    "controller id replaced": "00:01:17 session …12, which is no broker's, held /controller for 3.8 s, while"
    " the former controller went on (1 write)",
    "controller deleted again and again": "00:01:23 session …01, which is not the controller's, deleted"
    " /controller 3 times: 3 elections",
    "controller storm": "00:01:37 54 controller elections in 2.0 s; no JVM can read /brokers/ids/8",
    "leaders lost": "00:01:48 broker 2 was lost: mv-0 had no leader for 1.6 s",
}
"""What the audit says of each accident, in one sentence."""


def _told(name: str) -> list[Told]:
    return incidents_of(findings(name), _facts(name))


def _facts(name: str) -> Facts:
    return audit(source(name), ()).facts


def _begins_in(label: Incident, one: Told) -> bool:
    """Whether an incident begins among the zxids of a label; its cause may be the record before them."""
    return label.from_zxid <= (one.from_zxid or 0) <= label.to_zxid


def test_each_accident_is_one_incident_with_this_title() -> None:
    """Of severity warning or error; the labels name no other."""
    bad = {one.title for one in _told(INCIDENTS) if one.severity != "info"}

    assert {label.name for label in incidents()} - {"calm"} == set(TITLES)
    assert set(TITLES.values()) <= bad
    assert len(set(TITLES.values())) == len(TITLES)


def test_nothing_else_is_more_than_a_note() -> None:
    """No accident is two incidents."""
    others = [one for one in _told(INCIDENTS) if one.severity != "info" and one.title not in TITLES.values()]

    assert others == []


def test_incidents_are_from_their_cause_on() -> None:
    """A deletion of `/controller` is the cause of the election after it, and within the incident."""
    for one in _told(INCIDENTS):
        if one.cause.zxid is not None:
            assert (one.from_zxid or 0) <= one.cause.zxid, one.title
            assert one.to_zxid is None or one.cause.zxid <= one.to_zxid, one.title


@pytest.mark.parametrize("name", ["zombie_commit", "offset_regression", "controller_election"])
def test_findings_of_one_name_have_the_incidents_of_all(name: str) -> None:
    """Rules that are not asked for say what caused the findings of those that are."""
    history, only = source(INCIDENTS), [rule for rule in ALL_RULES if rule.name == name]
    whole = audit(history, ALL_RULES)
    found = audit(history, with_causes(only))

    some, incidents = only_of(only, found, numbered(found))

    assert some.findings == [one for one in whole.findings if one.finding == name]
    assert {one.title for one in incidents.incidents} == {
        one.title
        for one in incidents_of(whole.findings, whole.facts)
        if name in {each.finding for each in one.findings}
    }


def test_incidents_begin_where_the_accidents_were() -> None:
    """Each title lies within the zxids of its label."""
    by_title = {one.title: one for one in _told(INCIDENTS)}
    # The session that took the owners ended two records before the label of what followed begins.
    early = {"partitions without owner"}

    for label in incidents():
        if label.name != "calm" and label.name not in early:
            assert _begins_in(label, by_title[TITLES[label.name]]), label.name


def test_every_finding_is_in_exactly_one_incident() -> None:
    """Nothing is lost, nothing is counted twice."""
    incidents = _told(INCIDENTS)
    inside = [id(one) for each in incidents for one in each.findings]

    assert sorted(inside) == sorted(map(id, findings(INCIDENTS)))


def test_the_damage_of_the_rewind() -> None:
    """979 records of each of four partitions, at least."""
    (rewind,) = [one for one in _told(INCIDENTS) if "offsets 1000" in one.title]

    assert [(one.topic, one.partition, one.delivered_again) for one in rewind.damage] == [
        ("t", number, 979) for number in range(4)
    ]
    assert (rewind.cause.kind, rewind.cause.session, rewind.cause.zxid) == (
        "foreign write",
        0x1A1FB66FA0F0008,
        130,
    )


def test_the_package_says_where_its_rule_stands() -> None:
    """The rule is a table on a page."""
    assert "docs/incidents.md" in (package.__doc__ or "")
