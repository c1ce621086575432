"""Findings of series that are read from files: the same as of the history's own states, and beside logs."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worlds.cut_histories import cuts_of, history_of, write_series, write_tree
from tests.worlds.made_series import Cut, History, found_in
from tests.worlds.screened_findings import events_in
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.findings.engine import ALL_RULES, KNOWN_RULES, STATE_RULES, audit
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.errors import ConfigError, NotFoundError

SHOWN = {rule.name for rule in STATE_RULES if not rule.is_beside}
_Outline = tuple[object, ...]


def _outline(one: Finding) -> _Outline:
    """A finding without its times: that of a server's snapshot is a lower bound."""
    place = one.finding, one.group, one.topic, one.partition
    return *place, one.session, one.from_zxid, one.to_zxid, one.at_zxid


def _shown(findings: list[Finding]) -> list[_Outline]:
    some = [_outline(one) for one in findings if one.finding in SHOWN and one.basis == "snapshots"]
    return sorted(some, key=repr)


@pytest.mark.parametrize("seed", range(6))
def test_files_give_the_findings_of_the_states(seed: int, tmp_path: Path) -> None:
    """Exports and servers' snapshots, mixed; also of a part of them, which begins with the one before."""
    world = history_of(seed)
    cuts = cuts_of(seed, world)
    world.log(tmp_path / "log")
    history = History(events_in(open_source([tmp_path / "log"]).rows()))
    source = open_source([write_series(tmp_path / "series", world, cuts, random.Random(seed))])

    found = audit(source, ALL_RULES)

    assert _shown(found.findings) == _shown(found_in(history.series([Cut(zxid, zxid) for zxid in cuts])))
    assert {each.rule.name for each in found.skipped}.isdisjoint(SHOWN)
    some = cuts[len(cuts) // 2 :]
    part = audit(source, ALL_RULES, start=PointInTime(zxid=some[0]), end=PointInTime(zxid=some[-1]))
    expected = found_in(history.series([Cut(zxid, zxid) for zxid in some])) if len(some) > 1 else []
    assert _shown(part.findings) == _shown(expected) or len(some) < 2


@pytest.mark.parametrize("seed", range(3))
def test_logs_answer_what_they_cover(seed: int, tmp_path: Path) -> None:
    """Their findings stay, and get the end that snapshots show; those of these are of pairs of which one is
    outside, and none stays open."""
    world = history_of(seed)
    cuts = cuts_of(seed, world)
    first, last = cuts[0] + 3, max(cuts[-1] - 3, cuts[0] + 4)
    world.snapshot(tmp_path / "server", first - 1)
    world.log(tmp_path / "server", first, last)
    write_series(tmp_path / "series", world, cuts, random.Random(seed))

    log = audit(open_source([tmp_path / "server"]), ALL_RULES).findings
    mixed = audit(open_source([tmp_path / "server", tmp_path / "series"]), ALL_RULES).findings

    for one, of_log in zip((one for one in mixed if one.basis == "log"), log, strict=True):
        ends = {} if of_log.to_zxid is not None else {"to_zxid": one.to_zxid, "to_ms": one.to_ms}
        assert one == replace(of_log, **ends)
        assert one.to_zxid == of_log.to_zxid or (one.to_zxid or 0) > last
    for one in (one for one in mixed if one.basis == "snapshots"):
        assert (one.from_zxid or 0) < first - 1 or one.to_zxid is None or one.to_zxid > last
        assert one.to_zxid is not None or cuts[-1] > last


def test_what_logs_and_snapshots_show_is_one_incident(tmp_path: Path) -> None:
    """A reset that was overwritten is an offset that was set back; a snapshot behind the log shows both."""
    world = ServerHistory(digests=False)
    offset = "/consumers/g/offsets/t/0"
    parents = ("/consumers", "/consumers/g", "/consumers/g/resets", "/consumers/g/offsets")
    for path in (*parents, "/consumers/g/offsets/t"):
        world.create(path, None)
    world.create(offset, b"900")
    begin = world.snapshot(tmp_path / "server", world.zxid)
    marker = b'{"version":1,"offset":"500","time":"1","by":"me"}'
    made = world.creation("/consumers/g/resets/t-0", marker)
    begun = world.multi(world.change(offset, b"500"), made)
    back = world.set(offset, b"20")
    world.log(tmp_path / "server", begun, back)
    world.create("/later", None)
    write_tree(tmp_path / "series" / "later.zkexport", world.at(world.zxid))
    shutil.copy(begin, tmp_path / "series")

    for folders in (["server"], ["series"], ["server", "series"]):
        found = audit(open_source([tmp_path / each for each in folders]), ALL_RULES)
        (incident,) = (
            one
            for one in numbered(found).incidents
            if any(each.finding == "reset_overwritten" for each in one.findings)
        )
        assert {one.finding for one in incident.findings} == {"offset_regression", "reset_overwritten"}
        assert incident.basis == ("snapshots" if folders == ["series"] else "log")
        assert sum(one.finding == "reset_overwritten" for one in found.findings) == 1


def test_a_group_that_is_gone_in_the_last_snapshot_can_be_asked_for(tmp_path: Path) -> None:
    """It is known by the snapshots that have it."""
    world = ServerHistory(digests=False)
    for path in ("/consumers", "/consumers/x", "/consumers/x/offsets", "/consumers/x/offsets/t"):
        world.create(path, None)
    made = world.create("/consumers/x/offsets/t/0", b"5")
    for path in (
        "/consumers/x/offsets/t/0",
        "/consumers/x/offsets/t",
        "/consumers/x/offsets",
        "/consumers/x",
    ):
        gone = world.delete(path)
    for zxid in (made, gone):
        world.snapshot(tmp_path, zxid)

    (found,) = audit(open_source([tmp_path]), ALL_RULES, group="x").findings

    assert (found.finding, found.detail) == ("offset_deleted", "deleted; it was 5")


def test_names_groups_and_bounds_of_series(tmp_path: Path) -> None:
    """A name that only series have can be asked for; elsewhere it says why it was not found."""
    world = history_of(0)
    cuts = cuts_of(0, world)
    folder = write_series(tmp_path / "series", world, cuts, random.Random(0))
    world.log(tmp_path / "log")
    (rule,) = (rule for rule in KNOWN_RULES if rule.name == "owner_changed")

    assert {one.finding for one in audit(open_source([folder]), [rule]).findings} == {"owner_changed"}
    (skipped,) = audit(open_source([tmp_path / "log"]), [rule]).skipped
    assert (skipped.rule, skipped.reason) == (rule, "needs a series of snapshots")
    assert {one.group for one in audit(open_source([folder]), ALL_RULES, group="g").findings} == {"g"}
    with pytest.raises(NotFoundError, match="there was no such group"):
        audit(open_source([folder]), ALL_RULES, group="other")
    assert not [
        one
        for one in audit(open_source([folder]), ALL_RULES, {"stalled_offset.snapshots": 99}).findings
        if one.finding == "stalled_offset"
    ]
    with pytest.raises(ConfigError, match=r"did you mean 'stalled_offset\.snapshots'"):
        audit(open_source([folder]), ALL_RULES, {"stalled_offset.snapshot": 99})
