"""The production machine does what the model does: the same transactions, the same conclusions.

For each recipe every small history is played: an act of others, two in `tests/long/model` (three with
`ZKGROUP_MODEL=all`), between the member's requests, its first write answered, or lost and applied, or lost
and not applied. The machine's procedures run on a memory server, the model's member on the model's tree;
each request, each tree and what the member believes at the end must be equal.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pytest

from tests.programs.model import recipes
from tests.programs.model.environment import reset_ops
from tests.programs.model.following import ME, WIPE, Act, Loss, P, Pair, Pruned, registered
from tests.programs.model.member import member_steps
from tests.programs.model.model_and_server import tp
from tests.programs.model.values import Op, Pc, check, create, delete, set_data
from zkgroup.consumer.machine.events import CommitRequested
from zkgroup.consumer.machine.machine_context import Position
from zkgroup.model.requests import Check

OTHER = 1
INTENDED = 1
"""What the member is about to commit."""


def _claim_by(m: int) -> list[Op]:
    return [
        create("owner", P, m, ephemeral=True),
        set_data("owner", P, m, 0),
        set_data("offset", P, 0, -1),
    ]


STEAL = [delete("owner", P, -1)]
ACTS: Mapping[str, tuple[Sequence[Op], int | None]] = {
    "a foreign writer deletes the owner": (STEAL, None),
    "another member claims": (_claim_by(OTHER), 1),
    "a JVM member claims": ([create("owner", P, OTHER, ephemeral=True)], 1),
    "this member claims once more": (_claim_by(ME), 0),
    "a member of the same client claims": (_claim_by(OTHER), 0),
    "another process with my name claims": (_claim_by(ME), 1),
    "a foreign writer writes": ([set_data("offset", P, 7, -1)], None),
    "a foreign writer writes a low offset": ([set_data("offset", P, -1, -1)], None),
    "a foreign writer writes what I intend": ([set_data("offset", P, INTENDED, -1)], None),
    WIPE: ([delete("offset", P, -1)], None),
    "a foreign writer creates the offset": ([create("offset", P, 0)], None),
    "an operator resets": (reset_ops(P, -1, is_marked=False), None),
    "an operator resets again": (reset_ops(P, -1, is_marked=True), None),
    "a foreign writer deletes my registration": ([delete("ids", ME, -1)], None),
}
"""Transactions of others, each with the client in whose session it runs. Where one is refused, the
situation is that of a shorter history."""


def histories(moments: int, length: int) -> Iterator[tuple[Act, ...]]:
    """Up to `length` acts before the first `moments` requests, in every order."""
    for count in range(length + 1):
        for when in itertools.combinations_with_replacement(range(moments), count):
            for names in itertools.product(ACTS, repeat=count):
                yield tuple(Act(before, name, *ACTS[name]) for before, name in zip(when, names, strict=True))


LOSSES: tuple[Loss, ...] = ("none", "applied", "not applied")
POLICIES = ("adopt", "reassert")


def owning(policy: str = "adopt", **cfg: object) -> Pair:
    """The first member has claimed partition 0 and committed 0 to it."""
    pair = registered(policy, **cfg)
    worlds = pair.worlds
    cfg, tree = worlds.cfg, worlds.s.tree
    assert worlds.act(recipes.claim_ops(cfg, ME, [P], cfg.blank, None), cfg.client[ME])
    held = recipes.claimed(cfg, worlds.s.tree, tree.nodes[cfg.at("offset", P)], P)
    zxid = worlds.s.zxid
    assert worlds.act(recipes.commit_ops(cfg, ME, [(P, 0)], [held]), cfg.client[ME])
    (held,) = recipes.committed(cfg, worlds.s.tree, zxid, [(P, 0)], [held])
    pair.hold(held)
    return pair


def play(
    make: Callable[[], Pair],
    moments: int,
    loss: Loss,
    recipe: Callable[[Pair], None],
    acts_max: int,
) -> int:
    """Every history, each on worlds of its own. Returns how many there were that differ."""
    played, futile = 0, set()
    for acts in histories(moments, acts_max):
        names = tuple((act.before, act.name) for act in acts)
        if any(names[:length] in futile for length in range(1, len(names))):
            continue
        pair = make()
        pair.acts, pair.loss = acts, loss
        try:
            recipe(pair)
        except Pruned:
            futile.add(names[: pair.acted + 1])
            continue
        except Exception as error:
            error.add_note(f"{loss}: " + ", ".join(f"{before}: {name}" for before, name in names))
            raise
        if pair.acted < len(acts):  # the recipe was over before
            futile.add(names[: pair.acted + 1])
        else:
            pair.worlds.assert_same_trees()
            played += 1
    return played


def commit(pair: Pair) -> None:
    pair.wish = "commits"
    pair.components.commits.request(CommitRequested(1, {tp(P): INTENDED}))
    pair.follow(pair.components.commits.commit(), pair.components.commits.commit())
    if pair.me.pc != Pc.COMMIT_AGAIN:
        assert pair.me.pc in (Pc.IDLE, Pc.UNREGISTERED)
        pair.assert_same_beliefs()
        return
    # The model would write once more. The machine has tried twice, or finds its value standing there.
    stands = pair.loss != "none" and pair.offset_read is not None and pair.offset_read.data == INTENDED
    assert stands or len(pair.sent) == 2
    pair.assert_same_beliefs(unsure_value=INTENDED)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("policy", POLICIES)
def test_review(policy: str) -> None:
    """An idle owner applies a marker by the same two reads, in the same order (recipes 6)."""

    def look(pair: Pair) -> None:
        pair.believe(pc=Pc.COMMIT_READS_OFFSETS, todo=((P, None),))
        pair.components.commits.review.add(tp(P))
        pair.follow(pair.components.commits.read_reviewed())
        assert pair.me.pc == Pc.IDLE
        assert pair.sent == []
        pair.assert_same_beliefs()

    assert play(lambda: owning(policy), 2, "none", look, acts_max=2) > 100


@pytest.mark.timeout(1800)
def test_verification() -> None:
    """Mine by session, text and token; anything else is lost (recipes 1, 5)."""

    def verify(pair: Pair) -> None:
        for _ in pair.acts:
            pair.let_act()
        path = pair.worlds.paths["owner", P]
        pair.components.verification.check_owners({path: pair.worlds.server.find(path)})
        labels = {label: after for label, _, after, _ in member_steps(pair.worlds.s, pair.worlds.cfg, ME)}
        gone = [after for label, after in labels.items() if label.startswith("verifies")]
        if gone:
            pair.worlds.moved(gone[0])
        pair.assert_same_beliefs()

    assert play(owning, 1, "none", verify, acts_max=2) > 50


def release(pair: Pair) -> None:
    pair.wish = "releases"
    pair.components.context.owned.releasing[tp(P)] = Position(pair.me.held[P].value)
    pair.follow(pair.components.releases.release(), pair.components.releases.release())
    assert pair.me.pc in (Pc.IDLE, Pc.UNREGISTERED)
    pair.assert_same_beliefs()
    assert pair.me.held[P] is None
    if pair.components.context.owned.orphaned:  # somebody in my name and session
        pair.believe(pc=Pc.RELEASE_READS_FIRST, todo=(P,))
        pair.follow(pair.components.releases.release())
        owner = pair.worlds.s.tree.nodes[pair.worlds.cfg.at("owner", P)]
        is_mine = recipes.is_mine(pair.worlds.cfg, ME, pair.me, owner)
        assert not is_mine or pair.me.pc == Pc.UNREGISTERED


def hand_over(pair: Pair) -> None:
    """To the thread that has it, as after a freeze."""
    pair.wish = "hands over"
    pair.believe(target=(True,))
    owned, releases = pair.components.context.owned, pair.components.releases
    owned.assign({tp(P): 0})
    owned.releasing[tp(P)] = Position(pair.me.held[P].value)
    pair.follow(releases.release(), releases.release())
    pair.assert_same_beliefs()
    assert (pair.me.pc == Pc.RELEASE_READS_FIRST) == (tp(P) in owned.orphaned)


def leaking() -> Pair:
    """A claim of this member that it does not know."""
    pair = registered()
    cfg = pair.worlds.cfg
    assert pair.worlds.act(recipes.claim_ops(cfg, ME, [P], cfg.blank, None), cfg.client[ME])
    return pair


def release_leaked(pair: Pair) -> None:
    pair.believe(pc=Pc.RELEASE_READS_FIRST, todo=(P,))
    pair.components.context.owned.orphaned.add(tp(P))
    pair.follow(pair.components.releases.release(), pair.components.releases.release())
    assert pair.me.pc in (Pc.IDLE, Pc.UNREGISTERED)
    assert tp(P) not in pair.components.context.owned.orphaned


def wanting(*, offset: bool, sticky: bool = False, **cfg: object) -> Pair:
    """The plan gives partition 0 to the first member."""
    pair = registered(sticky=sticky, **cfg)
    worlds, components = pair.worlds, pair.components
    if offset:
        assert worlds.act([create("offset", P, 0)])
    pair.believe(target=(True,))
    components.context.owned.assign({tp(P): 0})
    components.claims._known_parents.update(components.paths.topic_parents(["t"]))
    if sticky:
        assert worlds.act(recipes.plan_ops(worlds.cfg, ME, None, pair.me.gen, (ME,)), worlds.cfg.client[ME])
        pair.believe(plan=0)
        components.assignments.plan_check = Check(components.paths.plan, 0)
    return pair


def claim(pair: Pair) -> None:
    pair.wish = "reads offsets of"
    pair.follow(pair.components.claims.claim(), pair.components.claims.resolve_unknown_outcomes())
    owned = pair.components.context.owned
    # A claim of mine that has no fence: the model is on its way to release it.
    assert (pair.me.pc == Pc.RELEASE_READS_FIRST) == (tp(P) in owned.orphaned)
    assert pair.me.pc in (Pc.IDLE, Pc.UNREGISTERED, Pc.RELEASE_READS_FIRST)
    pair.assert_same_beliefs()
    assert [tp(p) for p in pair.me.blocked] == list(owned.blocked)
    assert not pair.components.claims.unknown_outcomes


class Played(NamedTuple):
    """A recipe, from where it begins, with the requests that it may take."""

    make: Callable[[], Pair]
    moments: int
    recipe: Callable[[Pair], None]


PLAYED = {
    **{f"commit, {policy}": Played(partial(owning, policy), 3, commit) for policy in POLICIES},
    "release": Played(owning, 4, release),
    "handover": Played(owning, 4, hand_over),
    "release of a leaked claim": Played(leaking, 4, release_leaked),
    "claim": Played(partial(wanting, offset=True), 4, claim),
    "first claim": Played(partial(wanting, offset=False), 4, claim),
}


@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.parametrize("loss", LOSSES)
def test_machine_does_what_the_model_does(loss: Loss, name: str) -> None:
    """recipes 5, 6, 7. Commits: offsets first, then owners and markers; resets by mzxid before any other
    reading. Releases: commit and delete at once; else offset, then owner, and a delete under what was read.
    Handovers: a release and a claim at once; else the same reads, and again with the offset as read.
    Claims: create, set, bump; without a reply the offset is read first, then the owner: mine is adopted with
    that offset, anybody's is waited for, nobody's is wanted; one that nobody holds goes without a commit."""
    make, moments, recipe = PLAYED[name]

    assert play(make, moments, loss, recipe, acts_max=1) > 5


FREEZE = [create("frozen", P, "frozen"), set_data("root", P, None, -1)]


def move(pair: Pair) -> None:
    """A release for a rebalance; it is not sent again before a pass has read what refuses it."""
    pair.wish = "releases"
    owned = pair.components.context.owned
    owned.releasing[tp(P)] = Position(pair.me.held[P].value)
    pair.follow(pair.components.releases.release(), pair.components.releases.release())
    pair.assert_same_beliefs()
    assert not pair.components.releases.is_ready
    assert (tp(P) in owned.releasing) == (pair.me.held[P] is not None)


@pytest.mark.parametrize("is_leave", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_freeze_refuses_what_is_under_way(loss: Loss, is_leave: bool) -> None:
    """Recipes 26: a claim and a release for a rebalance check the freeze, a release of a leave does not."""
    for make, recipe in ((owning, move), (partial(wanting, offset=True), claim)):
        for before in range(4):
            pair = make()
            pair.acts, pair.loss = (Act(before, "an operator freezes the group", FREEZE, None),), loss
            pair.believe(leaving=is_leave)
            pair.components.context.is_leaving = is_leave
            with contextlib.suppress(Pruned):
                recipe(pair)
                pair.worlds.assert_same_trees()
                assert not pair.acted or not is_leave or recipe is claim or pair.me.held[P] is None


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", [0, 1])
def test_sticky_claim_depends_on_its_plan(version: int) -> None:
    """Recipes 4: every sticky claim checks the version of the plan; refused there, the plan is read again."""
    pair = wanting(offset=True, sticky=True)
    pair.wish = "reads offsets of"
    for _ in range(version):
        assert pair.worlds.act([set_data("plan", 0, (pair.me.gen, (ME,)), -1)])
    pair.follow(pair.components.claims.claim())

    assert check("plan", 0, 0) in pair.sent[0]
    assert pair.components.assignments.is_outdated == (pair.me.pc == Pc.PLAN) == (version == 1)
    pair.assert_same_beliefs()
