"""Settings of brokers, clients, users and addresses, and values of them that every broker can read.

Brokers parse quotas and throttles when they hear of the change: one that is no number ends the thread that
listens at some releases, so that no later change is applied (kafka/server/ConfigHandler.scala@0.9.0.1 to
1.1.1). Kafka's tools check what they write (kafka/server/DynamicConfig.scala@2.8.2): quotas by name and
value; of a broker's settings, of which there are many, the throttles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.znodes.config_entity import EntityKind
from zkgroup.znodes.json_object import show
from zkgroup.znodes.throttles import FOLLOWER_RATE, LEADER_RATE

_WHOLE: Final = re.compile(r"\+?[0-9]{1,19}")
_FRACTION: Final = re.compile(r"\+?[0-9]{1,19}(\.[0-9]{1,19})?")
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1

_QUOTAS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""Of clients and users: the greatest whole number, or None where a fraction may be given."""

KNOWN: Final[Mapping[EntityKind, Mapping[str, int | None]]] = {
    "brokers": dict.fromkeys(
        (LEADER_RATE, FOLLOWER_RATE, "replica.alter.log.dirs.io.max.bytes.per.second"), _LONG_MAX
    ),
    "clients": _QUOTAS,
    "users": _QUOTAS,
    "ips": {"connection_creation_rate": _INT_MAX},
}


def check_entity_settings(kind: EntityKind, settings: Mapping[str, str]) -> None:
    """Raises ConfigError for the first name that the kind does not have, or value that is no such number.

    Brokers have settings beside the known ones; their values are not looked at.
    """
    known = KNOWN.get(kind, {})
    for name, value in settings.items():
        if name not in known and kind != "brokers":
            raise ConfigError(f"setting {show(name)}: {kind} have {', '.join(known)}")
        if name not in known:
            continue
        highest = known[name]
        if highest is None and not _FRACTION.fullmatch(value):
            raise ConfigError(f"setting {name}: expected a number, found {show(value)}")
        if highest is not None and not (_WHOLE.fullmatch(value) and int(value) <= highest):
            raise ConfigError(
                f"setting {name}: expected a whole number from 0 to {highest}, found {show(value)}"
            )
