"""Text forms of times, durations and lists, both ways. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_ISO_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)


def is_whole(text: str) -> bool:
    """Returns whether it is a whole number from 0 up, in the digits 0 to 9: `str.isdigit` also takes `²`."""
    return text.isascii() and text.isdigit()


def parse_duration_ms(text: str) -> int:
    """`500ms`, `30s`, `1m30s`, `2h`, `1d` in milliseconds.

    Raises ValueError with a hint; a bare number is refused because its unit would be a guess.
    """
    compact = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        raise ValueError(f"{text!r} has no unit: write {compact}s or {compact}ms")
    total, position = 0.0, 0
    for match in _DURATION.finditer(compact):
        if match.start() != position:
            break
        total += float(match[1]) * _UNIT_MS[match[2]]
        position = match.end()
    if not compact or position != len(compact):
        raise ValueError(f"{text!r} is no duration: write for example 500ms, 30s, 5m or 1h")
    return round(total)


def is_duration(text: str) -> bool:
    """Returns whether `parse_duration_ms` reads it."""
    try:
        parse_duration_ms(text)
    except ValueError:
        return False
    return True


def parse_iso_duration_ms(text: str) -> int:
    """Kafka's `--by-duration` form, `P7DT1H30M5S`; also `7d` and the like. Milliseconds."""
    match = _ISO_DURATION.fullmatch(text.strip().upper())
    if match is None or not any(match[unit] for unit in "dhms"):
        return parse_duration_ms(text)
    total = sum(float(match[unit] or 0) * _UNIT_MS[unit] for unit in "dhms")
    return round(-total if match["sign"] == "-" else total)


def parse_time_ms(text: str) -> int:
    """An ISO-8601 time in epoch milliseconds; without a zone it is UTC. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no time: write for example 2026-01-31T12:00:00Z") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def age(since_ms: int | None, now_ms: int) -> str | None:
    """Returns the age in the one or two largest units: `12s`, `3m12s`, `5h`, `9d`."""
    if since_ms is None:
        return None
    seconds = max(0, now_ms - since_ms) // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    return f"{seconds // 86_400}d"


_SIZE = re.compile(r"(\d+(?:\.\d+)?)(b|kb|mb|gb|tb|kib|mib|gib|tib)")
_SIZE_BYTES: dict[str, int] = {
    **{f"{prefix}b": 1000**power for power, prefix in enumerate(("", "k", "m", "g", "t"))},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate(("k", "m", "g", "t"), 1)},
}


def parse_size(text: str) -> int:
    """`500kB`, `10MB`, `1.5GiB` in bytes; kB is 1000 bytes, KiB 1024, in any case of letters.

    Raises ValueError with a hint; a bare number is refused because its unit would be a guess.
    """
    compact = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        raise ValueError(f"{text!r} has no unit: write {compact}MB, {compact}kB or {compact}B")
    match = _SIZE.fullmatch(compact)
    if match is None:
        raise ValueError(f"{text!r} is no size: write for example 500kB, 10MB or 1GiB")
    return round(float(match[1]) * _SIZE_BYTES[match[2]])


def size(count: int) -> str:
    """A number of bytes in the largest unit that it has one of: `512 B`, `1.5 MB`."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def time_left(seconds: float) -> str:
    """Returns the time that is left: `5s`, `6m`, `11h00m`."""
    seconds = max(1, round(seconds))
    if seconds < 60:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 3600 else f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
