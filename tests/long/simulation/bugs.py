"""Planted bugs: each removes one rule from the production machine.

`rule` is the model's name for it where the exhaustive model has the same variant (`without=[...]`).
A bug that no schedule catches would mean that no check covers its rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.long.simulation import broken_beliefs, broken_delivery, broken_writes
from tests.pure.simulation import scenarios
from tests.pure.simulation.scenarios import Scenario
from tests.pure.simulation.setups import EXPIRE, OFTEN, SETUPS, group
from tests.simulation.group.setup import GroupSetup


@dataclass(frozen=True)
class Bug:
    """A removed rule, the schedules or scenario that show the consequence, and the expected failure."""

    name: str
    put_in: Callable[[pytest.MonkeyPatch], None]
    where: GroupSetup | Scenario
    """Schedules of a group; or one interleaving, where random schedules rarely contain it."""
    caught_by: str
    """A regular expression on the failure."""
    rule: str | None = None
    seed: int = 0
    """A seed whose schedule found the bug when this was written; it runs first."""


BUGS: tuple[Bug, ...] = (
    Bug(
        "commit without owner check",
        broken_writes.commit_without_owner_check,
        SETUPS["foreign-writes"],
        "S2",
        "owner check",
    ),
    Bug(
        "commit without fence",
        broken_writes.commit_without_fence,
        SETUPS["reset-then-stranger"],
        "ignored|S4|S2",
    ),
    Bug(
        "moves without the check of a freeze",
        broken_writes.moves_without_the_check_of_a_freeze,
        SETUPS["freeze"],
        "frozen group",
        "freeze claim",
    ),
    Bug(
        "freeze that nobody ends",
        broken_writes.freeze_that_nobody_ends,
        SETUPS["freeze"],
        "the group is frozen",
        "freeze wake",
    ),
    Bug("commit goes back", broken_writes.commit_goes_back, SETUPS["join"], "S4"),
    Bug(
        "no registration check",
        broken_writes.writes_without_registration_check,
        SETUPS["unregister"],
        "S1|S2",
        "ids check",
    ),
    Bug(
        "unknown outcome taken for applied",
        broken_writes.unknown_outcome_taken_for_applied,
        SETUPS["join"],
        "S6",
        seed=12,
    ),
    Bug(
        "position from before a reset",
        broken_writes.position_from_before_a_reset,
        SETUPS["reset"],
        "committed at",
        seed=8,
    ),
    Bug("claim without bump", broken_writes.claim_without_bump, SETUPS["foreign-writes"], "S3", "bump"),
    Bug(
        "claim without creating the offset",
        broken_writes.claim_without_creating_the_offset,
        SETUPS["takeover"],
        "S3|refused after convergence|at one time of the clock",
        "create offset",
    ),
    Bug(
        "session is enough",
        broken_writes.session_is_enough,
        scenarios.neighbour_in_the_way_is_waited_for,
        "S2|release by",
        "text",
    ),
    Bug(
        "blocked partition forgotten",
        broken_writes.blocked_partition_is_forgotten,
        SETUPS["join"],
        "not converged",
        seed=46,
    ),
    Bug(
        "orphaned claims forgotten",
        broken_writes.orphaned_claims_are_forgotten,
        group(weights={"unregister": 2 * OFTEN, "delete_topic": OFTEN, "grow": OFTEN}),
        "not converged|S22|at one time of the clock",
    ),
    Bug(
        "claims of an earlier registration adopted",
        broken_writes.claims_of_an_earlier_registration_are_adopted,
        SETUPS["unregister"],
        "was assigned before",
    ),
    Bug(
        "owner read before offset",
        broken_writes.owner_read_before_offset,
        scenarios.adopted_claim_takes_the_fence_of_its_own_read,
        "S2",
        "adopt offset first",
    ),
    Bug(
        "owner read with its offset",
        broken_writes.owner_read_with_its_offset,
        scenarios.adopted_claim_is_safe_wherever_a_successor_comes,
        "S2",
        "adopt offset first",
    ),
    Bug(
        "absence ended in silence",
        broken_writes.absence_is_ended_in_silence,
        SETUPS["static"],
        "not converged",
        "touch ids",
    ),
    Bug(
        "release by path",
        broken_writes.release_by_path,
        scenarios.release_of_what_was_taken_deletes_nothing,
        "release by",
        "release check",
    ),
    Bug(
        "fallback without offset check",
        broken_writes.fallback_without_offset_check,
        scenarios.release_without_commit_deletes_its_own_znode_only,
        "release by",
        "offset first",
    ),
    Bug(
        "marker by equality",
        broken_writes.marker_by_equality,
        SETUPS["reset-then-stranger-reassert"],
        "ignored",
        "marker by equality",
        seed=37,
    ),
    Bug("reset ignored", broken_writes.reset_is_ignored, SETUPS["reset"], "ignored"),
    Bug(
        "reset applied without the owner",
        broken_writes.reset_applied_without_the_owner,
        SETUPS["reset"],
        "S2|S8|S9",
        "obey owner",
    ),
    Bug(
        "names are enough",
        broken_beliefs.names_are_enough,
        SETUPS["resubscribe"],
        "not converged|S10|did not stay",
        "cversion",
    ),
    Bug(
        "sticky from what is owned",
        broken_beliefs.sticky_from_what_is_owned,
        group(3, 4, weights={**EXPIRE, "steal": OFTEN}, strategy="sticky"),
        "not converged|S10|did not stay",
        "plan znode",
    ),
    Bug("change not read", broken_beliefs.change_is_not_read, SETUPS["join"], "not converged"),
    Bug(
        "refusal tried again",
        broken_beliefs.refusal_is_tried_again,
        SETUPS["unregister"],
        "not converged|again and again|at one time of the clock",
        "lost on refusal",
    ),
    Bug(
        "lease too long",
        broken_beliefs.lease_is_too_long,
        group(weights={"isolate": 2 * OFTEN}, steps=1500),
        "S8|lease until",
    ),
    Bug("delivery without a lease", broken_beliefs.delivery_without_a_lease, SETUPS["pauses"], "S7"),
    Bug(
        "ownership survives the session",
        broken_beliefs.ownership_survives_the_session,
        SETUPS["abandon"],
        "S1|S2|S7|S8|registers again",
        "deaf",
    ),
    Bug(
        "registration of another session adopted",
        broken_beliefs.registration_of_another_session_is_adopted,
        SETUPS["abandon"],
        "S1|S2|not converged",
        "session read",
    ),
    Bug(
        "session as the client says",
        broken_beliefs.session_is_what_the_client_says,
        scenarios.client_that_changed_its_session_silently_is_not_believed,
        "not told of",
        "session read",
    ),
    Bug(
        "callbacks not awaited",
        broken_beliefs.callbacks_are_not_awaited,
        SETUPS["join"],
        "S7|not converged: .* delivers",
    ),
    Bug(
        "commits one by one",
        broken_delivery.commits_one_by_one,
        SETUPS["bursts"],
        "again and again",
    ),
    Bug(
        "commit behind is refused",
        broken_delivery.commit_behind_is_refused,
        SETUPS["own-offsets"],
        "is refused",
    ),
    Bug(
        "release goes back",
        broken_delivery.release_goes_back,
        SETUPS["own-offsets"],
        "S4",
    ),
    Bug(
        "seek lost at the release",
        broken_delivery.seek_is_lost_at_the_release,
        SETUPS["seeks"],
        "had a seek",
    ),
    Bug(
        "recorded under the lock",
        broken_delivery.recorded_under_the_lock,
        SETUPS["join"],
        "under the lock",
    ),
    Bug("wake forgotten", broken_delivery.wake_is_forgotten, SETUPS["join"], "is delivered by"),
    Bug(
        "end of the claim is the end of all",
        broken_delivery.end_of_the_claim_is_the_end_of_all,
        SETUPS["threads-handed-back"],
        "does not end",
    ),
    Bug(
        "lease from the answer",
        broken_delivery.lease_from_the_answer,
        SETUPS["late-answers"],
        "lease until",
        seed=8,
    ),
    Bug(
        "claim without its topic",
        broken_delivery.claim_without_its_topic,
        SETUPS["growing"],
        "by an assignment for",
    ),
    Bug(
        "seek undone by an older commit",
        broken_delivery.seek_is_undone_by_an_older_commit,
        SETUPS["seeks"],
        "processed up to",
        seed=10,
    ),
    Bug(
        "any on_assigned starts",
        broken_delivery.any_on_assigned_starts,
        SETUPS["slow-callbacks"],
        "before the on_assigned",
        seed=34,
    ),
    Bug(
        "all wait for one start",
        broken_delivery.all_wait_for_one_start,
        SETUPS["dead-partition"],
        "is delivered by",
    ),
    Bug(
        "poll not seen",
        broken_delivery.poll_is_not_seen,
        SETUPS["polls"],
        "not converged",
        seed=1,
    ),
)
