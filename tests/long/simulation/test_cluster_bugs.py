"""The simulation finds planted bugs of controllers and brokers, each by the invariant that it violates."""

from __future__ import annotations

import re

import pytest

from tests.long.simulation.cluster_bugs import BUGS, RARE_BUGS
from tests.pure.simulation import test_cluster_scenarios, test_takeover_scenarios
from tests.simulation.cluster import ClusterSimulation, ClusterSimulationError

SEEDS = range(80)
SCENARIOS = {
    name: play
    for module in (test_takeover_scenarios, test_cluster_scenarios)
    for name, play in vars(module).items()
    if name.startswith("test_")
}
RULE = re.compile(r"\b(S1[1-8]|L[67]|records|pace)\b")


def broken_by(seed: int) -> set[str]:
    """The invariants that a schedule violates."""
    try:
        ClusterSimulation(seed).run()
    except ClusterSimulationError as error:
        return set(RULE.findall(str(error).splitlines()[0]))
    return set()


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug is found within few schedules, by its own invariant."""
    bug = BUGS[name]
    bug.plant(monkeypatch)
    broken: set[str] = set()
    for seed in (bug.seed, *SEEDS):
        broken |= broken_by(seed)
        if broken.intersection(bug.noticed_by):
            return
    raise AssertionError(f"{name} should break {bug.noticed_by}, broken were {sorted(broken)}")


@pytest.mark.parametrize(
    ("name", "scenario"), [(name, each) for name, bug in RARE_BUGS.items() for each in bug.scenarios]
)
def test_a_mistake_that_seldom_matters_is_noticed_by_its_scenario(
    name: str, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenarios from the exhaustive model find it; they hold without the bug."""
    bug = RARE_BUGS[name]
    bug.plant(monkeypatch)

    with pytest.raises(AssertionError, match=bug.scenarios[scenario]):
        SCENARIOS[scenario]()


def test_each_scenario_of_the_exhaustive_model_has_its_mistake() -> None:
    """Every rule that exhaustive search found necessary has a planted bug."""
    found = {name for name, play in SCENARIOS.items() if "[M]" in (play.__doc__ or "")}
    noticing = {each: bug.rule for bug in RARE_BUGS.values() for each in bug.scenarios if "[M]" in bug.rule}

    assert found == set(noticing)
