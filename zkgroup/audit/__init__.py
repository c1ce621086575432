"""What the files of an ensemble show about groups, brokers and the ensemble itself.

`docs/architecture.md` lists the files that `zkgroup audit findings` passes. Spark is in `spark` only.
"""
