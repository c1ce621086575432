"""The one table from ZooKeeper's error numbers to our words (KeeperException.Code, ZooKeeper 3.9)."""

from __future__ import annotations

from zkgroup.model.requests import Code, NotSent, Outcome, Refused, Unanswered

OK = 0
RUNTIME_INCONSISTENCY = -2
UNIMPLEMENTED = -6
NO_NODE = -101
NO_AUTH = -102
NODE_EXISTS = -110

_CODES = {
    -8: Code.BAD_ARGUMENTS,
    NO_NODE: Code.NO_NODE,
    NO_AUTH: Code.NO_AUTH,
    -103: Code.BAD_VERSION,
    -108: Code.NO_CHILDREN_FOR_EPHEMERALS,
    NODE_EXISTS: Code.NODE_EXISTS,
    -111: Code.NOT_EMPTY,
    -114: Code.INVALID_ACL,
    -119: Code.READ_ONLY,
    -125: Code.QUOTA_EXCEEDED,
}

_NOT_EXECUTED = {
    -112: "the session has expired",
    -118: "the session has moved to another connection",
    -124: "the server demands authentication",
    -127: "the server is overloaded and did not execute the request",
}
"""Answers by which the server says that it did nothing."""

_UNKNOWN = {
    -4: "the server lost a connection of its own",
    -7: "the server ran into a timeout",
    -122: "the server ran into a timeout",
}


def code_of(number: int) -> Code:
    """Our word for an error number; `Code.OTHER` for those that no caller tells apart."""
    return _CODES.get(number, Code.OTHER)


def refusal(number: int, path: str) -> Outcome:
    """What an error in the header of a reply means for the request."""
    if number in _NOT_EXECUTED:
        return NotSent(_NOT_EXECUTED[number])
    if number in _UNKNOWN:
        return Unanswered(_UNKNOWN[number])
    return Refused(code_of(number), path)
