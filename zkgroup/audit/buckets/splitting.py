"""Rows apart by their bucket."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from zkgroup.audit.columns.rows import Numbers


def by_code(table: Any, codes: Numbers) -> Iterator[tuple[int, Any]]:
    """The rows of each code as a pyarrow.Table, in their order."""
    order = np.argsort(codes, kind="stable")
    ordered, codes = table.take(pa.array(order)), codes[order]
    starts = np.flatnonzero(np.append([True], codes[1:] != codes[:-1])[: len(codes)]).tolist()
    for start, end in pairwise([*starts, len(codes)]):
        yield int(codes[start]), ordered.slice(start, end - start)
