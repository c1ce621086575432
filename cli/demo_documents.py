"""The JSON documents and tables of `zkgroup demo`, from its runs. Only that command imports them."""

from __future__ import annotations

from zkgroup.audit.findings.rules import SEVERITIES
from zkgroup.demo.audit import AuditRun, Planted
from zkgroup.demo.brokers import BrokersRun
from zkgroup.demo.checks import CheckResult
from zkgroup.demo.clients_step import ClientIO, SegmentDump
from zkgroup.demo.coordinator import ClientResult, CoordinatorRun
from zkgroup.demo.flight_data import AirportDelay
from zkgroup.demo.group import GroupRun
from zkgroup.demo.kafka_clients import LeftOut
from zkgroup.history import ClusterFigures, Figures
from zkgroup.model.text import hex_zxid

from .audit_rows import OWNER
from .render import Cell
from .schema import COUNT, INTEGER, Document, JsonKey, KeyColumn, Shape, given, list_of, object_of

CHECK = Shape(
    CheckResult,
    columns=(
        KeyColumn("holds", "proved", lambda one: Cell("yes", "good") if one.holds else Cell("NO", "bad")),
        KeyColumn("statement", "", shorten="wrap", least=32),
        KeyColumn("evidence", "evidence", shorten="wrap", least=20),
    ),
)
AIRPORT = Shape(
    AirportDelay,
    *("airport", "flights", given("delay_minutes", INTEGER, "delay_sum")),
    columns=(
        *(KeyColumn("airport", "airport"), KeyColumn("flights", "flights")),
        KeyColumn("minutes", "minutes", lambda one: f"{one.mean:.1f}", right=True),
    ),
)
FIGURES = Shape(
    Figures,
    *("records", "deliveries", "claims", "ownership_changes", "commits", "refused_commits"),
    *("refused_stale_commits", "unknown_outcomes"),
)
GROUP_DEMO = Document(
    "demo",
    Shape(
        GroupRun,
        *("group", "zookeeper", "kept", "passed", "checks", "history=figures"),
        *("records=reduction.records", "twice=reduction.twice", "took_s", "takeover_s"),
        "airports=reduction.slowest",
    ),
)
CLUSTER_FIGURES = Shape(
    ClusterFigures,
    *("transactions", "elections", "governed_writes", "isr_writes", "refused_writes", "leader_changes"),
    *("moves_begun", "moves_ended"),
)
CLIENT_IO = Shape(
    ClientIO,
    *("client", "version"),
    JsonKey("produced", COUNT, lambda run: len(run.records)),
    JsonKey("read", COUNT, lambda run: len(run.read)),
    columns=(
        *(KeyColumn("client", "client"), KeyColumn("version", "version")),
        KeyColumn("produced", "produced", lambda one: f"{len(one.records):,}"),
        KeyColumn("read", "read", lambda one: f"{len(one.read):,}"),
    ),
)
LEFT_OUT = Shape(LeftOut)
SEGMENT_DUMP = Shape(SegmentDump, "file", "batches")
BROKERS_DEMO = Document(
    "demo_brokers",
    Shape(
        BrokersRun,
        *("zookeeper", "kept", "passed", "checks", "history=log_figures"),
        *("acknowledged", "may_be_repeated=repeated", "consumed=reduction.records"),
        *("controller_epochs=epochs", "replicas_moved=moved", "failovers_s", "took_s"),
        *("clients", "clients_left_out=left_out", "segment=dump"),
    ),
)
ENDS = {"left": "left", "killed": "killed", "paused": "paused past its session, came back, left"}
"""The last word about a client in the coordinator's demo, by the way it ended."""

CLIENT_RESULT = Shape(
    ClientResult,
    columns=(
        *(KeyColumn(key, key) for key in ("member", "client", "version")),
        KeyColumn("records", "records", lambda one: f"{one.records:,}"),
        KeyColumn("commits_failed", "failed commits"),
        KeyColumn("ended", "end", lambda one: ENDS[one.ended]),
    ),
)
COORDINATOR_DEMO = Document(
    "demo_coordinator",
    Shape(
        CoordinatorRun,
        *("group", "zookeeper", "kept", "passed", "checks", "history=log_figures", "clients"),
        *("clients_left_out=left_out", "records=reduction.records", "twice=reduction.twice"),
        *("generations", "coordinators", "failover_s", "kept_generation", "took_s"),
    ),
)
PLANTED = Shape(
    Planted,
    *("findings", "partition", "owner", "session", "zxid", "before", "after"),
    columns=(
        *(KeyColumn(key, key) for key in ("partition", "owner", "before", "after")),
        KeyColumn("zxid", "zxid", lambda one: hex_zxid(one.zxid), right=True),
        KeyColumn("findings", "found as", shorten="wrap", least=20),
    ),
)
AUDIT_DEMO = Document(
    "demo_audit",
    Shape(
        AuditRun,
        *("group", "zookeeper", "kept", "passed", "checks", "planted"),
        JsonKey(
            "findings",
            object_of(**dict.fromkeys(SEVERITIES, COUNT)),
            lambda run: {severity: run.severities.get(severity, 0) for severity in SEVERITIES},
        ),
        "partition",
        JsonKey(
            "owners", list_of(OWNER.schema), lambda run: [*map(OWNER.json, run.lives.get(run.partition, ()))]
        ),
        *("report", "took_s"),
    ),
)
