"""The data of reports: what happened is in it, and it stays small."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.worlds.audit_log import AuditLog
from tests.worlds.made_reports import GROUP, busy, data_of, points_of, spans_of
from zkgroup.audit.report.keeping import Names, ReportLimits


def _story() -> tuple[AuditLog, dict[str, int]]:
    """Two members, one that crashes, and a stranger who sets an offset back."""
    log, at = AuditLog(), {}
    log.topic("orders", 2)
    for session in (1, 2, 9):
        log.open(session)
    log.join(GROUP, "ada", 1, {"orders": 1})
    log.claim(GROUP, ("orders", 0), "ada-0", 1)
    log.join(GROUP, "ben", 2, {"orders": 1})
    log.claim(GROUP, ("orders", 1), "ben-0", 2)
    log.commit(GROUP, ("orders", 1), 100, 2)
    log.wait(20_000)
    log.commit(GROUP, ("orders", 1), 500, 2)
    at["rewind"] = log.commit(GROUP, ("orders", 1), 120, 9)
    log.wait(10_000)
    at["crash"] = log.expire(2)
    log.release(GROUP, ("orders", 0), 1)
    log.wait(700)
    log.claim(GROUP, ("orders", 0), "ada-0", 1)
    log.claim(GROUP, ("orders", 1), "ada-0", 1)
    return log, at


def _named(data: dict[str, Any], number: int) -> str | None:
    return None if number < 0 else data["names"][number]


def test_owners_with_how_each_ownership_ended() -> None:
    """The span of a crash says so, and the last one is open."""
    log, at = _story()
    data = data_of(log)

    rows = {
        row[2]: [(_named(data, span[2]), _named(data, span[6]), span[5]) for span in spans_of(data, row)]
        for row in data["owners"]["rows"]
    }

    assert rows[1] == [("ben-0", "session_end", hex(at["crash"])), ("ada-0", "open", None)]
    assert [how for _, how, _ in rows[0]] == ["release", "open"]


def test_rebalances_are_explained() -> None:
    """Cause, who moved what, and the time without an owner."""
    log, _ = _story()
    data = data_of(log)

    last = data["rebalances"]["rows"][-1]

    assert [(cause, _named(data, what)) for cause, what, _, _ in last["triggers"]] == [("crash", "ben")]
    assert (last["moved"], last["retaken"], last["down_max"], last["unowned"]) == (1, 1, 700, 0)
    assert [(_named(data, one), _named(data, other), count) for one, other, count in last["flows"]] == [
        ("ben", "ada", 1)
    ]


def test_rewinds_and_foreign_commits_are_marked() -> None:
    """With the zxid, both offsets, the session that wrote and the owner at that time."""
    log, at = _story()
    data = data_of(log)

    marks = data["offsets"]["marks"]

    assert [(mark[3], mark[5], mark[6], mark[7]) for mark in marks] == [
        ("rewind", hex(at["rewind"]), 500, 120),
        ("foreign", hex(at["rewind"]), 500, 120),
    ]
    assert {(_named(data, mark[8]), _named(data, mark[10])) for mark in marks} == {("0x9", "ben-0")}
    (curve,) = data["offsets"]["rows"]
    assert [offset for _, offset in points_of(data, curve)] == [100, 500, 120]


def test_findings_come_with_what_they_ask() -> None:
    """Errors first; counts are of all of them."""
    data = data_of(_story()[0])

    rules = data["findings"]["rules"]

    assert {rule["name"] for rule in rules[:2]} == {"offset_regression", "zombie_commit"}
    assert data["findings"]["counts"][0] == sum(rule["counts"][0] for rule in rules) == 2
    assert all(rule["question"] and rule["act"] for rule in rules)


def test_a_long_history_stays_small() -> None:
    """With tight limits nothing grows beyond them, what is left out is said, and the marks stay."""
    log = busy(60, 12)
    limits = replace(
        ReportLimits(),
        spans=200,
        points=300,
        partitions=40,
        rebalances=5,
        changes=50,
        sessions=6,
        findings_of_a_rule=3,
    )

    data = data_of(log, limits)

    assert sum(len(row[3]) for row in data["owners"]["rows"]) <= 200 + 40
    assert len(data["owners"]["rows"]) == len(data["offsets"]["rows"]) == 40
    assert sum(len(row[4]) for row in data["offsets"]["rows"]) <= 300 + 40
    assert len(data["rebalances"]["rows"]) == 5
    assert sum(len(row["changes"]) for row in data["rebalances"]["rows"]) <= 50
    assert len(data["sessions"]["rows"]) == 6
    assert all(len(rule["rows"]) <= 3 for rule in data["findings"]["rules"])
    assert any(rule["left_out"] for rule in data["findings"]["rules"])
    assert any(mark[3] == "rewind" for mark in data["offsets"]["marks"])
    for section in ("owners", "offsets", "rebalances", "sessions"):
        assert data[section]["notes"], section
    assert len(json.dumps(data)) < 200_000


def test_replicas_that_are_missing() -> None:
    """An interval begins and ends with the state, and one without a leader is another."""
    log = AuditLog()
    log.topic("t", {0: (1, 2)})
    path = "/brokers/topics/t/partitions/0/state"
    log.create(path, _state(1, [1, 2]))
    log.wait(1000)
    first = log.set(path, _state(1, [1]))
    log.wait(1000)
    second = log.set(path, _state(-1, []))
    log.wait(1000)
    third = log.set(path, _state(2, [1, 2]))
    data = data_of(log)

    (row,) = data["replication"]["rows"]

    assert [(span[4], span[5], _named(data, span[2])) for span in spans_of(data, row)] == [
        (hex(first), hex(second), "not in sync [2]; leader 1"),
        (hex(second), hex(third), "no leader; in sync []"),
    ]


def test_one_tree_has_a_report_too() -> None:
    """Without a log there is one moment, and nothing fails."""
    log = AuditLog()
    log.seed("/consumers/g/owners/t/0", "a-0", session=7)
    log.seed("/consumers/g/offsets/t/0", "12")

    data = data_of(log)

    assert data["has_log"] is False
    assert data["from"] == data["to"]
    assert len(data["owners"]["rows"]) == 1


def test_what_a_browser_would_round_stays_text() -> None:
    """Zxids that are far from the first one, and offsets above 2^53 together with small ones."""
    names, far = Names(start_zxid=5), 2**62

    assert names.zxids(far, far + 1) == (hex(far), hex(far + 1))
    assert names.zxids(7, far) == ("0x7", hex(far))
    assert names.zxids(7, None) == (2, None)
    log = AuditLog()
    for offset in (7, 2**60):
        log.commit(GROUP, ("orders", 0), offset, 1)
    data = data_of(log)
    (curve,) = data["offsets"]["rows"]
    assert [offset for _, offset in points_of(data, curve)] == ["7", str(2**60)]


def _state(leader: int, isr: list[int]) -> str:
    fields = {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": isr}
    return json.dumps(fields)
