"""The tables that screens read: rows by key, rows of partitions with their state, the last of each path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.answers.partitions import SAFE_DIGITS, offset_of
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Occurrence, Rule
from zkgroup.audit.inputs import events
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.rows import Columns, fact_rows, last_of_paths, last_places, stable_order
from zkgroup.zkfiles.arrow import Flags, Numbers
from zkgroup.znodes.paths import Kind, path_kind

_FLAGS: Final = 4
_VARIANTS: Final = len(events.OPS) * _FLAGS


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The numbers of rows, in order, each with the number of its key. Equal only to itself."""

    rows: Numbers
    codes: Numbers
    keys: Sequence[events.Key]

    def where(self, mask: Flags) -> Selection:
        """Some of the rows."""
        return Selection(self.rows[mask], self.codes[mask], self.keys)

    def of_keys(self, flags: Flags) -> Selection:
        """The rows of some of the keys."""
        return self.where(flags[self.codes])

    def keys_with(self, mask: Flags) -> Flags:
        """A flag for each key: True if a row of it is in the mask."""
        flags: Flags = np.zeros(len(self.keys), np.bool_)
        flags[self.codes[mask]] = True
        return flags

    def in_key_order(self) -> Selection:
        """The same rows, key by key."""
        order = stable_order(self.codes)
        return Selection(self.rows[order], self.codes[order], self.keys)


class ScreenTables:
    """The columns of a history, with tables that are computed when first needed; rules and the report
    share them.

    A key depends on path, kind of operation, and whether it was applied or a seed, so it is computed once
    for each combination of these. A session is its own key.
    """

    def __init__(self, columns: Columns, facts: Facts) -> None:
        self.columns, self.facts = columns, facts
        variant = (columns.op.astype(np.int64) * 2 + columns.applied) * 2 + columns.seed
        places = columns.path.astype(np.int64) * _VARIANTS + variant
        is_present = np.zeros(len(columns.paths) * _VARIANTS, np.bool_)
        is_present[places] = True
        self._combinations = np.flatnonzero(is_present)
        self._numbers = (np.cumsum(is_present) - 1)[places]
        self._selections: dict[str, Selection] = {}
        self._key_rows: dict[Selection, list[tuple[events.Key, KeyRows]]] = {}
        """The rows of each key of a selection that several rules or the report see."""

    def of(self, keys: events.Keys) -> Selection:
        """All rows that have a key."""
        if keys.name not in self._selections:
            self._selections[keys.name] = self._of_sessions() if keys is events.BY_SESSION else self._of(keys)
        return self._selections[keys.name]

    def _of(self, keys: events.Keys) -> Selection:
        columns, found = self.columns, dict[events.Key, int]()
        are_meant = np.ones(len(columns.paths), np.bool_)
        if keys.kinds is not None:
            are_meant = self.paths_of(*keys.kinds)
        if keys.of_path is not None:
            codes = np.full(len(columns.paths), -1, np.int32)
            for path in np.flatnonzero(are_meant).tolist():
                key = keys.of_path(path_kind(columns.paths[path]))
                codes[path] = found.setdefault(key, len(found))
            of_rows = np.where(columns.applied, codes[columns.path], -1)
        else:
            codes = np.full(len(self._samples), -1, np.int32)
            for number in np.flatnonzero(are_meant[self._combinations // _VARIANTS]).tolist():
                sampled = keys.key(self._samples[number])
                if sampled is not None:
                    codes[number] = found.setdefault(sampled, len(found))
            of_rows = codes[self._numbers]
        rows = np.flatnonzero(of_rows >= 0)
        return Selection(rows, of_rows[rows], list(found))

    def _of_sessions(self) -> Selection:
        rows = np.flatnonzero(self.columns.session != 0)
        encoded = pa.array(self.columns.session[rows]).dictionary_encode()
        keys = [(str(session),) for session in encoded.dictionary.to_pylist()]
        return Selection(rows, encoded.indices.to_numpy(), keys)

    @cached_property
    def _samples(self) -> list[events.Event]:
        samples, paths = [], self.columns.paths
        for combination in self._combinations.tolist():
            path, variant = divmod(combination, _VARIANTS)
            op, flags = divmod(variant, _FLAGS)
            applied, seed = bool(flags & 2), bool(flags & 1)
            samples.append(
                events.Event(0, 0, 0, 0, 0, events.OPS[op], paths[path], applied=applied, seed=seed)
            )
        return samples

    @cached_property
    def _kinds(self) -> Sequence[Kind]:
        return [path_kind(path).kind for path in self.columns.paths]

    def paths_of(self, *kinds: Kind) -> Flags:
        """A flag for each path: True if it is of one of these kinds."""
        return np.array([kind in kinds for kind in self._kinds], np.bool_)

    def find(self, rules: Sequence[Rule], bounds: Mapping[str, Bounds]) -> Iterator[Finding]:
        """Yields what the rules find in the rows that their screens keep."""
        screened: list[tuple[Rule, Selection]] = []
        for rule in rules:
            if rule.is_counted:
                yield from rule.find(self, bounds[rule.name])
            else:
                seen = rule.screen(self, bounds[rule.name]) if rule.screen else self.of(rule.keys)
                screened.append((rule, seen))
        wanted: Flags = np.zeros(len(self.columns), np.bool_)
        for _, selection in screened:
            wanted[selection.rows] = True
        made = list(self.columns.events(np.flatnonzero(wanted)))
        places = np.cumsum(wanted) - 1
        shared = Counter(selection for _, selection in screened)
        for rule, selection in screened:
            of_keys = self._key_rows.get(selection)
            if of_keys is None:
                of_keys = list(_keyed(selection, places, made))
                if shared[selection] > 1 or rule.screen is None:
                    self._key_rows[selection] = of_keys
            for key, rows in of_keys:
                yield from rule.find(rows, key, self.facts, bounds[rule.name])

    def key_rows(self, keys: events.Keys) -> list[tuple[events.Key, KeyRows]]:
        """All rows of each key, with the values that rules have computed of them."""
        selection = self.of(keys)
        known = self._key_rows.get(selection)
        if known is None:
            made = list(self.columns.events(selection.rows))
            places = np.searchsorted(selection.rows, np.arange(len(self.columns)))
            known = self._key_rows[selection] = list(_keyed(selection, places, made))
        return known

    def forget_rows(self) -> None:
        """Frees the rows by key, with the values that rules computed of them; they can be made again."""
        self._key_rows.clear()

    def of_some(self, keys: events.Keys, asks: Callable[[events.Key], bool]) -> Selection:
        """The rows of those of these keys for which `asks` is True."""
        rows = self.of(keys)
        return rows.of_keys(np.array([asks(key) for key in rows.keys], np.bool_))

    def standing(self, rows: Selection, write: int) -> tuple[Numbers, Numbers, Numbers]:
        """The codes of the paths that exist at the end, and the places of two of these rows for each.

        These are the row that created it, and the last one that created it or was a write of this kind.
        """
        op, paths = self.columns.op[rows.rows], self.columns.path[rows.rows]
        size = len(self.columns.paths)
        change = last_of_paths(size, paths, (op == events.CREATE) | (op == events.DELETE))
        changed = np.flatnonzero(change >= 0)
        living = changed[op[change[changed]] == events.CREATE]
        last = last_of_paths(size, paths, (op == events.CREATE) | (op == write))
        return living, change[living], last[living]

    def moment(self, row: int) -> Occurrence:
        """The zxid and time of a row."""
        return Occurrence(int(self.columns.zxid[row]), int(self.columns.time_ms[row]))

    def release(self) -> None:
        """Frees all tables but that of partitions; they can be made again."""
        self._selections.clear()
        self.__dict__.pop("sessions", None)

    @cached_property
    def partitions(self) -> PartitionTable:
        """The owners and offsets of groups, partition by partition."""
        rows = self.of(events.BY_GROUP_PARTITION).in_key_order()
        return PartitionTable(self.columns, rows, self.paths_of("owner")[self.columns.path[rows.rows]])

    def placed(self, mask: Flags) -> Flags:
        """The flags of rows of partitions as flags of all rows."""
        flags: Flags = np.zeros(len(self.columns), np.bool_)
        flags[self.partitions.selection.rows[mask]] = True
        return flags

    @cached_property
    def sessions(self) -> Selection:
        """The rows of sessions without the plain writes that no rule needs: `known_rows`."""
        rows = self.of(events.BY_SESSION)
        is_known: Flags = np.zeros(len(self.columns), np.bool_)
        is_known[known_rows(self.columns)] = True
        return rows.where(is_known[rows.rows])

    def takeovers(self) -> Selection:
        """The rows of groups without writes of offsets, except the last one before a session's end."""
        rows, columns, lives = self.of(events.BY_GROUP), self.columns, self.facts.sessions
        matters: Flags = ~self.paths_of("offset")[columns.path[rows.rows]]
        encoded = pa.array(columns.session[rows.rows]).dictionary_encode()
        sessions, numbers = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        ended = [lives[one].to_zxid if one in lives else None for one in sessions]
        ends = np.array([-1 if zxid is None else zxid for zxid in ended], np.int64)
        places = np.flatnonzero((columns.zxid[rows.rows] < ends[numbers]) & ~columns.seed[rows.rows])
        pairs = rows.codes[places].astype(np.int64) * len(sessions) + numbers[places]
        matters[places[last_places(pairs)]] = True
        return rows.where(matters)

    def made_persistent(self, keys: events.Keys) -> Selection:
        """The rows of keys, each of one path, with some create that is not of an ephemeral."""
        columns = self.columns
        is_made = columns.applied & (columns.op == events.CREATE)
        are_meant: Flags = np.zeros(len(columns.paths), np.bool_)
        are_meant[columns.path[is_made & (columns.ephemeral != events.OF_SESSION)]] = True
        changes = is_made | (columns.applied & (columns.op == events.DELETE))
        rows = np.flatnonzero(changes & are_meant[columns.path])
        some = ScreenTables(columns.take(rows), self.facts).of(keys)
        return Selection(rows[some.rows], some.codes, some.keys)

    def written_ms(self, rows: Numbers) -> Numbers:
        """The times of rows; for seeds that of the last write of data or of the create, the later one."""
        mtime_ms = pc.fill_null(self.columns.mtime_ms.take(pa.array(rows)), 0).to_numpy()
        written: Numbers = np.maximum(self.columns.time_ms[rows], mtime_ms)
        return written

    def set_ms(self, rows: Numbers) -> Numbers:
        """The times at which rows set their data; for seeds that of the last write, where it is known."""
        mtime_ms = self.columns.mtime_ms.take(pa.array(rows))
        is_known = self.columns.seed[rows] & mtime_ms.is_valid().to_numpy(zero_copy_only=False)
        at_ms: Numbers = np.where(is_known, pc.fill_null(mtime_ms, 0).to_numpy(), self.columns.time_ms[rows])
        return at_ms

    def sizes(self, rows: Numbers) -> Numbers:
        """The bytes of data of rows."""
        sizes: Numbers = pc.fill_null(pc.binary_length(self.columns.data.take(pa.array(rows))), 0).to_numpy()
        return sizes.astype(np.int64)


def _keyed(
    selection: Selection, places: Numbers, made: Sequence[events.Event]
) -> Iterator[tuple[events.Key, KeyRows]]:
    if not len(selection.rows):
        return
    ordered = selection.in_key_order()
    codes, numbers = ordered.codes, places[ordered.rows].tolist()
    starts = equal_runs(codes)[0].tolist()
    get: Callable[[int], events.Event] = made.__getitem__
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        yield selection.keys[int(codes[start])], KeyRows(map(get, numbers[start:end]))


class PartitionTable:
    """The owner and offset rows of the partitions of groups, partition by partition, each in order.

    The flags of a row are about the state just before it, as in `partition_steps`.
    """

    def __init__(self, columns: Columns, rows: Selection, is_owner: Flags) -> None:
        self.selection = rows
        numbers = rows.rows
        self.op = columns.op[numbers]
        self.session = columns.session[numbers]
        self.zxid = columns.zxid[numbers]
        self.time_ms = columns.time_ms[numbers]
        self.seed = columns.seed[numbers]
        self.is_first, self.start = begins(rows.codes)
        """True for the first row of a key; and for each row the place of the first one of its key."""
        self.is_last: Flags = np.append(self.is_first[1:], True)[: len(numbers)]
        self.is_owner: Flags = is_owner
        self.is_change: Flags = self.is_owner & ((self.op == events.CREATE) | (self.op == events.DELETE))
        """True if the row creates or deletes an owner."""
        change = last_with(self.is_change, self.start)
        self.change_before: Numbers = before(change, self.is_first)
        """The last such row before a row; -1 for none."""
        self.holder: Numbers = np.where((change >= 0) & (self.op[change] == events.CREATE), change, -1)
        """The row of the claim by which the partition is owned behind a row; -1 where it has no owner."""
        self.by_holder: Flags = (self.holder >= 0) & (self.session[self.holder] == self.session)
        """True if the row is of the session that owns the partition."""
        self.holder_known: Flags = last_with(self.is_owner, self.start) >= 0
        """True if there is a row of the owner at or before the row."""
        self._offsets(columns.data, numbers)

    def _offsets(self, data: pa.Array, numbers: Numbers) -> None:
        is_deletion = ~self.is_owner & (self.op == events.DELETE)
        self.is_write: Flags = ~self.is_owner & ((self.op == events.CREATE) | (self.op == events.SET))
        self.value: Numbers = np.zeros(len(numbers), np.int64)
        self.has_value: Flags = np.zeros(len(numbers), np.bool_)
        """True if the row writes a number."""
        read = offsets_in(data.take(pa.array(numbers[self.is_write])))
        self.value[self.is_write], self.has_value[self.is_write] = read
        # Data that is no number leaves the value as it is, except in a new znode.
        is_reset = is_deletion | (self.is_write & (self.op == events.CREATE) & ~self.has_value)
        stands = last_with(self.has_value | is_reset, self.start)
        self.changed_before: Numbers = before(stands, self.is_first)
        """The row that made or removed the offset before a row; -1 where there is none."""
        stands[~self.has_value[stands]] = -1
        self.value_before: Numbers = before(stands, self.is_first)
        """The row that wrote the offset before a row; -1 where there is none."""
        has_previous = self.is_write & (self.op == events.SET) & (self.value_before >= 0)
        previous = self.value[self.value_before]
        self.repeats: Flags = has_previous & self.has_value & (self.value == previous)
        self.falls: Flags = has_previous & self.has_value & (self.value < previous) & (previous >= 0)
        is_claim = (self.holder >= 0) & (self.zxid[self.holder] == self.zxid) & ~self.seed
        self.is_claim: Flags = self.is_write & is_claim & (~has_previous | self.repeats)
        self.is_commit: Flags = self.is_write & ~self.is_claim & ~self.seed
        written = last_with(self.is_write | is_deletion, self.start)
        self.exists: Flags = (written >= 0) & self.is_write[written]
        """True if there is an offset znode behind a row."""

    def ownerships(self) -> tuple[Numbers, Numbers]:
        """The place of each claim, and the place of the row that ended it; -1 while it lasts."""
        changes = np.flatnonzero(self.is_change)
        codes = self.selection.codes[changes]
        following = np.append(changes[1:], -1)[: len(changes)]
        following[np.append(codes[1:] != codes[:-1], True)[: len(changes)]] = -1
        is_claim = self.op[changes] == events.CREATE
        return changes[is_claim], following[is_claim]

    def between(self, first: Numbers, last: Numbers) -> Selection:
        """The rows from some places to others of the same key, and the offsets that stood before."""
        steps = np.zeros(len(self.op) + 1, np.int64)
        np.add.at(steps, first, 1)
        np.add.at(steps, last + 1, -1)
        kept: Flags = np.cumsum(steps)[:-1] > 0
        stood = self.changed_before[first]
        kept[stood[stood >= 0]] = True
        return self.selection.where(kept)

    def keys_with(self, mask: Flags) -> Selection:
        """All rows of the keys that have a row in the mask."""
        return self.selection.of_keys(self.selection.keys_with(mask))


def begins(codes: Numbers) -> tuple[Flags, Numbers]:
    """A flag for each place of sorted codes at which a code begins, and the place where its code began."""
    is_first: Flags = np.append([True], codes[1:] != codes[:-1])[: len(codes)]
    start: Numbers = np.maximum.accumulate(np.where(is_first, np.arange(len(codes)), 0))
    return is_first, start


def last_with(mask: Flags, start: Numbers) -> Numbers:
    """The last place in the mask at or before each place, within its key; -1 for none."""
    places = np.where(mask, np.arange(len(mask)), -1)
    latest: Numbers = np.maximum.accumulate(places) if len(places) else places
    return np.where(latest >= start, latest, -1)


def before(places: Numbers, is_first: Flags) -> Numbers:
    """The value of the place before each place; -1 at the beginning of a key."""
    shifted: Numbers = np.append([-1], places[:-1])[: len(places)]
    shifted[is_first] = -1
    return shifted


def offsets_in(data: pa.Array) -> tuple[Numbers, Flags]:
    """Offsets as numbers, 0 for others, and a flag for each that is one. Few have more than 18 digits."""
    texts = pc.fill_null(data, b"").cast(pa.binary()).view(pa.string())
    is_plain = pc.and_(pc.ascii_is_decimal(texts), pc.less_equal(pc.binary_length(texts), SAFE_DIGITS))
    values = pc.if_else(is_plain, texts, "0").cast(pa.int64()).to_numpy(zero_copy_only=False).copy()
    is_number = is_plain.to_numpy(zero_copy_only=False).copy()
    for place in np.flatnonzero(~is_number).tolist():
        value = offset_of("offset", data[place].as_py())
        if value is not None:
            values[place], is_number[place] = value, True
    return values, is_number


def rows_by_key(selection: Selection) -> Iterator[tuple[events.Key, Numbers]]:
    """The numbers of the rows of each key that has any, in order."""
    ordered = selection.in_key_order()
    starts = equal_runs(ordered.codes)[0]
    for start, rows in zip(starts.tolist(), np.split(ordered.rows, starts[1:]), strict=False):
        yield ordered.keys[ordered.codes[start]], rows


def equal_runs(values: Numbers) -> tuple[Numbers, Numbers]:
    """The places where runs of equal values begin, and the lengths of the runs."""
    starts = np.flatnonzero(np.append([True], values[1:] != values[:-1])[: len(values)])
    return starts, np.diff(np.append(starts, len(values)))


def known_rows(columns: Columns) -> Numbers:
    """The rows of a part that make its facts, or that a rule about sessions needs.

    Parts follow each other in time. Rules about sessions need the rows of ephemerals, the last write of each
    session, requests that failed because a znode existed, and the row of the session before each of these.
    """
    matters: Flags = np.zeros(len(columns), np.bool_)
    matters[fact_rows(columns)] = True
    op = columns.op
    makes = (op == events.CREATE) & (columns.ephemeral == events.OF_SESSION)
    matters |= columns.applied & (makes | (op == events.DELETE))
    matters |= (op == events.CREATE_SESSION) | (op == events.CLOSE_SESSION)
    sessions = pa.array(columns.session).dictionary_encode().indices.to_numpy()
    order = stable_order(sessions)
    session = sessions[order]
    is_next = np.append([False], session[1:] == session[:-1])[: len(order)]
    errors: Numbers = columns.error.fill_null(0).to_numpy(zero_copy_only=False)
    contended = ((op == events.ERROR) & (errors == events.NODE_EXISTS))[order]
    matters[order[contended]] = True
    matters[order[np.flatnonzero(contended & is_next) - 1]] = True
    is_closing = np.isin(columns.zxid, columns.zxid[op == events.CLOSE_SESSION])[order]
    for some in (order, order[~is_closing]):
        session = sessions[some]
        matters[some[np.append(session[1:] != session[:-1], True)[: len(some)]]] = True
    return np.flatnonzero(matters)
