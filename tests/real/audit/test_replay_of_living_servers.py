"""Servers under load: their fuzzy snapshots, their digests and what three of them have together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from zkgroup.model.stat import Znode, ZnodeStat
from zkgroup.zkfiles.bases import candidates, load
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.tree import Tree
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

NODES = 1500
ROUNDS = 3
SMALL_FILES = {"snapCount": "500", "preAllocSize": "64", "extendedTypesEnabled": "true"}


def churn(client: KazooClient, nodes: int, rounds: int) -> None:
    """Many requests on the way at once, so that a snapshot is taken while writes go on."""
    client.ensure_path("/held")
    asked = [client.create_async(f"/held/é{number}", b"0") for number in range(nodes)]
    for turn in range(rounds):
        for number in range(nodes):
            path = f"/held/é{number}"
            match (number + turn) % 5:
                case 0:
                    asked += [
                        client.delete_async(path),
                        client.create_async(path, b"anew", ephemeral=turn % 2 == 0, include_data=True),
                    ]
                case 1:
                    multi = client.transaction()
                    multi.set_data(path, b"multi")
                    multi.create(f"/held/m{number % 7}", b"")
                    asked.append(multi.commit_async())
                case _:
                    asked.append(client.set_async(path, b"%d" % turn))
    for each in asked:
        each.wait(60)


def walked(client: KazooClient) -> list[Znode]:
    """What a client sees of everything but the server's own, by path."""
    found, level = [], ["/"]
    while level:
        asked = [(path, client.get_async(path), client.get_children_async(path)) for path in level]
        level = []
        for path, answer, children in asked:
            data, stat = answer.get(60)
            found.append(Znode(path, data, ZnodeStat(*stat)))
            names = [name for name in children.get(60) if (path, name) != ("/", "zookeeper")]
            level += [f"{path.rstrip('/')}/{name}" for name in names]
    return sorted(found)


def shown(tree: Tree) -> list[Znode]:
    return [each for each in tree.znodes() if each.path.split("/")[1] != "zookeeper"]


@pytest.fixture
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(fsync=False, config=SMALL_FILES) as started:
        yield started


def test_each_fuzzy_snapshot_of_a_server_under_load_leads_to_the_tree_it_serves(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    """In a real server's windows znodes are deleted and made anew, which replays get wrong first."""
    server = zookeeper.server(0)
    leaving, client = (KazooClient(server.address, timeout=60) for _ in range(2))
    leaving.start(60)
    client.start(60)
    churn(leaving, 50, 1)
    churn(client, NODES, ROUNDS)
    leaving.stop()
    leaving.close()
    client.set("/held", b"last")
    live = walked(client)
    history = History(server.folder)
    assert shown(history.tree_at().tree) == live
    client.stop()
    client.close()
    server.kill()
    found = History(server.folder).verify()
    assert (found.digest_verdict, found.is_right, found.unchecked) == ("clean", True, 0)
    assert found.digests_checked > NODES * ROUNDS
    windows = []
    history = History(server.folder)
    last = history.tree_at().tree
    for candidate in candidates(history.ensemble):
        base = load(candidate)
        windows.append(base.exact_from - base.zxid)
        tree = base.tree
        for transaction in history.transactions(base.zxid + 1):
            tree.apply(transaction)
            if transaction.zxid >= base.exact_from:
                assert tree.agrees(transaction) is not False
        assert tree.first_difference(last, except_below="/zookeeper/") is None
        assert tree.sessions == last.sessions
    assert max(windows) > 0
    assert len(windows) >= 5


def test_three_servers_together_have_what_one_lacks(tmp_path: Path) -> None:
    """Each was down in turn, and leaders changed: joined, the logs are the history that was served."""
    with EmbeddedZooKeeper(3, fsync=False, config=SMALL_FILES, data_dir=tmp_path) as ensemble:
        addresses = ",".join(ensemble.server(number).address for number in range(3))
        for number in range(3):
            client = KazooClient(addresses, timeout=60)
            client.start(60)
            churn(client, 200, 1)
            client.stop()
            client.close()
            ensemble.server(number).kill()
            client = KazooClient(addresses, timeout=60)
            client.start(60)
            for turn in range(300):
                client.retry(client.set, "/held", b"%d" % turn)
            client.stop()
            client.close()
            ensemble.server(number).restart()
        client = KazooClient(addresses, timeout=60)
        client.start(60)
        client.retry(client.set, "/held", b"last")
        client.sync("/held")
        live = walked(client)
        folders = [ensemble.server(number).folder for number in range(3)]
        history = History(*folders)
        assert shown(history.tree_at().tree) == live
        client.stop()
        client.close()
    history = History(*folders)
    found = history.verify()
    assert (found.digest_verdict, found.is_right, found.splits) == ("clean", True, {})
    assert {each.agrees for each in found.snapshots} <= {True, None}
    assert len({each.zxid >> 32 for each in history.transactions()}) >= 2
    compared = 0
    for folder in folders:
        alone = History(folder)
        assert alone.verify().mismatches == 0
        tree, account = alone.tree_at(zxid=history.last_zxid)
        if account.zxid == history.last_zxid:
            assert tree.first_difference(history.tree_at().tree, except_below="/zookeeper/") is None
            compared += 1
    assert compared
