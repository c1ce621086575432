"""pyspark's sources in archives: what they cost a process that Spark starts.

Spark puts `pyspark.zip` in front of the path of its Python processes. Nothing in it is compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final
from zipimport import zipimporter

_BELOW: Final = ("pyspark", "python", "lib")


def prefer_installed() -> None:
    """Moves archives of a pyspark that pip installed behind it: it is the same one, and compiled."""
    folders = {place for place in sys.path if Path(place, "pyspark", "__init__.py").is_file()}
    sys.path.sort(key=lambda place: _is_of(place, folders))


def _is_of(place: str, folders: set[str]) -> bool:
    path = Path(place)
    return path.suffix == ".zip" and path.parts[-4:-1] == _BELOW and str(path.parents[3]) in folders


def forget_archives() -> None:
    """Has no importer of an archive; those that are made again know what was read of it.

    A worker has all of them read the directories of their archives once more, Spark's jar among them: 0.2 s.
    """
    for place, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[place]
