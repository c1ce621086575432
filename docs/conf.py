"""Sphinx configuration: `python -m sphinx -W -b html docs docs/_build/html`."""

from __future__ import annotations

from importlib import metadata

project = "zkgroup"
author = "the zkgroup developers"
copyright = "the zkgroup developers"  # noqa: A001 - Sphinx's name
release = metadata.version("zkgroup")

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "tasklist"]
smartquotes_action = "qe"  # no dashes: `--` in a help text is an option
myst_enable_checkboxes = True
myst_heading_anchors = 3
nitpicky = True
exclude_patterns = ["_build", "tools"]

html_theme = "furo"
html_title = f"zkgroup {release}"
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["tables.css"]
