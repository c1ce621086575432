"""Kafka's error code and text for the errors of `zkgroup.admin`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from zkgroup.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    NotFoundError,
    PlacementError,
    RefusedError,
    StoreUnavailableError,
    ZkGroupError,
)
from zkgroup.wire.messages import ErrorCode


class Failure(NamedTuple):
    """The reason why a part of a request was not done."""

    error: ErrorCode
    message: str


class RequestPartError(ZkGroupError):
    """A part of a request that is refused with an error code of its own."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


_CODES: tuple[tuple[type[ZkGroupError], ErrorCode], ...] = (
    (NotFoundError, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (PlacementError, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (ConfigError, ErrorCode.INVALID_REQUEST),
    (ConflictError, ErrorCode.INVALID_REQUEST),
    (RefusedError, ErrorCode.POLICY_VIOLATION),
    (AccessDeniedError, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    (StoreUnavailableError, ErrorCode.REQUEST_TIMED_OUT),
)
"""The first that matches counts. Clients send a request again after REQUEST_TIMED_OUT."""


_COMMAND: Final = re.compile(r"`zkgroup |(?<![\w-])--[a-z]")
"""A command or an option of zkgroup's command line."""
_ASIDE: Final = re.compile(r" \([^()]*(?:`zkgroup |(?<![\w-])--[a-z])[^()]*\)")


def text_for_clients(text: str) -> str:
    """An error's text without what it says about the command line, which a client of Kafka does not have.

    Texts name a command or an option in a clause of their own, behind a semicolon, or in parentheses.
    """
    clauses = _ASIDE.sub("", text).split("; ")
    kept = [each for each in clauses if not _COMMAND.search(each)] or [_before_command(clauses[0])]
    return "; ".join(kept).replace("run the command again", "send the request again")


def _before_command(text: str) -> str:
    """A text up to the colon before its first command; all of it where there is none."""
    found = _COMMAND.search(text)
    return text[: found.start() if found else None].rpartition(": ")[0] or text


def failure_of(error: ZkGroupError) -> Failure:
    """The error code and text of an error; -1 (unknown) for one that a client cannot act upon."""
    text = text_for_clients(str(error))
    if isinstance(error, RequestPartError):
        return Failure(error.error, text)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Failure(code, text)
    return Failure(ErrorCode.UNKNOWN, text)


@contextmanager
def refused_as(error: ErrorCode, *kinds: type[ZkGroupError]) -> Iterator[None]:
    """Gives errors of these kinds this error code."""
    try:
        yield
    except RequestPartError:
        raise
    except kinds as raised:
        raise RequestPartError(error, str(raised)) from raised
