"""Records the picture of the README: `python -m docs.tools.record_demo`, from the project's folder.

Runs the demo and draws what a terminal shows: the live view a moment after the SIGKILL, and what is
printed at the end, from one real run.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text
from zkgroup_cli.demo_command import print_report
from zkgroup_cli.output import Output

from zkgroup.demo.group.scenario import DemoOptions, run
from zkgroup.demo.group.scene import Scene
from zkgroup.demo.group.view import render
from zkgroup.demo.story import Happening

PICTURE = Path(__file__).resolve().parent.parent / "demo.svg"
WIDTH = 100


class Album:
    """A screen that keeps what it was shown."""

    def __init__(self) -> None:
        self.scenes: list[Scene] = []

    def happened(self, happening: Happening) -> None:
        """Part of each scene."""

    def show(self, scene: Scene) -> None:
        """Keeps it."""
        self.scenes.append(scene)

    def after_the_kill(self) -> Scene:
        """The last scene in which the dead member's session lives on: it owns partitions still."""
        dead = [scene for scene in self.scenes if "is dead" in scene.headline]
        return [scene for scene in dead if any(row.gone and row.partitions for row in scene.members)][-1]


def main() -> None:
    """Runs the demo and writes the picture."""
    album = Album()
    report = run(DemoOptions(), album)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_report(Output("table", color=True, width=WIDTH), report)
    console = Console(
        record=True, width=WIDTH, force_terminal=True, color_system="truecolor", file=io.StringIO()
    )
    console.print(Text("$ zkgroup demo", style="bold"))
    console.print(render(album.after_the_kill(), WIDTH))
    console.print(Text("..."))
    console.print(Text.from_ansi(printed.getvalue()))
    PICTURE.write_text(_self_contained(console.export_svg(title="zkgroup demo")), encoding="utf-8")


def _self_contained(svg: str) -> str:
    """Without the web font that rich refers to: the picture asks no other host for anything."""
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    main()
