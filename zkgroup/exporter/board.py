"""A board for Grafana, of the metrics of the exporter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple


class Panel(NamedTuple):
    """A panel of the board."""

    title: str
    queries: Mapping[str, str]
    """The legend to the query in PromQL; `{{label}}` in a legend is the value of a label."""
    kind: Literal["stat", "timeseries", "table"] = "timeseries"
    unit: str = "short"
    """Of Grafana, as `s` or `bytes`."""
    width: int = 8
    """Of 24 columns."""
    is_bad_above: float | None = None
    """Values from here on are red."""


_ONE: Final = '{instance="$instance"}'
_GROUPS: Final = '{instance="$instance", group=~"$group"}'


def _number(title: str, query: str, *, is_bad_above: float | None = None, unit: str = "short") -> Panel:
    return Panel(title, {"": query}, "stat", unit, 3, is_bad_above)


BOARD: Final[Mapping[str, Sequence[Panel]]] = {
    "Cluster": (
        _number("Brokers", f"zkgroup_brokers{_ONE}"),
        _number("Controller", f"zkgroup_controller_broker{_ONE}"),
        _number("Offline partitions", f"zkgroup_offline_partitions{_ONE}", is_bad_above=1),
        _number("Replicas out of sync", f"zkgroup_under_replicated_partitions{_ONE}", is_bad_above=1),
        _number("Partitions that move", f"zkgroup_reassignments{_ONE}"),
        _number("Slots without leader", f"zkgroup_coordinator_slots_without_leader{_ONE}", is_bad_above=1),
        _number("Servers that serve", f"zkgroup_zookeeper_serving{_ONE}"),
        _number(
            "First certificate ends in",
            f"min(zkgroup_certificate_expiry_timestamp_seconds{_ONE}) - time()",
            unit="s",
        ),
        Panel("Brokers over time", {"brokers": f"zkgroup_brokers{_ONE}"}),
        Panel(
            "Partitions over time",
            {
                "offline": f"zkgroup_offline_partitions{_ONE}",
                "out of sync": f"zkgroup_under_replicated_partitions{_ONE}",
                "moving": f"zkgroup_reassignments{_ONE}",
            },
        ),
        Panel(
            "Slots of group coordinators",
            {
                "all": f"zkgroup_coordinator_slots{_ONE}",
                "without leader": f"zkgroup_coordinator_slots_without_leader{_ONE}",
            },
        ),
    ),
    "Groups": (
        Panel("Lag", {"{{group}}": f"sum by (group) (zkgroup_group_lag{_GROUPS})"}, width=12),
        Panel("Members", {"{{group}}": f"zkgroup_group_members{_GROUPS}"}, width=6),
        Panel(
            "Partitions without owner", {"{{group}}": f"zkgroup_group_unowned_partitions{_GROUPS}"}, width=6
        ),
        Panel(
            "State",
            {"": f"zkgroup_group_state{_GROUPS} == 1"},
            "table",
            width=8,
        ),
        Panel("Problems", {"": f"zkgroup_group_problems{_GROUPS}"}, "table", width=8),
        Panel("Lag that is not ok", {"": f'zkgroup_group_verdict{_GROUPS[:-1]}, verdict!="ok"}}'}, "table"),
    ),
    "Partitions": (
        Panel(
            "Largest lag",
            {"{{group}} {{topic}}-{{partition}}": f"topk(20, zkgroup_group_lag{_GROUPS})"},
            width=12,
        ),
        Panel(
            "Longest time since the last commit, with lag",
            {
                "{{group}} {{topic}}-{{partition}}": f"topk(20, zkgroup_group_seconds_since_commit{_GROUPS}"
                f" and zkgroup_group_lag{_GROUPS} > 0)"
            },
            unit="s",
            width=12,
        ),
        Panel(
            "Records a second",
            {
                "{{topic}} written": "sum by (topic) (max by (topic, partition)"
                f" (deriv(zkgroup_group_log_end_offset{_GROUPS}[5m])))",
                "{{group}} {{topic}} committed": "sum by (group, topic)"
                f" (deriv(zkgroup_group_committed_offset{_GROUPS}[5m]))",
            },
            width=24,
        ),
    ),
    "ZooKeeper": (
        Panel("Latency", {"{{server}}": f"zkgroup_zookeeper_latency_seconds{_ONE}"}, unit="s"),
        Panel("Watches", {"{{server}}": f"zkgroup_zookeeper_watches{_ONE}"}),
        Panel("Connections", {"{{server}}": f"zkgroup_zookeeper_connections{_ONE}"}),
        Panel("Znodes", {"znodes": f"zkgroup_znodes{_ONE}"}),
        Panel("Data", {"bytes": f"zkgroup_zookeeper_data_bytes{_ONE}"}, unit="bytes"),
        Panel(
            "Servers",
            {
                "named": f"zkgroup_zookeeper_servers{_ONE}",
                "serving": f"zkgroup_zookeeper_serving{_ONE}",
                "followers in sync": f"zkgroup_zookeeper_synced_followers{_ONE}",
            },
        ),
    ),
    "Exporter": (
        Panel("Time of a read", {"seconds": f"zkgroup_exporter_read_seconds{_ONE}"}, unit="s"),
        Panel("Requests of a read", {"requests": f"zkgroup_exporter_read_packets{_ONE}"}),
        Panel("Not known", {"a second": f"rate(zkgroup_exporter_errors_total{_ONE}[5m])"}),
    ),
}
"""Title of each row to its panels."""

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24
_HEIGHTS: Final = {"stat": 4, "timeseries": 8, "table": 8}


def dashboard() -> str:
    """The board as JSON, as Grafana 9 and later import it (dashboard model, schema 37)."""
    variables = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        _variable("instance", "label_values(zkgroup_exporter_errors_total, instance)"),
        _variable("group", f"label_values(zkgroup_group_members{_ONE}, group)", is_many=True),
    ]
    board = {
        "uid": "zkgroup",
        "title": "zkgroup",
        "tags": ["zkgroup", "zookeeper", "kafka"],
        "schemaVersion": 37,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables},
        "annotations": {"list": []},
        "panels": list(_placed(BOARD)),
    }
    return json.dumps(board, indent=2) + "\n"


def _variable(name: str, query: str, *, is_many: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "multi": is_many,
        "includeAll": is_many,
        **({"allValue": ".*"} if is_many else {}),
    }


def _placed(rows: Mapping[str, Sequence[Panel]]) -> Iterable[dict[str, Any]]:
    """The panels with their places, from left to right below the title of their row."""
    number = x = y = 0
    for title, panels in rows.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": _place(0, y, _COLUMNS, 1),
            "panels": [],
        }
        x, y, height = 0, y + 1, 0
        for panel in panels:
            number += 1
            if x + panel.width > _COLUMNS:
                x, y, height = 0, y + height, 0
            height = max(height, _HEIGHTS[panel.kind])
            yield _panel(number, panel, _place(x, y, panel.width, _HEIGHTS[panel.kind]))
            x += panel.width
        y += height


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(number: int, panel: Panel, place: Mapping[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.is_bad_above is not None:
        steps.append({"color": "red", "value": panel.is_bad_above})
    is_table = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": query,
            "legendFormat": legend,
            **({"format": "table"} if is_table else {}),
            "instant": panel.kind != "timeseries",
            "range": panel.kind == "timeseries",
        }
        for index, (legend, query) in enumerate(panel.queries.items())
    ]
    hidden = dict.fromkeys(("Time", "__name__", "instance", "job"), True)
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": dict(place),
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {},
        "targets": targets,
        "transformations": [{"id": "organize", "options": {"excludeByName": hidden}}] if is_table else [],
    }
