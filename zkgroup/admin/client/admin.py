"""`Admin` and `AsyncAdmin`: everything that the command line reads and changes, for a program."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from zkgroup.admin.client.cluster import ClusterMethods
from zkgroup.admin.client.groups import GroupMethods
from zkgroup.admin.client.reassignments import ReassignmentMethods
from zkgroup.admin.client.topics import TopicMethods
from zkgroup.model.ports import Clock, Store
from zkgroup.security.client import ClientSecurity
from zkgroup.zookeeper.settings import ClientSettings


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


P = ParamSpec("P")
R = TypeVar("R")

THREADS = 4
"""Calls of one `AsyncAdmin` that run at the same time; more wait for their turn."""


class _OffLoop(Generic[P, R]):
    """A method of `Admin` as a coroutine function of `AsyncAdmin`, with the same arguments and result."""

    def __init__(self, method: Callable[Concatenate[Admin, P], R]) -> None:
        self._method = method
        self.__doc__ = method.__doc__
        self.__wrapped__ = method

    @overload
    def __get__(self, instance: None, owner: type[AsyncAdmin]) -> Self: ...

    @overload
    def __get__(
        self, instance: AsyncAdmin, owner: type[AsyncAdmin]
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...

    def __get__(
        self, instance: AsyncAdmin | None, owner: type[AsyncAdmin]
    ) -> Self | Callable[P, Coroutine[Any, Any, R]]:
        if instance is None:
            return self
        method = self._method

        @functools.wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await instance._call(lambda admin: method(admin, *args, **kwargs))

        return call


class AsyncAdmin:
    """The methods of `Admin` as coroutines, with the same arguments, results and errors.

    A call runs on one of four threads that belong to this object. The loop's default executor is not used:
    a call with `wait_s` may hold its thread for hours, and would keep it from name lookups and other users of
    `asyncio.to_thread`. A coroutine that is cancelled stops waiting; the call itself goes on to its end, and
    a change is then made all the same, with its undo record.

    Example:
        >>> async def topics() -> list[str]:
        ...     async with AsyncAdmin("localhost:2181") as admin:
        ...         return [one.topic for one in await admin.list_topics()]
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        security: ClientSecurity | None = None,
        undo_folder: str | Path | None = None,
        timeout_s: float = 10.0,
        user: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """As `Admin`: does not connect yet."""
        self._admin = Admin(
            address,
            client=client,
            connection=connection,
            security=security,
            undo_folder=undo_folder,
            timeout_s=timeout_s,
            user=user,
            clock=clock,
        )
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="zkgroup-admin")

    async def __aenter__(self) -> Self:
        try:
            await self._call(Admin.__enter__)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the session, which ends calls that still run; an open client that was given stays open."""
        await asyncio.to_thread(self._admin.close)
        await asyncio.to_thread(self._executor.shutdown)

    @property
    def address(self) -> str:
        """The ensemble as undo records name it."""
        return self._admin.address

    async def _call(self, call: Callable[[Admin], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, self._admin)

    list_groups = _OffLoop(Admin.list_groups)
    describe_group = _OffLoop(Admin.describe_group)
    check_groups = _OffLoop(Admin.check_groups)
    group_history = _OffLoop(Admin.group_history)
    verify_group = _OffLoop(Admin.verify_group)
    describe_coordinator = _OffLoop(Admin.describe_coordinator)
    release_group = _OffLoop(Admin.release_group)
    preview_group = _OffLoop(Admin.preview_group)
    nudge_group = _OffLoop(Admin.nudge_group)
    freeze_group = _OffLoop(Admin.freeze_group)
    unfreeze_group = _OffLoop(Admin.unfreeze_group)
    delete_group = _OffLoop(Admin.delete_group)
    prune_groups = _OffLoop(Admin.prune_groups)
    copy_group = _OffLoop(Admin.copy_group)
    rename_group = _OffLoop(Admin.rename_group)
    set_group_rights = _OffLoop(Admin.set_group_rights)
    list_offsets = _OffLoop(Admin.list_offsets)
    set_offsets = _OffLoop(Admin.set_offsets)
    reset_offsets = _OffLoop(Admin.reset_offsets)
    delete_offsets = _OffLoop(Admin.delete_offsets)
    export_offsets = _OffLoop(Admin.export_offsets)
    import_offsets = _OffLoop(Admin.import_offsets)
    list_topics = _OffLoop(Admin.list_topics)
    describe_topics = _OffLoop(Admin.describe_topics)
    create_topic = _OffLoop(Admin.create_topic)
    alter_topic = _OffLoop(Admin.alter_topic)
    delete_topic = _OffLoop(Admin.delete_topic)
    describe_configs = _OffLoop(Admin.describe_configs)
    alter_config = _OffLoop(Admin.alter_config)
    list_users = _OffLoop(Admin.list_users)
    add_user = _OffLoop(Admin.add_user)
    delete_user = _OffLoop(Admin.delete_user)
    list_acls = _OffLoop(Admin.list_acls)
    add_acls = _OffLoop(Admin.add_acls)
    remove_acls = _OffLoop(Admin.remove_acls)
    elect_preferred = _OffLoop(Admin.elect_preferred)
    elect_unclean = _OffLoop(Admin.elect_unclean)
    propose_reassignment = _OffLoop(Admin.propose_reassignment)
    reassign = _OffLoop(Admin.reassign)
    verify_reassignment = _OffLoop(Admin.verify_reassignment)
    list_reassignments = _OffLoop(Admin.list_reassignments)
    cancel_reassignments = _OffLoop(Admin.cancel_reassignments)
    remove_unreadable_reassignment = _OffLoop(Admin.remove_unreadable_reassignment)
    clear_throttles = _OffLoop(Admin.clear_throttles)
    plan_decommission = _OffLoop(Admin.plan_decommission)
    plan_replace = _OffLoop(Admin.plan_replace)
    plan_replication_factor = _OffLoop(Admin.plan_replication_factor)
    plan_balance = _OffLoop(Admin.plan_balance)
    save_plan = _OffLoop(Admin.save_plan)
    start_plan = _OffLoop(Admin.start_plan)
    list_plans = _OffLoop(Admin.list_plans)
    resume_plan = _OffLoop(Admin.resume_plan)
    pause_plan = _OffLoop(Admin.pause_plan)
    cancel_plan = _OffLoop(Admin.cancel_plan)
    cluster_status = _OffLoop(Admin.cluster_status)
    cluster_problems = _OffLoop(Admin.cluster_problems)
    cluster_usage = _OffLoop(Admin.cluster_usage)
    describe_session = _OffLoop(Admin.describe_session)
    list_brokers = _OffLoop(Admin.list_brokers)
    describe_broker = _OffLoop(Admin.describe_broker)
    forget_broker = _OffLoop(Admin.forget_broker)
    remove_persistent_znodes = _OffLoop(Admin.remove_persistent_znodes)
    describe_controller = _OffLoop(Admin.describe_controller)
    controller_history = _OffLoop(Admin.controller_history)
    resign_controller = _OffLoop(Admin.resign_controller)
    get_znode = _OffLoop(Admin.get_znode)
    list_znodes = _OffLoop(Admin.list_znodes)
    read_znode_tree = _OffLoop(Admin.read_znode_tree)
    create_chroot = _OffLoop(Admin.create_chroot)
    secure_znodes = _OffLoop(Admin.secure_znodes)
    open_znodes = _OffLoop(Admin.open_znodes)
    list_undos = _OffLoop(Admin.list_undos)
    undo = _OffLoop(Admin.undo)
