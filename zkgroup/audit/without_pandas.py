"""pyarrow without pandas, which it imports where it is installed: 0.4 s of CPU that audits do not need.

pyarrow searches for pandas once, at the first array that it makes, to recognise pandas' objects.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_NAME: Final = "pandas"


class _Refused:
    """A finder of modules that says of pandas that it is not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _NAME:
            raise ModuleNotFoundError(name)
        return None


def leave_pandas_out() -> None:
    """Makes pyarrow search for pandas now, and not find it; nothing where pandas is imported already.

    A later call that needs pandas (`to_pandas`) still gets it, and pyarrow knows its objects from then on.
    """
    if _NAME in sys.modules:
        return
    finder = _Refused()
    sys.meta_path.insert(0, finder)
    try:
        with suppress(ImportError):
            import pyarrow as pa

            pa.array([0])
    finally:
        sys.meta_path.remove(finder)
