"""The JSON documents and events as JSON Schema (draft 2020-12): plain data, for the docs and the tests.

`SCHEMAS` holds one for each `schema` value that a document carries, `EVENTS` one for each `event`. Both are
derived from the classes whose values the commands print: a field is declared there and nowhere else.
Additions are possible within a version (a new key, a new word of an enumeration); removing or
changing anything makes a new version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import audit_documents as audit
from . import broker_events, member_events, serving
from . import cluster_documents as cluster
from . import coordinator_documents as coordinator
from . import demo_documents as demo
from . import documents as base
from . import reassign_documents as reassign
from . import replica_documents as replicas
from .commands.produce import PRODUCE
from .schema import Document, JsonEvent, Schema, list_of, object_of

_DOCUMENTS: tuple[Document[Any], ...] = (
    *(demo.GROUP_DEMO, demo.BROKERS_DEMO, demo.COORDINATOR_DEMO, demo.AUDIT_DEMO),
    *(base.GROUPS, base.GROUP, base.VERIFICATION, base.PREVIEW, base.NUDGE, base.GROUP_DELETION),
    *(base.OFFSETS, base.OFFSET_EXPORT, base.OFFSET_CHANGES, base.OFFSET_CHANGES_LIST),
    *(base.CHROOT, base.RESTORATION, base.UNDO_LIST),
    *(base.TOPICS, replicas.TOPIC_REPLICAS, base.TOPIC_LIST, PRODUCE, base.TOPIC_CREATION),
    *(base.TOPIC_DELETION, cluster.TOPIC_ALTERATION, cluster.BROKERS_DOCUMENT, replicas.BROKER_DOCUMENT),
    *(cluster.CONTROLLER, cluster.CONTROLLER_HISTORY, cluster.FORGETTING, cluster.RESIGNATION),
    *(coordinator.COORDINATOR, coordinator.GROUP_RELEASE),
    *(cluster.CLUSTER_USAGE, cluster.CONFIGS, cluster.CONFIG_ALTERATION),
    *(cluster.ELECTION, cluster.UNCLEAN_ELECTION),
    *(reassign.PROPOSAL, reassign.REASSIGNMENT, reassign.REASSIGNMENTS, reassign.PLANS),
    *(reassign.STORED_PLAN_DOCUMENT, reassign.CANCELLATION, reassign.PLAN),
    *(audit.FILES, audit.TREE, audit.DIFF, audit.OWNERS, audit.OFFSETS, audit.SESSIONS),
    *(audit.FINDINGS, audit.SUMMARY, audit.REPORT, audit.RUN, audit.EXPORT),
    *(base.ZNODE_DOCUMENT, base.ZNODE_LIST, base.ZNODES, base.STATUS, base.FINDINGS, base.FIX),
)

SCHEMAS: Mapping[str, Schema] = {
    **{one.name: one.schema for one in _DOCUMENTS},
    # One name for two documents: `group list` has summaries, `group describe` of several groups whole ones.
    base.GROUPS.name: object_of(
        **{
            **base.GROUPS.schema["properties"],
            "groups": list_of({"anyOf": [base.GROUP_SUMMARY.schema, base.GROUP.schema]}),
        }
    ),
}

_EVENTS: tuple[JsonEvent[Any], ...] = (*member_events.EVENTS, *broker_events.EVENTS, serving.READY)

EVENTS: Mapping[str, Schema] = {one.name: one.schema for one in _EVENTS}
