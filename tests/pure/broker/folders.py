"""A broker's folder with three batches in two terms, and the paths of its files."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.replica_managers import TP, append, fetch, on_disk, text_of
from zkgroup.broker.replicas.manager import ReplicaManager

BATCHES = ((b"a", b"bb"), (b"", b"ccc"), (b"d", b"e", b"f" * 40))
"""The last one in a second term."""
ENDS = (0, 2, 4, 7)
FILES = ("jsonl", "index", "epochs", "high-watermark")


def path_of(folder: Path, ending: str) -> Path:
    return folder / TP.topic / f"{TP.partition}.{ending}"


def write_batches(folder: Path) -> None:
    """A folder that a broker has left in order."""
    host = on_disk(1, folder)
    host.become_leader(TP, 0, (1, 2), {1})
    append(host, 0, *BATCHES[0])
    append(host, 0, *BATCHES[1])
    host.become_leader(TP, 3, (1, 2), {1})
    append(host, 3, *BATCHES[2])
    host.close()


def all_lines(host: ReplicaManager) -> bytes:
    """Of a replica, as a follower of the next term would get them."""
    host.become_leader(TP, 9, (1, 2), {1})
    return text_of(fetch(host, 0, replica=2, leader_epoch=9))


def expected(batches: int) -> bytes:
    return b"".join(line + b"\n" for batch in BATCHES[:batches] for line in batch)
