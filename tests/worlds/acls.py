"""ACLs for `MemoryZooKeeper.set_acl`: the same for everybody."""

from __future__ import annotations

from zkgroup.zookeeper import Acl

READ_ONLY = Acl("r", "world", "anyone")
UNREADABLE = Acl("cdwa", "world", "anyone")
"""All but reading: its data, children and Stat are hidden, and no watch tells of them."""
UNWRITABLE = Acl("rcda", "world", "anyone")
NO_CREATES = Acl("rwda", "world", "anyone")
NO_DELETES = Acl("rwca", "world", "anyone")
