"""Three servers, each of which was down in turn, and the history that their logs have together."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.other_clients import kazoo_on
from tests.worlds.server_files import SMALL_FILES, churn, compared, shown, walked
from tests.worlds.zkfiles_tables import digest_verdict, is_right
from zkgroup.zkfiles.history import History
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


def test_three_servers_together_have_what_one_lacks(tmp_path: Path) -> None:
    """Each was down in turn, and leaders changed: the joined logs are the history that was served."""
    with EmbeddedZooKeeper(3, fsync=False, config=SMALL_FILES, data_dir=tmp_path) as ensemble:
        addresses = ",".join(ensemble.server(number).address for number in range(3))
        for number in range(3):
            with kazoo_on(addresses) as client:
                churn(client, 200, 1)
            ensemble.server(number).kill()
            with kazoo_on(addresses) as client:
                for turn in range(300):
                    client.retry(client.set, "/held", b"%d" % turn)
            ensemble.server(number).restart()
        with kazoo_on(addresses) as client:
            client.retry(client.set, "/held", b"last")
            client.sync("/held")
            live = walked(client)
            folders = [ensemble.server(number).folder for number in range(3)]
            history = History(*folders)
            assert shown(history.tree_at().tree) == live
    history = History(*folders)
    found = history.verify()
    assert (digest_verdict(found), is_right(found), found.splits) == ("clean", True, {})
    assert {each.agrees for each in found.snapshots} <= {True, None}
    assert len({each.zxid >> 32 for each in history.transactions()}) >= 2
    assert compared(history, *folders)
