"""ACLs of Kafka's resources (KIP-140, KIP-290).

Source: the messages of these names in clients/src/main/resources/common/message/*.json@2.8.2. The numbers are
those of `zkgroup.security.acls`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import ErrorText, Int8, Int16, Int32, NullableString, String, Versions

_LITERAL: Final = 3
"""The only type of pattern that version 0 knows."""

PatternTypeNumber = Annotated[Int8, Versions(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilterFields:
    """Which ACLs are meant."""

    resource_type: Int8
    resource_name: NullableString = None
    """Null: any, as in the next two."""
    pattern_type: PatternTypeNumber = _LITERAL
    principal: NullableString = None
    host: NullableString = None
    operation: Int8
    permission: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedAcl:
    """One ACL of a resource."""

    principal: String
    host: String
    operation: Int8
    permission: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceWithAcls:
    """A resource that has ACLs."""

    resource_type: Int8
    resource_name: String
    pattern_type: PatternTypeNumber = _LITERAL
    acls: tuple[DescribedAcl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResponse(Response):
    """The resources with ACLs that match."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = 0
    error: Int16
    error_message: ErrorText = None
    resources: tuple[ResourceWithAcls, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsRequest(AclFilterFields, Request):
    """Asks which ACLs there are."""

    API: ClassVar[Api] = Api.DESCRIBE_ACLS
    RESPONSE: ClassVar[type[Response]] = DescribeAclsResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreation:
    """An ACL that is to be added."""

    resource_type: Int8
    resource_name: String
    pattern_type: PatternTypeNumber = _LITERAL
    principal: String
    host: String
    operation: Int8
    permission: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreationResult:
    """The result for one ACL."""

    error: Int16
    error_message: ErrorText = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsResponse(Response):
    """The result for each ACL, in the order of the request."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = 0
    results: tuple[AclCreationResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsRequest(Request):
    """Adds ACLs."""

    API: ClassVar[Api] = Api.CREATE_ACLS
    RESPONSE: ClassVar[type[Response]] = CreateAclsResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    creations: tuple[AclCreation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedAcl:
    """An ACL that matched, and whether it was removed."""

    error: Int16
    error_message: ErrorText = None
    resource_type: Int8
    resource_name: String
    pattern_type: PatternTypeNumber = _LITERAL
    principal: String
    host: String
    operation: Int8
    permission: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilterResult:
    """The result for one filter."""

    error: Int16
    error_message: ErrorText = None
    matching: tuple[DeletedAcl, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsResponse(Response):
    """The result for each filter, in the order of the request."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = 0
    results: tuple[AclFilterResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsRequest(Request):
    """Removes the ACLs that match any of the filters."""

    API: ClassVar[Api] = Api.DELETE_ACLS
    RESPONSE: ClassVar[type[Response]] = DeleteAclsResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    filters: tuple[AclFilterFields, ...]
