"""How much was used of late, and how long who used too much has to wait. Pure.

Sources: org/apache/kafka/common/metrics/stats/{Rate,SampledStat,TokenBucket}.java and
kafka/utils/QuotaUtils.scala @2.8.2, KIP-13, KIP-599.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView
from math import inf
from typing import Final, Generic, Protocol, TypeVar

WINDOWS: Final = 11
"""`quota.window.num`: ten whole windows, and the present one."""
WINDOW_MS: Final = 1_000
"""`quota.window.size.seconds`."""
SPAN_MS: Final = (WINDOWS - 1) * WINDOW_MS
"""The shortest time over which a rate is taken."""

EVER: Final = 2**31 - 1
"""The longest time in an answer, in milliseconds."""
KEPT: Final = 10_000
"""From so many users of quotas on, those that used nothing of late are forgotten."""


class Rate:
    """What was used a second, over the last windows."""

    __slots__ = ("_current", "_starts", "_sums")

    def __init__(self) -> None:
        self._starts: list[int] = []
        """When each window began, in milliseconds; the windows are used in turn."""
        self._sums: list[float] = []
        self._current = -1

    def record(self, value: float, now_ms: int) -> None:
        """Counts a value; a negative one takes an earlier one back."""
        if self._current < 0 or now_ms - self._starts[self._current] >= WINDOW_MS:
            self._current = (self._current + 1) % WINDOWS
            if self._current == len(self._starts):
                self._starts.append(now_ms)
                self._sums.append(0.0)
            self._starts[self._current], self._sums[self._current] = now_ms, 0.0
        self._sums[self._current] += value

    def measure(self, now_ms: int) -> float:
        """The present rate, a second."""
        span_ms = self._span_ms(now_ms)
        return sum(self._sums) * 1000 / span_ms

    def room(self, bound: float, now_ms: int) -> float:
        """What may be used now within the bound; below 0 beyond it."""
        return bound * self._span_ms(now_ms) / 1000 - sum(self._sums)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be used until the rate is within its bound; `EVER` for a bound of 0."""
        span_ms = self._span_ms(now_ms)
        rate = sum(self._sums) * 1000 / span_ms
        if rate <= bound:
            return 0
        return EVER if bound <= 0 else round(min(EVER, (rate - bound) / bound * span_ms))

    def _span_ms(self, now_ms: int) -> int:
        """The time from the oldest window until now, at least that of the whole windows."""
        for at, start in enumerate(self._starts):
            if now_ms - start >= WINDOWS * WINDOW_MS:
                self._starts[at], self._sums[at] = now_ms, 0.0
        elapsed = now_ms - min(self._starts, default=now_ms)
        missing = WINDOWS - 1 - elapsed // WINDOW_MS
        return max(1, elapsed + max(0, missing) * WINDOW_MS)

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether it is the same as a new one."""
        return all(now_ms - start >= WINDOWS * WINDOW_MS for start in self._starts)


class TokenBucket:
    """Tokens that come at a rate, up to those of all windows; a use may take more than there are.

    It is full at first, whatever its rate.
    """

    __slots__ = ("_at_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens = inf
        self._at_ms = 0

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Takes tokens."""
        self._tokens, self._at_ms = self.measure(bound, now_ms) - value, now_ms

    def measure(self, bound: float, now_ms: int) -> float:
        """The present tokens; `bound`: those that come a second."""
        came = bound * (now_ms - self._at_ms) / 1000
        return min(bound * WINDOWS * WINDOW_MS / 1000, self._tokens + came)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long it takes until no token is owed; 0 if none is."""
        tokens = self.measure(bound, now_ms)
        return 0 if tokens >= 0 or bound <= 0 else round(min(EVER, -tokens / bound * 1000))

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether it is the same as a new one, whatever its rate."""
        return self._tokens >= 0 and now_ms - self._at_ms >= WINDOWS * WINDOW_MS


class _Used(Protocol):
    def is_idle(self, now_ms: int) -> bool: ...


KeyT = TypeVar("KeyT")
UsedT = TypeVar("UsedT", bound=_Used)


class Recent(Generic[KeyT, UsedT]):
    """What each client or address has used of late.

    Only those are forgotten that are the same as new ones, so nobody gains or loses by the number of others.
    There are as many as came within all windows, or `KEPT`. A new one costs a look at two, however many
    there are.
    """

    def __init__(self, new: Callable[[], UsedT]) -> None:
        self._new = new
        self._used: OrderedDict[KeyT, UsedT] = OrderedDict()

    def of(self, key: KeyT, now_ms: int) -> UsedT:
        """What one has used; a new one has used nothing."""
        if (used := self._used.get(key)) is None:
            for _ in range(2 if len(self._used) >= KEPT else 0):
                self._forget_if_idle(next(iter(self._used)), now_ms)
            used = self._used[key] = self._new()
        return used

    def _forget_if_idle(self, key: KeyT, now_ms: int) -> None:
        if self._used[key].is_idle(now_ms):
            del self._used[key]
        else:
            self._used.move_to_end(key)

    def items(self) -> ItemsView[KeyT, UsedT]:
        """All that are remembered."""
        return self._used.items()

    def clear(self) -> None:
        """Forgets all."""
        self._used.clear()
