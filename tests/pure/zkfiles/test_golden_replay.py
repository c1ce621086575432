"""What real servers wrote, replayed: every digest, every snapshot, every recorded tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.golden_data import FOLDER
from tests.worlds.server_history import recorded_tree, shown_tree
from zkgroup.zkfiles.diffs import diff_trees
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.replay_start import candidates, load
from zkgroup.zkfiles.tree import Tree

KAFKA = "kafka-0.8.2.2"
NEW, OLD, INCIDENTS = "zookeeper-3.9.4", "zookeeper-3.4.6", "zookeeper-3.4.6-incidents"
TREES = {
    "01-first-broker": 0x13,
    "02-three-brokers": 0x17,
    "03-topics-created": 0x57,
    "04-partitions-added": 0x65,
    "05a-config-altered": 0x68,
    "05b-config-deleted": 0x6C,
    "06-reassignment-in-progress": 0x80,
    "07-reassignment-done": 0x8B,
    "08-preferred-election-requested": 0x8F,
    "09-preferred-election-done": 0x92,
    "10-broker-killed": 0x9F,
    "11-no-live-replica": 0xAA,
    "12-deletion-waiting-for-brokers": 0xB4,
    "13-deletion-done-after-return": 0xD7,
    "14-topic-deleted": 0xE8,
    "15-controller-failover": 0xF1,
    "16-before-controlled-shutdown": 0x121,
    "17-after-controlled-shutdown": 0x12A,
    "20-group-one-member": 0x14F,
    "21-group-one-member-after-clean-stop": 0x150,
    "22-group-three-members": 0x183,
    "23-group-with-offsets": 0x1E1,
    "24-group-member-killed-before-expiry": 0x1EE,
    "25-group-member-killed-after-expiry": 0x1FF,
    "26-group-offsets-only": 0x206,
    "27-group-wildcards": 0x267,
    "28-group-wildcards-topic-added": 0x2A3,
    "29-offsets-in-kafka-with-and-without-dual-commit": 0x2E1,
    "30-last": 0x373,
}
"""Recorded by a client of the living server; the last zxid that each has (the recording's README)."""


def folder(name: str) -> Path:
    return FOLDER / KAFKA / name / "version-2"


def test_every_digest_of_a_server_equals_the_computed_one() -> None:
    """ZooKeeper's own arithmetic over the whole tree, record by record: the strongest proof of the replay."""
    history = History(folder(NEW))
    tree, checked = Tree(), 0
    for transaction in history.transactions():
        tree.apply(transaction)
        agrees = tree.agrees(transaction)
        assert agrees is not False, hex(transaction.zxid)
        checked += agrees is True
    assert checked == 300
    found = history.verify()
    assert (found.digest_verdict, found.is_right) == ("clean", True)
    assert (found.records, found.digests_checked, found.unchecked) == (355, 300, 0)
    assert [(each.zxid, each.agrees) for each in found.snapshots] == [(0, True), (0x66, True), (0x114, True)]


@pytest.mark.parametrize("name", [NEW, OLD, INCIDENTS])
def test_each_snapshot_leads_to_the_same_tree(name: str) -> None:
    """Whatever was in it already, its log behind it ends where a replay of everything does."""
    history = History(folder(name))
    whole = Tree()
    for transaction in history.transactions():
        whole.apply(transaction)
    count = 0
    for candidate in candidates(history.ensemble):
        tree = load(candidate).tree
        for transaction in history.transactions(candidate.zxid + 1):
            tree.apply(transaction)
        assert tree.first_difference(whole, except_below="/zookeeper/") is None
        assert tree.sessions == whole.sessions
        assert tree.digest == whole.digest
        count += 1
    assert count >= 2


@pytest.mark.parametrize("name", [OLD, INCIDENTS])
def test_where_no_digests_are_the_records_prove_each_other(name: str) -> None:
    """A real 3.4.6 raises no doubt in itself, with incidents that were planted by clients too."""
    found = History(folder(name)).verify()
    assert found.digest_verdict == "not_applicable"
    assert found.is_right
    assert not found.doubts
    assert not found.unchecked
    assert [each.agrees for each in found.snapshots] == [True] * len(found.snapshots)


@pytest.mark.parametrize("name", [NEW, OLD])
def test_the_last_tree_is_what_a_server_served(name: str) -> None:
    """Path, data, Stat and ACL as a client walked them: a replay can fit its digests and be shown wrong."""
    tree, account = History(folder(name)).tree_at()
    served = recorded_tree(f"{KAFKA}/{name}/tree")
    assert shown_tree(tree) == served
    assert account.is_exact
    assert account.is_certain
    assert account.snapshot is not None


@pytest.mark.parametrize("name", TREES)
def test_each_recorded_tree_is_the_tree_at_its_zxid(name: str) -> None:
    """29 moments of a cluster and its groups, each against what a client saw then."""
    zxid = TREES[name]
    tree, account = History(folder(OLD)).tree_at(zxid=zxid)
    assert shown_tree(tree) == recorded_tree(f"{KAFKA}/{name}")
    assert account.zxid == zxid
    assert account.is_exact
    assert account.detail == ""


def test_a_difference_is_that_of_two_recorded_trees() -> None:
    """From one log, and of two trees: no path more or less than a client would find."""
    history = History(folder(OLD))
    start, end = TREES["13-deletion-done-after-return"], TREES["22-group-three-members"]
    before = {each[0]: each for each in recorded_tree(f"{KAFKA}/13-deletion-done-after-return")}
    after = {each[0]: each for each in recorded_tree(f"{KAFKA}/22-group-three-members")}
    changes = [
        each for each in history.compared(start, end).changes if not each.path.startswith("/zookeeper")
    ]
    assert {each.path: each.change for each in changes} == {
        path: "added" if path not in before else "removed" if path not in after else "changed"
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }
    whole = diff_trees(history.tree_at(zxid=start).tree, history.tree_at(zxid=end).tree)
    assert [each for each in whole if not each.path.startswith("/zookeeper")] == changes
