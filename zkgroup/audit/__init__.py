"""The audit: findings and answers about groups, brokers and the ensemble, from ZooKeeper's files.

`docs/architecture.md` lists the files that `zkgroup audit findings` passes. Spark is in `spark` only.
"""
