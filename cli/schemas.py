"""The JSON documents and events as JSON Schema (draft 2020-12): plain data, for the docs and the tests.

`SCHEMAS` holds one for each `schema` value that a document carries, `EVENTS` one for each `event`. Both are
derived from the classes whose values the commands print: a field is declared there and nowhere else.
Additions are possible within a version (a new key, a new word of an enumeration); removing or
changing anything makes a new version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import broker_events, member_events, serving, watching
from . import cluster as topic
from . import demo_documents as demo
from . import groups as group
from . import reassignments as reassign
from . import replica_documents as replicas
from .commands import (
    acl,
    broker,
    config,
    controller,
    coordinator,
    elect,
    live,
    session,
    status,
    undo,
    user,
    znode,
    zookeeper,
)
from .commands import cluster as usage
from .commands.audit import findings, history, inspect, report, summary, tree
from .commands.produce import PRODUCE
from .schema import Document, JsonEvent, Schema, list_of, object_of

_DOCUMENTS: tuple[Document[Any], ...] = (
    *(demo.GROUP_DEMO, demo.BROKERS_DEMO, demo.COORDINATOR_DEMO, demo.AUDIT_DEMO),
    *(group.GROUPS, group.GROUP, group.CHECK, group.HISTORY, group.VERIFICATION, group.PREVIEW),
    *(group.NUDGE, group.FREEZE, group.UNFREEZE, group.RENAMING),
    *(group.GROUP_DELETION, group.GROUP_DELETIONS),
    *(group.OFFSETS, group.OFFSETS_LIST, group.OFFSET_EXPORT),
    *(group.OFFSET_CHANGES, group.OFFSET_CHANGES_LIST),
    *(zookeeper.CHROOT, zookeeper.ACCESS, undo.RESTORATION, undo.UNDO_LIST),
    *(topic.TOPICS, replicas.TOPIC_REPLICAS, topic.TOPIC_LIST, PRODUCE, topic.TOPIC_CREATION),
    *(topic.TOPIC_DELETION, topic.TOPIC_ALTERATION, broker.BROKERS, replicas.BROKER_DOCUMENT),
    *(controller.CONTROLLER, controller.HISTORY, broker.FORGETTING, controller.RESIGNATION),
    *(coordinator.COORDINATOR, coordinator.GROUP_RELEASE),
    *(usage.CLUSTER_USAGE, config.CONFIGS, config.CONFIG_ALTERATION, config.CLIENT_QUOTAS),
    *(acl.ACLS, acl.ACL_ALTERATION, acl.GROUP_ACCESS),
    *(user.USERS, user.USER_ALTERATION, session.SESSION_DOCUMENT),
    *(elect.ELECTION, elect.UNCLEAN_ELECTION),
    *(reassign.PROPOSAL, reassign.REASSIGNMENT, reassign.REASSIGNMENTS, reassign.PLANS),
    *(reassign.STORED_PLAN_DOCUMENT, reassign.CANCELLATION, reassign.PLAN),
    *(inspect.FILES, tree.TREE, tree.DIFF, history.OWNERS, history.OFFSETS, history.SESSIONS),
    *(findings.FINDINGS, summary.SUMMARY, report.REPORT, report.RUN, tree.EXPORT),
    *(znode.ZNODE_DOCUMENT, znode.ZNODE_LIST, znode.ZNODES, status.STATUS, status.FINDINGS, status.FIX),
    live.LIVE,
)

SCHEMAS: Mapping[str, Schema] = {
    **{one.name: one.schema for one in _DOCUMENTS},
    # One name for two documents: `group list` has summaries, `group describe` of several groups whole ones.
    group.GROUPS.name: object_of(
        **{
            **group.GROUPS.schema["properties"],
            "groups": list_of({"anyOf": [group.GROUP_SUMMARY.schema, group.GROUP.schema]}),
        }
    ),
}

_EVENTS: tuple[JsonEvent[Any], ...] = (
    *member_events.EVENTS,
    *broker_events.EVENTS,
    serving.READY,
    watching.READ_FAILED,
    tree.EXPORTED,
)

EVENTS: Mapping[str, Schema] = {one.name: one.schema for one in _EVENTS}
