"""The logger that kazoo gets.

kazoo logs every request, so passwords and znode data, at DEBUG, and session passwords below it; its
error "during deserialization of request" shows a request as well. Nothing of that gets through,
whatever level anybody sets. What an operator needs (connections lost, names not resolved) does, once
and not at every attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger("zkgroup.zookeeper")
_CONNECTING = {"connecting": True}
"""Marks what is told of a connection: a program that tells in the end why there is none can leave it out."""


class QuietLogger:
    """Has the methods of a logger that kazoo uses."""

    def __init__(self, where: str, over: Callable[[], bool], on_warning: Callable[[str], None]) -> None:
        """where: what to call this client; over: true once its end is wanted, which is no news."""
        self._where = where
        self._over = over
        self._on_warning = on_warning
        self._latest = ""

    def debug(self, message: str, *args: object, **_more: object) -> None:
        """Dropped: may hold secrets and data."""

    def log(self, level: int, message: str, *args: object, **_more: object) -> None:
        """Dropped: kazoo uses it for levels at and below DEBUG only."""

    def info(self, message: str, *args: object, **_more: object) -> None:
        text = message % args if args else message
        if "connection established" in text:
            self._latest = ""
        _log.debug("%s: %s", self._where, text)

    def warning(self, message: str, *args: object, **_more: object) -> None:
        text = message % args if args else message
        self._on_warning(text)
        news = not self._over() and text != self._latest and not text.startswith("Transition to")
        self._latest = text
        level = logging.WARNING if news else logging.DEBUG
        _log.log(level, "%s: %s", self._where, text, extra=_CONNECTING)

    warn = warning

    def error(self, message: str, *args: object, **_more: object) -> None:
        """Without arguments and without the traceback: they may hold a request."""
        if not self._over():
            _log.error("%s: kazoo: %s", self._where, message, extra=_CONNECTING)

    exception = error
