"""DescribeAcls, CreateAcls and DeleteAcls.

Any broker carries them out in ZooKeeper, as Kafka's do. Error codes are those of Kafka 2.8.2
(kafka/server/KafkaApis.scala, kafka/security/authorizer/AclAuthorizer.scala), but that an ACL which cannot be
has an error of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from zkgroup.admin.acls import (
    AclPlan,
    PatternChange,
    check_binding,
    plan_additions,
    plan_removals,
    read_acls,
    write_acls,
)
from zkgroup.broker.admin.failures import Failure, RequestPartError, failure_of
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.errors import ConflictError, ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclCache,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from zkgroup.wire.acls import (
    AclCreation,
    AclCreationResult,
    AclFilterFields,
    AclFilterResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeletedAcl,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribedAcl,
    ResourceWithAcls,
)
from zkgroup.wire.messages import ErrorCode

ATTEMPTS: Final = 10
"""How often a change is tried that meets others; as Kafka."""
NO_AUTHORIZER: Final = Failure(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker.")

ResultT = TypeVar("ResultT")
WordT = TypeVar("WordT", bound=IntEnum)


class Changed(NamedTuple):
    """The results of a request, and the patterns that it has changed."""

    results: tuple[Any, ...]
    changes: tuple[PatternChange, ...]


class Run(Protocol):
    """Calls on a thread."""

    def __call__(self, act: Callable[[Ensemble], ResultT], /) -> Awaitable[ResultT]: ...


class AclApis:
    """The handlers of the three requests. Used on the broker's event loop."""

    def __init__(
        self,
        run: Run,
        wait: Callable[[Callable[[], bool]], Awaitable[None]],
        cache: AclCache | None,
    ) -> None:
        """
        Args:
            run: calls on a thread.
            wait: waits until something is so, not for ever; it looks again after each change of ACLs.
            cache: the ACLs that this broker decides by; None without an authorizer: every request gets 54.
        """
        self._run, self._wait, self._cache = run, wait, cache

    async def describe(self, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
        """The ACLs in ZooKeeper that the filter means."""
        if self._cache is None:
            error, message = NO_AUTHORIZER
            return DescribeAclsResponse(error=error, error_message=message)
        try:
            found = await self._run(lambda ensemble: describe(ensemble, request))
        except ZkGroupError as raised:
            error, message = failure_of(raised)
            return DescribeAclsResponse(error=error, error_message=message)
        return DescribeAclsResponse(error=ErrorCode.NONE, error_message="", resources=found)

    async def create(self, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
        """Adds ACLs; this broker decides by them once it answers."""
        if self._cache is None:
            return CreateAclsResponse(results=(_creation_result(NO_AUTHORIZER),) * len(request.creations))
        results, changes = await self._run(lambda ensemble: create(ensemble, request))
        await self._seen(self._cache, changes)
        return CreateAclsResponse(results=results)

    async def delete(self, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
        """Removes ACLs; this broker does not decide by them any more once it answers."""
        if self._cache is None:
            error, message = NO_AUTHORIZER
            row = AclFilterResult(error=error, error_message=message)
            return DeleteAclsResponse(results=(row,) * len(request.filters))
        results, changes = await self._run(lambda ensemble: delete(ensemble, request))
        await self._seen(self._cache, changes)
        return DeleteAclsResponse(results=results)

    async def _seen(self, cache: AclCache, changes: Sequence[PatternChange]) -> None:
        def are_seen() -> bool:
            for change in changes:
                known = cache.entries(change.pattern)
                if any(one.entry not in known for one in change.added):
                    return False
                if any(one.entry in known for one in change.removed):
                    return False
            return True

        if not are_seen():
            await self._wait(are_seen)


def describe(ensemble: Ensemble, request: DescribeAclsRequest) -> tuple[ResourceWithAcls, ...]:
    """The ACLs that the filter means. Raises RequestPartError where one of them cannot be read."""
    ensemble.zk.sync("/")
    _, found, unreadable = read_acls(ensemble, [_filter(request)])
    if unreadable:
        raise RequestPartError(ErrorCode.INVALID_CONFIG, "; ".join(unreadable))
    return tuple(
        ResourceWithAcls(
            resource_type=pattern.type,
            resource_name=pattern.name,
            pattern_type=pattern.pattern_type,
            acls=tuple(DescribedAcl(**entry._asdict()) for _, entry in bindings),
        )
        for pattern, bindings in groupby(found, key=lambda one: one.pattern)
    )


def create(ensemble: Ensemble, request: CreateAclsRequest) -> Changed:
    """Adds the ACLs, those of each pattern at once."""
    ensemble.zk.sync("/")
    results: list[AclCreationResult | None] = []
    wanted: dict[ResourcePattern, list[AclBinding]] = {}
    for binding in map(_binding, request.creations):
        try:
            check_binding(binding)
        except ZkGroupError as error:
            results.append(_creation_result(failure_of(error)))
        else:
            results.append(None)
            wanted.setdefault(binding.pattern, []).append(binding)
    changes: list[PatternChange] = []
    of_pattern: dict[ResourcePattern, AclCreationResult] = {}
    for pattern, bindings in wanted.items():
        made = _written(ensemble, partial(plan_additions, ensemble, bindings))
        if isinstance(made, Failure):
            of_pattern[pattern] = _creation_result(made)
        else:
            of_pattern[pattern] = AclCreationResult(error=ErrorCode.NONE, error_message="")
            changes += made.changes
    rows = tuple(
        of_pattern[_binding(creation).pattern] if result is None else result
        for creation, result in zip(request.creations, results, strict=True)
    )
    return Changed(rows, tuple(changes))


def delete(ensemble: Ensemble, request: DeleteAclsRequest) -> Changed:
    """Removes the ACLs that any of the filters means; each is a result of the first such filter."""
    filters = [_filter(one) for one in request.filters]
    rows: list[list[DeletedAcl]] = [[] for _ in filters]
    changes: list[PatternChange] = []
    try:
        planned = plan_removals(ensemble, filters)
    except ZkGroupError as error:
        code, message = failure_of(error)
        return Changed((AclFilterResult(error=code, error_message=message),) * len(filters), ())
    for change in planned.changes:
        kind, name, pattern_type = change.pattern
        exact = [
            replace(each, type=kind, name=name, pattern_type=pattern_type)
            for each in filters
            if each.matches_pattern(change.pattern)
        ]
        made = _written(ensemble, partial(plan_removals, ensemble, exact))
        failure = made if isinstance(made, Failure) else None
        if not isinstance(made, Failure):
            changes += made.changes
        for binding in change.removed if isinstance(made, Failure) else made.removed:
            first = next(number for number, each in enumerate(filters) if each.matches(binding))
            rows[first].append(_deleted(binding, failure))
    results = tuple(AclFilterResult(error=ErrorCode.NONE, matching=tuple(found)) for found in rows)
    return Changed(results, tuple(changes))


def _written(ensemble: Ensemble, plan: Callable[[], AclPlan]) -> AclPlan | Failure:
    """Plans and writes, again where an ACL has changed meanwhile; what was written, or why nothing was."""
    failure = None
    for _ in range(ATTEMPTS):
        try:
            planned = plan()
            write_acls(ensemble, planned)
        except ConflictError as error:
            failure = failure_of(error)
        except ZkGroupError as error:
            return failure_of(error)
        else:
            return planned
    assert failure is not None
    return failure


def _creation_result(failure: Failure) -> AclCreationResult:
    return AclCreationResult(error=failure.error, error_message=failure.message)


def _deleted(binding: AclBinding, failure: Failure | None) -> DeletedAcl:
    return DeletedAcl(
        error=ErrorCode.NONE if failure is None else failure.error,
        error_message=None if failure is None else failure.message,
        resource_type=binding.pattern.type,
        resource_name=binding.pattern.name,
        pattern_type=binding.pattern.pattern_type,
        **binding.entry._asdict(),
    )


def _binding(row: AclCreation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            _word(ResourceType, row.resource_type), row.resource_name, _word(PatternType, row.pattern_type)
        ),
        AccessControlEntry(
            row.principal, row.host, _word(AclOperation, row.operation), _word(AclPermission, row.permission)
        ),
    )


def _filter(row: AclFilterFields) -> AclBindingFilter:
    return AclBindingFilter(
        type=_word(ResourceType, row.resource_type),
        name=row.resource_name,
        pattern_type=_word(PatternType, row.pattern_type),
        principal=row.principal,
        host=row.host,
        operation=_word(AclOperation, row.operation),
        permission=_word(AclPermission, row.permission),
    )


def _word(kind: type[WordT], number: int) -> WordT:
    """The word of a number; `UNKNOWN`, 0, for one of a later release."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)
