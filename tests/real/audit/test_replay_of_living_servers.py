"""Servers under load: their fuzzy snapshots, their digests and what three of them have together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.waiting import eventually
from tests.worlds.other_clients import kazoo_on
from tests.worlds.server_files import SMALL_FILES, Written, churn, compared, shown, walked
from tests.worlds.zkfiles_tables import digest_verdict, is_right
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.replay import candidates, load
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

NODES = 500
ROUNDS = 3


@pytest.fixture
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(fsync=False, config={**SMALL_FILES, "snapCount": "250"}) as started:
        yield started


def has_fuzzy_snapshot(client: KazooClient, folder: Path) -> bool:
    """Writes much, and returns whether a snapshot of the server may have transactions behind its name."""
    churn(client, NODES, ROUNDS)
    bases = (load(each).begin() for each in candidates(History(folder).ensemble))
    return any(base.exact_from > base.zxid for base in bases)


def test_each_fuzzy_snapshot_of_a_server_under_load_leads_to_the_tree_it_serves(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    """In a real server's windows znodes are deleted and made anew, which replays get wrong first."""
    server = zookeeper.server(0)
    with kazoo_on(server.address) as client:
        with kazoo_on(server.address) as leaving:
            churn(leaving, 50, 1)
            # Whether writes go on while a snapshot is taken is up to the server's threads.
            half_written = (DamagedFileError, NotZooKeeperFileError)
            eventually(lambda: has_fuzzy_snapshot(client, server.folder), ignoring=half_written)
        client.set("/held", b"last")
        live = walked(client)
        history = History(server.folder)
        assert shown(history.tree_at().tree) == live
    server.kill()
    found = History(server.folder).verify()
    assert (digest_verdict(found), is_right(found), found.unchecked) == ("clean", True, 0)
    assert found.digests_checked > NODES * ROUNDS
    history = History(server.folder)
    last = history.tree_at().tree
    snapshots = list(candidates(history.ensemble))
    for candidate in snapshots:
        base = load(candidate).begin()
        tree = base.tree
        for transaction in history.transactions(base.zxid + 1):
            tree.apply(transaction)
            assert base.agrees(transaction) is not False
        assert not base.is_in_doubt
        assert tree.first_difference(last, except_below="/zookeeper/") is None
        assert tree.sessions == last.sessions
    assert len(snapshots) >= 5


def test_servers_together_have_what_one_lacks(lost_leader: Written) -> None:
    """One was down, and the leader changed: joined, the logs are the history that was served.

    Where each was down in turn: tests/long/audit.
    """
    history = History(*lost_leader.folders)
    assert shown(history.tree_at().tree) == lost_leader.live
    found = history.verify()
    assert (digest_verdict(found), is_right(found), found.splits) == ("clean", True, {})
    assert {each.agrees for each in found.snapshots} <= {True, None}
    assert len({each.zxid >> 32 for each in history.transactions()}) >= 2
    assert compared(history, *lost_leader.folders)
