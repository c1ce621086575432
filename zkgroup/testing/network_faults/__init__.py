"""TCP proxies in front of real ZooKeeper servers that delay, withhold, drop and cut."""
