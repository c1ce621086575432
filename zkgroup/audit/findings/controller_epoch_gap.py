"""Elections that did not raise the controller epoch by exactly one.

An error for each write of `/controller_epoch` that is not one more than the value before. A warning for a
controller that held `/controller` longer than `raise_ms` and never raised it: Kafka's controllers raise it
after they are elected, zkgroup's in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import CONTROLLER, Key
from zkgroup.audit.partitions import decoded
from zkgroup.audit.rules import Bounds, Finding, Rule, Severity, folded
from zkgroup.audit.texts import duration_text, who
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._facts = facts
        self._raise_ms = bounds["raise_ms"]
        self._epoch: int | None = None
        self._raised: tuple[int, int] = 0, 0
        """Zxid and session of the last write of the epoch."""
        self._silent: Event | None = None
        """The election whose winner has not raised the epoch yet."""

    def see(self, event: Event) -> Iterator[Finding]:
        if event.op not in ("create", "set", "delete"):
            return
        if event.path == ControllerEpoch.path():
            self._raised = event.zxid, event.session
            if self._silent is not None and event.session == self._silent.session:
                self._silent = None
            if event.op != "delete":
                yield from self._step(event)
        elif event.path == ControllerRegistration.path() and event.op != "set":
            yield from self._judge_silence(event)
            raised = self._raised == (event.zxid, event.session)  # before it, in the same transaction
            self._silent = event if event.op == "create" and not event.seed and not raised else None

    def end(self) -> Iterator[Finding]:
        yield from self._judge_silence(None)

    def _step(self, event: Event) -> Iterator[Finding]:
        value = decoded(ControllerEpoch.decode, event.path, event.data)
        before = self._epoch
        if value is None:
            yield self._finding(
                "error", event, event, f"the epoch cannot be read: {(event.data or b'')[:40]!r}"
            )
            return
        self._epoch = value.epoch
        if before is not None and value.epoch != before + 1 and not event.seed:
            by = who(self._facts, event.session)
            yield self._finding("error", event, event, f"epoch {value.epoch} follows {before}, by {by}")

    def _judge_silence(self, until: Event | None) -> Iterator[Finding]:
        won, self._silent = self._silent, None
        if won is None:
            return
        ms = max((until.time_ms if until else self._facts.end_ms) - won.time_ms, 0)
        if ms > self._raise_ms:
            detail = f"{who(self._facts, won.session)} held /controller for {duration_text(ms)}"
            yield self._finding("warning", won, until, f"{detail} and never raised the epoch")

    def _finding(self, severity: Severity, since: Event, to: Event | None, detail: str) -> Finding:
        return Finding(
            RULE.name,
            severity,
            session=since.session or None,
            from_zxid=since.zxid,
            to_zxid=to.zxid if to else None,
            from_ms=since.time_ms,
            to_ms=to.time_ms if to else None,
            detail=detail,
        )


RULE = Rule(
    name="controller_epoch_gap",
    severity="error",
    question="Did every election raise the controller epoch by exactly one?",
    needs=("log",),
    act="A step of more than one, or back: the epoch was written by hand, or the tree was restored from a"
    " copy. A repeat: two controllers raised it from the same value. Restart the brokers one by one, so that"
    " all know the present epoch. A warning: whoever held `/controller` was no controller, or died at once.",
    keys=CONTROLLER,
    find=folded(_Fold),
    bounds={"raise_ms": 2_000},
)
