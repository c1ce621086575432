"""Who may read what the exporter serves."""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from pathlib import Path

from zkgroup.runtime.logs import get_logger
from zkgroup.security.passwords import PasswordFile
from zkgroup.security.secret_files import file_stamp

_log = get_logger(__name__)


class FileUsers:
    """The users of a file of lines `name:hash`, as `zkgroup user hash` prints hashes."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises ConfigError."""
        self._path = path
        self._file = PasswordFile(path, on_fault=lambda why: _log.warning("%s", why))
        self._lock = threading.Lock()
        self._stamp, self._accepted = file_stamp(path), set[bytes]()

    def accepts(self, header: str | None) -> bool:
        """Returns whether an `Authorization` header has a user's password.

        A hash takes 50 ms, so accepted headers are remembered, as digests, until the file changes.
        """
        kind, _, text = (header or "").partition(" ")
        try:
            user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        if kind.lower() != "basic" or not colon:
            return False
        digest = hashlib.sha256(text.encode()).digest()
        stamp = file_stamp(self._path)
        with self._lock:  # one hash at a time: each takes 16 MiB
            if stamp != self._stamp:
                self._stamp, self._accepted = stamp, set()
            if digest in self._accepted:
                return True
            if not self._file.accepts(user, password):
                return False
            self._accepted.add(digest)
            return True
