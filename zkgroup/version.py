"""The version of this release, which registrations carry; it imports nothing."""

from __future__ import annotations

VERSION = "0.1.0"
