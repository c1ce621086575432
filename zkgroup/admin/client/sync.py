"""`Admin`: everything that the command line reads and changes, for a program."""

from __future__ import annotations

from zkgroup.admin.client.cluster import ClusterMethods
from zkgroup.admin.client.groups import GroupMethods
from zkgroup.admin.client.reassignments import ReassignmentMethods
from zkgroup.admin.client.topics import TopicMethods


class Admin(GroupMethods, TopicMethods, ReassignmentMethods, ClusterMethods):
    """Reads and changes groups, offsets, topics, configurations, replicas and brokers of one ensemble.

    Every method blocks; all may be called from any thread. Nothing is printed and nothing is asked. A method
    that changes something applies the change at once and returns a `ChangeResult`; `dry_run=True` returns
    the plan with its notes and writes nothing. Before anything is overwritten or deleted an undo record is
    saved in the folder that `zkgroup undo` uses too: `ChangeResult.undo_id` goes to `undo`.
    `wait_s` waits for up to so many seconds until the controller or the brokers have done what was asked.

    All methods raise the errors of `zkgroup.errors`: `NotFoundError`, `ConfigError` for arguments that
    cannot be, `RefusedError` and `ConflictError` where nothing was changed, `PartlyDoneError`,
    `OutcomeUnknownError`, `AccessDeniedError`, and `StoreUnavailableError` without a connection. An error of
    a change that may have been made in part carries the command that undoes it as a note (`__notes__`).

    Example:
        >>> with Admin("localhost:2181") as admin:  # doctest: +SKIP
        ...     result = admin.set_offsets("billing", {TopicPartition("orders", 0): 4711})
        ...     admin.undo(result.undo_id)
    """
