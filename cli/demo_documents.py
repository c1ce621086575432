"""The JSON documents of `zkgroup demo`, from the reports of the demos. Only that command imports them."""

from __future__ import annotations

from zkgroup.demo.audit import AuditDemoReport, Planted
from zkgroup.demo.brokers import BrokersDemoReport
from zkgroup.demo.clients_step import ClientRun, SegmentDump
from zkgroup.demo.coordinator import ClientResult, CoordinatorDemoReport
from zkgroup.demo.flight_data import AirportDelay
from zkgroup.demo.group import GroupDemoReport
from zkgroup.demo.kafka_clients import LeftOut
from zkgroup.demo.stage import CheckResult
from zkgroup.history import ClusterFigures, Figures

from .audit_rows import OWNER
from .schema import COUNT, INTEGER, Document, JsonKey, Shape, given, list_of, object_of

SEVERITIES = ("error", "warning", "info")
"""Counts of findings are printed in this order."""

CHECK = Shape(CheckResult)
AIRPORT = Shape(AirportDelay, "airport", "flights", given("delay_minutes", INTEGER, "delay_sum"))
FIGURES = Shape(
    Figures,
    *("records", "deliveries", "claims", "ownership_changes", "commits", "refused_commits"),
    *("refused_stale_commits", "unknown_outcomes"),
)
GROUP_DEMO = Document(
    "demo",
    Shape(
        GroupDemoReport,
        *("group", "zookeeper", "kept=folder", "passed", "checks", "history=figures", "records", "twice"),
        *("took_s", "takeover_s", "airports"),
    ),
)
CLUSTER_FIGURES = Shape(
    ClusterFigures,
    *("transactions", "elections", "governed_writes", "isr_writes", "refused_writes", "leader_changes"),
    *("moves_begun", "moves_ended"),
)
CLIENT_RUN = Shape(ClientRun, "client", "version", "produced", "read=records_read")
LEFT_OUT = Shape(LeftOut)
SEGMENT_DUMP = Shape(SegmentDump, "file", "batches")
BROKERS_DEMO = Document(
    "demo_brokers",
    Shape(
        BrokersDemoReport,
        *("zookeeper", "kept=folder", "passed", "checks", "history=figures"),
        *("acknowledged", "may_be_repeated=repeated", "consumed"),
        *("controller_epochs=epochs", "replicas_moved=moved", "failovers_s", "took_s"),
        *("clients", "clients_left_out=left_out", "segment=dump"),
    ),
)
CLIENT_RESULT = Shape(ClientResult)
COORDINATOR_DEMO = Document(
    "demo_coordinator",
    Shape(
        CoordinatorDemoReport,
        *("group", "zookeeper", "kept=folder", "passed", "checks", "history=figures", "clients"),
        *("clients_left_out=left_out", "records", "twice", "generations", "coordinators"),
        *("failover_s", "kept_generation", "took_s"),
    ),
)
PLANTED = Shape(Planted, "findings", "partition", "owner", "session", "zxid", "before", "after")
AUDIT_DEMO = Document(
    "demo_audit",
    Shape(
        AuditDemoReport,
        *("group", "zookeeper", "kept=folder", "passed", "checks", "planted"),
        JsonKey(
            "findings",
            object_of(**dict.fromkeys(SEVERITIES, COUNT)),
            lambda report: {severity: report.severities.get(severity, 0) for severity in SEVERITIES},
        ),
        "partition",
        JsonKey("owners", list_of(OWNER.schema), lambda report: [OWNER.json(life) for life in report.owners]),
        *("report", "took_s"),
    ),
)
