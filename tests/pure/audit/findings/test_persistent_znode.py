"""Persistent znodes where sessions belong."""

from __future__ import annotations

import pytest

from tests.worlds.audit_log import AuditLog, registration
from zkgroup.audit.findings.all_rules import RULES
from zkgroup.audit.findings.registrations import persistent_znode
from zkgroup.audit.incidents.attribution import incidents_of

PLACES = (
    "/controller",
    "/brokers/ids/7",
    "/consumers/g/ids/g_a",
    "/consumers/g/owners/t/0",
    "/consumers/g/views/g_a",
)


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("is_seed", [False, True])
def test_each_place_of_a_session_is_named(path: str, is_seed: bool) -> None:
    """In a snapshot and in a log; the ephemeral one, and other znodes beside it, are none."""
    for session, expected in ((0, ["error"]), (1, [])):
        log = AuditLog()
        if is_seed:
            log.seed(path, "x", zxid=5, session=session)
            log.seed(f"{path}-no/other", "x", zxid=6)
        else:
            log.open(1)
            log.create(path, "x", 1, ephemeral=session == 1)
            log.create("/brokers/topics", "x", 1)

        found = log.find(persistent_znode)

        assert [one.severity for one in found] == expected
        assert all(path in one.detail and "ends with no session" in one.detail for one in found)
        assert [one.group for one in found] == (["g"] if "consumers" in path else [None])[: len(found)]


def test_it_lasts_from_its_create_to_its_delete() -> None:
    """Each time anew; to delete it is no other finding, and an ephemeral in its place is none."""
    log = AuditLog()
    log.open(1)
    path = "/consumers/g/owners/t/0"
    made = log.create(path, "g_a-0")
    deleted = log.delete(path, 1)
    log.create(path, "g_a-0", 1, ephemeral=True)
    log.delete(path, 1)
    again = log.create(path, "g_a-0")

    found = log.find(persistent_znode)

    assert [(one.from_zxid, one.to_zxid) for one in found] == [(made, deleted), (again, None)]
    assert {(one.group, one.topic, one.partition) for one in found} == {("g", "t", 0)}


@pytest.mark.parametrize("path", ["/consumers/g/ids/g_nudge", "/brokers/ids/7"])
def test_one_that_ends_with_its_transaction_is_none(path: str) -> None:
    """So `group nudge` wakes the members, and `broker forget` makes sure that no broker is registered."""
    log = AuditLog()
    log.open(1)
    log.multi(1, log.creation(path, b""), log.deletion(path))

    assert log.find(persistent_znode) == []


def test_the_controller_of_a_migration_to_kraft_is_persistent_by_right() -> None:
    """Its data shows it."""
    log = AuditLog()
    log.seed("/controller", '{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}')

    assert log.find(persistent_znode) == []


def test_an_incident_says_what_to_do() -> None:
    """One of the group, one of the cluster, and no advice to stop a client."""
    log = AuditLog()
    log.topic("t", 2)
    log.seed("/controller", '{"version":1,"brokerid":9,"timestamp":"1"}')
    log.seed("/brokers/ids/9", "{}")
    log.seed("/consumers/g/ids/g_a", registration())
    for number in range(2):
        log.seed(f"/consumers/g/owners/t/{number}", "g_a-0")
    log.passes(20_000)

    errors = [
        one
        for one in incidents_of([one for rule in RULES for one in log.find(rule)], log.facts())
        if one.severity == "error"
    ]

    of_group = "/consumers/g/ids/g_a, /consumers/g/owners/t/0, /consumers/g/owners/t/1"
    assert sorted(one.title.partition(" ")[2] for one in errors) == [
        "2 persistent znodes where sessions belong: /brokers/ids/9, /controller",
        f"3 persistent znodes where sessions belong in g: {of_group}",
    ]
    assert all("`zkgroup doctor --fix`" in one.act for one in errors)
