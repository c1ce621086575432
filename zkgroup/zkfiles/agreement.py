"""The records of all servers of an ensemble, in pieces that are not decoded where the servers agree on them.

Arrays show the servers that have a zxid, and comparing bytes proves that they have the same record. Records
are decoded only where servers differ, and `EnsembleFiles.chosen` chooses one. Needs numpy.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from zkgroup.zkfiles.arrow import Batch, Numbers
from zkgroup.zkfiles.columns import PIECE_BYTES, Wanted, batch_of, batches_of
from zkgroup.zkfiles.files import ServerFile
from zkgroup.zkfiles.jute import FRAME, ZXID, ZXID_AT, JuteError, LogChunk, transaction_of
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.records import Hole, Transaction, hole_between
from zkgroup.zkfiles.servers import EnsembleFiles, LogOrder, Server

_FEW: Final = 16
"""The length below which a run of records that servers agree on is decoded, too."""


class Held(NamedTuple):
    """Records of one server, by rising zxid, in a piece of one log."""

    server: Server
    log: ServerFile
    data: bytes
    base: int
    """The offset of `data[0]` in the plain file."""
    places: Numbers
    """The start and end in `data`, and the zxid, of each record."""

    @property
    def zxids(self) -> Numbers:
        zxids: Numbers = self.places[2]
        return zxids

    def some(self, first: int, until: int | None) -> Held:
        """The records with these numbers."""
        return self._replace(places=self.places[:, first:until])

    def without(self, numbers: Sequence[int]) -> Held:
        return self._replace(places=np.delete(self.places, numbers, axis=1))

    def decode(self, number: int) -> Transaction:
        """The record with a number as an object. Raises JuteError."""
        start, end, _ = self.places[:, number].tolist()
        return transaction_of(self.data, start + FRAME.size, end, self.base + start)

    def transaction(self, number: int) -> Transaction | None:
        """The record with a number as an object; None, and noted, for one that no server writes."""
        try:
            return self.decode(number)
        except JuteError as error:
            self.note(number, error)
            return None

    def note(self, number: int, error: JuteError) -> None:
        self.server.note_unreadable(self.log.path, self.base, int(self.places[0, number]), error)

    @property
    def raw(self) -> bytes | None:
        """The bytes of all records in the file; None where there are others between them."""
        starts, ends, _ = self.places
        if (starts[1:] != ends[:-1] + 1).any():
            return None
        return self.data[int(starts[0]) : int(ends[-1])]


@dataclass(frozen=True, slots=True)
class Piece:
    """Records by rising zxid, each once: those on which the servers that have them agree, or decoded ones."""

    held: tuple[Held, ...]
    """The records of each server that has them, the first with the bytes; empty where they are decoded."""
    decoded: Sequence[Transaction] = ()
    _unreadable: set[int] = field(default_factory=set)

    @property
    def zxids(self) -> Numbers:
        """The zxids of all records, without records that turned out to be unreadable."""
        if self.held:
            zxids = self.held[0].zxids
            return np.delete(zxids, sorted(self._unreadable)) if self._unreadable else zxids
        return np.array([each.zxid for each in self.decoded], np.int64)

    def batches(self, wanted: Wanted) -> Iterator[Batch]:
        """Yields their rows as columns. A record that no server writes is skipped, and noted."""
        if not self.held:
            batch = batch_of(self.decoded, wanted)
            if batch is not None:
                yield batch
            return
        _, _, data, base, (starts, ends, _) = self.held[0]
        chunk = LogChunk(data, base, starts, ends)
        yield from batches_of(chunk, wanted, lambda _, number, error: self._note(number, error))

    def transactions(self, zxids: Numbers | int | None = None) -> Iterator[Transaction]:
        """Yields the records as objects, or those with these zxids, without those that cannot be read."""
        wanted = None if zxids is None else np.atleast_1d(zxids)
        if not self.held:
            yield from (each for each in self.decoded if wanted is None or each.zxid in wanted)
            return
        held = self.held[0]
        numbers = np.arange(len(held.zxids))
        for number in (numbers if wanted is None else numbers[np.isin(held.zxids, wanted)]).tolist():
            try:
                transaction = held.decode(number)
            except JuteError as error:
                self._note(number, error)
            else:
                yield transaction

    def _note(self, number: int, error: JuteError) -> None:
        self._unreadable.add(number)
        for each in self.held:
            each.note(number, error)


def holes_in(last: int, zxids: Numbers) -> list[Hole]:
    """The holes between records, the first of which comes behind a zxid."""
    before = np.append([last], zxids[:-1])
    found = (hole_between(int(before[at]), int(zxids[at])) for at in np.flatnonzero(zxids != before + 1))
    return [hole for hole in found if hole is not None]


def pieces(ensemble: EnsembleFiles, from_zxid: int = 0, to_zxid: int | None = None) -> Iterator[Piece]:
    """Yields the records of `EnsembleFiles.transactions` in pieces, with the same notes.

    Memory: a piece of a log of each server. Raises MixedEnsembleError.
    """
    ensemble.require_one()
    if len(ensemble.servers) == 1:
        for alone in held_by(ensemble.servers[0], from_zxid, to_zxid):
            yield Piece((alone,))
        return
    streams = [held_by(server, from_zxid, to_zxid) for server in ensemble.servers]
    heads = [next(stream, None) for stream in streams]
    while there := {number: held for number, held in enumerate(heads) if held is not None}:
        limit = min(int(held.zxids[-1]) for held in there.values())
        parts = {}
        for number, held in there.items():
            until = int(np.searchsorted(held.zxids, limit, "right"))
            if until:
                parts[number] = held.some(0, until)
            is_used_up = until == len(held.zxids)
            heads[number] = next(streams[number], None) if is_used_up else held.some(until, None)
        yield from _agreed(ensemble, parts)


def held_by(server: Server, from_zxid: int = 0, to_zxid: int | None = None) -> Generator[Held]:
    """Yields the records of `Server.transactions`; those that cannot be read are still among them."""
    order = LogOrder(server, from_zxid)
    for log in server.files.logs_within(from_zxid, to_zxid):
        oversized = server.oversized_in(log.path)
        reader = LogReader(log.path, resync=True, piece_bytes=PIECE_BYTES, oversized=oversized)
        with server.noting(reader):
            for chunk in reader.chunks():
                read = _read(server, log, chunk)
                held = _in_order(read, order, from_zxid, to_zxid)
                if len(held.zxids):
                    yield held
                if to_zxid is not None and (read.zxids > to_zxid).any():
                    break


def _read(server: Server, log: ServerFile, chunk: LogChunk) -> Held:
    starts, ends = np.asarray(chunk.starts, np.int64), np.asarray(chunk.ends, np.int64)
    places = len(chunk.data) - ZXID_AT - ZXID.size + 1
    zxids = np.ndarray(places, ">i8", chunk.data, ZXID_AT, strides=(1,))[starts].astype(np.int64)
    return Held(server, log, chunk.data, chunk.base, np.stack((starts, ends, zxids)))


def _in_order(held: Held, order: LogOrder, from_zxid: int, to_zxid: int | None) -> Held:
    """The records of the wanted zxids, each zxid once; those out of order are checked one by one.

    A record whose zxid does not follow the one before is decoded, as unreadable ones have no zxid.
    """
    if to_zxid is not None and len(past := np.flatnonzero(held.zxids > to_zxid)):
        held = held.some(0, int(past[0]))
    zxids = held.zxids
    before = np.append([order.last], zxids[:-1])
    jumps = np.flatnonzero((zxids != before + 1) & (zxids >= from_zxid))
    unreadable = [number for number in jumps.tolist() if held.transaction(number) is None]
    if unreadable:
        held = held.without(unreadable)
        zxids = held.zxids
    if (zxids[1:] > zxids[:-1]).all() and (not len(zxids) or zxids[0] > order.last):
        held = held.some(int(np.searchsorted(zxids, from_zxid)), len(zxids))
        order.last = int(held.zxids[-1]) if len(held.zxids) else order.last
        return held
    left_out = []
    for number in range(len(zxids)):
        transaction = held.transaction(number)
        if transaction is None or not order.takes(held.log, transaction):
            left_out.append(number)
    return held.without(left_out)


def _agreed(ensemble: EnsembleFiles, parts: dict[int, Held]) -> Iterator[Piece]:
    """Yields all records up to a zxid: those that servers agree on, and those chosen among others."""
    if _is_taken(ensemble, parts):
        yield _piece(parts)
        return
    zxids = np.unique(np.concatenate([held.zxids for held in parts.values()]))
    have = np.zeros(len(zxids), np.int64)
    for place, held in enumerate(parts.values()):
        have[np.searchsorted(zxids, held.zxids)] |= 1 << place
    decided: list[Transaction] = []
    for begin, end in pairwise([0, *(np.flatnonzero(np.diff(have)) + 1).tolist(), len(zxids)]):
        some = {
            number: held.some(*np.searchsorted(held.zxids, zxids[[begin, end - 1]] + [0, 1]).tolist())
            for place, (number, held) in enumerate(parts.items())
            if have[begin] >> place & 1
        }
        if end - begin >= _FEW and _is_taken(ensemble, some):
            if decided:
                yield Piece((), decided)
                decided = []
            yield _piece(some)
            continue
        found = (_decided(ensemble, some, number) for number in range(end - begin))
        decided += [each for each in found if each is not None]
    if decided:
        yield Piece((), decided)


def _piece(parts: dict[int, Held]) -> Piece:
    first, *others = parts.values()
    return Piece((first, *(each._replace(data=b"") for each in others)))


def _is_taken(ensemble: EnsembleFiles, some: dict[int, Held]) -> bool:
    """Returns whether servers have the same records, byte by byte, and all of them count."""
    first, *others = some.values()
    raw = first.raw
    for each in others:
        if len(each.zxids) != len(first.zxids) or each.zxids[0] != first.zxids[0]:
            return False
        if raw is None or each.raw != raw:
            return False
    holders = tuple(some)
    kept = ensemble.is_kept(first.zxids, len(holders))
    return not any(ensemble.leaves_out(zxid, holders) for zxid in first.zxids[~kept].tolist())


def _decided(ensemble: EnsembleFiles, some: dict[int, Held], number: int) -> Transaction | None:
    """The record of a zxid that counts, among those that servers have; None where none does."""
    holders = [
        (server, transaction)
        for server, held in some.items()
        if (transaction := held.transaction(number)) is not None
    ]
    return ensemble.chosen(holders) if holders else None
