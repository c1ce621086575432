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
    write_acl,
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
from zkgroup.znodes.acls import acl_folders

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
                known = frozenset(cache.entries(change.pattern))
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

    writer = _Writer(ensemble)
    every = [one for some in wanted.values() for one in some]
    planned = writer.planned(lambda: plan_additions(ensemble, every))
    of_pattern = {}
    for pattern, bindings in wanted.items():
        again = partial(plan_additions, ensemble, bindings)
        made = writer.write(again, None if planned is None else planned.get(pattern, ()))
        of_pattern[pattern] = _creation_result(made if isinstance(made, Failure) else None)
    rows = tuple(
        of_pattern[_binding(creation).pattern] if result is None else result
        for creation, result in zip(request.creations, results, strict=True)
    )
    return Changed(rows, tuple(writer.changes))


def delete(ensemble: Ensemble, request: DeleteAclsRequest) -> Changed:
    """Removes the ACLs that any of the filters means; each is a result of the first such filter."""
    filters = [_filter(one) for one in request.filters]
    rows: list[list[DeletedAcl]] = [[] for _ in filters]
    writer = _Writer(ensemble)
    planned = writer.planned(lambda: plan_removals(ensemble, filters))
    if planned is None:
        assert writer.failure is not None
        error, message = writer.failure
        return Changed((AclFilterResult(error=error, error_message=message),) * len(filters), ())
    for (kind, name, pattern_type), changes in planned.items():
        exact = [
            replace(each, type=kind, name=name, pattern_type=pattern_type)
            for each in filters
            if each.matches_pattern(changes[0].pattern)
        ]
        made = writer.write(partial(plan_removals, ensemble, exact), changes)
        failure = made if isinstance(made, Failure) else None
        meant = changes if isinstance(made, Failure) else made
        for binding in (one for each in meant for one in each.removed):
            first = next(number for number, each in enumerate(filters) if each.matches(binding))
            rows[first].append(_deleted(binding, failure))
    results = tuple(AclFilterResult(error=ErrorCode.NONE, matching=tuple(found)) for found in rows)
    return Changed(results, tuple(writer.changes))


class _Writer:
    """Writes the changes of many patterns, one by one; without ZooKeeper it gives up at the first."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self.changes: list[PatternChange] = []
        """What was written."""
        self.failure: Failure | None = None
        """Why the last plan or write has failed."""

    def planned(self, plan: Callable[[], AclPlan]) -> dict[ResourcePattern, Sequence[PatternChange]] | None:
        """The changes of a plan, which are read together; None where it fails."""
        try:
            self._ensemble.zk.create_missing(*acl_folders())
            self._ensemble.zk.sync("/")
            return {change.pattern: [change] for change in plan().changes}
        except ZkGroupError as error:
            self.failure = failure_of(error)
            return None

    def write(
        self, again: Callable[[], AclPlan], planned: Sequence[PatternChange] | None
    ) -> Sequence[PatternChange] | Failure:
        """Writes the changes of one pattern, planned again where its ACL has changed meanwhile.

        Returns what was written, or why nothing was. `planned`: as planned with others; None plans it alone.
        """
        if self.failure is not None and self.failure.error == ErrorCode.REQUEST_TIMED_OUT:
            return self.failure
        for _ in range(ATTEMPTS):
            try:
                found = again().changes if planned is None else planned
                for change in found:
                    write_acl(self._ensemble, change)
            except ConflictError as error:
                self.failure, planned = failure_of(error), None
            except ZkGroupError as error:
                self.failure = failure_of(error)
                break
            else:
                self.changes += found
                return found
        assert self.failure is not None
        return self.failure


def _creation_result(failure: Failure | None) -> AclCreationResult:
    error, message = failure or (ErrorCode.NONE, "")
    return AclCreationResult(error=error, error_message=message)


def _deleted(binding: AclBinding, failure: Failure | None) -> DeletedAcl:
    error, message = failure or (ErrorCode.NONE, None)
    return DeletedAcl(
        error=error,
        error_message=message,
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
