"""The cause and the damage of an incident in words, for the command line and the page."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.audit.incidents.incident import Cause, PartitionDamage
from zkgroup.audit.texts import duration_text, session_text

_PLACES_MAX = 4


def cause_text(cause: Cause) -> str:
    """`foreign write (owners) by session 0xa at zxid 0x82`; empty where the log shows no cause."""
    if cause.kind in ("state", "note"):
        return ""
    parts: list[str] = [cause.kind]
    if cause.what:
        parts.append(f"({cause.what})")
    if cause.session:
        parts.append(f"by session {session_text(cause.session)}")
    if cause.zxid is not None:
        parts.append(f"at zxid {cause.zxid:#x}")
    return " ".join(parts)


def damage_text(damage: Sequence[PartitionDamage]) -> str:
    """What it cost, summed, with the partitions that cost most; empty where nothing is known."""
    parts = []
    for attribute, what in (
        ("delivered_again", "records delivered again at least"),
        ("unowned_ms", "without an owner"),
        ("leaderless_ms", "without a leader"),
    ):
        values = [(getattr(one, attribute), one) for one in damage if getattr(one, attribute)]
        if not values:
            continue
        total = sum(value for value, _ in values)
        text = f"{total:,}" if attribute == "delivered_again" else duration_text(total)
        places = [
            f"{one.topic}-{one.partition} {f'{value:,}' if text == f'{total:,}' else duration_text(value)}"
            for value, one in sorted(values, key=lambda each: -each[0])
        ]
        more = f" and {len(places) - _PLACES_MAX} more" if len(places) > _PLACES_MAX else ""
        parts.append(f"{text} {what} ({', '.join(places[:_PLACES_MAX])}{more})")
    return "; ".join(parts)
