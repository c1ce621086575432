"""What clients use of their quotas, and how long who uses too much has to wait. Pure.

Sources: kafka/server/{ClientQuotaManager,ClientRequestQuotaManager,ControllerMutationQuotaManager}.scala
@2.8.2. As there, what is used is counted first, and an answer is never held back: its client waits after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Final, Generic, NamedTuple, TypeVar

from zkgroup.broker.quotas.levels import ClientQuotas, Quota, QuotaType
from zkgroup.broker.quotas.rates import SPAN_MS, WINDOW_MS, Rate, Recent, TokenBucket
from zkgroup.broker.quotas.replication import ReplicationQuota
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import LEADER_RATE, LEADER_REPLICAS

RESOLVED: Final = 10_000
"""Clients whose quotas are remembered."""
NAME_MAX: Final = 255
"""Longest client id that is remembered as it is; of longer ones, which may have 32 kB, a digest is."""

UsedT = TypeVar("UsedT", Rate, TokenBucket)
_Client = tuple[str, str]
"""A user and a client id."""


class QuotaUsage(NamedTuple):
    """What the clients that share a quota use of it."""

    quota_type: QuotaType
    user: str
    client_id: str
    value: float
    """A second; for `CONTROLLER_MUTATION` the tokens that are left."""


class _Counts(Generic[UsedT]):
    """The quota of each client, and what those that share one have used."""

    def __init__(self, quotas: ClientQuotas, quota_type: QuotaType, new: Callable[[], UsedT]) -> None:
        self._quotas, self._type = quotas, quota_type
        self._resolved: dict[_Client, Quota | None] = {}
        self._used: Recent[_Client, UsedT] = Recent(new)
        self.is_limited = False
        """True if any client has a quota."""

    def changed(self) -> None:
        """Takes the present quotas; what was used stays counted."""
        self._resolved.clear()
        self.is_limited = self._quotas.is_limited(self._type)
        if not self.is_limited:
            self._used.clear()

    def quota(self, user: str, client_id: str) -> Quota | None:
        """The quota of a client; None without one."""
        if not self.is_limited:
            return None
        kept_id = client_id if len(client_id) <= NAME_MAX else _digest(client_id)
        client = user, kept_id
        try:
            return self._resolved[client]
        except KeyError:
            if len(self._resolved) >= RESOLVED:
                self._resolved.clear()
            found = self._quotas.resolve(self._type, user, client_id)
            if found is not None and found.client_id:
                found = found._replace(client_id=kept_id)
            self._resolved[client] = found
            return found

    def _of(self, quota: Quota, now_ms: int) -> UsedT:
        return self._used.of((quota.user, quota.client_id), now_ms)


def _digest(client_id: str) -> str:
    """What stands for a long client id; it is longer than any that is remembered as it is."""
    return f"{client_id[:NAME_MAX]}...{sha256(client_id.encode(errors='surrogatepass')).hexdigest()}"


class ClientQuotaManager(_Counts[Rate]):
    """Counts one of `PRODUCE`, `FETCH` and `REQUEST`. Used on one thread."""

    def __init__(self, quotas: ClientQuotas, quota_type: QuotaType) -> None:
        super().__init__(quotas, quota_type, Rate)
        self._longest_ms = WINDOW_MS if quota_type is QuotaType.REQUEST else None

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Counts what a client has used; returns how many milliseconds it has to wait, mostly 0."""
        if (quota := self.quota(user, client_id)) is None:
            return 0
        rate = self._of(quota, now_ms)
        rate.record(value, now_ms)
        wait_ms = rate.throttle_ms(quota.value, now_ms)
        if self._longest_ms is not None:
            return min(wait_ms, self._longest_ms)
        return wait_ms if quota.value > 0 else 0  # the wait of Kafka is infinite, and overflows

    def take_back(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Takes back what was recorded: the client does not get it."""
        if (quota := self.quota(user, client_id)) is not None:
            self._of(quota, now_ms).record(-value, now_ms)

    def room(self, user: str, client_id: str, now_ms: int) -> tuple[float, float] | None:
        """What a client may use now, and what it may after it has used nothing; None without a quota."""
        if (quota := self.quota(user, client_id)) is None:
            return None
        return self._of(quota, now_ms).room(quota.value, now_ms), quota.value * SPAN_MS / 1000

    def usage(self, now_ms: int) -> Iterator[QuotaUsage]:
        """What is used now, of every quota that was used of late."""
        for (user, client_id), rate in self._used.items():
            if not rate.is_idle(now_ms):
                yield QuotaUsage(self._type, user, client_id, rate.measure(now_ms))


class MutationPermits:
    """The partitions that one request may create or delete."""

    def __init__(
        self, bucket: TokenBucket, bound: float, now_ms: Callable[[], int], *, is_strict: bool
    ) -> None:
        """`is_strict`: once the tokens are used up it takes no more; otherwise the client waits only."""
        self._bucket, self._bound, self._now_ms, self._is_strict = bucket, bound, now_ms, is_strict
        self._until_ms = 0

    def take(self, partitions: int) -> bool:
        """Takes tokens for some partitions, also more than there are; returns False if none is left."""
        now_ms = self._now_ms()
        if self._is_strict and self._bucket.measure(self._bound, now_ms) < 0:
            self._wait(now_ms)
            return False
        self._bucket.record(partitions, self._bound, now_ms)
        if not self._is_strict:
            self._wait(now_ms)
        return True

    def _wait(self, now_ms: int) -> None:
        self._until_ms = now_ms + self._bucket.throttle_ms(self._bound, now_ms)

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait."""
        return max(0, self._until_ms - self._now_ms())


class ControllerMutationQuotaManager(_Counts[TokenBucket]):
    """Counts the partitions that clients create and delete."""

    def __init__(self, quotas: ClientQuotas) -> None:
        super().__init__(quotas, QuotaType.CONTROLLER_MUTATION, TokenBucket)

    def permits(
        self, user: str, client_id: str, now_ms: Callable[[], int], *, is_strict: bool
    ) -> MutationPermits | None:
        """The permits of one request; None without a quota. Arguments: see `MutationPermits`."""
        if (quota := self.quota(user, client_id)) is None:
            return None
        return MutationPermits(self._of(quota, now_ms()), quota.value, now_ms, is_strict=is_strict)

    def usage(self, now_ms: int) -> Iterator[QuotaUsage]:
        """The tokens of every quota that was used of late."""
        for (user, client_id), bucket in self._used.items():
            quota = self.quota(user, client_id)
            if quota is not None and not bucket.is_idle(now_ms):
                yield QuotaUsage(self._type, user, client_id, bucket.measure(quota.value, now_ms))


class QuotaManagers:
    """The quotas of a broker, as those of Kafka's `QuotaFactory`."""

    def __init__(self, broker: int) -> None:
        self.leader = ReplicationQuota(broker, LEADER_RATE, LEADER_REPLICAS)
        self.follower = ReplicationQuota(broker)
        self._quotas = ClientQuotas()
        self.produce = ClientQuotaManager(self._quotas, QuotaType.PRODUCE)
        self.fetch = ClientQuotaManager(self._quotas, QuotaType.FETCH)
        self.request = ClientQuotaManager(self._quotas, QuotaType.REQUEST)
        self.controller_mutation = ControllerMutationQuotaManager(self._quotas)
        self.is_limited = False
        """True if any client has any quota."""

    @property
    def _all(self) -> tuple[ClientQuotaManager | ControllerMutationQuotaManager, ...]:
        return self.produce, self.fetch, self.request, self.controller_mutation

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Sets the present configuration of an entity. Raises ConfigError; the valid settings are applied."""
        if entity.kind not in ("users", "clients"):
            try:
                self.leader.configured(entity, overrides)
            finally:
                self.follower.configured(entity, overrides)
            return
        try:
            self._quotas.configured(entity, overrides)
        finally:
            for each in self._all:
                each.changed()
            self.is_limited = any(each.is_limited for each in self._all)

    def has_any(self, user: str, client_id: str) -> bool:
        """Returns whether a client has any quota."""
        return any(each.quota(user, client_id) is not None for each in self._all)

    def usage(self, now_ms: int) -> Iterator[QuotaUsage]:
        """What is used now, of every quota that was used of late."""
        for each in self._all:
            yield from each.usage(now_ms)
