"""Says which rows a rule is to see, and of which key each is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from zkgroup.audit.inputs.events import OPS, Event
from zkgroup.audit.inputs.keys import BY_SESSION, Key, Keys
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers, stable_order
from zkgroup.znodes.paths import Kind, path_kind

_FLAGS: Final = 4
_VARIANTS: Final = len(OPS) * _FLAGS


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Rows by their numbers, in order, each with the number of its key. Equal only to itself."""

    rows: Numbers
    codes: Numbers
    keys: Sequence[Key]

    def where(self, mask: Flags) -> Selection:
        """Some of the rows."""
        return Selection(self.rows[mask], self.codes[mask], self.keys)

    def none(self) -> Selection:
        """None of the rows."""
        return Selection(self.rows[:0], self.codes[:0], self.keys)

    def of_keys(self, flags: Flags) -> Selection:
        """The rows of some of the keys."""
        return self.where(flags[self.codes])

    def keys_with(self, mask: Flags) -> Flags:
        """A flag for each key: whether a row of it is in the mask."""
        flags: Flags = np.zeros(len(self.keys), np.bool_)
        flags[self.codes[mask]] = True
        return flags

    def by_key(self) -> Selection:
        """The same, key by key."""
        order = stable_order(self.codes)
        return Selection(self.rows[order], self.codes[order], self.keys)


class Keyed:
    """Says which key a row has. A key depends on path, kind of operation, and whether it was applied or a
    seed.

    So it is asked for once for each combination of these. A session is its own key.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        variant = (columns.op.astype(np.int64) * 2 + columns.applied) * 2 + columns.seed
        places = columns.path.astype(np.int64) * _VARIANTS + variant
        self._present = np.zeros(len(columns.paths) * _VARIANTS, np.bool_)
        self._present[places] = True
        self._numbers = (np.cumsum(self._present) - 1)[places]
        self._known: dict[str, Selection] = {}

    @cached_property
    def _samples(self) -> list[Event]:
        """A row with each combination that there is."""
        samples = []
        for combination in np.flatnonzero(self._present).tolist():
            path, variant = divmod(combination, _VARIANTS)
            op, flags = divmod(variant, _FLAGS)
            applied, seed = bool(flags & 2), bool(flags & 1)
            paths = self._columns.paths
            samples.append(Event(0, 0, 0, 0, 0, OPS[op], paths[path], applied=applied, seed=seed))
        return samples

    @cached_property
    def _kinds(self) -> dict[Kind, list[int]]:
        """By kind of path the numbers of its samples."""
        kinds: dict[Kind, list[int]] = {}
        for number, sample in enumerate(self._samples):
            kinds.setdefault(path_kind(sample.path).kind, []).append(number)
        return kinds

    def of(self, keys: Keys) -> Selection:
        """All rows that have a key."""
        if keys.name not in self._known:
            self._known[keys.name] = self._sessions() if keys is BY_SESSION else self._by(keys)
        return self._known[keys.name]

    def release(self) -> None:
        """Forgets all selections; they can be made again."""
        self._known.clear()

    def _by(self, keys: Keys) -> Selection:
        found: dict[Key, int] = {}
        codes = np.full(len(self._samples), -1, np.int32)
        numbers: Iterable[int] = range(len(self._samples))
        if keys.kinds is not None:
            numbers = sorted(chain.from_iterable(self._kinds.get(kind, ()) for kind in keys.kinds))
        for number in numbers:
            key = keys.key(self._samples[number])
            if key is not None:
                codes[number] = found.setdefault(key, len(found))
        of_rows = codes[self._numbers]
        rows = np.flatnonzero(of_rows >= 0)
        return Selection(rows, of_rows[rows], list(found))

    def _sessions(self) -> Selection:
        rows = np.flatnonzero(self._columns.session != 0)
        encoded = pa.array(self._columns.session[rows]).dictionary_encode()
        keys = [(str(session),) for session in encoded.dictionary.to_pylist()]
        return Selection(rows, encoded.indices.to_numpy(), keys)
