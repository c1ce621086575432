"""Registration, leave, snapshot and plan: the production machine does what the model does.

Fewer things can happen here than to a partition, so the situations are written out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from tests.programs.model import recipes
from tests.programs.model.following import ME, Pair, registered
from tests.programs.model.member import member_steps, snapshot
from tests.programs.model.model_and_server import GROUP, OTHER_TOPIC, TOPIC, ModelAndServer, member_id, tp
from tests.programs.model.plans import sticky_plan
from tests.programs.model.values import Configuration, Op, Pc, create, delete
from zkgroup.assignment.strategies import inputs_digest
from zkgroup.model import StaticSubscription
from zkgroup.model.requests import Multi, MultiDone
from zkgroup.runtime.procedures import GuardRefusedError, Procedure
from zkgroup.znodes.coordinated_groups import ProtocolMarker
from zkgroup.znodes.ids import thread_id

OTHER = 1
MARKER = ProtocolMarker.path(GROUP)


def run(pair: Pair, procedure: Procedure[object]) -> tuple[object, list[list[Op]]]:
    """The procedure against the server alone: its result, and its transactions in the model's words.

    An accepted transaction is repeated in the model's tree. It knows no marker of group coordinators: their
    model has it, `tests.programs.model.coordinator`.
    """
    sent: list[list[Op]] = []
    outcomes = None
    try:
        while True:
            queries = next(procedure) if outcomes is None else procedure.send(outcomes)
            outcomes = tuple(pair.execute(query.request) for query in queries)
            for query, outcome in zip(queries, outcomes, strict=True):
                if isinstance(query.request, Multi):
                    asked = [each for each in query.request.operations if each.path != MARKER]
                    sent.append(list(map(pair.worlds.op, asked)))
                    if isinstance(outcome, MultiDone):
                        pair.worlds.repeat(sent[-1], pair.worlds.cfg.client[ME])
    except StopIteration as end:
        return end.value, sent
    except GuardRefusedError:
        return GuardRefusedError, sent


IN_THE_WAY: dict[str, tuple[Sequence[Op], int | None]] = {
    "nothing": ((), None),
    "mine, its reply lost": (recipes.register_ops(ME), 0),
    "a former session's": (recipes.register_ops(ME), 1),
}


@pytest.mark.parametrize("obstacle", IN_THE_WAY)
def test_registration(obstacle: str) -> None:
    """Recipes 2, 10: one create, beside the check of the marker; an existing registration is found if it is
    its own, else waited for."""
    worlds = ModelAndServer(Configuration())
    pair = Pair(worlds)
    membership = pair.components.membership
    if obstacle == "nothing":
        _, sent = run(pair, membership.register())
        assert sent == [recipes.register_ops(ME)]
        assert membership.is_registered
    else:
        ops, client = IN_THE_WAY[obstacle]
        membership.data = worlds.operation(ops[0]).data
        assert worlds.act(ops, client)
        _, sent = run(pair, membership.register())
        labels = [label for label, *_ in member_steps(worlds.s, worlds.cfg, ME)]
        assert sent == [recipes.register_ops(ME)]
        assert membership.is_registered == (labels == ["finds its registration (lost reply)"])
        assert membership.is_waiting == (labels == [])
    worlds.assert_same_trees()


@pytest.mark.parametrize("is_gone", [False, True])
def test_changed_subscription(is_gone: bool) -> None:
    """A new registration in one multi; refused where there is none to replace (recipes 2)."""
    pair = registered()
    if is_gone:
        assert pair.worlds.act([delete("ids", ME, -1)])
    pair.components.membership.subscription = StaticSubscription({OTHER_TOPIC: 1})
    result, sent = run(pair, pair.components.membership.replace())

    assert sent == [recipes.resubscribe_ops(ME, 0)]
    assert (result is GuardRefusedError) == is_gone
    pair.worlds.assert_same_trees()


@pytest.mark.parametrize("is_gone", [False, True])
def test_leave(is_gone: bool) -> None:
    """The last write of a member that shares its client; refused, it has left as well (recipes 7, 10)."""
    pair = registered()
    if is_gone:
        assert pair.worlds.act([delete("ids", ME, -1)])
    result, sent = run(pair, pair.components.membership.remove())

    assert sent == [recipes.leave_ops(ME)]
    assert result is GuardRefusedError
    pair.worlds.assert_same_trees()


COMINGS = {
    "leaves": ([delete("ids", OTHER, 0)], 1),
    "joins": (recipes.register_ops(OTHER, 1), 1),
    "joins for another topic": (recipes.register_ops(OTHER, 0), 1),
    "subscribes anew": (recipes.resubscribe_ops(OTHER, 1), 1),
    "subscribes to another topic": (recipes.resubscribe_ops(OTHER, 0), 1),
}


@pytest.mark.parametrize("length", [1, 2, 3])
def test_snapshot(length: int) -> None:
    """Cached registrations equal those that are read, whichever members came and went (recipes 3)."""
    for names in itertools.product(COMINGS, repeat=length):
        pair = registered()
        worlds = pair.worlds
        _take(pair)
        accepted = [worlds.act(*COMINGS[name]) for name in names]
        if all(accepted):
            _take(pair)
        worlds.assert_same_trees()


def test_model_that_compares_names_differs_from_the_machine() -> None:
    """The comparison has teeth: without the counters, a member that came back is missed."""
    pair = registered(without=frozenset({"cversion"}))
    _take(pair)
    assert pair.worlds.act(*COMINGS["subscribes to another topic"])
    with pytest.raises(AssertionError):
        _take(pair)


def _take(pair: Pair) -> None:
    """One snapshot of each; both know the same registrations, of the same generation."""
    worlds, components = pair.worlds, pair.components
    worlds.moved(snapshot(worlds.s, worlds.cfg, ME))
    run(pair, components.snapshot.take())
    picture = components.snapshot.newest
    assert picture is not None
    assert picture.generation == worlds.zxids[pair.me.gen]
    contents = tuple(
        int(TOPIC in picture.registrations[member_id(m)].wanted().topics)
        if member_id(m) in picture.registrations
        else None
        for m in range(worlds.cfg.members)
    )
    assert contents == pair.me.cache[2]


@pytest.mark.parametrize("found", ["none", "older", "mine", "newer"])
def test_plan(found: str) -> None:
    """Recipes 4: an older plan is written anew from its own past, under its version and by a member only;
    a newer one means another snapshot."""
    pair = registered(sticky=True, partitions=2)
    worlds, assignments = pair.worlds, pair.components.assignments
    _take(pair)
    picture = pair.components.snapshot.newest
    assert picture is not None
    worlds.inputs = inputs_digest("sticky", picture.members, picture.partitions)
    generations = {"older": worlds.s.tree.czxid, "mine": pair.me.gen, "newer": pair.me.gen + 1}
    row = (1, 0)
    if found == "newer":
        assert worlds.act([create("marker", 0, 0)])  # any transaction, for its id
    if found != "none":
        assert worlds.act([create("plan", 0, (generations[found], row))])
    node = worlds.s.tree.nodes[worlds.cfg.at("plan")]
    verdict = recipes.judge_plan(node, pair.me.gen)
    planned, sent = run(pair, assignments._from_previous(picture, "sticky"))

    worlds.assert_same_trees()
    if verdict == "newer":
        assert planned is None
        assert sent == []
        return
    wanted = sticky_plan([ME, OTHER], worlds.cfg.blank if node is None else row)
    expected = [] if verdict == "mine" else [recipes.plan_ops(worlds.cfg, ME, node, pair.me.gen, wanted)]
    assert sent == expected
    threads = {tp(p): thread_id(member_id(m), 0) for p, m in enumerate(wanted)}
    assert planned.owners == threads
    assert assignments.plan_check.version == worlds.s.tree.nodes[worlds.cfg.at("plan")].version


def test_plan_is_written_by_members_only() -> None:
    """Who is not registered any more is refused, in both worlds (recipes 4)."""
    pair = registered(sticky=True)
    _take(pair)
    picture = pair.components.snapshot.newest
    assert picture is not None
    assert pair.worlds.act([delete("ids", ME, -1)])
    pair.believe(pc=Pc.PLAN_WRITE)
    result, sent = run(pair, pair.components.assignments._from_previous(picture, "sticky"))

    assert result is GuardRefusedError
    assert sent == [recipes.plan_ops(pair.worlds.cfg, ME, None, pair.me.gen, (ME,))]
    pair.worlds.assert_same_trees()
