"""HTML pages: the look, the elements and the charts that the report of an audit and the exporter share."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from string import Template
from typing import Final

SCRIPTS: Final = ("elements.js", "time_axis.js", "plot.js")
"""The shared scripts in the order in which they stand in a page, before its own."""
_SELF, _NONE = "'self'", "'none'"


def page(
    package: str, template: str, *, style: str, scripts: Iterable[str], fetches: bool = False, **parts: str
) -> str:
    """The HTML of a page, made of the files in the folder `assets` of a package.

    The page's own policy allows only its style and its scripts, by their digests; names and texts of data are
    put in as text.

    Args:
        package: the package.
        template: the file with the places `${style}`, `${script}`, `${policy}` and those of `parts`.
        style: the file of its own style, after the shared one.
        scripts: the files of its own scripts, in order, after the shared ones.
        fetches: whether its scripts may ask the server that it came from, and no other.
        parts: what else stands in the template.
    """
    styles = asset(__name__, "look.css") + asset(package, style)
    code = "\n".join(
        [*(asset(__name__, name) for name in SCRIPTS), *(asset(package, name) for name in scripts)]
    )
    policy = (
        f"default-src 'none'; style-src {_digest(styles)}; script-src {_digest(code)};"
        f" connect-src {_SELF if fetches else _NONE}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Template(asset(package, template)).substitute(style=styles, script=code, policy=policy, **parts)


def asset(package: str, name: str) -> str:
    """The text of a file in the folder `assets` of a package."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
