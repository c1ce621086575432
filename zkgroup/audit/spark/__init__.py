"""The audit in Spark: ZooKeeper's files as data sources, their conversion to Parquet, and the findings.

The only home of pyspark. `sources.register(spark)` makes the data sources known to a session, `session` opens
one, `job` is what `zkgroup audit run` does. Readers and folds are those that a laptop uses.
"""
