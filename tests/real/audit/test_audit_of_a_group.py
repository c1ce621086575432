"""A group of ours on real servers, audited from the files that these wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.waiting import PATIENCE_S, becomes
from tests.worlds.audit_agreement import tally_of_checker, tally_of_rows
from tests.worlds.other_clients import kazoo_on
from tests.worlds.screened_findings import events_in
from zkgroup import GroupMember, GroupSettings, TopicPartition
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.inputs.opening import open_source
from zkgroup.history import read_transactions
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, ids_path

GROUP = "audited"
ORDERS = tuple(TopicPartition("orders", number) for number in range(4))


@pytest.fixture
def stranger(zk_ensemble: ServerTree) -> Iterator[KazooClient]:
    """Somebody's own client, who has also made the topic."""
    with kazoo_on(zk_ensemble.address) as client:
        client.create(Topic.path("orders"), Topic(dict.fromkeys(range(4), (0,))).encode(), makepath=True)
        yield client


def _member(tree: ServerTree, name: str) -> GroupMember:
    settings = GroupSettings(
        consumer_id=name, initial_rebalance_delay_ms=0, settle_ms=10, session_timeout_ms=20_000
    )
    return GroupMember(tree.address, group=GROUP, topics=["orders"], settings=settings)


def _folders(tree: ServerTree) -> list[Path]:
    return sorted(tree.zookeeper.data_dir.glob("server-*"))


def test_exactly_what_was_planted_is_an_error(zk_ensemble: ServerTree, stranger: KazooClient) -> None:
    """Two members, their commits and releases leave none; a stranger's write over an owner's offset does."""
    with _member(zk_ensemble, "ada") as ada:
        ada.wait_until_assigned(timeout_s=PATIENCE_S)
        with _member(zk_ensemble, "bob") as bob:
            becomes(lambda: {len(each.leases()) for each in (ada, bob)}, {len(ORDERS) // 2})
            for member in (ada, bob):
                member.commit({lease.topic_partition: 7 for lease in member.leases()})
            planted = stranger.set(Offset.path(GROUP, ORDERS[0]), b"3")
        stranger.sync(ids_path(GROUP))  # its server may be behind the one at which bob has left
        assert set(stranger.get_children(ids_path(GROUP))) == {f"{GROUP}_ada"}
        becomes(lambda: len(ada.leases()), len(ORDERS))  # else both leave in one rebalance

    source = open_source(_folders(zk_ensemble), zk_ensemble.chroot)
    found = audit(source, ALL_RULES, group=GROUP).findings

    assert len(_folders(zk_ensemble)) == 3
    errors = [(each.finding, each.from_zxid) for each in found if each.severity == "error"]
    assert errors == [("offset_regression", planted.mzxid), ("zombie_commit", planted.mzxid)]
    causes = [each.detail.split(";")[0] for each in found if each.finding == "rebalance"]
    assert causes == [
        f"join ({GROUP}_ada)",
        f"join ({GROUP}_bob)",
        f"clean leave ({GROUP}_bob)",
        f"clean leave ({GROUP}_ada)",
    ]


def test_rows_and_checker_read_the_same_out_of_real_logs(
    zk_ensemble: ServerTree, stranger: KazooClient
) -> None:
    """From logs of three real servers, audit and checker count the same: 4 claims, 1 foreign write."""
    with _member(zk_ensemble, "ada") as ada:
        ada.wait_until_assigned(timeout_s=PATIENCE_S)
        ada.commit(dict.fromkeys(ORDERS, 7))
        stranger.set(Offset.path(GROUP, ORDERS[0]), b"9")
    folders = _folders(zk_ensemble)

    rows = events_in(open_source(folders, zk_ensemble.chroot).rows())
    tally = tally_of_rows(rows, GROUP)

    logs = [folder / "version-2" for folder in folders]
    assert tally == tally_of_checker(read_transactions(logs, zk_ensemble.chroot), GROUP)
    assert (tally.claims, tally.foreign_writes) == (4, 1)
    assert tally.commits >= 4
