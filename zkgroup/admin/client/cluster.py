"""Methods of `Admin` for the cluster as a whole, for znodes, and for undo."""

from __future__ import annotations

from typing import Any

from zkgroup.admin import sessions, status, undo, znodes
from zkgroup.admin.access import AccessPlan, access_change, plan_access
from zkgroup.admin.change import ChangeResult
from zkgroup.admin.client.base import AdminBase, Listing, listing_of
from zkgroup.admin.cluster import brokers, controller, usage
from zkgroup.admin.cluster.brokers import ForgettingPlan
from zkgroup.admin.cluster.controller import Resignation, ResignationPlan
from zkgroup.admin.coordinator_status import DoctorFinding
from zkgroup.admin.persistent import RemovalPlan, plan_removal, remove_persistent_change
from zkgroup.admin.undo_records import UndoRecord
from zkgroup.errors import ConfigError
from zkgroup.groups.reads import LogEndReader
from zkgroup.model import Znode
from zkgroup.zookeeper.four_letter_words import ADMIN_PORT
from zkgroup.zookeeper.settings import Address


class ClusterMethods(AdminBase):
    """Status, brokers, controller, znodes and undo."""

    def cluster_status(self, log_ends: LogEndReader | None = None) -> status.Status:
        """Brokers, controller, topics, groups, reassignments and throttles on one value.

        Args:
            log_ends: is asked for the next offset of each partition, to compute the lag of groups.
        """
        return status.read_status(self._ensemble, log_ends)

    def cluster_problems(self, *, session_timeout_ms: int = 30_000) -> Listing[DoctorFinding]:
        """The faults of the ensemble.

        Args:
            session_timeout_ms: warns of a server that grants a shorter session timeout than this.
        """
        return listing_of(*status.read_findings(self._ensemble, wanted_timeout_ms=session_timeout_ms))

    def remove_persistent_znodes(self, *, dry_run: bool = False) -> ChangeResult[RemovalPlan, int, None]:
        """Removes registrations, owners and other znodes of sessions that are persistent, as a restored
        backup has them.

        Raises:
            ConflictError: one has changed since it was read, or a session holds it by now.
            PartlyDoneError: the same after the first of several transactions.
        """
        plan = plan_removal(self._ensemble)
        return self._run(remove_persistent_change(self._ensemble, plan), dry_run)

    def cluster_usage(
        self, *, four_letter_words: bool = True, admin_port: int | None = ADMIN_PORT
    ) -> usage.ClusterUsage:
        """Connections, watches and znodes that the cluster costs the ensemble: estimated and measured.

        Asks every server that the address names.

        Args:
            four_letter_words: whether the servers are asked by four-letter words.
            admin_port: port of the servers' AdminServers, asked where four-letter words are not allowed; None
                asks none.

        Raises:
            ConfigError: an open client without an address.
        """
        return usage.read_usage(self._ensemble, self._servers, admin_port=admin_port, words=four_letter_words)

    def describe_session(
        self, session_id: int, *, four_letter_words: bool = True, admin_port: int | None = ADMIN_PORT
    ) -> sessions.SessionDescription:
        """Returns the client behind a session: its connection, and the znodes that it holds.

        Asks every server that the address names.

        Args:
            session_id: the session, as a whole number: `0x1a1fb66fa0f0008`.
            four_letter_words: whether the servers are asked by `cons`.
            admin_port: port of the servers' AdminServers, asked where `cons` is not allowed; None asks none.

        Raises:
            ConfigError: an open client without an address.
            NotFoundError: there is no such session.
        """
        return sessions.describe_session(
            self._ensemble, session_id, self._servers, admin_port=admin_port, words=four_letter_words
        )

    @property
    def _servers(self) -> tuple[tuple[str, int], ...]:
        if self._address is None:
            raise ConfigError(
                "the servers of an open client without an address are not known: give `address`"
            )
        return Address.parse(self._address).hosts

    def list_brokers(self) -> Listing[brokers.BrokerSummary]:
        """Every registered broker."""
        return listing_of(*brokers.list_brokers(self._ensemble))

    def describe_broker(self, broker: int) -> brokers.BrokerDescription:
        """The registration of a broker and what it hosts.

        Raises:
            NotFoundError: the broker is not known.
        """
        return brokers.describe_broker(self._ensemble, broker)[1]

    def forget_broker(
        self, broker: int, *, dry_run: bool = False
    ) -> ChangeResult[ForgettingPlan, None, None]:
        """Removes the records of what a broker that never comes back may still have. It cannot be undone.

        Raises:
            RefusedError: the broker is registered.
        """
        plan = brokers.plan_forgetting(self._ensemble, broker)
        return self._run(brokers.forget_broker_change(self._ensemble, plan), dry_run)

    def describe_controller(self) -> controller.ControllerDescription:
        """Says which broker is the controller, since when and of which kind.

        Raises:
            NotFoundError: there is no controller.
        """
        return controller.describe_controller(self._ensemble)[1]

    def controller_history(self) -> Listing[controller.PastController]:
        """The epochs of controllers of zkgroup, the latest first."""
        return listing_of(*controller.controller_history(self._ensemble))

    def resign_controller(
        self, *, dry_run: bool = False, wait_s: float | None = None
    ) -> ChangeResult[ResignationPlan, None, Resignation]:
        """Asks the controller to resign, so that another one is elected. It cannot be undone.

        Args:
            wait_s: seconds to wait until another one is elected.

        Raises:
            RefusedError: no controller of zkgroup is active.
        """
        plan = controller.plan_resignation(self._ensemble)
        return self._run(controller.resign_controller_change(self._ensemble, plan), dry_run, wait_s)

    def get_znode(self, path: str) -> Znode:
        """Data and Stat of one znode.

        Args:
            path: the path below the chroot.

        Raises:
            NotFoundError: the znode does not exist; names the nearest parent that does.
        """
        return znodes.get(self._ensemble, path)

    def list_znodes(self, path: str = "/") -> Listing[str]:
        """Names of the children of a znode, sorted.

        Args:
            path: the path below the chroot.

        Raises:
            NotFoundError: the znode does not exist.
        """
        names = znodes.children(self._ensemble, path)
        return Listing(as_of=self._ensemble.as_of(), rows=names)

    def read_znode_tree(self, path: str = "/", *, depth: int | None = None) -> Listing[Znode]:
        """A znode and those below it, depth first.

        Args:
            path: the path below the chroot.
            depth: how many levels below it at most; None means all.

        Raises:
            NotFoundError: the znode does not exist.
        """
        found = znodes.tree(self._ensemble, path, depth)
        return Listing(as_of=self._ensemble.as_of(), rows=found)

    def create_chroot(self, *, dry_run: bool = False) -> ChangeResult[znodes.ChrootPlan, None, None]:
        """Creates the chroot of the address, every level that is missing; it connects above the chroot.

        Call it before `with`, which needs the chroot. No other method creates one: a misspelt chroot would be
        an empty ensemble. It cannot be undone.

        Raises:
            ConfigError: an address without a chroot, or an open client.

        Example:
            >>> admin = Admin("localhost:2181/kafka")  # doctest: +SKIP
            >>> admin.create_chroot()  # doctest: +SKIP
            >>> with admin:  # doctest: +SKIP
            ...     admin.create_topic("orders", 12)
        """
        with self._above_chroot() as (ensemble, chroot):
            plan = znodes.plan_chroot(ensemble, chroot)
            return self._run(znodes.create_chroot_change(ensemble, plan), dry_run)

    def secure_znodes(self, *, dry_run: bool = False) -> ChangeResult[AccessPlan, int, None]:
        """Closes the znodes of the cluster, `/` too: only the user of this connection may change them then.

        Everyone may read what has no secrets. `/consumers` and the groups below stay as they are.

        Raises:
            ConfigError: the connection has no credentials.
            AccessDeniedError: none may be changed by this user.
            PartlyDoneError: some may not be changed, or are created open all the time.
        """
        return self._run(access_change(self._ensemble, plan_access(self._ensemble, "closed")), dry_run)

    def open_znodes(self, *, dry_run: bool = False) -> ChangeResult[AccessPlan, int, None]:
        """Opens the znodes of the cluster to everyone, `/` too.

        Raises:
            AccessDeniedError: none may be changed by this user.
            PartlyDoneError: some may not be changed, or are created closed all the time.
        """
        return self._run(access_change(self._ensemble, plan_access(self._ensemble, "open")), dry_run)

    def list_undos(self, *, all_ensembles: bool = False) -> tuple[UndoRecord, ...]:
        """The changes recorded on this machine, the latest first.

        Args:
            all_ensembles: those of every ensemble; by default those of this ensemble alone.

        Raises:
            ConfigError: a file in the folder is no undo record.
        """
        return tuple(
            record
            for record in self._recorder.folder.latest_first()
            if all_ensembles or record.zookeeper == self.address
        )

    def undo(
        self,
        undo_id: str | None = None,
        *,
        force: bool = False,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[Any, Any, Any]:
        """Undoes a change. An undo is recorded as well.

        Args:
            undo_id: the id of the record; by default the last change on this ensemble.
            force: also undoes what has been changed since, and writes offsets of a group with members.
            wait_s: seconds to wait, as the method that undoes the change does.

        Raises:
            NotFoundError: there is no such record.
            RefusedError: the change cannot be undone.
            ConflictError: something else was changed after it.
        """
        folder = self._recorder.folder
        if undo_id is None:
            record = folder.newest(lambda one: one.zookeeper == self.address)
        else:
            record = folder.load(undo_id)
        return self._run(undo.undo_change(self._ensemble, record, force=force), dry_run, wait_s)
