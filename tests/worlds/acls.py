"""ACLs for `MemoryZooKeeper.set_acl`, with the same permissions for all clients."""

from __future__ import annotations

from zkgroup.zookeeper import Acl

READ_ONLY = Acl("r", "world", "anyone")
UNREADABLE = Acl("cdwa", "world", "anyone")
"""All permissions but READ: data, children and Stat are hidden, and watches do not fire."""
UNWRITABLE = Acl("rcda", "world", "anyone")
NO_CREATES = Acl("rwda", "world", "anyone")
NO_DELETES = Acl("rwca", "world", "anyone")
