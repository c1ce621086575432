"""Schemas of what is said about brokers, controllers, configurations, elections and reassignments."""

from __future__ import annotations

from collections.abc import Mapping

from .schema_parts import (
    BOOLEAN,
    COUNT,
    INTEGER,
    LEADERLESS,
    LOG_END,
    SESSION,
    STRING,
    TIME,
    Schema,
    document,
    list_of,
    map_of,
    nullable,
    object_of,
    word,
)

BROKERS = list_of(INTEGER)

_KIND = word("zkgroup", "kafka")
_BROKER = {
    "broker": COUNT,
    "host": nullable(STRING),
    "port": INTEGER,
    "registered_at": TIME,
    "version": COUNT,
    "epoch": COUNT,
    "kind": _KIND,
    "role": word("data", "controller"),
    "controller": BOOLEAN,
}
_PLACE = object_of(topic=STRING, partition=COUNT)
_KAFKA_FILE = object_of(
    version=COUNT, partitions=list_of(object_of(topic=STRING, partition=COUNT, replicas=BROKERS))
)
_SETTING_CHANGES = list_of(object_of(name=STRING, before=nullable(STRING), after=nullable(STRING)))
_MOVE = {"topic": STRING, "partition": COUNT, "from": nullable(BROKERS), "to": BROKERS}
_UNREADABLE = object_of(path=STRING, detail=STRING)
_KEPT = {
    "plan": STRING,
    "state": word("running", "paused", "done", "cancelled", "failed"),
    "reason": nullable(STRING),
    "next_phase": COUNT,
    "phases": COUNT,
    "done": nullable(COUNT),
    "total": COUNT,
    "throttle": nullable(COUNT),
    "by": STRING,
    "made_at": TIME,
}
_LOADS = list_of(
    object_of(
        broker=COUNT,
        replicas_before=COUNT,
        replicas_after=COUNT,
        leaders_before=COUNT,
        leaders_after=COUNT,
    )
)

CLUSTER_SCHEMAS: Mapping[str, Schema] = {
    "zkgroup.topic_alteration/1": document(
        "topic_alteration",
        topic=STRING,
        executed=BOOLEAN,
        undo=nullable(STRING),
        partitions_before=COUNT,
        partitions_after=COUNT,
        added=list_of(object_of(partition=COUNT, replicas=BROKERS)),
        configs=_SETTING_CHANGES,
        **LEADERLESS,
    ),
    "zkgroup.brokers/1": document("brokers", brokers=list_of(object_of(**_BROKER))),
    "zkgroup.broker/1": document(
        "broker",
        **_BROKER,
        session=SESSION,
        rack=nullable(STRING),
        jmx_port=INTEGER,
        endpoints=list_of(STRING),
        replicas=COUNT,
        leaders=COUNT,
        preferred=COUNT,
        out_of_sync=list_of(_PLACE),
        logs=nullable(list_of(object_of(topic=STRING, partition=COUNT, **LOG_END))),
        failed=nullable(list_of(object_of(topic=STRING, partition=COUNT, since=TIME, reason=STRING))),
    ),
    "zkgroup.controller/1": document(
        "controller",
        controller=COUNT,
        epoch=nullable(COUNT),
        elected_at=TIME,
        session=SESSION,
        kind=_KIND,
        last_processed_zxid=nullable(COUNT),
    ),
    "zkgroup.controller_history/1": document(
        "controller_history",
        epochs=list_of(
            object_of(
                **{
                    "epoch": COUNT,
                    "broker": COUNT,
                    "session": SESSION,
                    "reason": STRING,
                    "from": TIME,
                    "until": nullable(TIME),
                    "load_ms": nullable(COUNT),
                    "ended": nullable(STRING),
                }
            )
        ),
    ),
    "zkgroup.broker_forgetting/1": document(
        "broker_forgetting",
        broker=COUNT,
        executed=BOOLEAN,
        left=list_of(
            object_of(topic=STRING, czxid=nullable(INTEGER), partitions=list_of(COUNT), is_there=BOOLEAN)
        ),
    ),
    "zkgroup.controller_resignation/1": document(
        "controller_resignation",
        controller=COUNT,
        epoch=nullable(COUNT),
        czxid=COUNT,
        executed=BOOLEAN,
        resigned=nullable(BOOLEAN),
        successor=nullable(COUNT),
    ),
    "zkgroup.cluster_usage/1": document(
        "cluster_usage",
        counts=object_of(
            brokers=COUNT,
            topics=COUNT,
            partitions=COUNT,
            reassigning=COUNT,
            notifications=COUNT,
            requests=COUNT,
        ),
        release=nullable(word("0.8.2", "1.1-2.6", "2.7+", "zkgroup")),
        usage=list_of(
            object_of(
                quantity=word("connections", "watches", "leaf_znodes", "znodes"),
                early=nullable(COUNT),
                early_formula=nullable(STRING),
                corrected=nullable(COUNT),
                corrected_formula=nullable(STRING),
                measured=nullable(COUNT),
                measured_by=nullable(STRING),
                reason=nullable(STRING),
            )
        ),
        servers=list_of(
            object_of(
                server=STRING,
                by=nullable(STRING),
                mode=nullable(STRING),
                version=nullable(STRING),
                connections=nullable(COUNT),
                watches=nullable(COUNT),
                znodes=nullable(COUNT),
                reason=nullable(STRING),
            )
        ),
        unreadable=list_of(STRING),
    ),
    "zkgroup.configs/1": document(
        "configs",
        configs=list_of(object_of(entity_type=STRING, entity=STRING, configs=map_of(STRING))),
    ),
    "zkgroup.config_alteration/1": document(
        "config_alteration",
        entity_type=STRING,
        entity=STRING,
        executed=BOOLEAN,
        undo=nullable(STRING),
        notification=word("bare", "v1", "v2"),
        configs=_SETTING_CHANGES,
    ),
    "zkgroup.election/1": document(
        "election",
        election=word("preferred"),
        executed=BOOLEAN,
        converged=nullable(BOOLEAN),
        partitions=list_of(
            object_of(
                topic=STRING,
                partition=COUNT,
                leader=nullable(INTEGER),
                preferred=nullable(INTEGER),
                outcome=word(
                    "elects",
                    "leads",
                    "not_live",
                    "not_in_isr",
                    "no_state",
                    "unreadable",
                    "being_deleted",
                    "unhosted",
                ),
            )
        ),
    ),
    "zkgroup.unclean_election/1": document(
        "unclean_election",
        executed=BOOLEAN,
        converged=nullable(BOOLEAN),
        epoch=nullable(COUNT),
        partitions=list_of(
            object_of(
                topic=STRING,
                partition=COUNT,
                replicas=BROKERS,
                leader=nullable(INTEGER),
                isr=nullable(BROKERS),
                live=BROKERS,
                outcome=word(
                    "unclean",
                    "clean",
                    "led",
                    "not_live",
                    "no_state",
                    "unreadable",
                    "being_deleted",
                    "unhosted",
                ),
                verdict=nullable(word("unclean", "elected", "not_needed", "refused")),
                elected=nullable(COUNT),
                reason=nullable(STRING),
            )
        ),
    ),
    "zkgroup.reassignment_proposal/1": document(
        "reassignment_proposal", current=_KAFKA_FILE, proposed=_KAFKA_FILE, moves=COUNT
    ),
    "zkgroup.reassignment/1": document(
        "reassignment",
        executed=BOOLEAN,
        undo=nullable(STRING),
        rollback_file=nullable(STRING),
        throttle=nullable(COUNT),
        moves=COUNT,
        partitions=list_of(object_of(**_MOVE, changes=BOOLEAN)),
        status=nullable(word("done", "in_progress", "failed")),
    ),
    "zkgroup.reassignments/1": document(
        "reassignments",
        reassignments=list_of(
            object_of(
                **_MOVE,
                status=word("done", "in_progress", "failed", "unknown"),
                detail=nullable(STRING),
            )
        ),
        plans=nullable(list_of(object_of(**_KEPT))),
        unreadable=nullable(list_of(_UNREADABLE)),
    ),
    "zkgroup.stored_plan/1": document(
        "stored_plan",
        executed=BOOLEAN,
        **_KEPT,
        moves=list_of(list_of(object_of(topic=STRING, partition=COUNT, to=BROKERS))),
    ),
    "zkgroup.reassignment_cancellation/1": document(
        "reassignment_cancellation",
        executed=BOOLEAN,
        undo=nullable(STRING),
        rollback_file=nullable(STRING),
        partitions=list_of(object_of(**_MOVE, order_known=BOOLEAN, order_from=nullable(STRING))),
        status=nullable(word("done", "in_progress", "failed")),
        unreadable=nullable(_UNREADABLE),
    ),
    "zkgroup.reassignment_plan/1": document(
        "reassignment_plan",
        intent=STRING,
        moves=COUNT,
        least_moves=COUNT,
        bytes=nullable(COUNT),
        leader_changes=COUNT,
        files=list_of(STRING),
        phases=list_of(object_of(moves=COUNT, bytes=nullable(COUNT), partitions=COUNT)),
        changes=list_of(object_of(**_MOVE, reason=STRING)),
        loads=_LOADS,
        notes=list_of(STRING),
        executed=BOOLEAN,
        rollback_file=nullable(STRING),
        kept=nullable(object_of(**_KEPT)),
    ),
}
