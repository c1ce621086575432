"""The pictures of the concepts: drawn from a few shapes, once for light pages and once for dark ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from html import escape

LIGHT = {
    "ink": "#1f2328",
    "soft": "#57606a",
    "paper": "#ffffff",
    "box": "#f3f5f8",
    "edge": "#8c959f",
    "good": "#1a7f37",
    "good_box": "#dcf3e2",
    "warn": "#9a6700",
    "warn_box": "#fdf3d1",
    "bad": "#cf222e",
    "bad_box": "#fde3e1",
}
DARK = {
    "ink": "#e6edf3",
    "soft": "#a3adb8",
    "paper": "#131416",
    "box": "#22272e",
    "edge": "#6e7681",
    "good": "#56d364",
    "good_box": "#17331f",
    "warn": "#e3b341",
    "warn_box": "#3a2f0f",
    "bad": "#ff7b72",
    "bad_box": "#42201f",
}
Palette = Mapping[str, str]

CELL = 44
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass
class Drawing:
    """Shapes in the order drawn. Lengths are pixels; colours are names of the palette."""

    width: int
    height: int
    title: str
    palette: Palette
    shapes: list[str] = field(default_factory=list)
    _lanes: list[int] = field(default_factory=list)

    def box(
        self, x: int, y: int, width: int, height: int, fill: str = "box", edge: str = "edge", dash: str = ""
    ) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{self._colour(fill)}" '
            f'stroke="{self._colour(edge)}" stroke-width="1.5"{dashed}/>'
        )

    def text(
        self,
        x: int,
        y: int,
        text: str,
        colour: str = "ink",
        size: int = 15,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(
            f'<text x="{x}" y="{y}" fill="{self._colour(colour)}" font-size="{size}" '
            f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def line(
        self, x1: int, y1: int, x2: int, y2: int, colour: str = "soft", dash: str = "", arrow: bool = False
    ) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        head = f' marker-end="url(#{colour})"' if arrow else ""
        self.shapes.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{self._colour(colour)}" '
            f'stroke-width="2"{dashed}{head}/>'
        )

    def cells(self, x: int, y: int, labels: str, fills: str) -> None:
        """A log: one cell a label, its fill by letter (`b`ox, `g`ood, `w`arn, bad as `x`)."""
        names = {"b": "box", "g": "good", "w": "warn", "x": "bad"}
        for number, (label, fill) in enumerate(zip(labels.split(), fills, strict=True)):
            name = names[fill]
            left = x + number * CELL
            self.box(
                left,
                y,
                CELL - 4,
                34,
                "box" if name == "box" else f"{name}_box",
                "edge" if name == "box" else name,
            )
            self.text(
                left + (CELL - 4) // 2, y + 23, label, "ink" if name == "box" else name, anchor="middle"
            )

    def lanes(self, *names: str) -> None:
        """The participants of a sequence, each with its line of life; `message` names them by number."""
        self._lanes = [(2 * number + 1) * self.width // (2 * len(names)) for number in range(len(names))]
        for x, name in zip(self._lanes, names, strict=True):
            self.box(x - 84, 10, 168, 32)
            self.text(x, 31, name, anchor="middle", bold=True)
            self.line(x, 42, x, self.height - 8, "edge")

    def message(self, y: int, sender: int, receiver: int, text: str, colour: str = "soft") -> None:
        """An arrow between two lanes, with its text above it."""
        x1, x2 = self._lanes[sender], self._lanes[receiver]
        step = 4 if x2 > x1 else -4
        self.line(x1 + step, y, x2 - step, y, colour, arrow=True)
        self.note(y - 10, (x1 + x2) // 2, text, "ink" if colour == "soft" else colour)

    def act(self, y: int, lane: int, text: str, colour: str = "good") -> None:
        """What a participant does by itself."""
        self.note(y, self._lanes[lane], text, colour)

    def note(self, y: int, x: int, text: str, colour: str = "ink") -> None:
        """A line of text around x, with the paper behind it."""
        width = 7 * len(text) + 8
        x = min(max(x, width // 2 + 4), self.width - width // 2 - 4)
        self.shapes.append(
            f'<rect x="{x - width // 2}" y="{y - 12}" width="{width}" height="16" '
            f'fill="{self._colour("paper")}"/>'
        )
        self.text(x, y, text, colour, size=13, anchor="middle")

    def svg(self) -> str:
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 10 5 0 10z" fill="{self._colour(name)}"/></marker>'
            for name in ("soft", "good", "bad", "warn")
        )
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
            f"<title>{escape(self.title)}</title>",
            f"<defs>{heads}</defs>",
            f'<rect width="{self.width}" height="{self.height}" fill="{self._colour("paper")}"/>',
            *self.shapes,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _colour(self, name: str) -> str:
        return name if name == "none" else self.palette[name]


def replica_sets(palette: Palette) -> str:
    """AR, ISR and OSR of one partition."""
    one = Drawing(720, 236, "Assigned, in-sync and out-of-sync replicas of one partition", palette)
    one.box(12, 34, 696, 190, "none", "soft")
    one.text(
        24,
        24,
        "AR = [1, 2, 3]: the brokers that should have the partition; the first is the preferred leader",
        "soft",
    )
    one.box(28, 56, 440, 152, "good_box", "good")
    one.text(44, 80, "ISR = {1, 2}: have every committed record", "good", bold=True)
    one.box(484, 56, 208, 152, "warn_box", "warn")
    one.text(500, 80, "OSR = {3}: behind", "warn", bold=True)
    brokers = ((48, "broker 1", "leader"), (262, "broker 2", "follower"), (498, "broker 3", "follower"))
    for x, name, role in brokers:
        one.box(x, 98, 180, 92, "paper")
        one.text(x + 90, 134, name, anchor="middle", bold=True)
        one.text(x + 90, 162, role, "soft", anchor="middle")
    one.line(230, 144, 260, 144, arrow=True)
    one.line(138, 190, 138, 199, dash="5 4")
    one.line(138, 199, 588, 199, dash="5 4")
    one.line(588, 199, 588, 191, arrow=True)
    return one.svg()


def log_ends(palette: Palette) -> str:
    """LEO of each replica and the high watermark."""
    one = Drawing(720, 250, "Log end offsets and the high watermark", palette)
    rows = (
        (64, "broker 1, leader", "0 1 2 3 4 5 6 7", "ggggggbb", "LEO 8"),
        (120, "broker 2, in sync", "0 1 2 3 4 5", "gggggg", "LEO 6"),
        (176, "broker 3, behind", "0 1 2", "www", "LEO 3"),
    )
    for y, name, labels, fills, end in rows:
        one.text(16, y + 23, name)
        one.cells(180, y, labels, fills)
        one.text(180 + CELL * len(fills) + 6, y + 23, end, "soft", bold=True)
    x = 180 + 6 * CELL - 2
    one.line(x, 44, x, 214, "good", dash="6 4")
    one.text(x, 34, "HW 6", "good", anchor="middle", bold=True)
    one.text(
        16,
        240,
        "HW = the lowest LEO in the ISR. Readers get the records below it; 6 and 7 can still be lost.",
        "soft",
    )
    return one.svg()


def leader_epochs(palette: Palette) -> str:
    """The use of a leader epoch: where a former leader truncates its log."""
    one = Drawing(720, 262, "Leader epochs: a former leader truncates what was never committed", palette)
    one.text(16, 26, "broker 1 led in epoch 5 and died; broker 2 leads in epoch 6", "soft")
    one.text(16, 71, "broker 1, returns")
    one.cells(180, 48, "5 5 5 5 5 5", "ggggxx")
    one.text(460, 71, "4 and 5 never reached broker 2", "bad")
    one.text(16, 203, "broker 2, leader")
    one.cells(180, 180, "5 5 5 5 6 6 6", "ggggggg")
    one.text(506, 203, "epoch 6 began at 4", "soft")
    for number in range(7):
        one.text(180 + number * CELL + 20, 236, str(number), "soft", size=13, anchor="middle")
    one.text(16, 236, "offset", "soft", size=13)
    one.line(200, 88, 200, 174, "soft", arrow=True)
    one.text(211, 120, "where does epoch 5 end?", "soft")
    one.line(420, 174, 420, 88, "soft", arrow=True)
    one.text(430, 150, "at 4: truncate there, then fetch", "soft")
    return one.svg()


def controller_epochs(palette: Palette) -> str:
    """The use of a controller epoch: brokers refuse the former controller."""
    one = Drawing(720, 250, "Controller epochs: brokers refuse the requests of a former controller", palette)
    one.box(16, 44, 190, 64, "bad_box", "bad")
    one.text(111, 70, "former controller", "bad", anchor="middle", bold=True)
    one.text(111, 93, "epoch 7, was paused", "bad", anchor="middle", size=14)
    one.box(16, 152, 190, 64, "good_box", "good")
    one.text(111, 178, "controller", "good", anchor="middle", bold=True)
    one.text(111, 201, "epoch 8", "good", anchor="middle", size=14)
    one.box(520, 92, 184, 78)
    one.text(612, 124, "broker 3", anchor="middle", bold=True)
    one.text(612, 149, "has seen 8", "soft", anchor="middle", size=14)
    one.line(208, 76, 514, 112, "bad", dash="6 4", arrow=True)
    one.text(360, 68, "LeaderAndIsr, epoch 7: error 11", "bad", anchor="middle")
    one.line(208, 184, 514, 150, "good", arrow=True)
    one.text(360, 206, "LeaderAndIsr, epoch 8: applied", "good", anchor="middle")
    one.text(16, 26, "/controller_epoch grows by one with every election", "soft")
    return one.svg()


def split_brain(palette: Palette) -> str:
    """Two brokers believe they are the controller: ZooKeeper accepts the writes of one."""
    one = Drawing(
        720,
        300,
        "Split brain: two brokers believe they are the controller, ZooKeeper accepts the writes of one",
        palette,
    )
    one.box(260, 20, 200, 128)
    one.text(360, 44, "ZooKeeper", anchor="middle", bold=True)
    one.text(276, 74, "/controller: B, version 1", size=13)
    one.text(276, 98, "/controller_epoch: 8", size=13)
    one.text(276, 122, ".../partitions/0/state", size=13)
    one.box(16, 196, 210, 84, "bad_box", "bad")
    one.text(121, 224, "A believes it is active", "bad", anchor="middle", bold=True)
    one.text(121, 246, "its session has ended", "bad", anchor="middle", size=13)
    one.text(121, 266, "fence: epoch 7", "bad", anchor="middle", size=13)
    one.box(494, 196, 210, 84, "good_box", "good")
    one.text(599, 224, "B is the controller", "good", anchor="middle", bold=True)
    one.text(599, 246, "elected after A", "good", anchor="middle", size=13)
    one.text(599, 266, "fence: epoch 8", "good", anchor="middle", size=13)
    one.line(130, 192, 254, 120, "bad", dash="6 4", arrow=True)
    one.text(16, 118, "check(/controller) fails:", "bad", size=14)
    one.text(16, 138, "nothing is written", "bad", size=14)
    one.line(590, 192, 466, 120, "good", arrow=True)
    one.text(560, 118, "both checks pass:", "good", size=14)
    one.text(560, 138, "everything is written", "good", size=14)
    return one.svg()


def rebalance_by_members(palette: Palette) -> str:
    """A member joins a group of ZooKeeper consumers."""
    one = Drawing(720, 392, "A member joins a group of ZooKeeper consumers: one partition moves", palette)
    one.lanes("member A", "ZooKeeper", "member B")
    one.message(76, 2, 1, "create ids/B")
    one.message(108, 1, 0, "watch: ids has changed")
    one.message(140, 0, 1, "read all registrations")
    one.act(170, 0, "computes: orders-2 goes to B")
    one.act(192, 0, "on_revoked(orders-2)", "warn")
    one.message(222, 0, 1, "commit, delete owners/2")
    one.message(254, 1, 2, "watch: owners/2 is gone")
    one.message(286, 2, 1, "create owners/2, set offsets/2")
    one.act(316, 2, "delivers orders-2")
    one.act(352, 0, "orders-0 and orders-1 never paused")
    one.act(374, 2, "no other process decides anything", "soft")
    return one.svg()


def rebalance_by_coordinator(palette: Palette) -> str:
    """A client joins a group that a coordinator leads."""
    one = Drawing(960, 462, "A client joins a group of the coordinator, with an eager strategy", palette)
    one.lanes("A, the leader", "coordinator", "client B", "ZooKeeper")
    one.message(76, 2, 1, "JoinGroup")
    one.message(108, 0, 1, "Heartbeat, generation 7")
    one.message(138, 1, 0, "error 27: rejoin", "warn")
    one.act(166, 0, "revokes all its partitions", "warn")
    one.message(196, 0, 1, "OffsetCommit")
    one.message(196, 1, 3, "check(slot), set offsets")
    one.message(228, 0, 1, "JoinGroup")
    one.message(260, 1, 0, "generation 8, all members")
    one.message(260, 1, 2, "generation 8")
    one.act(288, 0, "computes the assignment")
    one.message(318, 0, 1, "SyncGroup, the assignment")
    one.message(318, 2, 1, "SyncGroup")
    one.message(350, 1, 3, "check(slot), set the group: generation 8")
    one.message(384, 1, 0, "what A gets")
    one.message(384, 1, 2, "what B gets")
    one.act(416, 0, "delivers again")
    one.act(416, 2, "delivers")
    one.act(446, 3, "one write, for any number of members", "soft")
    return one.svg()


def coordinator_failover(palette: Palette) -> str:
    """A coordinator is paused, and another broker takes its slot over."""
    one = Drawing(
        960, 380, "Another broker takes over a slot: the commit of a former coordinator fails", palette
    )
    one.lanes("client", "former coordinator", "ZooKeeper", "new coordinator")
    one.act(70, 1, "paused; its session ends", "bad")
    one.act(70, 2, "state: broker 2 leads")
    one.message(104, 3, 2, "check(state), set(slot)")
    one.message(136, 3, 2, "read the groups")
    one.message(170, 0, 1, "OffsetCommit, generation 8")
    one.message(204, 1, 2, "check(slot) fails", "bad")
    one.message(236, 1, 0, "error 16: not the coordinator", "bad")
    one.message(272, 0, 3, "FindCoordinator at any broker, then OffsetCommit, generation 8")
    one.message(306, 3, 2, "check(slot), set offsets", "good")
    one.message(340, 3, 0, "stored: the generation goes on, nobody rebalances", "good")
    return one.svg()


PICTURES: Mapping[str, Callable[[Palette], str]] = {
    "replica-sets": replica_sets,
    "log-ends": log_ends,
    "leader-epochs": leader_epochs,
    "controller-epochs": controller_epochs,
    "split-brain": split_brain,
    "rebalance-by-members": rebalance_by_members,
    "rebalance-by-coordinator": rebalance_by_coordinator,
    "coordinator-failover": coordinator_failover,
}

FILES: Mapping[str, Callable[[], str]] = {
    f"pictures/{name}-{shade}.svg": partial(draw, palette)
    for name, draw in PICTURES.items()
    for shade, palette in (("light", LIGHT), ("dark", DARK))
}
