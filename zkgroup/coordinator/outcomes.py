"""The error code that the outcome of a write becomes, for each API.

Kafka's own choices, as far as it has the case: kafka/coordinator/group/GroupMetadataManager.scala@2.8.2
(storeGroup, storeOffsets).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zkgroup.coordinator.events import WriteOutcome
from zkgroup.model.error_codes import ErrorCode

JOIN_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    WriteOutcome.STORED: ErrorCode.NONE,
    WriteOutcome.NOT_OWNER: ErrorCode.NOT_COORDINATOR,
    WriteOutcome.CONFLICT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    WriteOutcome.ZOOKEEPER_MEMBERS: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    WriteOutcome.TOO_LARGE: ErrorCode.UNKNOWN,
    WriteOutcome.UNKNOWN: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
SYNC_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    **JOIN_ERRORS,
    WriteOutcome.CONFLICT: ErrorCode.REBALANCE_IN_PROGRESS,
    WriteOutcome.UNKNOWN: ErrorCode.REBALANCE_IN_PROGRESS,
}
COMMIT_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    WriteOutcome.STORED: ErrorCode.NONE,
    WriteOutcome.NOT_OWNER: ErrorCode.NOT_COORDINATOR,
    WriteOutcome.CONFLICT: ErrorCode.NOT_COORDINATOR,
    WriteOutcome.ZOOKEEPER_MEMBERS: ErrorCode.UNKNOWN_MEMBER_ID,
    WriteOutcome.TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    WriteOutcome.SLOT_FULL: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    WriteOutcome.UNKNOWN: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
DELETE_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    **COMMIT_ERRORS,
    WriteOutcome.HAS_OFFSETS: ErrorCode.NON_EMPTY_GROUP,
    WriteOutcome.ZOOKEEPER_MEMBERS: ErrorCode.NON_EMPTY_GROUP,
    WriteOutcome.TOO_LARGE: ErrorCode.UNKNOWN,
}
DELETE_OFFSET_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    **COMMIT_ERRORS,
    WriteOutcome.ZOOKEEPER_MEMBERS: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    WriteOutcome.TOO_LARGE: ErrorCode.UNKNOWN,
}
