"""Which codec is for which path, and why the other recorded paths have none."""

from __future__ import annotations

import re
from typing import Any

from zkgroup.znodes.acls import AclChangeNode, ResourceAcls
from zkgroup.znodes.admin_requests import PreferredElection, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.cluster import BrokerSequence, ClusterId, FinalizedFeatures, ProducerIdBlock
from zkgroup.znodes.config import (
    BrokerConfig,
    ClientConfig,
    IpConfig,
    TopicConfig,
    UserClientConfig,
    UserConfig,
)
from zkgroup.znodes.consumers import Offset, Owner, Registration
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.notifications import ConfigChange, IsrChange, LogDirEvent

CODECS: dict[str, Any] = {
    r"/consumers/[^/]+/ids/[^/]+": Registration,
    r"/consumers/[^/]+/owners/[^/]+/\d+": Owner,
    r"/consumers/[^/]+/offsets/[^/]+/\d+": Offset,
    r"/brokers/ids/\d+": BrokerRegistration,
    r"/brokers/seqid": BrokerSequence,
    r"/brokers/topics/[^/]+": Topic,
    r"/brokers/topics/[^/]+/partitions/\d+/state": PartitionState,
    r"/controller": ControllerRegistration,
    r"/controller_epoch": ControllerEpoch,
    r"/config/topics/[^/]+": TopicConfig,
    r"/config/brokers/[^/]+": BrokerConfig,
    r"/config/clients/[^/]+": ClientConfig,
    r"/config/users/[^/]+": UserConfig,
    r"/config/users/[^/]+/clients/[^/]+": UserClientConfig,
    r"/config/ips/[^/]+": IpConfig,
    r"/config/changes/config_change_\d{10}": ConfigChange,
    r"/admin/reassign_partitions": Reassignment,
    r"/admin/preferred_replica_election": PreferredElection,
    r"/admin/delete_topics/[^/]+": TopicDeletion,
    r"/isr_change_notification/isr_change_\d{10}": IsrChange,
    r"/log_dir_event_notification/log_dir_event_\d{10}": LogDirEvent,
    r"/kafka-acl/[^/]+/[^/]+": ResourceAcls,
    r"/kafka-acl-extended/prefixed/[^/]+/[^/]+": ResourceAcls,
    r"/kafka-acl(-extended)?-changes/acl_changes_\d{10}": AclChangeNode,
    r"/cluster/id": ClusterId,
    r"/feature": FinalizedFeatures,
    r"/latest_producer_id_block": ProducerIdBlock,
}

READ_ONLY = (FinalizedFeatures,)
"""Of later brokers; zkgroup never writes them, so they cannot be encoded."""

AS_KAFKA_2_8 = (ResourceAcls, AclChangeNode)
"""Encoded as 2.8.2 does it; 3.9.1 orders the keys otherwise, and 1.1.1 has the type in small letters."""

WITHOUT_DATA = (BrokerSequence, TopicDeletion)
"""That they are there is all they say; Kafka leaves null or zero bytes, and both are read alike."""

PARENTS = (
    r"/",
    r"/(admin|brokers|cluster|config|consumers|isr_change_notification|log_dir_event_notification)",
    r"/admin/delete_topics",
    r"/brokers/(ids|topics)",
    r"/brokers/topics/[^/]+/partitions(/\d+)?",
    r"/config/(topics|brokers|clients|users|ips|changes)",
    r"/config/users/[^/]+/clients",
    r"/kafka-acl(-extended/prefixed)?(/[^/]+)?",
    r"/kafka-acl-extended",
    r"/kafka-acl(-extended)?-changes",
    r"/consumers/[^/]+",
    r"/consumers/[^/]+/(ids|owners|offsets)",
    r"/consumers/[^/]+/(owners|offsets)/[^/]+",
)
"""Recorded without data: nothing to encode."""

NOT_OURS = {
    r"/delegation_token(/.*)?": "tokens of brokers",
    r"/migration": "a KRaft controller's progress",
}
"""Out of scope (controller.md 1.2): neither read nor written."""

NULL_AT_FIRST = {
    BrokerRegistration: "2.2 and later create it and set it in one transaction, to learn its czxid",
    ProducerIdBlock: "made as a parent; no block has been taken",
}


def codec_for(path: str) -> Any:
    """The codec of a path, or None."""
    return next((codec for pattern, codec in CODECS.items() if re.fullmatch(pattern, path)), None)
