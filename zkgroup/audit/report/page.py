"""The page of a report as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, Final

SCRIPTS: Final = (
    *("base.js", "time_axis.js", "timeline.js", "spans.js", "chart.js"),
    *("incidents.js", "findings.js", "groups.js", "cluster.js", "main.js"),
)
"""In the order in which they stand in the page."""

_HARMLESS: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""JSON has these in strings only, so as escapes they mean the same, and no data ends the script."""


def page(data: dict[str, Any]) -> str:
    """The report as HTML.

    The page's own policy lets only this style and these scripts run, known by their digests, and nothing be
    fetched; names and texts of the data are put in as text.
    """
    style, script = _asset("report.css"), _script()
    return Template(_asset("report.html")).substitute(
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)};"
        " img-src data:; base-uri 'none'; form-action 'none'",
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_HARMLESS),
    )


@cache
def _script() -> str:
    return "\n".join(_asset(name) for name in SCRIPTS)


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
