"""An open cluster is closed by rolling restarts while twenty clients run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.closing_cluster import ClosingCluster, close_the_cluster, quiet
from zkgroup.testing.plugin import ServerTree


@pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning")
def test_nothing_is_lost_with_twenty_clients(
    zk_server: ServerTree, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each acknowledged record is at its offset, and was read by the group."""
    quiet(caplog)
    with ClosingCluster(zk_server.address, tmp_path, 20) as cluster:
        close_the_cluster(cluster)
        for producer in cluster.producers:
            producer.stop()

        cluster.wait_all_read()
        assert cluster.lost() == []
        assert len(cluster.acknowledged) > 1_000
