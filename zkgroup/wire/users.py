"""SCRAM credentials of users (KIP-554).

Source: the messages of these names in clients/src/main/resources/common/message/*.json@2.8.2. What may be a
secret is not in the text form of a message. Where nothing is wrong, Kafka's `error_message` is empty here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import Bytes, ErrorText, Int8, Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class UserName:
    """One user."""

    user: String


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialInfo:
    """A credential, without what it holds."""

    mechanism: Int8
    """1: SCRAM-SHA-256, 2: SCRAM-SHA-512."""
    iterations: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedUser:
    """The credentials of one user."""

    user: String
    error: Int16
    error_message: ErrorText = ""
    credentials: tuple[CredentialInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse(Response):
    """The users, with the credentials of each."""

    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_ms: Int32 = 0
    error: Int16
    error_message: ErrorText = ""
    users: tuple[DescribedUser, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest(Request):
    """Asks which users have credentials."""

    API: ClassVar[Api] = Api.DESCRIBE_USER_SCRAM_CREDENTIALS
    RESPONSE: ClassVar[type[Response]] = DescribeUserScramCredentialsResponse
    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    users: tuple[UserName, ...] | None = None
    """Null or none: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialDeletion:
    """A credential that is to be removed."""

    user: String
    mechanism: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialUpsertion:
    """A credential that is to be added or replaced."""

    user: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes = field(repr=False)
    salted_password: Bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredUser:
    """The result for one user."""

    user: String
    error: Int16
    error_message: ErrorText = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResponse(Response):
    """The result for each user."""

    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_ms: Int32 = 0
    users: tuple[AlteredUser, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsRequest(Request):
    """Changes credentials; what is asked for one user is done whole or not at all."""

    API: ClassVar[Api] = Api.ALTER_USER_SCRAM_CREDENTIALS
    RESPONSE: ClassVar[type[Response]] = AlterUserScramCredentialsResponse
    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    deletions: tuple[CredentialDeletion, ...] = ()
    upsertions: tuple[CredentialUpsertion, ...] = ()
