"""The page of every setting, from the metadata beside its default."""

from __future__ import annotations

from dataclasses import Field, fields

from docs.tools import markdown
from zkgroup.broker.settings import BrokerSettings
from zkgroup.settings import GroupSettings

_COLUMNS = ["setting, Kafka's name", "default", "what it does"]
_BOUNDED = ["setting, Kafka's name", "default", "values", "what it does"]
_POWERS = {2**15 - 1: "2^15 - 1", 2**31 - 1: "2^31 - 1", 2**63 - 1: "2^63 - 1"}


def page() -> str:
    """`reference/settings.md`."""
    intro = [
        "All settings of a member are fields of `zkgroup.GroupSettings`, a frozen value.",
        "Names are Kafka 0.8.2.2's consumer settings in snake case with the unit at the end; those without a",
        "Kafka name are zkgroup's. On the command line: `zkgroup consume --set NAME=VALUE`.",
        "An unknown name, a value out of range or an impossible combination is a `ConfigError` that names it.",
    ]
    of_brokers = [
        "Those of a broker are fields of `zkgroup.BrokerSettings`; on the command line",
        "`zkgroup broker run --set NAME=VALUE`.",
    ]
    return markdown.page(
        "Settings",
        intro,
        markdown.table(_COLUMNS, [_row(setting) for setting in fields(GroupSettings)]),
        ["## Of a broker", "", *of_brokers],
        markdown.table(_BOUNDED, [_bounded_row(setting) for setting in fields(BrokerSettings)]),
    )


def _row(setting: Field[object]) -> tuple[str, str, str]:
    doc, why, kafka = (setting.metadata[key] for key in ("doc", "why", "kafka"))
    text = markdown.one_line(f"{doc} {f'*Why:* {why}' if why else ''}")
    name = f"`{setting.name}`<br>`{kafka}`" if kafka else f"`{setting.name}`"
    return name, _default(setting.default), text


def _bounded_row(setting: Field[object]) -> tuple[str, str, str, str]:
    name, default, text = _row(setting)
    bounds = setting.metadata["bounds"]
    if bounds is None:
        return name, default, "", text
    highest = bounds.stop - 1
    return name, default, f"{bounds.start} to {_POWERS.get(highest, highest)}", text


def _default(value: object) -> str:
    if isinstance(value, float):
        return f"`{value:.3g}`"
    return "none" if value is None else f"`{value}`"
