"""Quotas of users, clients and addresses (KIP-546, KIP-612).

Source: the messages of these names in clients/src/main/resources/common/message/*.json@2.8.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import Boolean, ErrorText, Float64, Int8, Int16, Int32, NullableString, String

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
"""Types of entities (org/apache/kafka/common/quota/ClientQuotaEntity.java@2.8.2)."""

EXACT, DEFAULT, SPECIFIED = range(3)
"""How a filter matches a name: the one given, the default, any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilterComponent:
    """What a filter says of one type of entity."""

    entity_type: String
    match_type: Int8
    """`EXACT`, `DEFAULT` or `SPECIFIED`."""
    match: NullableString = None
    """The name, for an exact match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntityPart:
    """One name of the owner of quotas: a user, a client id, or an address."""

    entity_type: String
    entity_name: NullableString
    """None for the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaValue:
    """One quota."""

    key: String
    """As `producer_byte_rate`."""
    value: Float64


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedQuotas:
    """The quotas of one owner."""

    entity: tuple[QuotaEntityPart, ...]
    values: tuple[QuotaValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse(Response):
    """The owners that the filter lets through, with what is set for each."""

    VERSIONS: ClassVar[range] = range(2)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_ms: Int32 = 0
    error: Int16
    error_message: ErrorText = ""
    """Kafka's is empty where nothing is wrong."""
    entries: tuple[DescribedQuotas, ...] | None
    """None where there is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest(Request):
    """Asks what is set."""

    API: ClassVar[Api] = Api.DESCRIBE_CLIENT_QUOTAS
    RESPONSE: ClassVar[type[Response]] = DescribeClientQuotasResponse
    VERSIONS: ClassVar[range] = range(2)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    components: tuple[QuotaFilterComponent, ...]
    strict: Boolean
    """True: owners that also have a name of another type are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOperation:
    """The change of one quota."""

    key: String
    value: Float64
    remove: Boolean
    """True: what is set goes, and the value does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlteration:
    """The changes for one owner."""

    entity: tuple[QuotaEntityPart, ...]
    operations: tuple[QuotaOperation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredQuotas:
    """The result for one owner."""

    error: Int16
    error_message: ErrorText = None
    entity: tuple[QuotaEntityPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse(Response):
    """The result for each owner."""

    VERSIONS: ClassVar[range] = range(2)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_ms: Int32 = 0
    entries: tuple[AlteredQuotas, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest(Request):
    """Changes quotas; what is asked for one owner is done whole or not at all."""

    API: ClassVar[Api] = Api.ALTER_CLIENT_QUOTAS
    RESPONSE: ClassVar[type[Response]] = AlterClientQuotasResponse
    VERSIONS: ClassVar[range] = range(2)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    entries: tuple[QuotaAlteration, ...]
    validate_only: Boolean
