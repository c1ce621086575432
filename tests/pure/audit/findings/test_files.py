"""Findings about the files themselves: holes, splits, clocks, digests and growth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.pure.audit.histories import Case, History, cases
from tests.worlds import zkfiles_writer as writer
from tests.worlds.audit_folders import calm, look
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.findings.engine import ALL_RULES
from zkgroup.audit.findings.rules import WholeRule
from zkgroup.zkfiles.records import TreeDigest

TABLE = """
history_hole
Three zxids that are in no file are one error, from the first of them to the last.
    calm; skip 3; after: create /c; log one
    > error #8..#a +6000..+7000: 3 zxids are in no file, between two records
Where a log file between two others is gone, the hole is what it held.
    calm; 6 times (create /c{n}); log one to_zxid=4; log one from_zxid=9
    > error #5..#8 +3000..+8000: 4 zxids are in no file, between two records
An epoch whose first record is its second zxid lacks the first.
    calm 0x100000001; new_epoch; skip 1; create /c; log one
    > error #200000001 +6000..+7000: 1 zxid is in no file, between two records
A record that its checksum disowns is a hole of one zxid.
    calm; log one; flip one/log.1 3
    > error #3 +1000..+3000: 1 zxid is in no file, between two records
What a deposed leader wrote alone is none, and no split: the others went on in the next epoch.
    calm 0x100000001; create /only-here; log deposed; calm 0x100000001; new_epoch; create /c; log one; log two
    > nothing
    > (split_history) nothing
An election leaves no hole, and a refused request has a record like any other.
    calm 0x100000001; fail; new_epoch; create /c; log one
    > nothing
Zxids that one server lacks are a hole as long as another that has them is not looked at.
    calm; log one to_zxid=2; log one from_zxid=6
    > error #3..#5 +1000..+5000: 3 zxids are in no file, between two records
    log two from_zxid=3 to_zxid=6
    > nothing
Zxids after the snapshot and before the first record are a hole, which names the snapshot.
    calm; snapshot one 2; log one from_zxid=5
    > error #3..#4 ..+4000: 2 zxids are in no file, between snapshot.2 and the first record
Zxids after the last record up to a later snapshot are a hole, which names the snapshot.
    calm; log one to_zxid=4; snapshot one 6
    > error #5..#6 +3000..: 2 zxids are in no file, between the last record and snapshot.6
Purged logs are none, nor is a snapshot that a new leader writes before its first record.
    calm 0x100000001; snapshot one 0x100000004; log one from_zxid=0x100000003; empty one/snapshot.200000000
    > nothing

split_history
Records that differ are an error, also before 3.6; those in a row are reported together.
    server nodigests; open 1; create /a 1; set /a x; set /a x; set /a same; log one; log three; server
      nodigests; open 1; create /a 1; set /a y; set /a y; set /a same; log two
    > error #3..#4: 2 records are not the same on all servers: one, three against two
Servers that have the same are not split, nor is one that has less.
    calm; log one; log two to_zxid=4
    > nothing
Digests alone that differ are a digest mismatch: the same records, and memory that is not the same.
    calm; log one; log three; record 4 digest=7; log two
    > nothing
    > (digest_mismatch) error #4 ..: 1 digest is not the same on all servers: one, three against two

clock_step
A record earlier than the one before is a warning: by how much, within an epoch or at an election.
    calm 0x100000001; -6000; within: create /c; new_epoch; -1500; across: create /d; log one
    > warning within +6000..+1000: the leader's clock went back by 5.0 s within epoch 1
    > warning across +1000..+500: the leader's clock went back by 500 ms at the election of epoch 2
    > (least_ms=1000) warning within +6000..+1000: the leader's clock went back by 5.0 s within epoch 1
An hour forward, and two records of the same millisecond, are no clock that went back.
    calm; +3600000; create /c; -1000; create /d; log one
    > nothing

ensemble_election
A new epoch is a row from the last record of the old one to its own first, with the time between.
    calm 0x100000001; +6000; new_epoch; first: create /c; log one
    > info #100000007..first: epoch 1 -> 2, no write for 7.0 s
From epoch 1 to 4 is one row, which says that 2 epochs between them left no record.
    calm 0x100000001; new_epoch; skip 0x200000000; first: create /c; log one
    > info #100000007..first: epoch 1 -> 4, no write for 1.0 s; 2 epochs between them without a write
The same election in the logs of two servers is one row.
    calm 0x100000001; new_epoch; first: create /c; log one; log two
    > info #100000007..first: epoch 1 -> 2, no write for 1.0 s

digest_mismatch
given old: server nodigests nolists; open 1; create /a; create /a/x; set /a 1; set /a 2
A tree that is wrong stays wrong: behind the first bad digest no other one is told.
    calm; record 3 digest=7; record 4 digest=7; log one
    > error #3 ..: the digest of the whole tree is another than the server's
Without digests it is never clean: what stands in their place is told.
    old; snapshot one 3 tells=0; snapshot one 5 tells=0; log one
    > info: not_applicable: the servers wrote no digests; compared instead were what 5 records say of the tree
      before them, and 2 snapshots with the tree replayed
Before 3.6 versions stand in: a write that gets version 7 after 1 is an error with its path.
    old; record 5 version=7; log one
    > error #5 ..: the data of /a gets version 7 after 1
    > info: not_applicable: the servers wrote no digests; compared instead were what 5 records say of the tree
      before them, and 0 snapshots with the tree replayed
Before 3.6 a snapshot with data that the log never wrote is an error with its file and path.
    old; set /a/x 'never logged'; snapshot one 3 until=6 tells=0; old; snapshot one 5 tells=0; log one
    > error #3 ..: snapshot.3: /a/x is not as replayed
    > info: not_applicable: the servers wrote no digests; compared instead were what 5 records say of the tree
      before them, and 2 snapshots with the tree replayed
Digests that begin midway, as in a folder that was upgraded, are said to.
    calm; record 1 digest=none; record 2 digest=none; record 3 digest=none; log one
    > info: not_applicable to all: digests begin at 0x4; compared instead were what 3 records say of the tree
      before them, and 0 snapshots with the tree replayed
A snapshot that cannot be read is a warning: it may have been copied while the server wrote it.
    calm; snapshot one 4; cut one/snapshot.4 3; log one
    > warning #4 ..: snapshot.4: byte 493: expected the end of a seal, found the end of the file: it is being
      written, or was cut off

growth
given grown: server; create /a 12; create /a/x 12; create /a/y 12; create /b 12; before: create /c 12; create
  /a/z 345; delete /a/x; set /a/y 6789; delete /c; after: create /d 1
What changed between two snapshots is a row for each subtree: znodes that came and went, and bytes.
    grown; snapshot one 5; snapshot one 10; log one
    > info before..after: /a: 1 added, 1 removed, 1 changed; 3 znodes, 6 bytes of data -> 3, 9 bytes
    > info before..after: /c: 0 added, 1 removed, 0 changed; 1 znode, 2 bytes of data -> 0, 0 bytes
    > info before..after: /d: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 1 byte
    > (depth=2) info before..after: /a/x: 0 added, 1 removed, 0 changed; 1 znode, 2 bytes of data -> 0, 0
      bytes
    > info before..after: /a/y: 0 added, 0 removed, 1 changed; 1 znode, 2 bytes of data -> 1, 4 bytes
    > info before..after: /a/z: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 3 bytes
    > info before..after: /c: 0 added, 1 removed, 0 changed; 1 znode, 2 bytes of data -> 0, 0 bytes
    > info before..after: /d: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 1 byte
A znode that was deleted and made again with the same data has changed.
    grown; delete /b; again: create /b 12; snapshot one 5; snapshot one 12
    > info before..again: /a: 1 added, 1 removed, 1 changed; 3 znodes, 6 bytes of data -> 3, 9 bytes
    > info before..again: /b: 0 added, 0 removed, 1 changed; 1 znode, 2 bytes of data -> 1, 2 bytes
    > info before..again: /c: 0 added, 1 removed, 0 changed; 1 znode, 2 bytes of data -> 0, 0 bytes
    > info before..again: /d: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 1 byte
Each snapshot is compared with the next by zxid; two of one zxid on two servers count once.
    grown; snapshot one 5; snapshot one 10; snapshot two 10; snapshot two 2
    > info #2..before: /a: 1 added, 0 removed, 0 changed; 2 znodes, 4 bytes of data -> 3, 6 bytes
    > info #2..before: /b: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 2 bytes
    > info #2..before: /c: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 2 bytes
    > info before..after: /a: 1 added, 1 removed, 1 changed; 3 znodes, 6 bytes of data -> 3, 9 bytes
    > info before..after: /c: 0 added, 1 removed, 0 changed; 1 znode, 2 bytes of data -> 0, 0 bytes
    > info before..after: /d: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 1 byte
A torn snapshot is left out; those that can be read are compared.
    grown; snapshot one 3; cut one/snapshot.3 10; snapshot one 5; snapshot one 10
    > info before..after: /a: 1 added, 1 removed, 1 changed; 3 znodes, 6 bytes of data -> 3, 9 bytes
    > info before..after: /c: 0 added, 1 removed, 0 changed; 1 znode, 2 bytes of data -> 0, 0 bytes
    > info before..after: /d: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 1 byte
One snapshot has nothing to be compared with.
    grown; snapshot one 5
    > nothing
"""


class FileHistory(History):
    """A history of `ServerHistory` and its files: `log FOLDER`, `snapshot FOLDER`, and damages of both."""

    def __init__(self, place: Path, givens: Mapping[str, str]) -> None:
        super().__init__(givens)
        self._place = place

    def _do(self, statement: str) -> None:
        verb, *words = statement.split()
        world: Any = self.log
        match [verb, *words]:
            case "calm", *zxid:
                self.log = calm(*(int(each, 0) for each in zxid))
            case "server", *without:
                self.log = ServerHistory(digests="nodigests" not in without, lists="nolists" not in without)
            case "log" | "snapshot", folder, *_:
                args, more = self._arguments(verb, words[1:])
                getattr(world, verb)(self._place / folder, *args, **more)
            case _ if verb[0] in "+-":
                world.clock_steps(int(verb))
            case "skip", count:
                world.skip(int(count, 0))
            case "record", number, change:
                self._change(int(number) - 1, *change.split("="))
            case "empty", file:
                (self._place / file).write_bytes(b"")
            case "cut", file, count:
                raw = (self._place / file).read_bytes()
                (self._place / file).write_bytes(raw[: -int(count)])
            case "flip", file, number:
                damaged = bytearray((self._place / file).read_bytes())
                damaged[damaged.index(writer.entry(world.transactions[int(number) - 1])) + 40] ^= 1
                (self._place / file).write_bytes(damaged)
            case _:
                super()._do(statement)

    def _arguments(self, verb: str, words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
        args, more = super()._arguments(verb, words)
        return [
            each.encode() if isinstance(each, str) and number else each for number, each in enumerate(args)
        ], more

    def _change(self, place: int, name: str, value: str) -> None:
        """Another digest, or another version of what a record writes."""
        record = self.log.transactions[place]
        if name == "digest":
            record = record._replace(digest=None if value == "none" else TreeDigest(2, int(value)))
        else:
            record = record._replace(operations=(record.operations[0]._replace(version=int(value)),))
        self.log.transactions[place] = record

    def found(self, rule: str, bounds: Mapping[str, float]) -> list[str]:
        """What the rule finds in all folders that were written, by their names."""
        (whole,) = (each for each in ALL_RULES if each.name == rule and isinstance(each, WholeRule))
        chosen = {name.partition(".")[2]: value for name, value in bounds.items()}
        shown = (self._shown(each) for each in look(whole, *sorted(self._place.iterdir()), **chosen))
        return [each.replace(f"{self._place}/", "") for each in shown]


@cases(TABLE)
def test_findings_about_files(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    with TemporaryDirectory() as place:
        case.check(lambda givens, _: FileHistory(Path(place), givens))
