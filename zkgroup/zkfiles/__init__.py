"""The files that ZooKeeper itself writes: snapshots and transaction logs, read and replayed."""
