"""The rows of a history that make its facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.inputs.codes import CLOSE_SESSION, CREATE_SESSION
from zkgroup.audit.inputs.facts import Facts, facts_of, is_fact_path
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers, first_places
from zkgroup.znodes.consumers import consumers_path

_BELOW: Final = f"{consumers_path()}/"
_OF_PARTITIONS: Final = rf"^{consumers_path()}/[^/]*/(owners|offsets)/[^/]*/[0-9]+$"
"""Owners and offsets of partitions, as `path_kind` has them."""


def facts_in(columns: Columns) -> Facts:
    """The facts of a history: of its rows only those are made objects that change them."""
    return facts_of(columns.events(fact_rows(columns)))


def fact_rows(columns: Columns) -> Numbers:
    """The rows that make the facts: those that change them, each session's first one, and the ends.

    Of a history in parts the facts are those of these rows of all parts.
    """
    if not len(columns):
        return np.zeros(0, np.int64)
    matters: Flags = columns.applied & _are_fact_paths(columns.paths)[columns.path]
    matters |= (columns.op == CREATE_SESSION) | (columns.op == CLOSE_SESSION)
    matters[first_places(columns.session)] = True
    for seed in (False, True):
        of_kind = np.flatnonzero(columns.seed == seed)
        matters[of_kind[:1]] = True
    written_ms = columns.mtime_ms.fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
    for ends in (columns.zxid, columns.time_ms, written_ms):
        matters[int(np.argmax(ends))] = True
    return np.flatnonzero(matters)


def _are_fact_paths(paths: Sequence[str]) -> Flags:
    """`is_fact_path` of each. Nearly all are owners and offsets, which are none: a pattern excludes them."""
    flags: Flags = np.zeros(len(paths), np.bool_)
    others = pc.invert(pc.match_substring_regex(pa.array(paths, pa.string()), _OF_PARTITIONS))
    for place in np.flatnonzero(others.to_numpy(zero_copy_only=False)).tolist():
        flags[place] = is_fact_path(paths[place])
    return flags


def groups_of_paths(paths: Sequence[str]) -> tuple[list[str], Numbers]:
    """The names of groups, and for each path the place of its group there; -1 for one of no group."""
    texts = pa.array(paths, pa.string())
    is_of_group = pc.starts_with(texts, _BELOW)
    behind = pc.utf8_slice_codeunits(texts.filter(is_of_group), len(_BELOW))
    groups = pc.list_element(pc.split_pattern(behind, "/", max_splits=1), 0).dictionary_encode()
    codes: Numbers = np.full(len(paths), -1)
    codes[is_of_group.to_numpy(zero_copy_only=False)] = groups.indices.to_numpy()
    return groups.dictionary.to_pylist(), codes
