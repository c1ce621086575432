"""Every test of this folder that asks for `face` runs on both."""

from __future__ import annotations

from tests.worlds.faces import face as face
