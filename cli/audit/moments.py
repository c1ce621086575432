"""Moments of a history as they are typed: a zxid in decimal or hex, or a time."""

from __future__ import annotations

import re
from typing import Any

import click

from zkgroup.audit.sources import Moment

from ..units import parse_time_ms

_DECIMAL = re.compile(r"[0-9]+")
_HEX = re.compile(r"0[xX][0-9a-fA-F]+")


class MomentType(click.ParamType[Moment]):
    """`ZXID|TIME`: digits are a zxid, `0x...` is one in hex, anything else a time in ISO 8601."""

    name = "zxid|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        if isinstance(value, Moment):
            return value
        text = value.strip()
        zxid = None
        if _DECIMAL.fullmatch(text):
            zxid = int(text[:25])
        elif _HEX.fullmatch(text):
            zxid = int(text[:25], 16)
        if zxid is not None:
            if zxid >= 2**63:
                self.fail(f"{value!r} is too large for a zxid", param, ctx)
            return Moment(zxid, None)
        try:
            return Moment(None, parse_time_ms(text))
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value!r}: expected a zxid such as 4294967321 or 0x100000019, "
                "or a time such as 2026-01-31T14:03:00Z (without a zone it is UTC)",
                param,
                ctx,
            )


MOMENT = MomentType()
