"""The process that appends is killed: what it had answered is in the files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.project import ROOT
from tests.worlds.replica_managers import TP, DirectoryHosts, append, end, on_disk
from zkgroup.wire.messages import ErrorCode

APPENDS = f"""
import sys
from tests.worlds.replica_managers import on_disk
from zkgroup.model import TopicPartition
from tests.worlds.batches import records_of

topic, partition = {tuple(TP)!r}
host = on_disk(1, sys.argv[1])
leader_epoch = int(sys.argv[2])
host.become_leader(TopicPartition(topic, partition), leader_epoch, (1,), (1,))
offset = host.view(TopicPartition(topic, partition)).log_end_offset
while True:
    lines = tuple(b"line %d" % (offset + number) for number in range(50))
    offset = host.append(TopicPartition(topic, partition), records_of(lines, timestamp_ms=1)).base_offset + 50
    print(offset, flush=True)
"""


def test_what_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    """Three times in a row: every answered record is at its offset, and the folder can be used at once."""
    answered = 0
    for leader_epoch in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", APPENDS, str(tmp_path / "1"), str(leader_epoch)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        ) as child:
            assert child.stdout is not None
            for _ in range(20):
                answered = int(child.stdout.readline())
            child.kill()
            answered = int((child.stdout.read().splitlines() or [str(answered)])[-1])

        host = on_disk(1, tmp_path / "1")
        kept = end(host)
        host.close()
        records = DirectoryHosts(tmp_path).records(1)

        assert kept is not None
        assert kept >= answered
        assert records == [b"line %d" % offset for offset in range(kept)]

    host = on_disk(1, tmp_path / "1")
    assert host.become_leader(TP, 3, (1,), {1}) is ErrorCode.NONE
    assert append(host, 3, b"next").base_offset == len(records)
    host.close()
