"""The health of a snapshot or log: how far it is good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.zkfiles.frames import Damage, Oversized, RecordsEnd

_NAMED: Final = 3


def oversized_notes(oversized: Sequence[Oversized]) -> list[str]:
    """Of the first ones each in words, and how many more there are."""
    more = [f"{len(oversized) - _NAMED} more that are too large"] if len(oversized) > _NAMED else []
    return [*(one.text for one in oversized[:_NAMED]), *more]


@dataclass(frozen=True, slots=True)
class FileHealth:
    """Holds what one pass over a file found; the values of `zkgroup audit inspect`."""

    path: Path
    kind: str
    """`snapshot` or `log`."""
    first_zxid: int | None
    """Log: of the first record. Snapshot: the last one applied when the dump began."""
    last_zxid: int | None
    """Log: of the last record. Snapshot: the last one of which it can hold something, as far as is known.

    None of a damaged snapshot, whose zxids may be wrong.
    """
    records: int
    """Transactions, or znodes; those behind a damage too, where they could be read."""
    is_healthy: bool
    """No seal, checksum or length is wrong. A last write that is not whole is no damage."""
    good_until_zxid: int | None
    """Up to there nothing is missing or wrong; None where nothing is good."""
    is_exact: bool
    """Log: it ends with a whole record. Snapshot: it is known to be the tree at one zxid."""
    detail: str = ""
    """In words; empty where there is nothing to say."""
    oversized: tuple[Oversized, ...] = ()
    """Records or znodes with which no server loads the file by default, by zxid."""


class SeenRecords(NamedTuple):
    """Holds what one pass over a log found."""

    first: int | None
    last: int | None
    records: int
    good_until: int | None
    notes: list[str]
    damages: list[Damage]
    end: RecordsEnd | None
    oversized: tuple[Oversized, ...] = ()
