"""`zkgroup zookeeper start`: the embedded ZooKeeper in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from zkgroup.errors import EmbeddedServerError

from .frame import group, output
from .output import Output, say
from .signals import StopSignals
from .units import counted

zookeeper = group(
    "zookeeper", help="Run the embedded ZooKeeper (development and tests; needs Java and pyspark)."
)

_LOOK_S = 1.0


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
    help="Folder that keeps the data.  [default: one that goes with the servers]",
)
def start(servers: str, port: int | None, data: Path | None) -> None:
    """Start ZooKeeper and serve until Ctrl-C or SIGTERM.

    Real server processes from the jars of pyspark. They end with this command, even when it is killed.
    """
    from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

    out = output()
    if out.format not in ("table", "ndjson"):
        raise click.UsageError(f"zookeeper start prints events: --format table or ndjson, not {out.format}")
    count = int(servers)
    with StopSignals() as stop:
        ensemble = EmbeddedZooKeeper(servers=count, port=port, data_dir=data)
        try:
            ensemble.start()
            _ready(out, ensemble.address, ensemble.pids)
            while not stop.wait(_LOOK_S):
                if len(ensemble.pids) < count:
                    lost = count - len(ensemble.pids)
                    raise EmbeddedServerError(
                        f"{counted(lost, 'server')} ended unasked; see {ensemble.data_dir}"
                    )
        finally:
            ensemble.stop()
    say("stopped")


def _ready(out: Output, address: str, pids: tuple[int, ...]) -> None:
    if out.format == "ndjson":
        out.event({"event": "ready", "zookeeper": address, "pids": list(pids)})
        return
    out.line(f"{out.paint('ready', 'good')}  {out.paint(address, 'bold')}  {counted(len(pids), 'server')}")
    say(f"try: export ZKGROUP_ZOOKEEPER={address}; zkgroup status\nCtrl-C ends it")
