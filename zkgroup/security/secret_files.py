"""Warnings of files with passwords and keys that others on this machine may read."""

from __future__ import annotations

import logging
from pathlib import Path

from zkgroup.security.secret import refuse_writable

_log = logging.getLogger("zkgroup.security")

_warned: set[str] = set()
"""Warnings that this process has logged: a file is read again at each connection."""


def check_secret_file(path: str | Path) -> None:
    """Logs once that others may read the file. Raises ConfigError where they may write it."""
    warning = refuse_writable(path)
    if warning is not None and warning not in _warned:
        _warned.add(warning)
        _log.warning("%s", warning)
