"""Finds where servers of one ensemble do not have the same: in the records, or in their digests alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from zkgroup.audit.findings.record_checks import record_checks_of
from zkgroup.zkfiles.ensemble import EnsembleFiles
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Transaction
from zkgroup.zkfiles.servers import same_record

Sides = tuple[tuple[Path, ...], ...]


class Disagreement(NamedTuple):
    """Zxids in a row in which the same servers differ in the same way."""

    from_zxid: int
    to_zxid: int
    from_ms: int
    to_ms: int
    size: int
    folders: Sides
    """Servers that have the same, together; those of the record that counts first."""
    is_of_digests_only: bool
    """True if the records are the same, and what a server made of them is not."""

    @property
    def sides(self) -> str:
        return " against ".join(", ".join(map(str, folders)) for folders in self.folders)


def disagreements(history: History) -> list[Disagreement]:
    """By zxid; of those that the ensemble notes, which are the first ones."""
    record_checks_of(history)  # reading them all is what makes the notes
    splits = history.ensemble.splits
    if not splits:
        return []
    records = _records(history.ensemble, splits)
    found: list[Disagreement] = []
    for zxid, folders in sorted(splits.items()):
        alike = [records[each[0], zxid] for each in folders]
        digests_only = all(_same_but_digest(alike[0], other) for other in alike[1:])
        ms = alike[0].time_ms
        last = found[-1] if found else None
        if last is not None and (last.to_zxid + 1, last.folders, last.is_of_digests_only) == (
            zxid,
            folders,
            digests_only,
        ):
            found[-1] = last._replace(to_zxid=zxid, to_ms=ms, size=last.size + 1)
        else:
            found.append(Disagreement(zxid, zxid, ms, ms, 1, folders, digests_only))
    return found


def _records(ensemble: EnsembleFiles, splits: dict[int, Sides]) -> dict[tuple[Path, int], Transaction]:
    """The records in question, by folder and zxid."""
    found = {}
    for server in ensemble.servers:
        for transaction in server.transactions(min(splits), max(splits)):
            if transaction.zxid in splits:
                found[server.folder, transaction.zxid] = transaction
    return found


def _same_but_digest(one: Transaction, other: Transaction) -> bool:
    return same_record(one._replace(digest=None), other._replace(digest=None))
