"""The page of every setting, from the metadata beside its default."""

from __future__ import annotations

from dataclasses import Field, fields

from docs.tools import markdown
from zkgroup.broker.settings import BrokerSettings
from zkgroup.settings import GroupSettings

_POWERS = {2**15 - 1: "2^15 - 1", 2**31 - 1: "2^31 - 1", 2**63 - 1: "2^63 - 1"}


def page() -> str:
    """`reference/settings.md`."""
    intro = [
        "All settings of a member are fields of `zkgroup.GroupSettings`, a frozen value.",
        "Names are Kafka 0.8.2.2's consumer settings in snake case with the unit at the end; those without a",
        "Kafka name are zkgroup's. On the command line: `zkgroup consume --set NAME=VALUE`.",
        "An unknown name, a value out of range or an impossible combination is a `ConfigError` that names it.",
        "Each has its default behind its name, then Kafka's name and the bounds, if it has them.",
    ]
    of_brokers = [
        "Those of a broker are fields of `zkgroup.broker.BrokerSettings`; on the command line",
        "`zkgroup broker run --set NAME=VALUE`.",
    ]
    return markdown.page(
        "Settings",
        intro,
        [_item(setting) for setting in fields(GroupSettings)],
        ["## Of a broker", "", *of_brokers],
        [_item(setting) for setting in fields(BrokerSettings)],
    )


def _item(setting: Field[object]) -> str:
    doc, why, kafka = (setting.metadata[key] for key in ("doc", "why", "kafka"))
    bounds = setting.metadata.get("bounds")
    notes = [f"`{kafka}`"] if kafka else []
    if bounds is not None:
        highest = bounds.stop - 1
        notes.append(f"{bounds.start} to {_POWERS.get(highest, highest)}")
    text = markdown.one_line(f"{doc} {f'*Why:* {why}' if why else ''}")
    noted = f" ({', '.join(notes)})" if notes else ""
    return f"- `{setting.name}={_default(setting.default)}`{noted}: {text}"


def _default(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)
