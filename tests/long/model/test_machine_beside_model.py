"""The production machine beside the model in longer histories, and beside models that lack a rule."""

from __future__ import annotations

import itertools
import os
from functools import partial

import pytest

from tests.programs.model.following import Loss
from tests.pure.model.test_machine_equals_model import (
    LOSSES,
    PLAYED,
    claim,
    commit,
    owning,
    play,
    release,
    wanting,
)

PLAYS_ALL = os.environ.get("ZKGROUP_MODEL") == "all"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.parametrize("loss", LOSSES if PLAYS_ALL else LOSSES[:2])
def test_machine_does_what_the_model_does(loss: Loss, name: str) -> None:
    """With two writes of other clients between the member's requests (recipes 5, 6, 7).

    A first write that is lost and not applied is made again, after one other write in `tests/pure/model`.
    """
    make, moments, recipe = PLAYED[name]

    assert play(make, moments, loss, recipe, acts_max=3 if PLAYS_ALL else 2) > 50


@pytest.mark.parametrize(
    "rule",
    ["bump", "create offset", "ids check", "life check", "marker by equality", "obey owner", "offset first",
     "owner check", "release check", "text", "adopt offset first"],
)  # fmt: skip
def test_model_without_a_rule_differs_from_the_machine(rule: str) -> None:
    """The comparison can fail: beside a model that lacks a rule, the machine differs."""
    without = frozenset({rule})
    with pytest.raises((AssertionError, ValueError)) as found:  # noqa: PT012
        for acts_max, loss in itertools.product((1, 2), LOSSES):  # most differ in the short histories already
            play(partial(owning, without=without), 3, loss, commit, acts_max=acts_max)
            play(partial(owning, without=without), 4, loss, release, acts_max=acts_max)
            play(partial(wanting, offset=False, without=without), 4, loss, claim, acts_max=acts_max)
    assert found.value.__notes__  # in a history, not while the stage was set
