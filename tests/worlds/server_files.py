"""The files that real servers write under load and without their leader, and the tree that a client reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.other_clients import kazoo_on
from tests.worlds.server_history import seen_znodes
from zkgroup.model.requests import Znode, ZnodeStat
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.tree import Tree
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

SMALL_FILES = {"snapCount": "500", "preAllocSize": "64", "extendedTypesEnabled": "true"}


def churn(client: KazooClient, nodes: int, rounds: int) -> None:
    """Sends many requests at the same time, so that a snapshot is taken while writes go on."""
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
        each.wait(PATIENCE_S)


def walked(client: KazooClient) -> list[Znode]:
    """The znodes that a client reads by path, without the server's own."""
    found, level = [], ["/"]
    while level:
        asked = [(path, client.get_async(path), client.get_children_async(path)) for path in level]
        level = []
        for path, answer, children in asked:
            data, stat = answer.get(PATIENCE_S)
            found.append(Znode(path, data, ZnodeStat(*stat)))
            names = [name for name in children.get(PATIENCE_S) if (path, name) != ("/", "zookeeper")]
            level += [f"{path.rstrip('/')}/{name}" for name in names]
    return sorted(found)


def shown(tree: Tree) -> list[Znode]:
    return [each for each in seen_znodes(tree) if each.path.split("/")[1] != "zookeeper"]


def write(address: str, name: str, count: int) -> None:
    """Creates a znode whose data is its name and a number, from 0."""
    with kazoo_on(address) as client:
        client.retry(client.ensure_path, f"/{name}")
        for turn in range(count):
            client.retry(client.set, f"/{name}", b"%s %d" % (name.encode(), turn))


def leader_of(ensemble: EmbeddedZooKeeper) -> int:
    """The number of the server that leads, once there is a leader."""
    found = eventually(lambda: [n for n in range(3) if "Mode: leader" in ensemble.server(n).ask("srvr")])
    return found[0]


@dataclass(frozen=True)
class Written:
    """The folders of an ensemble's servers, and the tree that a client read last."""

    folders: tuple[Path, ...]
    live: list[Znode]


def without_its_leader(folder: Path, writes: int) -> Written:
    """Runs three servers; writes before the leader is killed, while it is down, and after its restart."""
    with EmbeddedZooKeeper(3, fsync=False, config=SMALL_FILES, data_dir=folder) as ensemble:
        with kazoo_on(ensemble.address) as client:
            churn(client, 200, 1)
        write(ensemble.address, "before", writes)
        leader = leader_of(ensemble)
        ensemble.server(leader).kill()
        write(ensemble.address, "after", writes)
        ensemble.server(leader).restart()
        write(ensemble.address, "again", writes)
        with kazoo_on(ensemble.address) as client:
            client.sync("/again")
            live = walked(client)
            folders = tuple(ensemble.server(number).folder for number in range(3))
    return Written(folders, live)


def compared(history: History, *folders: Path) -> int:
    """How many servers' files reach the end of the history; checks that their trees equal the history's."""
    count = 0
    for folder in folders:
        alone = History(folder)
        assert alone.verify().mismatches == 0
        tree, account = alone.tree_at(zxid=history.last_zxid)
        if account.zxid == history.last_zxid:
            assert tree.first_difference(history.tree_at().tree, except_below="/zookeeper/") is None
            count += 1
    return count
