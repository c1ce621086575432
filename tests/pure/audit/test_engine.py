"""The laptop's runner: bounds, keys, order, and what it leaves out."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, folder, source
from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.buckets import AuditedRows
from zkgroup.audit.findings.engine import ALL_RULES, RULES, audit, bounds_of
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule, WholeRule
from zkgroup.audit.inputs.events import BY_GROUP, BY_GROUP_PARTITION, BY_SESSION, Key
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.found_files import FoundFiles, SnapshotFile
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.series_source import SeriesSource, read_series
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.exports import ExportHeader
from zkgroup.zkfiles.tree import Tree


def rows(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Which rows a key has."""
    yield Finding("rows", "info", detail=f"{'/'.join(key)} {[row.zxid for row in rows]} {dict(bounds)}")


def bare(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Nothing."""
    return iter(())


def whole(history: object, facts: Facts, bounds: Bounds) -> list[Finding]:
    """What a rule over whole files finds in and around a stretch."""
    return [Finding("whole", "error", from_zxid=zxid, to_zxid=zxid) for zxid in (50, 107, 110, 111)] + [
        Finding("whole", "error", from_zxid=20)
    ]


def _rule(find: Callable[..., Iterator[Finding]] = rows, **changes: Any) -> Rule:
    fields: dict[str, Any] = {"question": "?", "act": "", "keys": BY_GROUP, "bounds": {"most": 3}}
    return Rule(find=find, **{**fields, **changes})


def _log() -> AuditLog:
    log = AuditLog()
    log.come("g", "g_a", 1)
    log.join("h", "h_a", 1)
    log.claim("g", ("t", 0), "g_a-0", 1)
    log.commit("g", ("t", 1), 5, 1)
    log.fail(1)
    return log


def test_facts_can_be_sent_to_workers_with_what_rules_have_derived() -> None:
    """Past bug: a rule kept a function there, and findings on Spark failed."""
    found = audit(source(INCIDENTS), ALL_RULES)
    assert found.facts.derived

    assert pickle.loads(pickle.dumps(found.facts)).derived == found.facts.derived


def test_each_key_has_its_own_rows_in_order() -> None:
    """By group, by partition or by session, each key has its own rows and no others, in order."""

    def told(rule: Rule) -> list[str]:
        return [each.detail.removesuffix(" {'most': 3}") for each in _log().find(rule)]

    assert told(_rule()) == ["g [2, 4, 5]", "h [3]"]
    assert told(_rule(keys=BY_GROUP_PARTITION)) == ["g/t/0 [4]", "g/t/1 [5]"]
    assert told(_rule(keys=BY_SESSION)) == ["1 [1, 2, 3, 4, 5, 6]"]


def test_each_finding_has_its_own_bound_unless_the_user_sets_one() -> None:
    """A bound that the user sets reaches the rule; a bound that no rule has is a ConfigError."""
    assert {each.detail[-11:] for each in _log().find(_rule(), most=7)} == {"{'most': 7}"}
    with pytest.raises(ConfigError, match=r"expected one of rows\.most"):
        bounds_of([_rule()], {"x": 1})
    with pytest.raises(ConfigError, match=r"'rows\.mots': did you mean 'rows\.most'"):
        bounds_of([_rule()], {"rows.mots": 1})
    with pytest.raises(ConfigError, match=r"bound 'other\.most'"):
        bounds_of([_rule()], {"other.most": 1})
    without = _rule(bare, bounds={})
    with pytest.raises(ConfigError, match=r"'bare\.x': bare has no bounds"):
        bounds_of([_rule(), without], {"bare.x": 1})


def test_findings_come_by_zxid_whatever_rule_found_them() -> None:
    """Findings of many rules over a recorded history come in the order of their first zxid."""
    found = audit(source(INCIDENTS), ALL_RULES).findings

    zxids = [each.from_zxid or 0 for each in found]
    assert zxids == sorted(zxids)
    assert len({each.finding for each in found}) > 5


def _one_tree(time_ms: int | None) -> SeriesSource:
    header = ExportHeader(time_ms=time_ms, source="", zxid_before=5, zxid_after=5)
    tree = Tree.from_znodes((), digests=False)
    one = SnapshotFile(5, Path(), header, lambda reader: reader.read_tree(Path(), header, tree))
    return read_series(FoundFiles(snapshots=[one]))


def test_what_the_input_is_not_enough_for_is_named() -> None:
    """One tree answers what a snapshot can; the others say what they lack."""
    tree = _one_tree(None)
    needs_tree = _rule(bare, needs=("tree",))
    of_files = WholeRule(find=whole, question="?", act="", needs=("tree",))

    skipped = audit(tree, [_rule(), needs_tree, of_files]).skipped

    assert [(each.rule.name, each.reason) for each in skipped] == [
        ("rows", "needs a log"),
        ("whole", "needs a log"),
    ]


def test_what_stands_in_one_tree_has_stood_until_it_was_read() -> None:
    """Its end is not its last change: in a cluster where nothing happens any more, things last on."""
    rows = _one_tree(7_000).rows()

    facts = AuditedRows(rows, None).facts

    assert (facts.end_zxid, facts.end_ms, facts.has_log) == (5, 7_000, False)


def test_a_group_is_asked_for_alone() -> None:
    """An audit of one group has just those findings of the whole audit that name it."""
    everything = audit(source(INCIDENTS), RULES).findings
    of_group = audit(source(INCIDENTS), RULES, group="idle").findings

    assert of_group == [each for each in everything if each.group == "idle"]
    assert of_group


def test_a_stretch_starts_from_the_tree_before_it_and_ends_at_its_bound() -> None:
    """The owner of the partition is from before, and known; what comes later is not."""
    found = audit(source(INCIDENTS), RULES, start=PointInTime(zxid=107), end=PointInTime(zxid=110)).findings

    errors = [(each.finding, each.from_zxid, each.to_zxid) for each in found if each.severity == "error"]
    assert errors == [
        ("claim_stolen", 108, 108),
        ("owner_session_mismatch", 108, 110),
        ("claim_stolen", 110, 110),
    ]


def test_a_log_from_the_middle_is_audited_without_what_stood_before(tmp_path: Path) -> None:
    """No snapshot came with it: findings know, and say nothing that they cannot know."""
    _copy(INCIDENTS, ["log.c6.gz", "log.1ae.gz"], tmp_path)

    opened = open_source([tmp_path])
    found = audit(opened, ALL_RULES)

    assert "is not known" in opened.rows().seen.detail
    assert not found.facts.is_whole
    assert found.facts.start_zxid == 0xC6
    names = {each.finding for each in found.findings if each.severity == "error"}
    assert {"owner_session_mismatch", "zombie_commit"} <= names


def test_snapshots_without_logs_are_audited_as_the_last_of_them(tmp_path: Path) -> None:
    """Of two snapshots the later is audited; rules that need a log are skipped by name."""
    _copy(HEALTHY[0], ["snapshot.100.gz", "snapshot.352.gz"], tmp_path)

    found = audit(open_source([tmp_path]), ALL_RULES)

    assert (found.facts.has_log, found.facts.end_zxid > 0x300) == (False, True)
    assert "g5" in found.facts.members
    assert {each.rule.name for each in found.skipped} >= {"rebalance_storm", "claim_stolen"}
    assert {each.basis for each in found.findings} == {"snapshots"}
    assert not {each.finding for each in found.findings if each.severity == "error"}


def _copy(name: str, files: list[str], target: Path) -> None:
    (target / "version-2").mkdir()
    for file in files:
        shutil.copy(folder(name) / file, target / "version-2")


def test_findings_over_the_whole_history_keep_to_the_stretch() -> None:
    """What a rule over whole files finds outside the stretch is left out, unless it lasts to the end."""

    rule = WholeRule(find=whole, question="?", act="")
    found = audit(source(INCIDENTS), [rule], start=PointInTime(zxid=107), end=PointInTime(zxid=110)).findings

    assert [each.from_zxid for each in found] == [20, 107, 110]
