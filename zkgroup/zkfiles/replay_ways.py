"""How records are applied in columns here: by the kernel, or by numpy. Importing this needs numpy."""

from __future__ import annotations

from zkgroup.zkfiles.stretches import Codes
from zkgroup.zkfiles.tree_columns import NumpyPaths


def path_codes() -> Codes:
    """Of the faster way that is here."""
    try:
        from zkgroup.zkfiles.compiled_replay import CompiledPaths
    except ImportError:
        return NumpyPaths()
    return CompiledPaths()
