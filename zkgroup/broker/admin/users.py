"""DescribeUserScramCredentials and AlterUserScramCredentials; blocking.

Error codes and texts are those of Kafka 2.8.2 (kafka/server/ZkAdminManager.scala), which answers so only as
the controller; here any broker does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.admin.users import list_users, overrides_of, plan_credentials, user_change
from zkgroup.broker.admin.failures import RequestPartError, failure_of
from zkgroup.errors import ConfigError, ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.security.scram import MAX_ITERATIONS, MECHANISM_TYPES, MIN_ITERATIONS, SALT_MIN, ScramCredential
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.users import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    CredentialDeletion,
    CredentialInfo,
    CredentialUpsertion,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
)
from zkgroup.znodes.config import ConfigEntity

_MECHANISMS: Final = {number: name for name, number in MECHANISM_TYPES.items()}
_NO_NAME: Final = "Username must not be empty"

Change = CredentialDeletion | CredentialUpsertion


def describe(ensemble: Ensemble, request: DescribeUserScramCredentialsRequest) -> tuple[DescribedUser, ...]:
    """The credentials of the named users, or of all. Raises the errors of reading all."""
    names = [one.user for one in request.users or ()]
    ensemble.zk.sync("/")
    _, rows, unreadable = list_users(ensemble)
    found: dict[str, list[CredentialInfo]] = {}
    for row in rows:
        info = CredentialInfo(mechanism=MECHANISM_TYPES[row.mechanism], iterations=row.iterations)
        found.setdefault(row.user, []).append(info)
    return tuple(
        _described(name, found.get(name), names, unreadable) for name in dict.fromkeys(names or found)
    )


def _described(
    name: str, credentials: Sequence[CredentialInfo] | None, names: Sequence[str], unreadable: Sequence[str]
) -> DescribedUser:
    if names.count(name) > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribedUser(user=name, error=ErrorCode.DUPLICATE_RESOURCE, error_message=text)
    if credentials is not None:
        return DescribedUser(user=name, error=ErrorCode.NONE, credentials=tuple(credentials))
    text = f"Attempt to describe a user credential that does not exist: {name}" if name else _NO_NAME
    error = ErrorCode.RESOURCE_NOT_FOUND
    for fault in unreadable:
        if fault.startswith(f"{_entity(name).config_path}:"):
            error, text = ErrorCode.INVALID_CONFIG, fault  # at -1 confluent-kafka waits for ever
    return DescribedUser(user=name, error=error, error_message=text)


def alter(
    ensemble: Ensemble, request: AlterUserScramCredentialsRequest, by: ChangeRecord
) -> tuple[AlteredUser, ...]:
    """Changes the credentials of each user, all that are asked for or none, and notifies the brokers."""
    asked: dict[str, list[Change]] = {}
    every: tuple[Change, ...] = (*request.deletions, *request.upsertions)
    for change in every:
        asked.setdefault(change.user, []).append(change)
    return tuple(_altered(ensemble, user, changes, by) for user, changes in asked.items())


def _altered(ensemble: Ensemble, user: str, changes: Sequence[Change], by: ChangeRecord) -> AlteredUser:
    error, message = ErrorCode.NONE, ""
    try:
        texts = _texts(user, changes)
        before = overrides_of(ensemble, _entity(user))
        if any(text is None and mechanism not in before for mechanism, text in texts.items()):
            missing = "Attempt to delete a user credential that does not exist"
            raise RequestPartError(ErrorCode.RESOURCE_NOT_FOUND, missing)
        user_change(ensemble, plan_credentials(ensemble, user, texts), "alter").write(by)
    except ZkGroupError as raised:
        error, message = failure_of(raised)
    return AlteredUser(user=user, error=error, error_message=message)


def _texts(user: str, changes: Sequence[Change]) -> Mapping[str, str | None]:
    """The credentials by mechanism, as in the znode; None for one that is to be removed."""
    if not user:
        raise RequestPartError(ErrorCode.UNACCEPTABLE_CREDENTIAL, _NO_NAME)
    if not all(change.mechanism in _MECHANISMS for change in changes):
        raise RequestPartError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    for change in changes:
        if isinstance(change, CredentialUpsertion) and (refusal := _refusal(change)):
            raise RequestPartError(ErrorCode.UNACCEPTABLE_CREDENTIAL, refusal)
    if len({change.mechanism for change in changes}) != len(changes):
        text = "A user credential cannot be altered twice in the same request"
        raise RequestPartError(ErrorCode.DUPLICATE_RESOURCE, text)
    return {_MECHANISMS[change.mechanism]: _text(change) for change in changes}


def _refusal(change: CredentialUpsertion) -> str | None:
    if change.iterations < MIN_ITERATIONS:
        return "Too few iterations"
    if change.iterations > MAX_ITERATIONS:
        return "Too many iterations"
    if len(change.salt) < SALT_MIN or not change.salted_password:
        return f"expected a salt of at least {SALT_MIN} bytes and a password"  # Kafka takes any
    return None


def _text(change: Change) -> str | None:
    if isinstance(change, CredentialDeletion):
        return None
    return ScramCredential.of_salted_password(
        _MECHANISMS[change.mechanism], change.salted_password, change.iterations, change.salt
    ).encode()


def _entity(user: str) -> ConfigEntity:
    try:
        return ConfigEntity.user(user or "-")
    except ConfigError as error:
        raise RequestPartError(ErrorCode.UNACCEPTABLE_CREDENTIAL, str(error)) from error
