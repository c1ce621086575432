"""One history as the logs of three servers that have unequal parts of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from tests.worlds import zkfiles_writer as writer
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType

NAMES = ("a", "b", "c")
CHROOT = "/kafka"
Records = list[Transaction]
Change = Callable[[Records, random.Random], Records]


def write_copies(place: Path, records: Sequence[Transaction], draw: random.Random) -> list[Path]:
    """Writes three servers, some of which lack, repeat or have other records than the others."""
    folders = []
    for name in NAMES:
        own = list(records)
        for change in draw.sample(_CHANGES, draw.randrange(3)):
            own = change(own, draw) if len(own) > 2 else own
        own = own or list(records)
        folders.append(_write(place / name, own, draw))
    return folders


def below_chroot(records: Sequence[Transaction]) -> Records:
    """The same with all paths below CHROOT but those of one group, which other clients have."""
    return [
        each._replace(
            operations=tuple(
                operation._replace(path=_below(operation.path)) for operation in each.operations
            ),
            closed_paths=None
            if each.closed_paths is None
            else tuple(map(str, map(_below, each.closed_paths))),
        )
        for each in records
    ]


def _below(path: str | None) -> str | None:
    return path if path is None or path.startswith("/consumers/dead") else CHROOT + path


def _lagging(records: Records, draw: random.Random) -> Records:
    return records[: draw.randrange(1, len(records))]


def _late(records: Records, draw: random.Random) -> Records:
    return records[draw.randrange(len(records)) :]


def _hole(records: Records, draw: random.Random) -> Records:
    first = draw.randrange(len(records))
    return records[:first] + records[first + draw.randrange(1, 60) :]


def _other(records: Records, draw: random.Random) -> Records:
    place = draw.randrange(1, len(records))
    changed = records[place]._replace(session=77)
    return [*records[:place], changed, *records[place + 1 :]]


def _no_digests(records: Records, _draw: random.Random) -> Records:
    return [each._replace(digest=None) for each in records]


def _proposed_alone(records: Records, draw: random.Random) -> Records:
    """Some more at the end of an epoch, which is the last one or not."""
    ends = [n for n, (one, then) in enumerate(pairwise(records)) if one.zxid >> 32 != then.zxid >> 32]
    place = draw.choice([*ends, len(records) - 1])
    last, more = records[place], draw.randrange(1, 30)
    lost = [
        Transaction(last.zxid + 1 + n, 5, 1, last.time_ms + n, TransactionType.SET_DATA, (_SET,))
        for n in range(more)
    ]
    return [*records[: place + 1], *lost, *([] if draw.random() < 0.5 else records[place + 1 :])]


def _unreadable(records: Records, draw: random.Random) -> Records:
    """One that holds what no server writes, with a right checksum."""
    place = draw.randrange(1, len(records))
    return [*records[:place], records[place]._replace(type=-3, operations=()), *records[place + 1 :]]


_SET = Operation(TransactionType.SET_DATA, "/consumers", b"lost", version=9)
_CHANGES: tuple[Change, ...] = (_lagging, _late, _hole, _other, _no_digests, _proposed_alone, _unreadable)


def _write(folder: Path, records: Records, draw: random.Random) -> Path:
    """In some logs, of which one may be damaged and one may repeat records of the one before."""
    folder.mkdir(parents=True)
    cuts = sorted(draw.sample(range(1, len(records)), min(len(records) - 1, draw.randrange(4))))
    for start, end in pairwise([0, *cuts, len(records)]):
        repeated = max(start - draw.randrange(1, 20), 0) if draw.random() < 0.15 else start
        path = writer.write_log(folder, records[repeated:end])
        if draw.random() < 0.15:
            raw = bytearray(path.read_bytes())
            raw[draw.randrange(16, len(raw))] ^= 1 << draw.randrange(8)
            path.write_bytes(raw)
    return folder
