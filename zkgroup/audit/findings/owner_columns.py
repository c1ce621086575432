"""The ownerships of partitions as columns: who claimed, until when, and in which registration."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.answers.owner_lives import members_named
from zkgroup.audit.findings.membership import member_of
from zkgroup.audit.findings.partition_columns import PartitionTable
from zkgroup.audit.inputs.events import CREATE, DELETE
from zkgroup.audit.inputs.facts import Facts, Life
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers
from zkgroup.audit.inputs.selection import Selection

_NEVER: Final = np.iinfo(np.int64).max


class OwnerTable:
    """A row for each claim."""

    def __init__(self, columns: Columns, facts: Facts, partitions: PartitionTable) -> None:
        self._facts, self._partitions = facts, partitions
        p = partitions
        changes = np.flatnonzero(p.is_change)
        keys = p.selection.codes
        following = np.append(changes[1:], -1)[: len(changes)]
        following[np.append(keys[changes][1:] != keys[changes][:-1], True)[: len(changes)]] = -1
        is_claim = p.op[changes] == CREATE
        self.claim: Numbers = changes[is_claim]
        """Its place in the table of partitions, and that of the row that ended it; -1 while it lasts."""
        self.end: Numbers = following[is_claim]
        self.is_open: Flags = self.end < 0
        self.is_deleted_by_other: Flags = (
            ~self.is_open & (p.op[self.end] == DELETE) & (p.session[self.end] != p.session[self.claim])
        )
        self._registrations(columns)

    def keys_with(self, claims: Flags) -> Selection:
        """The owner rows of all partitions that have such a claim."""
        flags = np.zeros(len(self._partitions.selection.keys), np.bool_)
        flags[self._partitions.selection.codes[self.claim[claims]]] = True
        return self._partitions.owners_of(flags)

    @property
    def unowned_ms(self) -> Numbers:
        """Of each claim, how long no claim followed it, up to the end of the history; 0 where it is open."""
        p = self._partitions
        codes = p.selection.codes[self.claim]
        is_last: Flags = np.append(codes[1:] != codes[:-1], True)[: len(codes)]
        following = np.append(p.time_ms[self.claim][1:], 0)[: len(codes)]
        until_ms = np.where(is_last, self._facts.end_ms, following)
        return np.where(self.is_open, 0, until_ms - p.time_ms[self.end])

    def _registrations(self, columns: Columns) -> None:
        """Of all claims of one thread in one session of one group the first and the last zxid decide."""
        p = self._partitions
        names: dict[str, int] = {}
        of_key = np.array([names.setdefault(key[0], len(names)) for key in p.selection.keys], np.int64)
        of_claim = of_key[p.selection.codes[self.claim]] if len(self.claim) else np.zeros(0, np.int64)
        data = pc.fill_null(columns.data.take(pa.array(p.selection.rows[self.claim])), b"")
        encoded = data.dictionary_encode()
        threads = [text.decode("utf-8", "replace") for text in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        sessions, of_session = np.unique(p.session[self.claim], return_inverse=True)
        combined = (of_claim * max(len(sessions), 1) + of_session) * max(len(threads), 1) + codes
        known, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        began = np.full(len(known), _NEVER)
        ended = np.full(len(known), -1)
        np.minimum.at(began, inverse, p.zxid[self.claim])
        np.maximum.at(ended, inverse, np.where(self.is_open, _NEVER, p.zxid[self.end]))
        is_registered = np.zeros(len(known), np.bool_)
        is_gone = np.zeros(len(known), np.bool_)
        lives, living = self._lives()
        group_names = list(names)
        for number, claim in enumerate(first.tolist()):
            group = group_names[int(of_claim[claim])]
            members = members_named(threads[int(codes[claim])])
            session = int(p.session[self.claim[claim]])
            is_gone[number] = not any((group, member) in living for member in members)
            is_registered[number] = began[number] >= self._facts.start_zxid and any(
                life.from_zxid <= began[number] and (life.to_zxid is None or life.to_zxid >= ended[number])
                for member in members
                for life in lives.get((group, session, member), ())
            )
        self.is_registered: Flags = is_registered[inverse]
        """True if the member that the claim names was registered in its session from the claim to its end."""
        self.is_without_member: Flags = is_gone[inverse]
        """True if that member is not registered at the end of the history."""

    def _lives(self) -> tuple[dict[tuple[str, int, str], list[Life]], set[tuple[str, str]]]:
        lives: defaultdict[tuple[str, int, str], list[Life]] = defaultdict(list)
        living: set[tuple[str, str]] = set()
        for group, of_group in self._facts.members.items():
            for life in of_group:
                member = member_of(life)
                lives[group, life.session, member].append(life)
                if life.to_zxid is None:
                    living.add((group, member))
        return lives, living
