"""DescribeClientQuotas and AlterClientQuotas; blocking.

Error codes and texts are those of Kafka 2.8.2 (kafka/server/ZkAdminManager.scala), which alters only as the
controller; here any broker does.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from zkgroup.admin.configs import alter_config_change, describe_configs, plan_config
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.admin.users import overrides_of
from zkgroup.broker.admin.failures import RequestPartError, failure_of
from zkgroup.errors import ConfigError, ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.quotas import (
    CLIENT_ID,
    DEFAULT,
    EXACT,
    IP,
    SPECIFIED,
    USER,
    AlterClientQuotasRequest,
    AlteredQuotas,
    DescribeClientQuotasRequest,
    DescribedQuotas,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaFilterComponent,
    QuotaOperation,
    QuotaValue,
)
from zkgroup.znodes.config import ConfigEntity, EntityKind
from zkgroup.znodes.config_settings import KNOWN

Names = Mapping[str, str | None]
"""Type of entity to name of the owner of quotas; None for the default."""

_EPSILON: Final = 1e-6
"""How far from a whole number a value may be, as in Kafka: whole quotas are sent as floating numbers."""
_KINDS: Final[tuple[EntityKind, ...]] = ("users", "clients", "ips")
_FOLDERS: Final[Mapping[str, tuple[EntityKind, ...]]] = {
    USER: ("users",),
    CLIENT_ID: ("users", "clients"),
    IP: ("ips",),
}
"""Where owners with a name of this type are."""


def describe(ensemble: Ensemble, request: DescribeClientQuotasRequest) -> tuple[DescribedQuotas, ...]:
    """The quotas of all owners that the filter lets through. Raises the errors of reading them."""
    wanted: dict[str, QuotaFilterComponent] = {}
    for one in request.components:
        _check_component(one, wanted)
        wanted[one.entity_type] = one
    if IP in wanted and len(wanted) > 1:
        text = (
            "Invalid entity filter component combination, IP filter component should not be used with user "
            "or clientId filter component."
        )
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    if request.strict and not wanted:
        return ()
    ensemble.zk.sync("/")
    return tuple(
        DescribedQuotas(entity=_parts(names), values=values)
        for names, values in _quotas(ensemble, wanted, strict=request.strict)
        if _is_let_through(names, wanted, strict=request.strict) and values
    )


def _check_component(one: QuotaFilterComponent, before: Mapping[str, QuotaFilterComponent]) -> None:
    kind = one.entity_type
    if not kind:
        text = "Unexpected empty filter component entity type"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    if kind not in _FOLDERS:
        text = f"Custom entity type '{kind}' not supported"
        raise RequestPartError(ErrorCode.UNSUPPORTED_VERSION, text)
    if kind in before:
        word = "client" if kind == CLIENT_ID else kind
        text = f"Duplicate {word} filter component entity type"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    if one.match_type not in (EXACT, DEFAULT, SPECIFIED) or (one.match_type == EXACT and one.match is None):
        text = f"expected match type 0 with a name, 1 or 2, found {one.match_type} with {one.match!r}"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)


def _quotas(
    ensemble: Ensemble, wanted: Mapping[str, QuotaFilterComponent], *, strict: bool
) -> Iterator[tuple[Names, tuple[QuotaValue, ...]]]:
    """All that the filter may let through. Of one that names its only owner, nothing else is read."""
    kinds = [kind for kind in _KINDS if all(kind in _FOLDERS[one] for one in wanted)]
    only = _only_owner(wanted, strict=strict)
    reads = (
        [describe_configs(ensemble, [only])]
        if only
        else [describe_configs(ensemble, [], kind) for kind in kinds]
    )
    for _, rows, unreadable in reads:
        if unreadable:
            raise RequestPartError(ErrorCode.INVALID_CONFIG, unreadable[0])
        for row in rows:
            known = KNOWN[row.entity.kind]
            yield (
                _names(row.entity),
                tuple(
                    QuotaValue(key=key, value=_number(row.entity, key, text))
                    for key, text in row.configs.items()
                    if key in known
                ),
            )


def _only_owner(wanted: Mapping[str, QuotaFilterComponent], *, strict: bool) -> ConfigEntity | None:
    if not strict and wanted.keys() not in ({IP}, {USER, CLIENT_ID}):
        return None
    if any(one.match_type == SPECIFIED for one in wanted.values()):
        return None
    try:
        return _owner({kind: one.match if one.match_type == EXACT else None for kind, one in wanted.items()})
    except ConfigError:
        return None  # a name that no owner can have


def _names(entity: ConfigEntity) -> Names:
    if entity.kind != "users":
        return {CLIENT_ID if entity.kind == "clients" else IP: entity.plain_name}
    if entity.client is None:
        return {USER: entity.plain_name}
    return {USER: entity.plain_name, CLIENT_ID: entity.plain_client}


def _number(entity: ConfigEntity, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        found = f"{entity.config_path}: expected a number for {key}, found {text!r}"
        raise RequestPartError(ErrorCode.INVALID_CONFIG, found) from error


def _is_let_through(names: Names, wanted: Mapping[str, QuotaFilterComponent], *, strict: bool) -> bool:
    if strict and names.keys() - wanted.keys():
        return False
    return all(
        kind in names
        and (one.match_type == SPECIFIED or names[kind] == (one.match if one.match_type == EXACT else None))
        for kind, one in wanted.items()
    )


def _parts(names: Names) -> tuple[QuotaEntityPart, ...]:
    return tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in names.items())


def alter(
    ensemble: Ensemble, request: AlterClientQuotasRequest, by: ChangeRecord
) -> tuple[AlteredQuotas, ...]:
    """Changes the quotas of each owner, all that are asked for or none, and notifies the brokers."""
    found: dict[frozenset[tuple[str, str | None]], AlteredQuotas] = {}
    for one in request.entries:
        names = {part.entity_type: part.entity_name for part in one.entity}
        error, message = ErrorCode.NONE, None
        try:
            _alter(ensemble, _entity(names), one, None if request.validate_only else by)
        except ZkGroupError as raised:
            error, message = failure_of(raised)
        row = AlteredQuotas(error=error, error_message=message, entity=_parts(names))
        found[frozenset(names.items())] = row
    return tuple(found.values())


def _alter(ensemble: Ensemble, entity: ConfigEntity, one: QuotaAlteration, by: ChangeRecord | None) -> None:
    """Changes the quotas of one owner; `by` is None where they are checked only."""
    asked = dict(_texts(entity.kind, one.operations))
    before = overrides_of(ensemble, entity)
    set_to = {key: text for key, text in asked.items() if text is not None and before.get(key) != text}
    removed = [key for key, text in asked.items() if text is None and key in before]
    if not set_to and not removed:
        return
    change = alter_config_change(ensemble, plan_config(ensemble, entity, set_to, removed))
    if by is not None:
        change.write(by)


def _entity(names: Names) -> ConfigEntity:
    if not names:
        raise RequestPartError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in _FOLDERS:
            text = f"Unhandled client quota entity type: {kind}"
            raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
        if name == "":
            raise RequestPartError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
    if names.keys() == {IP}:
        _check_address(names[IP])
    elif IP in names:
        text = "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    return _owner(names)


def _owner(names: Names) -> ConfigEntity:
    if IP in names:
        return ConfigEntity.ip(names[IP])
    if USER not in names:
        return ConfigEntity.of_client(names[CLIENT_ID])
    if CLIENT_ID not in names:
        return ConfigEntity.user(names[USER])
    return ConfigEntity.user_client(names[USER], names[CLIENT_ID])


def _check_address(address: str | None) -> None:
    try:
        if address is not None:
            ipaddress.ip_address(address)
    except ValueError as error:
        text = f"{address} is not a valid IP; host names are not resolved here"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text) from error


def _texts(kind: EntityKind, operations: Iterable[QuotaOperation]) -> Iterator[tuple[str, str | None]]:
    """Each quota with the text for the znode; None where it is to be removed."""
    for one in operations:
        if one.remove:
            yield one.key, None
        elif one.key not in KNOWN[kind]:
            raise RequestPartError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {one.key}")
        else:
            yield one.key, _text(one, KNOWN[kind][one.key])


def _text(one: QuotaOperation, highest: int | None) -> str:
    if highest is None:
        if not (math.isfinite(one.value) and one.value >= 0):
            text = f"{one.key}: expected a number of at least 0, found {one.value}"
            raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
        return str(one.value)
    whole = min(int(one.value + _EPSILON), highest) if math.isfinite(one.value) else -1
    if whole < 0 or abs(whole - one.value) > _EPSILON:
        kind = "LONG" if highest >= 2**63 - 1 else "INT"
        text = f"Configuration {one.key} must be a {kind} value"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    return str(whole)
