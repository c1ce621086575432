"""Methods of `Admin` for groups and committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from zkgroup.admin import files, freezes, group_copies
from zkgroup.admin import groups as group_changes
from zkgroup.admin.change import ChangeResult, apply_changes
from zkgroup.admin.client.base import AdminBase, Listing, Partitions, selection_of, target_of
from zkgroup.admin.coordinated_groups import ReleasePlan, plan_release, release_group_change
from zkgroup.admin.coordinator import CoordinatorDescription, describe_coordinator, live_reader
from zkgroup.admin.freezes import FreezePlan, UnfreezePlan
from zkgroup.admin.group_access import (
    GroupAccessPlan,
    GroupRights,
    group_access_change,
    plan_group_access,
)
from zkgroup.admin.group_copies import RenamePlan
from zkgroup.admin.group_pruning import plan_pruning
from zkgroup.admin.groups import DeletionPlan, NudgePlan
from zkgroup.admin.offsets import changes as offset_changes
from zkgroup.admin.offsets.planning import LogPositions, OffsetPlan, Target
from zkgroup.admin.offsets.positions import positions_for
from zkgroup.admin.offsets.standing import OffsetStanding
from zkgroup.admin.offsets.writes import Applied
from zkgroup.groups import reads
from zkgroup.groups.check import CheckLimits, GroupCheck, check_groups
from zkgroup.groups.descriptions import (
    GroupDescription,
    GroupSummary,
    OffsetDescription,
    Preview,
    Verification,
)
from zkgroup.groups.history import RebalanceDescription, read_history
from zkgroup.groups.offset_writers import read_writers
from zkgroup.groups.preview import GroupChange
from zkgroup.groups.reader import read_offsets
from zkgroup.model import TopicPartition


class GroupMethods(AdminBase):
    """Groups and offsets."""

    def list_groups(self, log_ends: reads.LogEndReader | None = None) -> Listing[GroupSummary]:
        """Every group with its state. Waits 2 s, once for all, where one is wrong but may be rebalancing.

        Groups that an ACL hides are in `unreadable`. Brokers that coordinate groups are asked for their
        states; one that does not answer within 2 s leaves `protocol_state` None.

        Args:
            log_ends: is asked for the next offset of each partition, to compute the lag.
        """
        as_of, rows, denied = reads.list_groups(self._ensemble, log_ends, live_reader(self._ensemble))
        return Listing(as_of=as_of, rows=rows, unreadable=tuple(map(str, denied.values())))

    def describe_group(self, group: str, log_ends: reads.LogEndReader | None = None) -> GroupDescription:
        """Members, partitions, owners and offsets of a group; its coordinator is asked, if it has one.

        Args:
            log_ends: is asked for the next offset of each partition, to compute the lag.

        Raises:
            NotFoundError: the group does not exist.
        """
        return reads.describe(self._ensemble, group, log_ends, live_reader(self._ensemble))

    def check_groups(
        self,
        groups: Iterable[str] | None = None,
        log_ends: reads.LogEndReader | None = None,
        *,
        max_lag: int | None = None,
        max_age_s: float | None = None,
        window_s: float | None = None,
    ) -> Listing[GroupCheck]:
        """Checks groups for a monitor: problems, partitions without owner, lag, and age of commits.

        A group that does not exist, or that an ACL hides, is not ok for this reason.

        Args:
            groups: their names; all by default.
            log_ends: is asked for the next offset of each partition; without it every lag is unknown.
            max_lag: the largest lag of a partition, in offsets; one that is unknown is above it.
            max_age_s: the longest time since the last commit of a partition with lag, in seconds.
            window_s: for verdicts on lag, reads ten times in so many seconds.
        """
        limits = CheckLimits(max_lag=max_lag, max_age_ms=_ms(max_age_s), window_ms=_ms(window_s))
        live = live_reader(self._ensemble)
        as_of, rows = check_groups(self._ensemble, groups, limits, log_ends, live)
        return Listing(as_of=as_of, rows=rows)

    def group_history(self, group: str) -> Listing[RebalanceDescription]:
        """The newest rebalances of a group, at most 200; the newest is the last.

        Raises:
            NotFoundError: the group does not exist.
        """
        as_of, rows = read_history(self._ensemble, group)
        return Listing(as_of=as_of, rows=rows)

    def verify_group(self, group: str, *, wait_s: float | None = None) -> Verification:
        """Returns whether every partition is owned by the thread that the strategy names; waits until it is.

        Args:
            wait_s: seconds to wait; by default it reads once.
        """
        return reads.verify(self._ensemble, group, wait_s=wait_s, live=live_reader(self._ensemble))

    def describe_coordinator(self, group: str | None = None) -> CoordinatorDescription:
        """Slots with their leaders, and groups of Kafka's protocol with phase, members and timers.

        Brokers that lead slots are asked; what they do not answer within 2 s is in `unanswered`.

        Args:
            group: only this group and its slot.

        Raises:
            NotFoundError: no coordinator has ever started, or it does not know the group.
        """
        return describe_coordinator(self._ensemble, group)

    def release_group(self, group: str, *, dry_run: bool = False) -> ChangeResult[ReleasePlan, None, None]:
        """Takes the marker of Kafka's group protocol off a group, so that ZooKeeper consumers can join it.

        Only where no live broker leads the slot of the group. It cannot be undone.

        Raises:
            NotFoundError: there is no marker.
            RefusedError: a live broker leads the slot.
        """
        plan = plan_release(self._ensemble, group)
        return self._run(release_group_change(self._ensemble, plan), dry_run)

    def preview_group(self, group: str, change: GroupChange) -> Preview:
        """Says who would own what after members come and go, partitions are added or the strategy changes.

        Args:
            change: the members that come and go, the new partitions and the other strategy.
        """
        return reads.preview(self._ensemble, group, change)

    def freeze_group(
        self,
        group: str,
        *,
        reason: str,
        for_ms: int,
        allow_takeover: bool = False,
        dry_run: bool = False,
    ) -> ChangeResult[FreezePlan, int, None]:
        """Lets no partition of a group move but by leaving and death, until the time is over.

        `written` is the end by ZooKeeper's clock, in epoch milliseconds. Raises NotFoundError, ConfigError,
        and RefusedError where a partition has no owner, a member does not know freezes, or the group is
        frozen already.

        Args:
            reason: for everybody who looks at the group.
            for_ms: milliseconds after which the freeze ends by itself.
            allow_takeover: lets members claim partitions that have no owner.
        """
        plan = freezes.plan_freeze(
            self._ensemble,
            group,
            reason=reason,
            for_ms=for_ms,
            allow_takeover=allow_takeover,
            live=live_reader(self._ensemble),
        )
        return self._run(freezes.freeze_group_change(self._ensemble, plan), dry_run)

    def unfreeze_group(self, group: str, *, dry_run: bool = False) -> ChangeResult[UnfreezePlan, None, None]:
        """Ends the freeze of a group. Raises NotFoundError where it is not frozen."""
        plan = freezes.plan_unfreeze(self._ensemble, group)
        return self._run(freezes.unfreeze_group_change(self._ensemble, plan), dry_run)

    def nudge_group(self, group: str, *, dry_run: bool = False) -> ChangeResult[NudgePlan, None, None]:
        """Makes every member read its group again, at most once in ten seconds. It cannot be undone."""
        plan = group_changes.plan_nudge(self._ensemble, group)
        return self._run(group_changes.nudge_group_change(self._ensemble, plan), dry_run)

    def delete_group(self, group: str, *, dry_run: bool = False) -> ChangeResult[DeletionPlan, int, None]:
        """Deletes a group with its offsets; an undo puts the offsets back.

        `written` is the number of znodes removed.

        Raises:
            RefusedError: the group has members.
        """
        plan = group_changes.plan_deletion(self._ensemble, group)
        return self._run(group_changes.delete_group_change(self._ensemble, plan), dry_run)

    def prune_groups(
        self, idle_s: float, groups: Iterable[str] = (), *, dry_run: bool = False
    ) -> tuple[ChangeResult[DeletionPlan, int, None], ...]:
        """Deletes the groups without members that have committed nothing for so long; one result a group.

        Groups that are frozen, or that an ACL hides, are left out. Each has its own undo record.

        Args:
            idle_s: the shortest time since the newest commit, in seconds.
            groups: only these; by default all.

        Raises:
            NotFoundError: one of the groups does not exist.
            PartlyDoneError: a group failed after others were deleted.
        """
        _, plans, _ = plan_pruning(self._ensemble, round(idle_s * 1000), groups)
        changes = [group_changes.delete_group_change(self._ensemble, plan) for plan in plans]
        if dry_run:
            return tuple(change.preview() for change in changes)
        return apply_changes(changes, self._recorder)

    def copy_group(
        self, group: str, to: str, *, dry_run: bool = False
    ) -> ChangeResult[OffsetPlan, Applied, tuple[OffsetStanding, ...]]:
        """Gives a group the committed offsets of another one, and makes it where it does not exist.

        Args:
            group: the group whose offsets are copied; it may have members.
            to: the group that gets them; offsets of other partitions that it has stay.

        Raises:
            NotFoundError: the first group does not exist, or has committed nothing.
            RefusedError: the second has members, or is frozen.
        """
        return self._run(group_copies.copy_group_change(self._ensemble, group, to), dry_run)

    def rename_group(
        self, group: str, to: str, *, dry_run: bool = False
    ) -> ChangeResult[RenamePlan, int, None]:
        """Moves the offsets of a group to another name in one transaction, and deletes what is left of it.

        `written` is the number of offsets. The history of its rebalances goes.

        Args:
            group: the group; it has no members.
            to: its new name; a group of this name has neither members nor offsets.

        Raises:
            NotFoundError: the group does not exist, or has no offsets.
            RefusedError: one of the groups has members or is frozen, or the second has offsets.
            PartlyDoneError: the offsets are moved, and the former group is not deleted.
        """
        plan = group_copies.plan_rename(self._ensemble, group, to)
        return self._run(group_copies.rename_group_change(self._ensemble, plan), dry_run)

    def set_group_rights(
        self, group: str, rights: GroupRights | None = None, *, dry_run: bool = False
    ) -> ChangeResult[GroupAccessPlan, int, None]:
        """Sets who may join a group of ZooKeeper consumers, read its offsets, or watch it.

        The plan has the present rights, and the JVM members that make it impossible to close the group.

        Args:
            rights: replace the former ones. None: znodes with another ACL than the group get that of the
                group.

        Raises:
            ConfigError: the connection has no credentials, or an identity is none that a server knows.
            NotFoundError: the group does not exist.
            AccessDeniedError: the ACL of the group is hidden from this user, or may not be changed.
            RefusedError: the group has members that log in to no server, as those of Kafka 0.8.2.2.
            PartlyDoneError: some ACLs may not be changed by this user.
        """
        plan = plan_group_access(self._ensemble, group, rights)
        return self._run(group_access_change(self._ensemble, plan), dry_run)

    def list_offsets(
        self, group: str, log_ends: reads.LogEndReader | None = None, *, with_writers: bool = False
    ) -> Listing[OffsetDescription]:
        """The committed offsets of a group.

        Args:
            log_ends: is asked for the next offset of each partition, to compute the lag.
            with_writers: reads who has written each offset, too.

        Raises:
            NotFoundError: the group does not exist.
        """
        snapshot = read_offsets(self._ensemble, group)
        ends = reads.known_ends(log_ends, snapshot.offsets)
        unreadable = tuple(map(str, reads.unreadable_offsets(snapshot)))
        writers = read_writers(self._ensemble, snapshot) if with_writers else {}
        rows = reads.describe_offsets(snapshot, ends, writers)
        return Listing(as_of=snapshot.as_of, rows=rows, unreadable=unreadable)

    def set_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        allow_missing: bool = False,
        force: bool = False,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[OffsetPlan, Applied, tuple[OffsetStanding, ...]]:
        """Gives partitions these offsets; a group that does not exist yet is made.

        Args:
            offsets: the next offset to read, by partition.
            allow_missing: also for partitions that do not exist, and for a new group that only Kafka's
                clients can join.
            force: also where the group has members: those of zkgroup seek to the new offsets, others
                overwrite them with their next commit.
            wait_s: seconds to wait until it is known whether the offsets stand; by default it does not wait.

        Raises:
            RefusedError: the group has members, without `force`.
            NotFoundError: a partition that does not exist.
        """
        change = offset_changes.set_offsets_change(
            self._ensemble, group, offsets, allow_missing=allow_missing, force=force
        )
        return self._run(change, dry_run, wait_s)

    def reset_offsets(
        self,
        group: str,
        target: Target | datetime | int | str,
        partitions: Partitions = (),
        *,
        log: LogPositions | None = None,
        allow_missing: bool = False,
        force: bool = False,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[OffsetPlan, Applied, tuple[OffsetStanding, ...]]:
        """Moves offsets to a target.

        Args:
            target: an offset, a time, or `earliest`, `latest`, `+N`, `-N`.
            partitions: topics and partitions; by default all that the group has offsets of.
            log: where records are, for `earliest`, `latest` and times, by default the registered brokers;
                keeps other targets within the log. `plan.notes` say how exact a time is.
            allow_missing: also for partitions that do not exist, and for a new group that only Kafka's
                clients can join.
            force: also where the group has members: those of zkgroup seek to the new offsets, others
                overwrite them with their next commit.
            wait_s: seconds to wait until it is known whether the offsets stand; by default it does not wait.

        Raises:
            NotFoundError: the offset of a partition is not known, as it has no leader that answers.
        """
        wanted = target_of(target)
        change = offset_changes.reset_offsets_change(
            self._ensemble,
            group,
            wanted,
            selection_of(partitions),
            log or positions_for(self._ensemble, wanted),
            allow_missing=allow_missing,
            force=force,
        )
        return self._run(change, dry_run, wait_s)

    def delete_offsets(
        self,
        group: str,
        partitions: Partitions = (),
        *,
        older_than_s: float | None = None,
        dry_run: bool = False,
    ) -> ChangeResult[OffsetPlan, Applied, tuple[OffsetStanding, ...]]:
        """Deletes offsets, of topics that are gone too.

        Args:
            partitions: topics and partitions; a topic means all of its partitions. None only with an age.
            older_than_s: only offsets that were last written longer ago, in seconds.

        Raises:
            ConfigError: neither partitions nor an age.
            RefusedError: the group has members.
        """
        change = offset_changes.delete_offsets_change(
            self._ensemble, group, selection_of(partitions), older_than_ms=_ms(older_than_s)
        )
        return self._run(change, dry_run)

    def export_offsets(self, *groups: str) -> str:
        """The offsets of groups, one a line, in the format of Kafka 0.8.2's own tools.

        Args:
            groups: the groups, in the order of the lines.

        Raises:
            CorruptZnodeError: an offset cannot be read.
        """
        saved: list[files.SavedOffset] = []
        for group in groups:
            snapshot = read_offsets(self._ensemble, group)
            for error in reads.unreadable_offsets(snapshot):
                raise error
            saved += offset_changes.saved_offsets(snapshot)
        return "".join(f"{line}\n" for line in files.offset_lines(saved))

    def import_offsets(
        self,
        text: str,
        *,
        group: str | None = None,
        allow_missing: bool = False,
        force: bool = False,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> tuple[ChangeResult[OffsetPlan, Applied, tuple[OffsetStanding, ...]], ...]:
        """Writes exported offsets, in any format that `zkgroup offsets export` writes: one result a group.

        Every group is planned before the first is written.

        Args:
            text: the exported offsets.
            group: only the offsets of this group; by default those of all groups in the text.
            allow_missing: also for partitions that do not exist, and for a new group that only Kafka's
                clients can join.
            force: also where a group has members: those of zkgroup seek to the new offsets, others overwrite
                them with their next commit.
            wait_s: seconds to wait until it is known whether the offsets stand; by default it does not wait.

        Raises:
            PartlyDoneError: a group failed after others were written.
        """
        saved = files.parse_offsets("the text", text, group=group)
        changes = offset_changes.import_offsets_changes(
            self._ensemble, saved, allow_missing=allow_missing, force=force
        )
        if dry_run:
            return tuple(change.preview() for change in changes)
        return apply_changes(changes, self._recorder, wait_s=wait_s)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
