"""Every test of this folder that asks for `api` runs on both."""

from __future__ import annotations

from tests.worlds.public_apis import api as api
