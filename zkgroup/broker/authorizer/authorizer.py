"""`Authorizer`: decides by the ACLs that the broker has read, and logs what it refuses (`access_log`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from zkgroup.broker.server.access_log import literal, log_access
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.model.ports import Clock
from zkgroup.security.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclCache,
    AclOperation,
    AclSettings,
    ResourcePattern,
    ResourceType,
    java_address,
)


class Authorizer:
    """The ACLs of a broker. Made and used on one event loop."""

    def __init__(self, settings: AclSettings, clock: Clock) -> None:
        """`clock`: for the age of the ACLs."""
        self.cache = AclCache(settings)
        self._clock = clock
        self._behind_since_ms: int | None = None

    def change(self, acls: Mapping[ResourcePattern, Collection[AccessControlEntry]]) -> None:
        """Replaces the ACLs of some patterns; with them all changes up to now are known."""
        for pattern, entries in acls.items():
            self.cache.change(pattern, entries)
        if not self.cache.is_read:
            self.cache.loaded()
        self._behind_since_ms = None

    def disconnected(self) -> None:
        """Notes that ZooKeeper is away: the ACLs that were read last go on deciding."""
        if self._behind_since_ms is None:
            self._behind_since_ms = self._clock.now_ms()

    @property
    def age_ms(self) -> int | None:
        """How long the ACLs may be out of date: 0 while ZooKeeper notifies of changes; None before the first
        read."""
        if not self.cache.is_read:
            return None
        since_ms = self._behind_since_ms
        return 0 if since_ms is None else self._clock.now_ms() - since_ms


class Rights:
    """What the sender of one request may do."""

    __slots__ = ("_cache", "_host", "_principal", "context", "creates_topics")

    def __init__(self, authorizer: Authorizer, context: RequestContext, creates_topics: bool = False) -> None:
        self._cache = authorizer.cache
        self.context = context
        self._principal = context.principal
        self._host = java_address(context.peer.host)
        self.creates_topics = creates_topics
        """Whether the broker creates topics that clients ask for (`auto.create.topics.enable`)."""

    def may(
        self, operation: AclOperation, resource_type: ResourceType, name: str, *, is_logged: bool = True
    ) -> bool:
        """Returns whether an operation on a resource is authorized.

        `is_logged`: whether a refusal is logged.
        """
        decision = self._cache.authorize(self._principal, self._host, operation, resource_type, name)
        if not decision.is_allowed and is_logged:
            self._log(operation, literal(resource_type, [name]), decision.reason)
        return decision.is_allowed

    def may_on_cluster(self, operation: AclOperation, *, is_logged: bool = True) -> bool:
        """Returns whether an operation on the cluster is authorized."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=is_logged)

    def may_on_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Returns whether an operation is authorized on any resource of a type."""
        decision = self._cache.authorize_by_type(self._principal, self._host, operation, resource_type)
        if not decision.is_allowed:
            self._log(operation, f"any {resource_type.pascal}", decision.reason)
        return decision.is_allowed

    def allowed(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        is_logged: bool = True,
    ) -> set[str]:
        """The names of the resources on which an operation is authorized. Refusals are one line."""
        found, refused, reason = set(), [], ""
        asked = self._principal, self._host, operation, resource_type
        kept, authorize = self._cache.kept(*asked), self._cache.authorize
        for name in dict.fromkeys(names):
            decision = kept.get(name) or authorize(*asked, name)
            if decision.is_allowed:
                found.add(name)
            else:
                refused.append(name)
                reason = reason or decision.reason
        if refused and is_logged:
            self._log(operation, literal(resource_type, refused), reason)
        return found

    def may_on_all(self, operation: AclOperation, resource_type: ResourceType, names: Iterable[str]) -> bool:
        """Returns whether an operation is authorized on all these resources. It logs nothing."""
        asked = self._principal, self._host, operation, resource_type
        kept = self._cache.kept(*asked)
        for name in names:
            decision = kept.get(name) or self._cache.authorize(*asked, name)
            if not decision.is_allowed:
                return False
        return True

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The authorized operations on a resource, as bits (KIP-430)."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.may(operation, resource_type, name, is_logged=False)
        )

    def _log(self, operation: AclOperation, resource: str, reason: str) -> None:
        log_access(self.context, operation, resource, reason, is_allowed=False)
