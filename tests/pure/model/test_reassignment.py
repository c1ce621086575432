"""The reassignment of recipes 17, searched exhaustively: the text, the production code, and what is wrong.

A short selection by default; with `ZKGROUP_MODEL=all` every run of the README that ends (minutes).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.programs.model.controller.configurations import (
    CANCELLED,
    GROWING,
    MOVES_BROKEN,
    MOVES_LONG,
    MOVES_SHORT,
    Expected,
    Moving,
    answer,
)
from tests.programs.model.controller.tree import Result
from zkgroup.controller.machine import open_reassignments
from zkgroup.controller.machine.open_reassignments import Stage
from zkgroup.controller.machine.reassignment import steps
from zkgroup.controller.machine.reassignment.steps import (
    Announce,
    Complete,
    Decision,
    DeleteReplicas,
    Shrink,
    Situation,
    Wait,
)

WALKS_ALL = os.environ.get("ZKGROUP_MODEL") == "all"


def walk(variant: str, faults: str, *, stop: bool = False) -> Result:
    """Everything that can happen within these faults; with `stop` up to the first violation."""
    return answer(Expected(Moving(variant, faults), "violated" if stop else "holds"), 800)


@pytest.mark.parametrize("variant", ["mended", "code"])
@pytest.mark.parametrize("faults", [*MOVES_SHORT, *MOVES_LONG] if WALKS_ALL else MOVES_SHORT)
def test_moves_are_safe_and_end(variant: str, faults: str) -> None:
    """The recipe, and `steps.decide` in its place: safe, and no reassignment is stuck (recipes 17)."""
    found = walk(variant, faults)

    assert (found.verdict, found.violations, found.stuck) == ("holds", {}, None)
    assert any("steps 10+11" in label for label in found.seen_labels)


@pytest.mark.parametrize("faults", CANCELLED)
def test_a_cancelled_move_is_announced_again(faults: str) -> None:
    """A move is cancelled after step 7, and its old replica falls out of the ISR (recipes 17).

    The text goes from step 7 back to step 3 and waits for a replica that the leader's list lacks. The code
    plans again, which announces the list.
    """
    assert walk("mended", faults).verdict == "stuck"
    assert walk("code", faults).verdict == "holds"


@pytest.mark.parametrize("faults", GROWING)
def test_replicas_that_are_only_added_are_announced(faults: str) -> None:
    """The text takes a list that is the target for step 10, and waits without step 2 (recipes 17).

    The new replica is sent nothing and its leader knows nothing of it, so it never comes into the ISR.
    """
    assert walk("mended", faults).verdict == "stuck"
    assert walk("code", faults).verdict == "holds"


@pytest.mark.parametrize(("variant", "faults", "what"), MOVES_BROKEN)
def test_a_text_without_a_rule_fails(variant: str, faults: str, what: str) -> None:
    """Without any one rule the search finds the violation that the rule prevents (recipes 17)."""
    assert list(walk(variant, faults, stop=True).violations) == [what]


def test_a_leader_that_receives_nothing_is_noticed() -> None:
    """Without the bump of step 2 no one ever catches up (recipes 17)."""
    assert walk("no-bump", "--moves 1/2").verdict == "stuck"


def deaf(now: Situation) -> Situation:
    """A decision that does not wait for the replicas that may still be deleted."""
    return now._replace(deleting=frozenset())


def changed(before: Callable[[Situation], Situation] | None, after: Callable[..., Decision] | None) -> object:
    """`moving.decide` with another question or another answer."""
    decide = steps.decide

    def other(now: Situation) -> Decision:
        decision = decide(before(now) if before else now)
        return after(now, decision) if after else decision

    return other


def blind(now: Situation, decision: Decision) -> Decision:
    """Steps 8 and 9 do not ask who leads and whether the target is whole."""
    if now.stage is Stage.DELETE and now.drop and not now.changed:
        return Decision(DeleteReplicas(now.drop), Stage.DELETE, Stage.FINISH)
    if now.stage is not Stage.SHRINK or now.changed:
        return decision
    isr = tuple(each for each in now.isr if each in now.target) or now.isr[:1]
    drop = tuple(each for each in now.replicas if each not in now.target)
    return Decision(Shrink(isr, len(isr) < len(now.isr), drop), Stage.SHRINK, Stage.DELETE)


def early(_: Situation, decision: Decision) -> Decision:
    """Step 9 before step 8."""
    step = decision.step
    if isinstance(step, Shrink) and step.needed:
        return Decision(DeleteReplicas(step.drop), decision.stage, Stage.FINISH)
    return decision


def mute(_: Situation, decision: Decision) -> Decision:
    """Step 2 is left out."""
    if isinstance(decision.step, Announce):
        return Decision(Wait("told, says it"), Stage.CATCH_UP, Stage.CATCH_UP)
    return decision


def rash(now: Situation, decision: Decision) -> Decision:
    """Step 10 does not ask whether the target is whole."""
    if now.stage is Stage.FINISH and not now.changed:
        return Decision(Complete("cancelled" if now.cancelled else "done", ""), Stage.FINISH, Stage.PLAN)
    return decision


@pytest.mark.parametrize(
    ("after", "faults"),
    [
        (blind, "--moves 1,2/2,3 --crashes 1 --max-states 8000"),
        (early, "--moves 1/2/1"),
        (mute, "--moves 1/2"),
        (rash, "--moves 1,2/2,3 --crashes 1 --max-states 8000"),
    ],
    ids=["blind", "early", "mute", "rash"],
)
def test_a_decision_without_a_rule_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    after: Callable[..., Decision],
    faults: str,
) -> None:
    """The production code without one rule is unsafe or stuck in the same search (recipes 17)."""
    monkeypatch.setattr(steps, "decide", changed(None, after))

    found = walk("code", faults, stop=True)

    assert found.verdict in ("violated", "stuck")


def test_a_held_replica_that_is_not_waited_for_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes 17: its list is announced with one leader epoch after the other and never sent whole; and
    where it is not announced again, it never catches up."""
    monkeypatch.setattr(steps, "decide", changed(deaf, None))
    faults = "--moves 1/2/1 --breaks 1"
    whole = walk("mended", faults).states

    assert walk("code", f"{faults} --max-states {whole}").verdict == "unfinished"
    monkeypatch.setattr(open_reassignments, "interrupted", lambda stage, target, deleting: stage)
    assert walk("code", faults).verdict == "stuck"
