"""The version of this release, on the floor of the package: registrations carry it."""

from __future__ import annotations

VERSION = "0.1.0"
