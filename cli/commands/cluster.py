"""`zkgroup cluster usage`: what the cluster costs its ensemble."""

from __future__ import annotations

import click

from zkgroup.admin.cluster.usage import ClusterUsage, Counts, Estimate, Usage, read_usage
from zkgroup.errors import PartlyDoneError
from zkgroup.model.text import counted, named
from zkgroup.zookeeper.four_letter_words import ADMIN_PORT, ServerStatus
from zkgroup.zookeeper.settings import Address

from ..app import group as make_group
from ..app import output, shared
from ..context import connected, target
from ..render import Cell, Output, echo_err
from ..schema import SECONDS, Document, KeyColumn, Shape, given, nullable, word

cluster = make_group(
    "cluster",
    help="""Show what the cluster costs its ensemble.

    \b
    Example:
      zkgroup cluster usage""",
)


def _formula(estimate: Estimate | None) -> Cell | None:
    return None if estimate is None else Cell(estimate.formula, "dim")


COUNTS = Shape(Counts)
SERVER = Shape(
    ServerStatus,
    *("server", "by", "mode", "version", "connections", "watches", "znodes", "data_bytes"),
    given("average_latency_ms", nullable(SECONDS), "average_latency"),
    *("synced_followers", "reason"),
)
USAGE = Shape(
    Usage,
    given("quantity", word("connections", "watches", "leaf_znodes", "znodes")),
    *("early=early.value", "early_formula=early.formula"),
    *("corrected=corrected.value", "corrected_formula=corrected.formula"),
    *("measured", "measured_by", "reason"),
    columns=(
        KeyColumn("quantity", cell=lambda row: row.quantity.replace("_", " ")),
        KeyColumn("early", "SEED FORMULA"),
        KeyColumn("early_formula", "FORMULA", lambda row: _formula(row.early), rank=2),
        KeyColumn("corrected", "CORRECTED FORMULA"),
        KeyColumn("corrected_formula", "FORMULA OF {}", lambda row: _formula(row.corrected), rank=1),
        "measured",
        KeyColumn("measured_by", "BY", lambda row: Cell(row.measured_by, "dim") if row.measured_by else None),
    ),
)
CLUSTER_USAGE = Document(
    "cluster_usage",
    Shape(
        ClusterUsage,
        *("counts", given("release", nullable(word("0.8.2", "1.1-2.6", "2.7+", "zkgroup")))),
        *("usage=rows", "servers", "unreadable"),
    ),
    rows="usage",
    columns=("quantity", "early", "corrected", "measured", "measured_by", "reason"),
)


@cluster.command()
@click.option(
    "--admin-port",
    type=click.IntRange(0, 65535),
    default=ADMIN_PORT,
    show_default=True,
    metavar="PORT",
    help="Port of the servers' AdminServers, asked where four-letter words are not allowed; 0: do not ask.",
)
def usage(admin_port: int) -> None:
    """Count connections, watches and znodes of the ensemble.

    Each as estimated by the seed formula, by the corrected formula, and as measured. Servers are
    asked by `mntr` and `wchs` where allowed, else their AdminServer; name all of them in the address. Znodes
    are counted by a walk through the tree.

    \b
    Example:
      zkgroup -z zk1:2181,zk2:2181,zk3:2181 cluster usage
    """
    out = output()
    where = target(shared())
    address = Address.parse(where.zookeeper)
    encrypted = bool(where.tls_ca or where.tls_cert or where.tls_key)
    with connected() as ensemble:
        found = read_usage(ensemble, address.hosts, admin_port=admin_port or None, words=not encrypted)
    if not CLUSTER_USAGE.print(out, found.as_of, found):
        _show(out, found)
    if found.unreadable:
        raise PartlyDoneError(f"not counted: {named(found.unreadable)}")


def _show(out: Output, found: ClusterUsage) -> None:
    n = found.counts
    out.line(
        f"{counted(n.brokers, 'broker')} (B), {counted(n.topics, 'topic')} (T), "
        f"{counted(n.partitions, 'partition')} (P), {n.reassigning} being reassigned (R), "
        f"{counted(n.notifications, 'change notification')} (C), {counted(n.requests, 'request')} (A)"
    )
    out.line()
    USAGE.table(out, found.rows, found.release or "-")
    reasons: dict[str, list[str]] = {}
    for row in found.rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row.quantity.replace("_", " "))
    for reason, quantities in reasons.items():
        echo_err(f"note: {', '.join(quantities)}: {reason}")
    if found.unreadable:
        paths = counted(len(found.unreadable), "path")
        echo_err(f"note: {paths} may not be read: the formulas may count too little")
    if found.release is None:
        echo_err("note: no formulas: no broker is registered that may be read, or one of 0.9 to 0.10.1")
