"""The audit in Spark: ZooKeeper's files as data sources, their conversion to Parquet, and the findings.

The only home of pyspark. `sources.register(spark)` makes the data sources known to a session, `session` opens
one, `job` is what `zkgroup audit run` does. Spark schedules tasks: a task reads a log with the decoder of a
laptop (`decoding`), or asks the rules of a bucket with the engine of a laptop (`evaluation`).
"""
