"""The columns of a batch as numpy arrays."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from zkgroup.audit.inputs.codes import LIFETIMES, OPS
from zkgroup.audit.inputs.rows import Numbers
from zkgroup.zkfiles.batches import Batch, Coded, FixedWidth, Same

OP_CODES: Final = {op: code for code, op in enumerate(OPS)} | {None: -1}
LIFETIME_CODES: Final = {lifetime: code for code, lifetime in enumerate(LIFETIMES)}


def numbers_of_column(batch: Batch, name: str) -> Numbers:
    """A column without nulls; times in milliseconds."""
    packed = batch.packed(name)
    if isinstance(packed, FixedWidth):
        values: Numbers = packed.values.astype(np.int64)
        return values
    return np.array(batch[name], np.int64)


def codes_of(batch: Batch, name: str, codes: dict[Any, int]) -> Numbers:
    """A column of few different values, as their codes."""
    packed = batch.packed(name)
    if isinstance(packed, Coded):
        known: Numbers = np.array([codes[value] for value in packed.values], np.int8)[packed.codes]
        return known
    if isinstance(packed, Same):
        return np.full(batch.rows, codes[packed.value], np.int8)
    return np.array([codes[value] for value in batch[name]], np.int8)
