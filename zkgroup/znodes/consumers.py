"""Everything below `/consumers`: paths and znodes."""

from zkgroup.znodes.consumer_paths import (
    consumers_path,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
    resets_path,
    views_path,
)
from zkgroup.znodes.group_state import Plan, Reset, View
from zkgroup.znodes.ownership import Offset, Owner
from zkgroup.znodes.registration import Kind, Registration, kind

__all__ = [
    "Kind",
    "Offset",
    "Owner",
    "Plan",
    "Registration",
    "Reset",
    "View",
    "consumers_path",
    "group_path",
    "ids_path",
    "kind",
    "offsets_path",
    "offsets_topic_path",
    "owners_path",
    "owners_topic_path",
    "resets_path",
    "views_path",
]
