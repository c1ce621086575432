"""An owner znode that another session deleted before the owner's session ended.

The end of the owner's own session is none, and neither is a release, whichever of its members did it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_OWNED_PARTITION, Key
from zkgroup.audit.owner_lives import OwnerLives
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import who

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

NAME = "claim_stolen"


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._lives = OwnerLives(facts)

    def see(self, event: Event) -> Iterator[Finding]:
        over = self._lives.see(event)
        if over is not None and over.ended_by == "deleted_by_other":
            yield Finding(
                NAME,
                "error",
                self._group,
                self._topic,
                self._partition,
                event.session,
                event.zxid,
                event.zxid,
                event.time_ms,
                event.time_ms,
                f"the claim of {over.thread!r}, {who(self._facts, over.session, self._group)}, was deleted by"
                f" {who(self._facts, event.session, self._group)}",
            )

    def end(self) -> Iterator[Finding]:
        yield from ()


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions with an owner that another session deleted."""
    owners = tables.owners
    return Screened(owners.keys_with(owners.is_deleted_by_other))


RULE = Rule(
    name=NAME,
    severity="error",
    question="Did a session delete a claim of another session?",
    needs=("log",),
    act=(
        "The owner may go on without knowing, beside the next one: check double_ownership and"
        " zombie_commit of the partition. A JVM member deletes by path what it believes to own; any other"
        " session is a tool's or a person's."
    ),
    keys=BY_OWNED_PARTITION,
    find=folded(_Fold),
    screen=_screen,
)
