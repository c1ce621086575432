"""The election of the production machine is the model's, along many walks through its graph."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable

import pytest

from tests.programs.model.controller.election_surroundings import Configuration
from tests.programs.model.controller.following import Following, Pruned
from zkgroup.controller.machine.controller_election import transactions as acts

WALKS = 4000 if os.environ.get("ZKGROUP_MODEL") == "all" else 250
STEPS_MAX = 60
SITUATIONS = {
    "ours alone": Configuration(real=False, expiries=2, deletions=1, our_writes=2),
    "beside a real one": Configuration(expiries=1, deletions=2, pauses=1, our_writes=2, real_writes=2),
    "a real one that lives": Configuration(expiries=1, deletions=2, r_lives=True),
}
ACTS = {
    "A sees /controller gone",
    "A reads /controller",
    "A reads the epoch",
    "A ends its grace",
    "A ends its grace, reads again",
    "A elected",
    "A elect refused",
    "A sees it lost, resigns",
    "A writes state",
    "A rewrites state",
    "A creates new state",
    "A prunes the history",
    "A learns that its session is lost",
}
"""What A does in the model; each is met in some walk, or the comparison shows nothing."""
SEEN, LOST = acts.predecessor_of, acts.reason_lost
BROKEN = {
    "no grace": ("needs_grace", lambda predecessor, epoch, record, registration: False),
    "grace for the living only": (
        "needs_grace",
        lambda predecessor, epoch, record, registration: predecessor.is_real and registration is not None,
    ),
    "version not kept": (
        "predecessor_of",
        lambda controller, epoch: SEEN(controller, epoch)._replace(epoch_version=0),
    ),
    "deaf to the epoch": (
        "reason_lost",
        lambda won, epoch, controller: LOST(won, None, controller) if controller is None else None,
    ),
    "nothing is taken off": ("withdraw", lambda controller, epoch, greatest, others: ()),
    "every epoch ours": ("zkgroup_epochs_up_to", lambda epoch, recorded: list(range(epoch, 0, -1))),
    "the newest record, whatever its epoch": (
        "zkgroup_epochs_up_to",
        lambda epoch, recorded: sorted(recorded, reverse=True),
    ),
    "what the newest record says is not read": ("recorded_foreign_epoch", lambda epoch, record: None),
}
"""Rules of the machine, each taken out once."""


def _walk(configuration: Configuration, seed: int) -> list[str]:
    """One walk; returns what was done. A's steps are chosen more often than the others'."""
    chance = random.Random(seed)
    pair = Following(configuration)
    for _ in range(STEPS_MAX):
        steps = list(pair.model.succ(pair.s))
        steps = [step for step in steps if step[3] is None]
        if not steps:
            break
        mine = [step for step in steps if step[0].startswith("A ")]
        label, _, after, _ = chance.choice(mine if mine and chance.random() < 0.4 else steps)
        try:
            pair.go(label, after)
        except Pruned:
            pair.labels.pop()
            break
    return pair.labels


_held = functools.cache(_walk)
"""The walks of the machine with all its rules: two tests look at them."""


def _walks(configuration: Configuration, walk: Callable[[Configuration, int], object] = _walk) -> None:
    for seed in range(WALKS):
        walk(configuration, seed)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_machine_does_what_the_model_does(situation: str) -> None:
    """The same transactions, trees and beliefs, whatever others do in between (recipes 13)."""
    _walks(SITUATIONS[situation], _held)


def test_every_act_of_the_model_is_met() -> None:
    """Anti-vacuity: no act of A is only there on paper."""
    met = {
        label
        for number, configuration in enumerate(SITUATIONS.values())
        for seed in range(WALKS // 2)
        for label in _held(configuration, seed + number)
    }
    missing = {act for act in ACTS if not any(label.startswith(act) for label in met)}

    assert not missing


@pytest.mark.parametrize("won", BROKEN)
def test_a_machine_without_a_rule_differs_from_the_model(won: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison finds the absence of each rule."""
    name, instead = BROKEN[won]
    monkeypatch.setattr(acts, name, instead)
    with pytest.raises(AssertionError):
        _walks(SITUATIONS["beside a real one"])
