"""What real servers wrote, replayed: every digest, every snapshot, every recorded tree.

3.5.9 ran alone, 3.8.4 as an ensemble that lost its leader; `tests/golden/README.md` says how.
"""

from __future__ import annotations

import pytest

from tests.worlds.golden_data import FOLDER
from tests.worlds.server_history import recorded_tree, shown_tree
from tests.worlds.zkfiles_tables import digest_verdict, is_right
from zkgroup.zkfiles.history import History, diff_trees
from zkgroup.zkfiles.replay import candidates, load
from zkgroup.zkfiles.snapshots import open_snapshot
from zkgroup.zkfiles.tree import Tree

KAFKA = "kafka-0.8.2.2"
NEW, OLD, INCIDENTS = (f"{KAFKA}/zookeeper-{name}" for name in ("3.9.4", "3.4.6", "3.4.6-incidents"))
ALONE, ENSEMBLE = "zookeeper/3.5.9", "zookeeper/3.8.4"
SERVERS = (NEW, OLD, INCIDENTS, f"{ALONE}/server-1", *(f"{ENSEMBLE}/server-{n}" for n in (1, 2, 3)))
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


def history(name: str) -> History:
    """Of one server, or of all servers of a release."""
    folder = FOLDER / name
    return History(*sorted(folder.glob("server-*/version-2")) or [folder / "version-2"])


def replayed(past: History) -> Tree:
    """From nothing, by every record."""
    tree = Tree()
    for transaction in past.transactions():
        tree.apply(transaction)
    return tree


@pytest.mark.parametrize(
    ("name", "records", "checked"),
    [(NEW, 355, 300), *((f"{ENSEMBLE}/server-{number}", 903, 901) for number in (1, 2, 3))],
)
def test_every_digest_of_a_server_equals_the_computed_one(name: str, records: int, checked: int) -> None:
    """ZooKeeper's own arithmetic over the whole tree, record by record: the strongest proof of the replay."""
    found = history(name).verify()
    assert (digest_verdict(found), is_right(found)) == ("clean", True)
    assert (found.records, found.digests_checked, found.unchecked) == (records, checked, 0)
    assert [each.agrees for each in found.snapshots] == [True] * len(found.snapshots)


@pytest.mark.parametrize("name", SERVERS)
def test_each_snapshot_leads_to_the_same_tree(name: str) -> None:
    """Also those that were taken while writes went on, plain, packed with gzip and with snappy."""
    past = history(name)
    whole, count = replayed(past), 0
    for candidate in candidates(past.ensemble):
        tree = load(candidate).tree
        for transaction in past.transactions(candidate.zxid + 1):
            tree.apply(transaction)
        assert tree.first_difference(whole, except_below="/zookeeper/") is None
        assert tree.sessions == whole.sessions
        assert tree.digest == whole.digest
        count += 1
    assert count >= 2


@pytest.mark.parametrize("name", [OLD, INCIDENTS, ALONE])
def test_where_no_digests_are_the_records_prove_each_other(name: str) -> None:
    """A real 3.4.6 raises no doubt in itself, with incidents that were planted by clients too."""
    found = history(name).verify()
    assert (digest_verdict(found), is_right(found)) == ("not_applicable", True)
    assert (list(found.doubts), found.unchecked) == ([], 0)
    assert [each.agrees for each in found.snapshots] == [True] * len(found.snapshots)


@pytest.mark.parametrize("name", [NEW, OLD, ALONE, ENSEMBLE])
def test_the_last_tree_is_what_a_server_served(name: str) -> None:
    """Path, data, Stat and ACL as a client walked them: a replay can fit its digests and be shown wrong."""
    past = history(name)
    tree, account = past.tree_at()
    assert shown_tree(tree) == shown_tree(replayed(past)) == recorded_tree(f"{name}/tree")
    assert account.is_exact
    assert account.is_certain or name == ALONE, "one server of epoch 1 does not know of others"


def test_the_ensemble_agrees_about_two_reigns() -> None:
    """No record is one server's alone, and both leaders' are there."""
    past = history(ENSEMBLE)
    records = list(past.transactions())
    assert [len(records), records[-1].zxid] == [903, past.ensemble.certain_until]
    assert {each.zxid >> 32 for each in records} == {1, 2}
    assert (past.ensemble.splits, past.ensemble.rolled_back) == ({}, {})


def test_snapshots_were_taken_while_writes_went_on() -> None:
    """Of each way of packing that has any: else nothing here tells whether windows are replayed rightly."""
    packed = set()
    for path in FOLDER.glob(f"{ENSEMBLE}/server-*/version-2/snapshot.*"):
        end = open_snapshot(path).end_zxid
        if end is not None and end > int(path.name.split(".")[1], 16):
            packed.add((path.parent.parent.name, path.suffix))
    assert packed == {("server-1", ".gz"), ("server-2", ".gz"), ("server-3", ".snappy")}


@pytest.mark.parametrize("name", TREES)
def test_each_recorded_tree_is_the_tree_at_its_zxid(name: str) -> None:
    """29 moments of a cluster and its groups, each against what a client saw then."""
    zxid = TREES[name]
    tree, account = history(OLD).tree_at(zxid=zxid)
    assert shown_tree(tree) == recorded_tree(f"{KAFKA}/{name}")
    assert account.zxid == zxid
    assert account.is_exact
    assert account.detail == ""


def test_a_difference_is_that_of_two_recorded_trees() -> None:
    """From one log, and of two trees: no path more or less than a client would find."""
    past = history(OLD)
    start, end = TREES["13-deletion-done-after-return"], TREES["22-group-three-members"]
    before = {each[0]: each for each in recorded_tree(f"{KAFKA}/13-deletion-done-after-return")}
    after = {each[0]: each for each in recorded_tree(f"{KAFKA}/22-group-three-members")}
    changes = [each for each in past.compared(start, end).changes if not each.path.startswith("/zookeeper")]
    assert {each.path: each.change for each in changes} == {
        path: "added" if path not in before else "removed" if path not in after else "changed"
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }
    whole = diff_trees(past.tree_at(zxid=start).tree, past.tree_at(zxid=end).tree)
    assert [each for each in whole if not each.path.startswith("/zookeeper")] == changes
