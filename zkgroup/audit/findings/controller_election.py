"""Who was controller when, how long there was none, and storms of elections.

A row for each life of `/controller` that began in the log, with the epoch that its session raised, how it
ended, and the time without a controller before it; a warning where that was longer than `gap_ms`. A storm
is `storm_elections` or more of which none is later than `storm_gap_ms` after the one before.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.controller_lookup import controller_name, ending_text, epoch_at
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts, Life
from zkgroup.audit.keys import CONTROLLER, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.audit.texts import duration_text
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.json_fields import JvmJsonError, parse


class _Fold:
    """The rows only say that there is a controller at all: its lives are facts."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._facts = facts
        self._bounds = bounds
        self._elected: set[int] = set()
        """Zxids of the elections in the log; a snapshot's controller was elected before it."""

    def see(self, event: Event) -> Iterator[Finding]:
        if event.op == "create" and event.path == ControllerRegistration.path() and not event.seed:
            self._elected.add(event.zxid)
        yield from ()

    def end(self) -> Iterator[Finding]:
        lives = self._facts.controllers
        elections = [life for life in lives if life.from_zxid in self._elected]
        before: Life | None = None
        for life in lives:
            if life.from_zxid in self._elected:
                yield self._election(life, before)
            before = life
        if before is not None and before.to_zxid is not None:
            yield from self._none_left(before)
        for run in _runs(elections, self._bounds["storm_gap_ms"]):
            if len(run) >= self._bounds["storm_elections"]:
                yield self._storm(run)

    def _election(self, life: Life, before: Life | None) -> Finding:
        epoch = self._epoch(life)
        parts = [
            f"{controller_name(life)} elected, " + ("epoch not raised" if epoch is None else f"epoch {epoch}")
        ]
        gap_ms = None if before is None else _gap_ms(life, before)
        if gap_ms is not None:
            parts.append(f"after {duration_text(gap_ms)} without a controller")
        if life.to_zxid is not None:
            ended = ending_text(self._facts, life.session, life.to_zxid, life.ended_by or 0)
            parts.append(f"{ended} after {duration_text((life.to_ms or 0) - life.from_ms)}")
        long = gap_ms is not None and gap_ms > self._bounds["gap_ms"]
        return Finding(
            RULE.name,
            "warning" if long else "info",
            session=life.session,
            from_zxid=life.from_zxid,
            to_zxid=life.to_zxid,
            from_ms=life.from_ms,
            to_ms=life.to_ms,
            detail="; ".join(parts),
        )

    def _epoch(self, life: Life) -> int | None:
        """What its session raised the epoch to."""
        until = self._facts.end_zxid if life.to_zxid is None else life.to_zxid
        raised = [
            change.zxid
            for change in self._facts.controller_epochs
            if life.from_zxid <= change.zxid <= until and change.session == life.session
        ]
        return epoch_at(self._facts, raised[-1]) if raised else None

    def _none_left(self, last: Life) -> Iterator[Finding]:
        """The history ends without a controller."""
        gap_ms = max(self._facts.end_ms - (last.to_ms or 0), 0)
        if gap_ms > self._bounds["gap_ms"]:
            yield Finding(
                RULE.name,
                "warning",
                from_zxid=last.to_zxid,
                from_ms=last.to_ms,
                detail=f"no controller for {duration_text(gap_ms)}, up to the end",
            )

    def _storm(self, run: list[Life]) -> Finding:
        first, last = run[0], run[-1]
        lasted = duration_text(last.from_ms - first.from_ms)
        unreadable = [f"; no JVM can read {path}" for path in self._poison(first, last)]
        return Finding(
            RULE.name,
            "warning",
            from_zxid=first.from_zxid,
            to_zxid=last.from_zxid,
            from_ms=first.from_ms,
            to_ms=last.from_ms,
            detail=f"a storm of {len(run)} elections in {lasted}{''.join(unreadable)}",
        )

    def _poison(self, first: Life, last: Life) -> Iterator[str]:
        """Registrations that a controller of 0.8.2.2 cannot load: each winner gives up at once."""
        for _, lives in sorted(self._facts.brokers.items()):
            for life in lives:
                if life.from_zxid <= last.from_zxid and (
                    life.to_zxid is None or life.to_zxid >= first.from_zxid
                ):
                    try:
                        parse(life.data or b"")
                    except JvmJsonError:
                        yield life.path


def _gap_ms(life: Life, before: Life) -> int | None:
    return None if before.to_ms is None else max(life.from_ms - before.to_ms, 0)


def _runs(elections: list[Life], gap_ms: float) -> Iterator[list[Life]]:
    """Elections that follow each other within a time."""
    run: list[Life] = []
    for life in elections:
        if run and life.from_ms - run[-1].from_ms > gap_ms:
            yield run
            run = []
        run.append(life)
    if run:
        yield run


RULE = Rule(
    name="controller_election",
    severity="warning",
    question="When was which broker elected controller, how long was there none, and did elections come in"
    " storms?",
    needs=("log",),
    act="One election after a controller's death is as it should be. A storm means that every winner fails at"
    " once: find the registration or the topic that it cannot read, and delete that znode. Long without one:"
    " check whether brokers can reach ZooKeeper at all.",
    keys=CONTROLLER,
    find=folded(_Fold),
    bounds={"gap_ms": 30_000, "storm_elections": 5, "storm_gap_ms": 1_000},
)
