"""Kafka's error code and text for the errors of `zkgroup.admin`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

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
    """Why a part of a request was not done."""

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


def failure_of(error: ZkGroupError) -> Failure:
    """The error code and text of an error; -1 (unknown) for one that a client cannot act upon."""
    if isinstance(error, RequestPartError):
        return Failure(error.error, str(error))
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Failure(code, str(error))
    return Failure(ErrorCode.UNKNOWN, str(error))


@contextmanager
def refused_as(error: ErrorCode, *kinds: type[ZkGroupError]) -> Iterator[None]:
    """Gives errors of these kinds this error code."""
    try:
        yield
    except RequestPartError:
        raise
    except kinds as raised:
        raise RequestPartError(error, str(raised)) from raised
