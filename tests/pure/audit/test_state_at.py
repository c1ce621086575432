"""What stood at a moment, folded from rows, is what a replay of the tree gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, source
from tests.worlds.audit_log import AuditLog
from tests.worlds.record_by_record import rows_from
from tests.worlds.screened_findings import events_in
from zkgroup.audit.inputs.converted import ConvertedSource
from zkgroup.audit.inputs.manifest import Converted, ConvertedLog, Folder, OutputFolder
from zkgroup.audit.inputs.rows import columns_of, state_of
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles.records import Operation, TransactionType


@pytest.mark.parametrize("name", [*HEALTHY, INCIDENTS])
def test_a_stretch_begins_with_what_a_replay_gives(name: str) -> None:
    """Znodes with their data, versions, ACLs and times, sessions with timeouts; at every fortieth record."""
    history = source(name)
    # What a server of 3.5 makes when it starts with nothing is in no record.
    rows = [row for row in events_in(history.rows()) if row.path != "/zookeeper/config"]
    zxids = sorted({row.zxid for row in rows if not row.seed})

    for zxid in zxids[1::40]:
        expected = events_in(history.rows(PointInTime(zxid)))
        assert list(rows_from(rows, zxid)) == [row for row in expected if row.path != "/zookeeper/config"]


def test_what_is_refused_or_gone_leaves_nothing() -> None:
    """A multi that failed, a delete, an ephemeral that went with its session, and the session itself."""
    log = AuditLog()
    log.open(1)
    log.open(2)
    log.create("/a", "1")
    log.create("/a/gone", "x")
    log.create("/mine", "x", 1, ephemeral=True)
    log.set("/a", "2")
    log.delete("/a/gone")
    log.write(
        TransactionType.MULTI,
        2,
        Operation(TransactionType.CREATE, "/b", b"x"),
        Operation(TransactionType.ERROR, error=-110),
    )
    log.expire(1)
    session, znode = state_of(columns_of(log.events())).events()

    assert (session.op, session.session, session.seed) == ("createSession", 2, True)
    assert (znode.path, znode.data, znode.version, znode.sub) == ("/a", b"2", 1, -1)


def test_a_stretch_behind_the_end_is_what_stood_then() -> None:
    """Seeds alone, and the rows before are not told."""
    log = AuditLog()
    log.create("/a", "1")

    assert [row.seed for row in rows_from(log.events(), log.zxid + 5)] == [True]


def test_a_time_is_searched_in_the_last_log_that_begins_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that steps back does not lead into a later log; before the first log nothing is known."""
    begun = {1: (7, 100), 8: (9, 200), 10: (30, 150)}
    logs = [ConvertedLog(start, (), True, zxid, 0, 1, (0,), ms) for start, (zxid, ms) in begun.items()]
    output = SimpleNamespace(ensembles={"e": Converted(0, 1, logs=tuple(logs))}, folder=Folder("out"))
    monkeypatch.setattr(
        ConvertedSource, "_times", lambda _, log: tuple(np.array([each]) for each in begun[log.start])
    )
    source = ConvertedSource(cast("OutputFolder", output), "e")

    assert source.zxid_at(120) == 7
    with pytest.raises(NotFoundError, match="out: no log goes back to"):
        source.zxid_at(99)
