"""Which znodes a closed cluster hides, and which it leaves open: Kafka's rule, by path. Pure.

Source: kafka/zk/ZkData.scala@2.8.2 (`defaultAcls`, `SensitiveRootPaths`).
"""

from __future__ import annotations

from typing import Final

from zkgroup.znodes.config import entities_path
from zkgroup.znodes.consumers import consumers_path

OPEN_PATH: Final = consumers_path()
"""It is open in every cluster: consumers of all users create their groups there."""
HIDDEN_PATHS: Final = (entities_path("users"), entities_path("brokers"), "/delegation_token/tokens")
"""What begins with one of these has secrets, of users, brokers and tokens. None of zkgroup's own has."""
