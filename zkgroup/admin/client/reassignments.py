"""Methods of `Admin` that move replicas: reassignments and plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zkgroup.admin import Compat, NotifyFormat
from zkgroup.admin.change import ChangeResult, nothing
from zkgroup.admin.client.base import AdminBase, Listing, Partitions, listing_of, moves_of, selection_of
from zkgroup.admin.reassign import (
    cancellation,
    execution,
    progress,
    proposals,
    sizes,
    stored_plans,
    submission,
)
from zkgroup.admin.reassign.cancellation import CancelPlan, Removal
from zkgroup.admin.reassign.proposals import PhasedPlan, PlanRequest
from zkgroup.admin.reassign.stored_plans import PlanDescription
from zkgroup.admin.reassign.submission import ReassignmentPlan
from zkgroup.admin.reassign.throttles import Throttled
from zkgroup.admin.undo import executions
from zkgroup.errors import NotFoundError
from zkgroup.model import TopicPartition


class ReassignmentMethods(AdminBase):
    """Reassignments and plans."""

    def propose_reassignment(
        self,
        topics: Sequence[str],
        brokers: Sequence[int],
        *,
        compat: Compat = "0.10",
        rack_aware: bool = True,
    ) -> ReassignmentPlan:
        """Whole topics distributed anew over these brokers, as Kafka's `--generate` does. Changes nothing.

        Args:
            brokers: ids of the brokers that get the replicas.
            compat: the release whose placement is used: "0.8" takes the brokers in the order given and knows
                no racks.
            rack_aware: whether replicas are spread over racks.
        """
        return proposals.propose(
            self._ensemble,
            topics,
            brokers,
            compat=compat,
            rack_mode="enforced" if rack_aware else "disabled",
        )

    def reassign(
        self,
        replicas: Mapping[TopicPartition, Sequence[int]],
        *,
        throttle: int | None = None,
        force: bool = False,
        notify_format: NotifyFormat | None = None,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[ReassignmentPlan, None, execution.ReassignmentOutcome]:
        """Asks the controller to move replicas; `ChangeResult.rollback_file` has the lists as they were.

        Args:
            replicas: brokers of each partition, the preferred leader first.
            throttle: bytes a second at each broker; a wait removes it when the moves have ended.
            force: also to brokers that are not registered now.
            notify_format: of the notifications of a throttle; by default by the registered brokers.
            wait_s: seconds to wait for the end of the moves.

        Raises:
            ConfigError: a reassignment runs already.
        """
        plan = submission.plan_reassignment(
            self._ensemble, moves_of(replicas), throttle=throttle, force=force, format=notify_format
        )
        return self._run(execution.reassign_change(self._ensemble, plan), dry_run, wait_s)

    def verify_reassignment(
        self, replicas: Mapping[TopicPartition, Sequence[int]], *, wait_s: float | None = None
    ) -> Listing[progress.ReassignmentStatus]:
        """Of each partition, whether it is on these brokers; waits until no move is under way.

        Args:
            replicas: brokers of each partition, as they were requested.
            wait_s: seconds to wait; by default it reads once.
        """
        moves = moves_of(replicas)
        if wait_s is None:
            return listing_of(*progress.verify_reassignments(self._ensemble, moves))
        return listing_of(*progress.wait_for_reassignments(self._ensemble, moves, wait_s, nothing))

    def list_reassignments(self, *, window_s: float | None = None) -> Listing[progress.ReassignmentStatus]:
        """Every reassignment under way, with the bytes left as far as brokers say their sizes.

        Args:
            window_s: reads twice, so many seconds apart, and says how long each move takes at its rate.
        """
        window_ms = None if window_s is None else round(window_s * 1000)
        return listing_of(*sizes.list_with_sizes(self._ensemble, window_ms))

    def cancel_reassignments(
        self,
        partitions: Partitions | None = None,
        *,
        former: Mapping[TopicPartition, Sequence[int]] | None = None,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[CancelPlan, None, execution.ReassignmentOutcome]:
        """Sends running reassignments back to their former replicas.

        Args:
            partitions: topics and partitions; None means all.
            former: the lists as they were; by default the newest rollback file that fits gives them.
            wait_s: seconds to wait until the moves have ended.

        Raises:
            RefusedError: no controller of zkgroup is active.
            NotFoundError: nothing is moved.
        """
        plan = cancellation.plan_cancel(
            self._ensemble,
            progress.moving_partitions(self._ensemble, selection_of(partitions or ())),
            moves_of(former or {}),
            executions(self._recorder.folder, self.address),
        )
        return self._run(cancellation.cancel_reassignments_change(self._ensemble, plan), dry_run, wait_s)

    def remove_unreadable_reassignment(self, *, dry_run: bool = False) -> ChangeResult[Removal, None, None]:
        """Removes a reassignment request that cannot be read.

        Raises:
            NotFoundError: there is no such request.
        """
        change = cancellation.remove_unreadable_request_change(self._ensemble)
        if change is None:
            raise NotFoundError("there is no reassignment request that cannot be read")
        return self._run(change, dry_run)

    def clear_throttles(self, *topics: str, dry_run: bool = False) -> ChangeResult[Throttled, int, None]:
        """Removes the throttles of these topics, or all.

        Args:
            topics: the topics; none means all.

        Raises:
            RefusedError: replicas are being moved.
        """
        change = execution.clear_throttles_change(self._ensemble, topics or None)
        return self._run(change, dry_run)

    def plan_decommission(self, brokers: Collection[int], request: PlanRequest | None = None) -> PhasedPlan:
        """A plan that empties brokers, registered or gone. Changes nothing.

        Args:
            brokers: ids of the brokers to empty.
            request: limits of the plan, and what may get worse.

        Raises:
            PlanRefusedError: something would get worse that `request.allow` lacks.
        """
        return self._plan(proposals.planner_decommission(brokers), request)

    def plan_replace(self, pairs: Mapping[int, int], request: PlanRequest | None = None) -> PhasedPlan:
        """A plan that puts brokers in the place of others. Changes nothing.

        Args:
            pairs: old broker id to new broker id.
            request: limits of the plan, and what may get worse.

        Raises:
            PlanRefusedError: something would get worse that `request.allow` lacks.
        """
        return self._plan(proposals.planner_replace(pairs), request)

    def plan_replication_factor(self, factor: int, request: PlanRequest | None = None) -> PhasedPlan:
        """A plan that gives partitions another number of replicas. Changes nothing.

        Args:
            factor: replicas of each partition.
            request: limits of the plan, and what may get worse; its `topics` are the only ones changed.

        Raises:
            PlanRefusedError: something would get worse that `request.allow` lacks.
        """
        wanted = request or PlanRequest()
        return proposals.make_plan(
            self._ensemble, proposals.planner_set_rf(factor, wanted.topics or None), wanted
        )

    def plan_balance(
        self,
        *,
        leaders_only: bool = False,
        tolerance: float | None = None,
        request: PlanRequest | None = None,
    ) -> PhasedPlan:
        """A plan that evens out replicas and preferred leaders with the fewest copies. Changes nothing.

        Args:
            leaders_only: only change which replica is preferred; copy nothing.
            tolerance: for a request with sizes: the fraction of the mean load that is left alone.
            request: limits of the plan, and what may get worse.

        Raises:
            PlanRefusedError: something would get worse that `request.allow` lacks.
        """
        planner = proposals.planner_balance(leaders_only=leaders_only, tolerance=tolerance)
        return self._plan(planner, request)

    def _plan(self, planner: proposals.Planner, request: PlanRequest | None) -> PhasedPlan:
        wanted = request or PlanRequest()
        return proposals.make_plan(self._ensemble, proposals.for_topics(planner, wanted.topics), wanted)

    def save_plan(
        self, plan: PhasedPlan, *, throttle: int | None = None, dry_run: bool = False
    ) -> ChangeResult[PhasedPlan, PlanDescription, None]:
        """Stores a plan in ZooKeeper without starting it; `resume_plan(result.written.plan)` starts it.

        Args:
            plan: what one of the `plan_` methods returned.
            throttle: bytes a second at each broker.
        """
        change = stored_plans.save_plan_change(
            self._ensemble, plan, user=self._recorder.user, throttle=throttle
        )
        return self._run(change, dry_run)

    def start_plan(
        self,
        plan: PhasedPlan,
        *,
        throttle: int | None = None,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[PhasedPlan, PlanDescription, PlanDescription]:
        """Stores a plan in ZooKeeper and starts it: its phases are submitted one after the other.

        A controller of zkgroup does that; beside one of Kafka only `wait_s` and `resume_plan` do.

        Args:
            plan: what one of the `plan_` methods returned.
            throttle: bytes a second at each broker.
            wait_s: seconds to wait for the end of the plan.
        """
        change = stored_plans.start_plan_change(
            self._ensemble, plan, user=self._recorder.user, throttle=throttle
        )
        return self._run(change, dry_run, wait_s)

    def list_plans(self) -> Listing[PlanDescription]:
        """The stored plans, the oldest first."""
        rows, unreadable = stored_plans.list_plans(self._ensemble)
        return Listing(as_of=self._ensemble.as_of(), rows=rows, unreadable=tuple(map(str, unreadable)))

    def resume_plan(
        self, plan_id: str, *, dry_run: bool = False, wait_s: float | None = None
    ) -> ChangeResult[PlanDescription, PlanDescription, PlanDescription]:
        """Starts or continues a stored plan.

        Args:
            plan_id: the id that `list_plans` returns.
            wait_s: seconds to wait for the end of the plan.

        Raises:
            NotFoundError: there is no such plan.
            RefusedError: the plan is cancelled.
        """
        return self._run(stored_plans.resume_plan_change(self._ensemble, plan_id), dry_run, wait_s)

    def pause_plan(
        self, plan_id: str, *, dry_run: bool = False
    ) -> ChangeResult[PlanDescription, PlanDescription, None]:
        """Submits no further phase until the plan is resumed; moves that are under way continue.

        Args:
            plan_id: the id that `list_plans` returns.
        """
        return self._run(stored_plans.pause_plan_change(self._ensemble, plan_id), dry_run)

    def cancel_plan(
        self, plan_id: str, *, dry_run: bool = False
    ) -> ChangeResult[PlanDescription, PlanDescription, None]:
        """Ends a plan for good; moves that are under way continue. It cannot be undone.

        Args:
            plan_id: the id that `list_plans` returns.
        """
        return self._run(stored_plans.cancel_plan_change(self._ensemble, plan_id), dry_run)
