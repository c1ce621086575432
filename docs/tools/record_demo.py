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

from zkgroup.demo.audit import AuditRun
from zkgroup.demo.brokers import BrokersRun
from zkgroup.demo.coordinator import CoordinatorRun
from zkgroup.demo.group import GroupRun
from zkgroup.demo.run import DemoOptions, DemoRun

PICTURES = Path(__file__).resolve().parent.parent
WIDTH = 100
HEIGHT = 26
"""Of each moment in the group's picture, so that two of them and the proof fit on a page."""
PAUSED_S = 1.0
"""What the session of the paused client has left in the picture of the coordinator's demo."""
WIDTH_BROKERS = 130
WIDTH_AUDIT = 140


class Album:
    """A screen that keeps drawings of some moments: of each the first or the last one."""

    def __init__(self, width: int, height: int = 40) -> None:
        self._size = width, height
        self._moments: list[tuple[Callable[[Any], bool], bool]] = []
        self._drawn: dict[int, RenderableType] = {}

    def first(self, moment: Callable[[Any], bool]) -> None:
        """Keeps the first state at which this is so."""
        self._moments.append((moment, False))

    def last(self, moment: Callable[[Any], bool]) -> None:
        """Keeps the last state at which this is so."""
        self._moments.append((moment, True))

    @property
    def drawn(self) -> list[RenderableType]:
        """The drawings, in the order of the moments."""
        return [self._drawn[number] for number in range(len(self._moments))]

    def __call__(self, run: DemoRun) -> None:
        """Draws a state that is to be kept."""
        for number, (moment, is_last) in enumerate(self._moments):
            if (is_last or number not in self._drawn) and moment(run):
                self._drawn[number] = run.draw(*self._size)


def _dead_owner(run: GroupRun) -> bool:
    """The dead member's session lives on: it owns partitions still."""
    dead = [one for one in run.members if one.ended]
    return "is dead" in run.headline and any(run.owned.of(one.name) for one in dead)


def _taken_over(run: GroupRun) -> bool:
    """The survivors have taken over, and the new member has its share."""
    return any("has its share" in one.text for one in run.events)


def _dead_controller(run: BrokersRun) -> bool:
    """The controller was killed in the middle of a move."""
    return "is dead" in run.headline and run.open_moves > 0


def _dead_coordinator(run: CoordinatorRun) -> bool:
    """The coordinator was killed, and no other has taken the group over yet."""
    return "the coordinator is dead" in run.headline and run.coordinated.phase is None


def _paused_client(run: CoordinatorRun) -> bool:
    """The session of the paused client is about to end."""
    session_s = run.session_s(run.paused)
    return "is paused" in run.headline and session_s is not None and session_s < PAUSED_S


def _noticed(run: GroupRun) -> bool:
    """Whether the foreign client has written twice."""
    return "the owners detect it" in run.headline


def record_group() -> None:
    """`zkgroup demo`."""
    album = Album(WIDTH, HEIGHT)
    album.last(_dead_owner)
    album.first(_taken_over)
    run = GroupRun.run(DemoOptions(), album)
    _draw("demo", "zkgroup demo", album.drawn, lambda out: print_group(out, run), WIDTH)


def record_brokers() -> None:
    """`zkgroup demo brokers`."""
    album = Album(WIDTH_BROKERS)
    album.last(_dead_controller)
    run = BrokersRun.run(DemoOptions(), album)
    command = "zkgroup demo brokers"
    _draw("demo-brokers", command, album.drawn, lambda out: print_brokers(out, run), WIDTH_BROKERS)


def record_coordinator() -> None:
    """`zkgroup demo coordinator`."""
    album = Album(WIDTH_BROKERS, HEIGHT)
    album.first(_dead_coordinator)
    album.first(_paused_client)
    run = CoordinatorRun.run(DemoOptions(), album)
    command = "zkgroup demo coordinator"
    _draw("demo-coordinator", command, album.drawn, lambda out: print_coordinator(out, run), WIDTH_BROKERS)


def record_audit() -> None:
    """`zkgroup demo audit`; the report that it leaves is of no use here."""
    album = Album(WIDTH)
    album.first(_noticed)
    run = AuditRun.run(DemoOptions(), album)
    for path in run.report:
        path.unlink()
    run.report[0].parent.rmdir()
    _draw("demo-audit", "zkgroup demo audit", album.drawn, lambda out: print_audit(out, run), WIDTH_AUDIT)


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
