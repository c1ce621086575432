"""Methods of `Admin` for topics, configurations, users, ACLs and elections."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zkgroup.admin import (
    Compat,
    EntityKind,
    NotifyFormat,
    UncleanElectionDone,
    acls,
    configs,
    elections,
    users,
)
from zkgroup.admin.acls import AclPlan
from zkgroup.admin.change import ChangeResult
from zkgroup.admin.client.base import AdminBase, Listing, Partitions, listing_of
from zkgroup.admin.configs import ConfigDescription, ConfigPlan
from zkgroup.admin.elections import ElectionPlan
from zkgroup.admin.topics import alteration, creation, deletion, listing
from zkgroup.admin.topics.alteration import AddedPartitions, AlterationPlan
from zkgroup.admin.topics.creation import LeadersSeen, NewTopic
from zkgroup.admin.topics.deletion import DeletionSeen, TopicDeletionPlan
from zkgroup.admin.users import UserCredential
from zkgroup.security.acls import WILDCARD, AclBinding
from zkgroup.security.scram import MIN_ITERATIONS


class TopicMethods(AdminBase):
    """Topics, configurations, users, ACLs and elections."""

    def list_topics(self) -> Listing[listing.TopicSummary]:
        """Every topic with its size."""
        return listing_of(*listing.list_topics(self._ensemble))

    def describe_topics(self, *topics: str) -> Listing[listing.TopicDescription]:
        """Partitions, replicas, leaders and overrides of these topics, or of all.

        Args:
            topics: the topics; none means all.

        Raises:
            NotFoundError: a topic that is named does not exist.
        """
        return listing_of(*listing.describe_topics(self._ensemble, topics))

    def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        *,
        replication_factor: int = 1,
        replica_assignment: Sequence[Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        rack_aware: bool = True,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[NewTopic, int | None, LeadersSeen]:
        """Creates a topic; the wait is until every partition has a leader.

        Args:
            partitions: how many; not needed beside `replica_assignment`.
            replication_factor: replicas of each partition.
            replica_assignment: brokers of each partition, the preferred leader first.
            configs: overrides, by name.
            rack_aware: whether replicas are spread over racks.
            wait_s: seconds to wait for leaders.

        Raises:
            ConflictError: the topic exists.
        """
        new = creation.plan_topic(
            self._ensemble,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            replica_assignment=replica_assignment,
            configs=configs,
            rack_mode="enforced" if rack_aware else "disabled",
        )
        return self._run(creation.create_topic_change(self._ensemble, new), dry_run, wait_s)

    def alter_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        replica_assignment: Sequence[Sequence[int]] | None = None,
        set_configs: Mapping[str, str] | None = None,
        delete_configs: Collection[str] = (),
        compat: Compat = "0.10",
        rack_aware: bool = True,
        notify_format: NotifyFormat | None = None,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[AlterationPlan, None, LeadersSeen]:
        """Gives a topic more partitions or other overrides; the rest stays as it is.

        Only overrides can be undone. The wait is until new partitions have leaders.

        Args:
            partitions: how many in all; not needed beside `replica_assignment`.
            replica_assignment: brokers of each new partition, the preferred leader first.
            set_configs: overrides to set, by name.
            delete_configs: names of overrides to remove.
            compat: the release whose placement is used for new partitions: "0.8" takes a broker id for a
                position and knows no racks.
            rack_aware: whether the replicas of new partitions are spread over racks.
            notify_format: of the notification; by default the one that the registered brokers read.
            wait_s: seconds to wait for leaders.
        """
        added = AddedPartitions(
            partitions=partitions,
            replica_assignment=replica_assignment,
            compat=compat,
            rack_mode="enforced" if rack_aware else "disabled",
        )
        plan = alteration.plan_alteration(
            self._ensemble, topic, added, set_configs, delete_configs, format=notify_format
        )
        return self._run(alteration.alter_topic_change(self._ensemble, plan), dry_run, wait_s)

    def delete_topic(
        self,
        topic: str,
        *,
        without_brokers: Collection[int] = (),
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[TopicDeletionPlan, None, DeletionSeen]:
        """Deletes a topic: through the active controller where there is one, else by removing its znodes.

        Only a deletion without a controller can be undone.

        Args:
            without_brokers: lost brokers that the controller does not wait for.
            wait_s: seconds to wait for the end of the deletion.

        Raises:
            RefusedError: a group has members on the topic.
        """
        plan = deletion.plan_topic_deletion(self._ensemble, topic, without_brokers)
        return self._run(deletion.delete_topic_change(self._ensemble, plan), dry_run, wait_s)

    def describe_configs(
        self, kind: EntityKind, *names: str, client: str | None = None
    ) -> Listing[ConfigDescription]:
        """Settings that differ from the default: of these entities, or of all of a kind. Secrets are hidden.

        Args:
            kind: topics, brokers, clients, users or ips.
            names: topics, broker ids, client ids, users or addresses; none means all of the kind.
            client: of users that are named: their quota for this client id.
        """
        entities = [configs.entity_named(kind, name, client) for name in names]
        return listing_of(*configs.describe_configs(self._ensemble, entities, kind))

    def alter_config(
        self,
        kind: EntityKind,
        name: str | None,
        *,
        set_configs: Mapping[str, str] | None = None,
        delete_configs: Collection[str] = (),
        client: str | None = None,
        client_default: bool = False,
        notify_format: NotifyFormat | None = None,
        allow_unknown: bool = False,
        dry_run: bool = False,
    ) -> ChangeResult[ConfigPlan, None, None]:
        """Sets and removes settings of one entity and notifies the brokers; other settings stay.

        Args:
            kind: topics, brokers, clients, users or ips.
            name: topic, broker id, client id, user or address; None is the default of the kind.
            set_configs: values by name.
            delete_configs: names of settings to remove.
            client: of a user: its quota for this client id.
            client_default: of a user: its quota for client ids that have none of their own.
            notify_format: of the notification; by default the one that the registered brokers read.
            allow_unknown: of a broker, also settings that Kafka's brokers do not know.
        """
        plan = configs.plan_config(
            self._ensemble,
            configs.entity_named(kind, name, client, client_default=client_default),
            set_configs or {},
            delete_configs,
            format=notify_format,
            allow_unknown=allow_unknown,
        )
        return self._run(configs.alter_config_change(self._ensemble, plan), dry_run)

    def list_users(self) -> Listing[UserCredential]:
        """Every user with a SCRAM credential: a row for each mechanism."""
        return listing_of(*users.list_users(self._ensemble))

    def add_user(
        self,
        name: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-256",
        iterations: int = MIN_ITERATIONS,
        dry_run: bool = False,
    ) -> ChangeResult[ConfigPlan, None, None]:
        """Gives a user a SCRAM credential, in place of that of the mechanism if there is one.

        It needs no broker. Brokers take it over from ZooKeeper; quotas of the user stay.

        Args:
            name: the user; any characters.
            password: the password; only a credential made from it is stored.
            mechanism: `SCRAM-SHA-256` or `SCRAM-SHA-512`; a client needs one of its own mechanism.
            iterations: the work of one attempt at the password, 4096 to 16384.

        Raises:
            ConfigError: a name, mechanism, password or number that cannot be.
        """
        plan = users.plan_user(self._ensemble, name, mechanism, password, iterations)
        return self._run(users.user_change(self._ensemble, plan, "add"), dry_run)

    def delete_user(
        self, name: str, *, mechanism: str | None = None, dry_run: bool = False
    ) -> ChangeResult[ConfigPlan, None, None]:
        """Removes the SCRAM credentials of a user; quotas stay, and so do connections that are open.

        Args:
            name: the user.
            mechanism: only that of `SCRAM-SHA-256` or `SCRAM-SHA-512`; None removes both.

        Raises:
            NotFoundError: the user has none.
        """
        plan = users.plan_user_deletion(self._ensemble, name, mechanism)
        return self._run(users.user_change(self._ensemble, plan, "delete"), dry_run)

    def list_acls(
        self,
        *,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
        transactional_ids: Sequence[str] = (),
        cluster: bool = False,
        prefixed: bool = False,
        principal: str | None = None,
    ) -> Listing[AclBinding]:
        """The ACLs that decide about these resources, or all: their own, and those of `*` and of prefixes.

        Args:
            topics: the topics.
            groups: the group ids.
            transactional_ids: ids of transactional producers.
            cluster: whether the cluster itself is one of them.
            prefixed: list the ACLs of exactly these prefixes.
            principal: list only those of this principal.
        """
        patterns = acls.patterns_of(topics, groups, transactional_ids, cluster=cluster, prefixed=prefixed)
        return listing_of(*acls.list_acls(self._ensemble, patterns, principal))

    def add_acls(
        self,
        principal: str,
        *operations: str,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
        transactional_ids: Sequence[str] = (),
        cluster: bool = False,
        prefixed: bool = False,
        host: str = WILDCARD,
        deny: bool = False,
        dry_run: bool = False,
    ) -> ChangeResult[AclPlan, None, None]:
        """Allows a principal operations on resources, or denies them. Brokers with an authorizer follow.

        Args:
            principal: who, as `User:alice`; `User:*` is everybody.
            operations: what, as `read`; Kafka's words in any case.
            topics: the topics; `*` is every topic.
            groups: the group ids; `*` is every group.
            transactional_ids: ids of transactional producers.
            cluster: whether the cluster itself is one of the resources.
            prefixed: the names are prefixes of names.
            host: the address that it comes from; `*` is every address.
            deny: deny it, whatever else allows it.

        Raises:
            ConfigError: an operation that such a resource does not have, or a name that cannot be.
            PartlyDoneError: some ACLs are written, then the rest was refused.
        """
        patterns = acls.patterns_of(topics, groups, transactional_ids, cluster=cluster, prefixed=prefixed)
        bindings = acls.bindings_of(patterns, [principal], operations, [host], deny=deny)
        plan = acls.plan_additions(self._ensemble, bindings)
        return self._run(acls.acl_change(self._ensemble, plan, "add"), dry_run)

    def remove_acls(
        self,
        principal: str | None = None,
        *operations: str,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
        transactional_ids: Sequence[str] = (),
        cluster: bool = False,
        prefixed: bool = False,
        host: str | None = None,
        deny: bool = False,
        dry_run: bool = False,
    ) -> ChangeResult[AclPlan, None, None]:
        """Removes what `add_acls` adds with the same arguments.

        Args:
            principal: who; None means every principal that an ACL names.
            operations: what; none means every operation.
            topics: the topics, by the very name of the ACL.
            groups: the group ids.
            transactional_ids: ids of transactional producers.
            cluster: whether the cluster itself is one of the resources.
            prefixed: the names are prefixes of names.
            host: the address; None means every one that an ACL names.
            deny: remove what denies, in place of what allows.

        Raises:
            ConfigError: no resource, or an unknown operation.
            PartlyDoneError: some ACLs are removed, then the rest was refused.
        """
        patterns = acls.patterns_of(topics, groups, transactional_ids, cluster=cluster, prefixed=prefixed)
        who, where = [principal] if principal else [], [host] if host else []
        filters = acls.filters_of(patterns, who, operations, where, deny=deny)
        plan = acls.plan_removals(self._ensemble, filters)
        return self._run(acls.acl_change(self._ensemble, plan, "remove"), dry_run)

    def elect_preferred(
        self,
        partitions: Partitions | None = None,
        *,
        dry_run: bool = False,
        wait_s: float | None = None,
    ) -> ChangeResult[ElectionPlan, None, bool]:
        """Gives partitions back to their first replica, where it is live and in sync.

        `outcome` says whether all that were asked for are led by it. It cannot be undone.

        Args:
            partitions: topics and partitions; None means all.
            wait_s: seconds to wait until the first replicas lead.
        """
        chosen = None if partitions is None else self._partitions(partitions)
        plan = elections.plan_preferred(self._ensemble, chosen)
        return self._run(elections.elect_preferred_change(self._ensemble, plan), dry_run, wait_s)

    def elect_unclean(
        self, partitions: Partitions, *, dry_run: bool = False, wait_s: float | None = None
    ) -> ChangeResult[ElectionPlan, int, UncleanElectionDone | None]:
        """Lets a live replica lead partitions that have no leader, in sync or not: records may be lost.

        It cannot be undone.

        Args:
            partitions: topics and partitions.
            wait_s: seconds to wait for the controller's answer.

        Raises:
            RefusedError: no controller of zkgroup is active.
        """
        plan = elections.plan_unclean(self._ensemble, self._partitions(partitions))
        return self._run(elections.elect_unclean_change(self._ensemble, plan), dry_run, wait_s)
