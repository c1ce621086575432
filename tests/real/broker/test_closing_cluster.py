"""An open cluster is closed by rolling restarts while clients run; `tests/long/brokers` has more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.closing_cluster import ClosingCluster, close_the_cluster, quiet
from zkgroup.testing.plugin import ServerTree


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_nothing_is_lost_while_a_cluster_is_closed(
    zk_server: ServerTree, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Listeners, the one among brokers, passwords and certificates change under four clients."""
    quiet(caplog)
    with ClosingCluster(zk_server.address, tmp_path, 4) as cluster:
        close_the_cluster(cluster)
        for producer in cluster.producers:
            producer.stop()

        cluster.wait_all_read()
        assert cluster.lost() == []
