"""The history that a member writes is the model's, in every state of some configurations."""

from __future__ import annotations

import pytest

from tests.programs.model.controller.tree import explore
from tests.programs.model.history import recipes
from tests.programs.model.history.recipes import Configuration, Events, History, Member, Model, State
from zkgroup.znodes.group_history import (
    GroupHistory,
    MemberChange,
    RebalanceRecord,
    continued,
    difference,
)


def _named(registrations: recipes.Registrations) -> dict[str, int]:
    return {f"m{m}": czxid for m, czxid in enumerate(registrations) if czxid}


def _of(events: Events, kind: str) -> dict[str, int]:
    return {f"m{m}": czxid for each, m, czxid in events if each == kind}


def _record(generation: int) -> RebalanceRecord:
    return RebalanceRecord(
        time_ms=0, generation=generation, reason="", joined=(), left=(), moved=0, took_ms=0
    )


def _changes(me: Member) -> list[MemberChange]:
    return [
        MemberChange(_record(each.generation), each.zxid, _of(each.events, "+"), _of(each.events, "-"))
        for each in me.pending
    ]


def _history(history: History | None) -> GroupHistory | None:
    if history is None:
        return None
    rows = tuple(_record(0) for _ in history.rows)
    return GroupHistory(zxid=history.zxid, members=_named(history.members), rebalances=rows)


class Compared(Model):
    """The model; each of its decisions is compared with the function that members call."""

    writes = 0

    def rows(self, me: Member) -> tuple[Events, ...]:
        """The rows are those of `continued`, and so is what the znode says of the members."""
        rows, stored = super().rows(me), _history(me.stored)
        made = continued(stored, _changes(me), _named(me.known))
        added = made.rebalances[len(stored.rebalances) if stored else 0 :]
        assert [set(row.joined) for row in added] == [set(_of(row, "+")) for row in rows]
        assert [set(row.left) for row in added] == [set(_of(row, "-")) for row in rows]
        assert (made.members, made.zxid) == (_named(me.known), me.pending[-1].zxid)
        self.writes += 1
        return rows

    def _read(self, s: State, m: int) -> State:
        """What is dropped after a read is what the znode does not lack."""
        after, stored = super()._read(s, m), _history(s.history)
        kept = [each for each in _changes(s.members[m]) if stored is None or stored.lacks(each)]
        assert kept == _changes(after.members[m])
        return after

    def _pass(self, s: State, m: int) -> State:
        """What is noted is the difference of the registrations."""
        after = super()._pass(s, m)
        came, gone = difference(_named(s.members[m].known), _named(s.registrations))
        events = recipes.difference(s.members[m].known, s.registrations)
        assert (came, gone) == (_of(events, "+"), _of(events, "-"))
        return after


@pytest.mark.parametrize(
    "configuration",
    [Configuration(join=2, expire=1), Configuration(join=2, die=1, topic=1)],
    ids=["sessions", "topic"],
)
def test_members_decide_as_the_model_does(configuration: Configuration) -> None:
    """In every state: what is noted, what is dropped, and what is written (recipes 25)."""
    model = Compared(configuration)
    explore(model)
    assert model.writes > 100
