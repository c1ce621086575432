"""Rows apart by their bucket."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from zkgroup.audit.columns.rows import Numbers


def stable_order(codes: Numbers) -> Numbers:
    """The numbers of rows by code, rows of one code in their order; few codes are sorted by their digits."""
    few = codes.astype(np.uint16) if len(codes) and codes.min() >= 0 and codes.max() < 1 << 16 else codes
    return np.argsort(few, kind="stable")


def by_code(table: Any, codes: Numbers) -> Iterator[tuple[int, Any]]:
    """The rows of each code as a pyarrow.Table, in their order."""
    order = stable_order(codes)
    ordered, codes = table.take(pa.array(order)), codes[order]
    starts = np.flatnonzero(np.append([True], codes[1:] != codes[:-1])[: len(codes)]).tolist()
    for start, end in pairwise([*starts, len(codes)]):
        yield int(codes[start]), ordered.slice(start, end - start)
