"""What servers of 3.5.9 and 3.8.4 wrote, replayed: one alone, and an ensemble that lost its leader.

`tests/golden/README.md` says how they were recorded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.golden_data import FOLDER
from tests.worlds.server_history import recorded_tree, shown_tree
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.replay_start import candidates, load
from zkgroup.zkfiles.snapshots import open_snapshot
from zkgroup.zkfiles.tree import Tree

ALONE, ENSEMBLE = FOLDER / "zookeeper" / "3.5.9", FOLDER / "zookeeper" / "3.8.4"
RELEASES = [ALONE, ENSEMBLE]
SERVERS = [server for release in RELEASES for server in sorted(release.glob("server-*"))]


def named(path: Path) -> str:
    return str(path.relative_to(FOLDER / "zookeeper"))


def history(release: Path) -> History:
    return History(*(server / "version-2" for server in sorted(release.glob("server-*"))))


def replayed(past: History) -> Tree:
    """From nothing, by every record."""
    tree = Tree(has_config=True)
    for transaction in past.transactions():
        tree.apply(transaction)
    return tree


@pytest.mark.parametrize("release", RELEASES, ids=named)
def test_the_last_tree_is_what_a_client_walked(release: Path) -> None:
    """Path, data, stat and ACLs, of the newest snapshot and of a replay from the first record on."""
    past = history(release)
    tree, _ = past.tree_at()
    walked = recorded_tree(f"zookeeper/{release.name}/tree")
    assert len(walked) > 100
    assert shown_tree(tree) == shown_tree(replayed(past)) == walked


@pytest.mark.parametrize("server", SERVERS, ids=named)
def test_each_snapshot_leads_to_the_same_tree(server: Path) -> None:
    """Also those that were taken while writes went on, plain, packed with gzip and with snappy."""
    past = History(server / "version-2")
    whole = replayed(past)
    count = 0
    for candidate in candidates(past.ensemble):
        tree = load(candidate).tree
        for transaction in past.transactions(candidate.zxid + 1):
            tree.apply(transaction)
        assert tree.first_difference(whole, except_below="/zookeeper/") is None
        assert tree.sessions == whole.sessions
        assert tree.digest == whole.digest
        count += 1
    assert count >= 3


def test_digests_prove_each_server_of_the_ensemble() -> None:
    """3.8 writes one behind every record but those of errors; each is that of our tree."""
    for server in sorted(ENSEMBLE.glob("server-*")):
        found = History(server / "version-2").verify()
        assert (found.digest_verdict, found.is_right) == ("clean", True)
        assert (found.records, found.digests_checked, found.unchecked) == (903, 901, 0)
        assert [each.agrees for each in found.snapshots] == [True] * len(found.snapshots)


def test_without_digests_the_records_prove_each_other() -> None:
    """3.5 writes none."""
    found = history(ALONE).verify()
    assert found.digest_verdict == "not_applicable"
    assert found.is_right
    assert not found.doubts
    assert [each.agrees for each in found.snapshots] == [True] * len(found.snapshots)


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
    for server in sorted(ENSEMBLE.glob("server-*")):
        for path in (server / "version-2").glob("snapshot.*"):
            end = open_snapshot(path).end_zxid
            if end is not None and end > int(path.name.split(".")[1], 16):
                packed.add((server.name, path.suffix))
    assert packed == {("server-1", ".gz"), ("server-2", ".gz"), ("server-3", ".snappy")}
