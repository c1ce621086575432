"""The findings about the ensemble itself, on what three real servers wrote while their leader was killed."""

from __future__ import annotations

import shutil
from pathlib import Path
from zlib import adler32

from tests.worlds.audit_folders import look, places
from tests.worlds.server_files import Written
from zkgroup.audit.findings import files
from zkgroup.zkfiles.files import list_files
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.records import Transaction

FAULTS = (files.history_hole, files.split_history, files.digest_mismatch, files.clock_step)


def _entry_with(log: Path, text: bytes) -> tuple[Transaction, bytes]:
    """The record that holds a text, and its entry: what stands between its length and its end mark."""
    raw = log.read_bytes()
    for transaction in LogReader(log):
        start = transaction.offset + 12
        entry = raw[start : start + int.from_bytes(raw[start - 4 : start], "big")]
        if text in entry:
            return transaction, entry
    raise AssertionError(f"{text!r} is in no record of {log}")


def _forge(log: Path, text: bytes, forged: bytes) -> int:
    """Changes the data of one record, checksum and all; its zxid."""
    transaction, entry = _entry_with(log, text)
    raw, changed = bytearray(log.read_bytes()), entry.replace(text, forged)
    raw[transaction.offset : transaction.offset + 8] = adler32(changed).to_bytes(8, "big")
    raw[transaction.offset + 12 : transaction.offset + 12 + len(entry)] = changed
    log.write_bytes(raw)
    return transaction.zxid


def _take_out(log: Path, text: bytes) -> int:
    """Leaves one record out; its zxid."""
    transaction, entry = _entry_with(log, text)
    raw = bytearray(log.read_bytes())
    del raw[transaction.offset : transaction.offset + 12 + len(entry) + 1]
    log.write_bytes(raw)
    return transaction.zxid


def _copied(folders: list[Path], to: Path) -> list[Path]:
    return [Path(shutil.copytree(folder / "version-2", to / folder.name)) for folder in folders]


def _log_with(folder: Path, text: bytes) -> Path:
    return next(log.path for log in list_files(folder).logs if text in log.path.read_bytes())


def test_an_election_is_reported_and_forged_or_removed_znodes_are_found(
    lost_leader: Written, tmp_path: Path
) -> None:
    """A leader's death is no fault; a record forged on one server, or cut out of all, is an error there."""
    folders = list(lost_leader.folders)
    epochs = [transaction.zxid >> 32 for transaction in History(*folders).transactions()]
    elections = look(files.ensemble_election, *folders)
    assert [each.severity for each in elections] == ["info"] * (len(set(epochs)) - 1)
    assert len(elections) >= 1
    assert [each for rule in FAULTS for each in look(rule, *folders)] == []
    assert {each.severity for each in look(files.growth, *folders)} <= {"info"}

    forged = _copied(folders, tmp_path / "forged")
    zxid = _forge(_log_with(forged[0], b"after 7"), b"after 7", b"after 0")
    assert places(look(files.split_history, *forged)) == [("error", zxid, zxid)]
    assert places(look(files.digest_mismatch, *forged)) == []
    alone = look(files.digest_mismatch, forged[0])
    assert ("error", zxid, zxid) in places(alone)

    taken = _copied(folders, tmp_path / "taken")
    assert {_take_out(_log_with(folder, b"after 7"), b"after 7") for folder in taken} == {zxid}
    assert places(look(files.history_hole, *taken)) == [("error", zxid, zxid)]
