"""The `ReplicaHost` whose lines are files."""

from __future__ import annotations

from pathlib import Path

from zkgroup.broker.directory.folder import Folder
from zkgroup.broker.directory.partition_files import Flush
from zkgroup.broker.replication.hosting import HostedReplicas


class DirectoryReplicaHost(HostedReplicas):
    """A `ReplicaHost` over a folder; the package says which files are in it.

    A partition is opened when it is first asked for, and read from end to end then: what does not have its
    checksum is cut off with all that follows.
    """

    def __init__(
        self, broker: int, folder: str | Path, cluster_id: str | None = None, flush: Flush = Flush.NONE
    ) -> None:
        """Takes the folder for this process until `close`; a missing one is made in its parent.

        Raises ConfigError where it is another broker's or cluster's, or not a broker's at all, and
        ConflictError where it is in use.
        """
        super().__init__(broker, Folder(Path(folder), broker, cluster_id, flush))
