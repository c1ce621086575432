"""Records the demos' pictures: `python -m docs.tools.record_demo [group|brokers|coordinator|audit]`, from the top folder.

Runs the demo and draws what a terminal shows in one run: the live view at one or two moments, and what is
printed at the end. Of the group's demo the moments are the death of a member and the end of the takeover.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text
from zkgroup_cli.commands.demo import print_audit_report as print_audit
from zkgroup_cli.commands.demo import print_brokers_report as print_brokers
from zkgroup_cli.commands.demo import print_coordinator_report as print_coordinator
from zkgroup_cli.commands.demo import print_report as print_group
from zkgroup_cli.render import Output

from zkgroup.demo import audit
from zkgroup.demo.brokers import scenario as brokers
from zkgroup.demo.brokers import view as brokers_view
from zkgroup.demo.brokers.demo_cluster import BrokersDemoOptions
from zkgroup.demo.brokers.view import ClusterView
from zkgroup.demo.coordinator import scenario as coordinator
from zkgroup.demo.coordinator import view as coordinator_view
from zkgroup.demo.coordinator.cluster import CoordinatorDemoOptions
from zkgroup.demo.coordinator.view import CoordinatorView
from zkgroup.demo.group import scenario as group
from zkgroup.demo.group import view as group_view
from zkgroup.demo.group.view import GroupView
from zkgroup.demo.progress import ProgressEvent

PICTURES = Path(__file__).resolve().parent.parent
WIDTH = 100
HEIGHT = 26
"""Of each moment in the group's picture, so that two of them and the proof fit on a page."""
PAUSED_S = 1.0
"""What the session of the paused client has left in the picture of the coordinator's demo."""
WIDTH_BROKERS = 130
WIDTH_AUDIT = 140


class Album:
    """A screen that keeps what it was shown."""

    def __init__(self) -> None:
        self.views: list[Any] = []

    def on_event(self, event: ProgressEvent) -> None:
        """Does nothing: each view has the events."""

    def show(self, view: Any) -> None:
        """Keeps it."""
        self.views.append(view)


def _dead_owner(view: GroupView) -> bool:
    """The dead member's session lives on: it owns partitions still."""
    return "is dead" in view.headline and any(row.gone and row.partitions for row in view.members)


def _taken_over(view: GroupView) -> bool:
    """The survivors have taken over, and the new member has its share."""
    return any("has its share" in one.text for one in view.events)


def _dead_controller(view: ClusterView) -> bool:
    """The controller was killed in the middle of a move."""
    return "is dead" in view.headline and view.open_moves > 0


def _dead_coordinator(view: CoordinatorView) -> bool:
    """The coordinator was killed, and no other has taken the group over yet."""
    return "the coordinator is dead" in view.headline and view.group.phase is None


def _paused_client(view: CoordinatorView) -> bool:
    """The session of the paused client is about to end."""
    paused = [row for row in view.members if row.state == "paused"]
    return any(row.expires_in_s is not None and row.expires_in_s < PAUSED_S for row in paused)


def _noticed(view: GroupView) -> bool:
    """Whether the foreign client has written twice."""
    return "the owners detect it" in view.headline


def record_group() -> None:
    """`zkgroup demo`."""
    album = Album()
    report = group.run(group.GroupDemoOptions(), album)
    dead = [one for one in album.views if _dead_owner(one)][-1]
    taken_over = next(one for one in album.views if _taken_over(one))
    drawn = [group_view.render(view, WIDTH, HEIGHT) for view in (dead, taken_over)]
    _draw("demo", "zkgroup demo", drawn, lambda out: print_group(out, report), WIDTH)


def record_brokers() -> None:
    """`zkgroup demo brokers`."""
    album = Album()
    report = brokers.run(BrokersDemoOptions(), album)
    view = [one for one in album.views if _dead_controller(one)][-1]
    drawn = brokers_view.render(view, WIDTH_BROKERS)
    command = "zkgroup demo brokers"
    _draw("demo-brokers", command, [drawn], lambda out: print_brokers(out, report), WIDTH_BROKERS)


def record_coordinator() -> None:
    """`zkgroup demo coordinator`."""
    album = Album()
    report = coordinator.run(CoordinatorDemoOptions(), album)
    dead = next(one for one in album.views if _dead_coordinator(one))
    paused = next(one for one in album.views if _paused_client(one))
    drawn = [coordinator_view.render(view, WIDTH_BROKERS, HEIGHT) for view in (dead, paused)]
    command = "zkgroup demo coordinator"
    _draw("demo-coordinator", command, drawn, lambda out: print_coordinator(out, report), WIDTH_BROKERS)


def record_audit() -> None:
    """`zkgroup demo audit`; the report that it leaves is of no use here."""
    album = Album()
    report = audit.run(audit.AuditDemoOptions(), album)
    for path in report.report:
        path.unlink()
    report.report[0].parent.rmdir()
    view = next(one for one in album.views if _noticed(one))
    drawn = group_view.render(view, WIDTH)
    _draw("demo-audit", "zkgroup demo audit", [drawn], lambda out: print_audit(out, report), WIDTH_AUDIT)


def _draw(
    name: str, command: str, views: Sequence[RenderableType], show: Callable[[Output], None], width: int
) -> None:
    """One picture: the command, the scenes, and what is printed at the end."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        show(Output("table", color=True, width=width))
    console = Console(
        record=True, width=width, force_terminal=True, color_system="truecolor", file=io.StringIO()
    )
    console.print(Text(f"$ {command}", style="bold"))
    for view in views:
        console.print(view)
        console.print(Text("..."))
    console.print(Text.from_ansi(printed.getvalue()))
    picture = _self_contained(console.export_svg(title=command, unique_id=name))
    (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


def _self_contained(svg: str) -> str:
    """Without the web font that rich refers to: the picture asks no other host for anything."""
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    recorders = {
        "group": record_group,
        "brokers": record_brokers,
        "coordinator": record_coordinator,
        "audit": record_audit,
    }
    recorders[sys.argv[1] if len(sys.argv) > 1 else "group"]()
