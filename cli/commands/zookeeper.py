"""`zkgroup zookeeper`: the embedded ZooKeeper in the foreground; chroots; who may change the znodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from zkgroup.admin.access import AccessPlan, SubtreeAccess, Target, access_change, plan_access
from zkgroup.admin.change import ChangeResult
from zkgroup.admin.znodes import create_chroot_change, plan_chroot
from zkgroup.errors import EmbeddedServerError
from zkgroup.model.text import counted

from ..app import group, output, shared
from ..confirm import print_result, run_at_once, run_change
from ..context import client_settings, connected, target
from ..param_types import size
from ..params import Consent, confirm_options
from ..render import Output, echo_err, progress_line
from ..schema import Document, NamedKeys, Shape, given, rows_of, word
from ..serving import READY, Ready, StopSignals

if TYPE_CHECKING:
    from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


zookeeper = group(
    "zookeeper",
    help="""Run a ZooKeeper; create a chroot; close or open znodes.

    The embedded ZooKeeper is for development and tests; it needs Java and the extra `embedded`.

    \b
    Example:
      zkgroup zookeeper start""",
)


class SubtreeChange(NamedTuple):
    """How many znodes of a subtree get another ACL."""

    path: str
    znodes: int
    changes: int

    @classmethod
    def of(cls, subtree: SubtreeAccess, wanted: Target) -> SubtreeChange:
        return cls(subtree.path, subtree.znodes, len(subtree.to_change(wanted)))


AccessResult = ChangeResult[AccessPlan, int, None]
SUBTREE_ACCESS = Shape(SubtreeChange, columns=("path", "znodes", "changes"))
ACCESS = Document(
    "zookeeper_access",
    Shape(
        AccessResult,
        *(given("target", word("closed", "open"), "plan.target"), "executed", "undo=undo_id"),
        given("holds", word("open", "closed", "partly"), "plan.access.holds"),
        rows_of(
            "subtrees",
            SUBTREE_ACCESS,
            lambda result: [SubtreeChange.of(one, result.plan.target) for one in result.plan.access.subtrees],
        ),
    ),
    rows="subtrees",
)
CHROOT = Document("chroot", NamedKeys(chroot=str, executed=bool, znodes=Sequence[str]))

_CHECK_S = 1.0
MIB = 1024**2


@zookeeper.command("start")
@click.option(
    "--servers", type=click.Choice(["1", "3"]), default="1", show_default=True, help="Size of the ensemble."
)
@click.option(
    "--port", type=click.IntRange(1, 65_535), help="Client port of the first server.  [default: free ports]"
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that keeps the data.  [default: a temporary one]",
)
@click.option(
    "--heap",
    type=size(least="16MiB"),
    default="256MiB",
    show_default=True,
    metavar="SIZE",
    help="Most memory for the objects of each server; its znodes must fit in.",
)
def start(servers: str, port: int | None, data: Path | None, heap: int) -> None:
    """Start ZooKeeper servers and serve until Ctrl-C or SIGTERM.

    The server processes come from the jars of pyspark. They end with this command, even when it is killed.

    \b
    Example:
      zkgroup zookeeper start --port 2181 --data /tmp/zookeeper
    """
    from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

    out = output()
    if out.format not in ("table", "ndjson"):
        raise click.UsageError(f"zookeeper start prints events: --format table or ndjson, not {out.format}")
    count = int(servers)
    ensemble = EmbeddedZooKeeper(servers=count, port=port, data_dir=data, heap_mb=heap // MIB)
    with StopSignals(ensemble.abandon_start) as stop:
        try:
            if _is_started(ensemble, stop):
                _ready(out, ensemble, heap // MIB)
            while not stop.wait(_CHECK_S):
                if len(ensemble.pids) < count:
                    lost = count - len(ensemble.pids)
                    raise EmbeddedServerError(
                        f"{counted(lost, 'server')} ended unexpectedly; see {ensemble.data_dir}"
                    )
        finally:
            ensemble.stop()
    echo_err("stopped")


@zookeeper.command("create-chroot")
@click.option("--dry-run", is_flag=True, help="Only show what would be created.")
def create_chroot(dry_run: bool) -> None:
    """Create the chroot at the end of the address. Acts at once.

    The address is -z HOST:PORT/CHROOT; every missing level is created. Neither Kafka nor any other zkgroup
    command creates a chroot: a misspelt one would be an empty ensemble.

    \b
    Example:
      zkgroup -z localhost:2181/kafka zookeeper create-chroot
    """
    from zkgroup.zookeeper.settings import Address

    out = output()
    chroot = Address.parse(target(shared()).zookeeper).chroot
    if not chroot:
        raise click.UsageError("the address names no chroot: write -z HOST:PORT/CHROOT")
    with connected(above_chroot=True) as ensemble:
        plan = plan_chroot(ensemble, chroot)
        wanted = run_at_once(create_chroot_change(ensemble, plan), dry_run=dry_run).executed
        as_of = ensemble.as_of()
    levels = plan.missing
    if CHROOT.print(out, as_of, chroot=chroot, executed=wanted, znodes=levels):
        return
    if not levels:
        out.line(f"{chroot} is there already: nothing to create")
    else:
        out.line(f"{'created' if wanted else 'would create'} {', '.join(levels)}")


@zookeeper.command("secure")
@confirm_options
def secure(consent: Consent) -> None:
    """Close the znodes of the cluster, as Kafka's tool does.

    Only the user of --zk-digest-file, --zk-sasl-file or --zk-tls-cert may change them then, and everyone may
    read what has no secrets. Without a chroot / is closed too: other programs on the ensemble can create
    nothing there. /consumers and the groups below stay as they are.

    Restart every broker with the same user and zookeeper.set.acl=true first. Whatever ends the command, run
    it again: it does what is left. Prints what would be done until --execute.

    \b
    Example:
      zkgroup -z localhost:2181 --zk-sasl-file kafka.toml zookeeper secure --execute
    """
    _change_access("closed", consent)


@zookeeper.command("open")
@confirm_options
def open_(consent: Consent) -> None:
    """Open the znodes of the cluster to everyone.

    Without a chroot / is opened too. Restart every broker without zookeeper.set.acl first, or what it
    creates stays closed. Whatever ends the command, run it again: it does what is left. Prints what would be
    done until --execute.

    \b
    Example:
      zkgroup -z localhost:2181 --zk-sasl-file kafka.toml zookeeper open --execute
    """
    _change_access("open", consent)


def _change_access(wanted: Literal["closed", "open"], consent: Consent) -> None:
    creator = replace(target(shared()), acl="creator")
    if wanted == "closed":
        client_settings(creator)  # refuses a user whom no server knows
    with connected() as ensemble, progress_line() as show:
        plan = plan_access(ensemble, wanted, lambda looked: show(f"looked at {looked}", looked))
        change = access_change(ensemble, plan, lambda done, total: show(f"set {done} of {total}", done))
        result = run_change(change, _show_access, consent)
    print_result(ACCESS, result, _show_access)


def _show_access(out: Output, result: AccessResult) -> None:
    plan, state = result.plan, result.plan.access.holds
    SUBTREE_ACCESS.table(out, [SubtreeChange.of(one, plan.target) for one in plan.access.subtrees])
    if not plan.paths:
        out.line(f"the cluster is {state} already: nothing to change")
    else:
        verb = {"closed": ("would close", "closed"), "open": ("would open", "opened")}[plan.target]
        count = result.written if result.written is not None else len(plan.paths)
        out.line(f"{verb[result.executed]} {counted(count, 'znode')}")


def _is_started(ensemble: EmbeddedZooKeeper, stop: StopSignals) -> bool:
    """Returns whether it serves; False where a signal came before."""
    try:
        ensemble.start()
    except EmbeddedServerError:
        if not stop.received:
            raise
    return not stop.received


def _ready(out: Output, ensemble: EmbeddedZooKeeper, heap_mib: int) -> None:
    address, pids = ensemble.address, ensemble.pids
    if out.format == "ndjson":
        out.event(READY.json(Ready(zookeeper=address, pids=pids, heap_bytes=heap_mib * MIB)))
        return
    servers = f"{counted(len(pids), 'server')} with a heap of {heap_mib} MiB"
    out.line(f"{out.paint('ready', 'good')}  {out.paint(address, 'bold')}  {servers}")
    echo_err(f"try: export ZKGROUP_ZOOKEEPER={address}; zkgroup status")
    echo_err("Ctrl-C ends it")
